"""What the machine has, and what it does meanwhile: CPU time, by the whole and by process."""

import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
TOOLS = ("ip", "mnexec", "ifconfig", "ovs-vsctl", "ovs-vswitchd", "ovsdb-server", "ovsdb-tool")
# What to type: vagrant/provision.sh --vm puts the environment outside the clone, and a launcher on the PATH.
PYTHON = "python" if sys.prefix.startswith("/opt/spectra-testbed/") else ".venv/bin/python"
_SYSTEM_PATH = ":/usr/sbin:/sbin"  # not on every user's PATH


def find_tool(name):
    """Path of a program, also where only root has it on the PATH, or None."""
    return shutil.which(name, path=os.environ.get("PATH", os.defpath) + _SYSTEM_PATH)


def has_module(name):
    """Whether the running kernel has a module: loaded, built in, or to be loaded when it is needed."""
    if os.path.isdir(f"/sys/module/{name}"):
        return True
    modprobe = find_tool("modprobe")
    return modprobe is not None and subprocess.run([modprobe, "-n", "-q", name], capture_output=True, check=False).returncode == 0


@dataclass(frozen=True)
class CpuTimes:
    """An instant on CLOCK_MONOTONIC, and CPU time since boot, in seconds: of all cores, and of watched processes.

    Idle time is exact. What else /proc/stat says of busy cores is sampled by the timer tick, and blind to threads that keep
    its beat: so busy is what is not idle.
    """

    wall_s: float
    idle_s: float
    steal_s: float
    groups_s: dict


def read_cpu_times(groups):
    """Read the counters.

    Parameters
    ----------
    groups : dict of str to iterable of int
        Process ids by name of a group.

    Returns
    -------
    CpuTimes
    """
    with open("/proc/stat", encoding="ascii") as stream:
        ticks = [int(field) for field in stream.readline().split()[1:9]]
    return CpuTimes(time.monotonic(), (ticks[3] + ticks[4]) / _TICKS_PER_S, ticks[7] / _TICKS_PER_S,
                    {name: sum(_process_s(pid) for pid in pids) for name, pids in groups.items()})


def _process_s(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stream:
            fields = stream.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def cpu_load(before, after):
    """Load between two readings.

    Returns
    -------
    dict
        `cores`; `busy` and `steal` as fractions of all cores; `of_core`: by group, in cores.
    """
    cores = os.cpu_count() or 1
    elapsed_s = max(after.wall_s - before.wall_s, 1e-9) * cores
    return {
        "cores": cores,
        "busy": min(max(1 - (after.idle_s - before.idle_s) / elapsed_s, 0.0), 1.0),
        "steal": (after.steal_s - before.steal_s) / elapsed_s,
        # A process that has ended meanwhile has taken its time with it.
        "of_core": {name: max(after.groups_s[name] - value_s, 0.0) / elapsed_s * cores
                    for name, value_s in before.groups_s.items()},
    }


def clock_distance_s():
    """CLOCK_BOOTTIME less CLOCK_MONOTONIC: it grows while the machine is suspended, and at no other time."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()
