"""Tell what the testbed needs, what this machine has of it, and what to do about the rest.

    sudo .venv/bin/python testbed/doctor.py
"""

import configparser
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)  # it also has to run where there is no environment yet

from testbed import machine  # noqa: E402
from testbed.errors import DELIVERED, UNDELIVERED, Parser, TestbedError, exit_status  # noqa: E402
from testbed.namespaces import isolated  # noqa: E402

OK, WEAK, LACKING = "ok", "weak", "LACKING"
PROVISION = "sudo vagrant/provision.sh"
_VERSIONED = {"ip": "-V", "ovs-vswitchd": "--version", "tcpdump": "--version"}
_OVS_MIN = (2, 17)
_MEMORY_MIN_MIB, _DISK_MIN_MIB = 1024, 200
_STEADY_CLOCKS = ("tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page", "xen")
_WAKE_LATE_MAX_S, _LOOK_S = 0.001, 1.0
_BUSY_MAX, _STEAL_MAX = 0.25, 0.02


@dataclass(frozen=True)
class Finding:
    """One thing that the testbed needs: `state` is OK, WEAK (it runs, with worse figures or without that) or LACKING."""

    name: str
    state: str
    seen: str
    advice: str = ""


def main(arguments=None):
    """Look at everything, print a line for each; the exit status is 1 where something is lacking."""
    return exit_status("doctor.py", lambda: _look(arguments))


def _look(arguments):
    parser = Parser("testbed/doctor.py", __doc__.splitlines()[0])
    parser.parse_args(arguments)
    lacking = 0
    for check in (_python, _packages, _tools, _inside, _machine, _load):
        for finding in check():
            lacking += finding.state == LACKING
            print(line(finding), flush=True)
    print(f"{lacking} of these are lacking" if lacking else "everything that is needed is there")
    return UNDELIVERED if lacking else DELIVERED


def line(finding):
    """A finding as it is printed."""
    return f"{finding.state:<8} {finding.name:<18} {finding.seen}" + (f"; {finding.advice}" if finding.advice else "")


def _python():
    yield Finding("root", OK, "yes") if os.geteuid() == 0 else Finding(
        "root", LACKING, f"user {os.geteuid()}", "only planning (--dry-run) works without: run this, too, with sudo")
    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding("Python", OK, f"{version}, {sys.executable}") if sys.version_info >= (3, 11) else Finding(
        "Python", LACKING, version, "3.11 or newer is needed: Debian 12 or 13, Ubuntu 24.04")


def _packages():
    """The environment's packages against the pins of setup.cfg, and Mininet."""
    config = configparser.ConfigParser()
    config.read(os.path.join(ROOT, "setup.cfg"), encoding="utf-8")
    pins = dict(line.split("==") for line in config["options"]["install_requires"].split())
    wrong = []
    for name, wanted in pins.items():
        try:
            found = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found = "missing"
        if found != wanted:
            wrong.append(f"{name} {found} (pinned: {wanted})")
    yield Finding("Python packages", OK, f"{len(pins)}, as pinned") if not wrong else Finding(
        "Python packages", LACKING, ", ".join(wrong[:4]) + (f" and {len(wrong) - 4} more" if len(wrong) > 4 else ""),
        f"{PROVISION}, then {machine.PYTHON}")
    try:
        import mininet.net
        yield Finding("Mininet", OK, mininet.net.VERSION)
    except ImportError:
        yield Finding("Mininet", LACKING, "Python does not find it", f"{PROVISION}, then {machine.PYTHON}")


def _tools():
    missing = [name for name in machine.TOOLS if not machine.find_tool(name)]
    yield Finding("tools", LACKING, f"missing: {', '.join(missing)}", PROVISION) if missing else Finding(
        "tools", OK, ", ".join(machine.TOOLS))
    for name, flag in _VERSIONED.items():
        path = machine.find_tool(name)
        if not path:
            if name not in machine.TOOLS:
                yield Finding(name, WEAK, "missing", f"--pcap needs it: {PROVISION}")
            continue
        done = subprocess.run([path, flag], capture_output=True, text=True, check=False)
        said = ((done.stdout + done.stderr).strip().splitlines() or ["it tells no version"])[0]
        number = re.search(r"(\d+)\.(\d+)", said)
        if name == "ovs-vswitchd" and number and tuple(map(int, number.groups())) < _OVS_MIN:
            yield Finding(name, LACKING, said, f"Open vSwitch {'.'.join(map(str, _OVS_MIN))} or newer is needed")
        else:
            yield Finding(name, OK, said)


def _inside():
    """What the kernel allows: tried in namespaces of their own, of which nothing is left."""
    if os.geteuid() != 0:
        return
    container = "this looks like a container: it needs --privileged"
    trial = isolated(_try_kernel)
    try:
        tried = trial.result()
    except (OSError, TestbedError) as error:
        yield Finding("namespaces", LACKING, str(error), container)
        return
    finally:
        trial.kill()
    yield Finding("namespaces", OK, "network, mount and PID")
    yield _tried("veth links", tried["veth"], LACKING, "the kernel needs CONFIG_VETH")
    yield _tried("real-time priority", tried["fifo"], LACKING, container)
    yield _tried("datapath user", tried["tun"], LACKING, "Open vSwitch needs /dev/net/tun (CONFIG_TUN) for it")
    yield _tried("datapath kernel", tried["openvswitch"], WEAK,
                 "--datapath kernel needs the module openvswitch; the userspace datapath does without")
    yield _tried("netem", tried["netem"], WEAK, "--link-delay needs the module sch_netem")


def _tried(name, complaint, state, advice):
    return Finding(name, state, complaint, advice) if complaint else Finding(name, OK, "works")


def _try_kernel():
    """By name, what the kernel said against it, or nothing."""
    def complaint(*command):
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        said = (done.stderr or done.stdout).strip().splitlines() or [f"{command[0]} failed"]
        return "" if done.returncode == 0 else said[-1].removeprefix("Error: ").removesuffix(".")

    def first_in_first_out():
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))

    def attempt(function):
        try:
            function()
        except OSError as error:
            return error.strerror or str(error)
        return ""

    return {
        "veth": complaint("ip", "link", "add", "a0", "type", "veth", "peer", "name", "b0"),
        "netem": complaint("tc", "qdisc", "add", "dev", "a0", "root", "netem", "delay", "1ms"),
        "openvswitch": complaint("ovs-dpctl", "add-dp", "system@trial"),
        "tun": attempt(lambda: os.close(os.open("/dev/net/tun", os.O_RDWR))),
        "fifo": attempt(first_in_first_out),
    }


def _machine():
    cores = len(os.sched_getaffinity(0))
    yield Finding("cores", OK, str(cores)) if cores >= 2 else Finding(
        "cores", WEAK, str(cores), "give the VM two: senders and switches wait for each other otherwise")
    with open("/proc/meminfo", encoding="ascii") as stream:
        free_mib = next(int(line.split()[1]) for line in stream if line.startswith("MemAvailable")) >> 10
    yield Finding("memory", OK, f"{free_mib} MiB available") if free_mib >= _MEMORY_MIN_MIB else Finding(
        "memory", WEAK, f"{free_mib} MiB available", f"100 hosts and 4 switches need half of {_MEMORY_MIN_MIB} MiB")
    disk_mib = shutil.disk_usage(".").free >> 20
    yield Finding("disk", OK, f"{disk_mib} MiB free here") if disk_mib >= _DISK_MIN_MIB else Finding(
        "disk", WEAK, f"{disk_mib} MiB free here", "a run folder takes up to some dozens of MiB")
    try:
        with open("/sys/devices/system/clocksource/clocksource0/current_clocksource", encoding="ascii") as stream:
            clock = stream.read().strip()
    except OSError:
        clock = "unknown"
    yield Finding("clock source", OK, clock) if clock in _STEADY_CLOCKS else Finding(
        "clock source", WEAK, clock, f"every look at it is slow; {', '.join(_STEADY_CLOCKS[:3])} are not")


def _load():
    """How busy the machine is now, and how late it wakes a sleeper."""
    before, late_s = machine.read_cpu_times({}), []
    end_s = time.monotonic() + _LOOK_S
    while (now_s := time.monotonic()) < end_s:
        time.sleep(0.002)
        late_s.append(time.monotonic() - now_s - 0.002)
    load = machine.cpu_load(before, machine.read_cpu_times({}))
    worst_s = sorted(late_s)[int(0.99 * len(late_s))]
    yield Finding("CPU", OK, f"{load['busy']:.0%} busy") if load["busy"] <= _BUSY_MAX else Finding(
        "CPU", WEAK, f"{load['busy']:.0%} busy", "end what else is running: it spoils figures")
    yield Finding("CPU steal", OK, f"{load['steal']:.1%}") if load["steal"] <= _STEAL_MAX else Finding(
        "CPU steal", WEAK, f"{load['steal']:.1%}", "the hypervisor gives this VM's cores to others: it spoils figures")
    yield Finding("wakes up", OK, f"{worst_s * 1e3:.2f} ms late (p99)") if worst_s <= _WAKE_LATE_MAX_S else Finding(
        "wakes up", WEAK, f"{worst_s * 1e3:.2f} ms late (p99)", "the machine is busy, or its timer coarse: it spoils figures")


if __name__ == "__main__":
    sys.exit(main())
