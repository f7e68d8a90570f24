"""A run keeps to itself: nothing is left of it, however it ends, and two at once do not meet."""

import os
import signal
import subprocess
import time

import pytest

from testbed.namespaces import isolated
from testbed.network import OpticalNetwork
from tests.e2e.conftest import await_gone
from topologies.parallel_ocs import ParallelOCS


def traces():
    """What a run could leave behind on the machine: links, mounts, files of Open vSwitch, cgroups, processes."""
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    with open("/proc/self/mounts", encoding="utf-8") as stream:
        mounts = sorted(line.split()[1] for line in stream)
    files = sorted(os.path.join(folder, name) for top in ("/run/openvswitch", "/run/netns")
                   for folder, _, names in os.walk(top) for name in names)
    cgroups = sorted(folder for folder, _, _ in os.walk("/sys/fs/cgroup"))
    processes = sorted(entry for entry in os.listdir("/proc") if entry.isdigit()
                       and (name_of(entry) in ("ovs-vswitchd", "ovsdb-server", "tcpdump") or b"mininet:" in cmdline_of(entry)
                            or b"\0controller\0" in cmdline_of(entry)))
    return [line.split(":")[1] for line in links.splitlines()], mounts, files, cgroups, processes


def test_nothing_is_left_after_success(start):
    before = traces()
    running = start()
    running.await_text("controller ready")
    pids = running.descendants()
    assert len(pids) >= 15
    assert running.finish().status in (0, 3)
    assert await_gone(pids, 5) == []
    assert traces() == before


@pytest.mark.parametrize("stage", ["about", "network up", "controller ready"])
def test_interrupt_ends_all_and_exits_130(start, stage):
    before = traces()
    running = start()
    running.await_text(stage)
    time.sleep(0.3)
    pids = running.descendants()
    os.killpg(running.process.pid, signal.SIGINT)  # as the terminal does: the whole group
    done = running.finish()
    assert done.status == 130
    assert "interrupted" in done.stderr and "Traceback" not in done.stderr
    assert done.result["measured_makespan_s"] is None
    assert await_gone(pids, 5) == []
    assert traces() == before


@pytest.mark.parametrize("stage", ["about", "controller ready"])
def test_a_second_interrupt_ends_it_at_once(start, stage):
    before = traces()
    running = start()
    running.await_text(stage)
    time.sleep(0.8)
    pids = running.descendants()
    for _ in range(2):
        running.process.send_signal(signal.SIGINT)
        time.sleep(0.001)
    instant_s = time.monotonic()
    done = running.finish()
    assert time.monotonic() - instant_s < 1
    assert done.status == 130
    assert "interrupted" in done.stderr and "Traceback" not in done.stderr
    assert await_gone(pids, 5) == []
    assert traces() == before


def test_an_interrupt_while_it_imports_is_silent(start):
    running = start()
    time.sleep(0.15)
    running.process.send_signal(signal.SIGINT)
    done = running.finish()
    assert done.status in (-signal.SIGINT, 130)
    assert "Traceback" not in done.stderr


def test_sigterm_is_an_interrupt_too(start):
    running = start()
    running.await_text("network up")
    pids = running.descendants()
    running.process.terminate()
    assert running.finish().status == 130
    assert await_gone(pids, 5) == []


def test_nothing_is_left_after_sigkill(start):
    before = traces()
    running = start()
    running.await_text("controller ready")
    time.sleep(0.5)
    pids = running.descendants()
    running.process.kill()
    running.process.wait()
    assert await_gone(pids, 8) == []
    assert traces() == before


def test_a_second_run_waits_for_the_first(start):
    first = start()
    first.await_text("network up")
    second = start()
    done = [first.finish(), second.finish()]
    for finished in done:
        assert finished.status in (0, 3), finished.stderr
        assert finished.result["delivered_bytes"] == finished.result["demand_bytes"]
        assert finished.result["misdelivered_packets"] == 0
    assert "waiting for another measured run" in done[1].stderr
    assert done[1].result["epoch_monotonic_s"] > done[0].result["epoch_monotonic_s"] + done[0].result["measured_makespan_s"]


def test_no_wait_refuses_and_starts_nothing(start):
    first = start()
    first.await_text("network up")
    refused = start("--no-wait").finish()
    assert refused.status == 2
    assert "another measured run" in refused.stderr and not refused.folder.exists()
    assert first.finish().status in (0, 3)


def test_networks_of_two_runs_do_not_meet(tmp_path):
    """The lock apart: two networks with the same names and addresses live side by side."""
    def bring_up():
        network = OpticalNetwork(ParallelOCS(hosts=4, switches=2))
        time.sleep(1.0)
        network.check_wiring()
        return network.wiring().number_of_edges()

    both = [isolated(bring_up) for _ in range(2)]
    edges = [one.result() for one in both]
    for one in both:
        one.kill()
    assert edges == [8, 8]


def test_a_switch_that_dies_by_itself_is_played_around_and_told(start):
    running = start("--period", "4s")
    running.await_text("controller ready")
    time.sleep(1.2)
    victim = next(pid for pid in running.descendants() if name_of(pid) == "ovs-vswitchd")
    os.kill(victim, signal.SIGKILL)
    done = running.finish()
    assert done.status == 3, done.stderr
    assert done.result["undelivered_bytes"] == 0
    assert any("failed (connection closed), and no fault was asked for" in reason for reason in done.result["reasons"])


@pytest.mark.parametrize("name", ["sender", "receiver"])
def test_an_agent_process_that_is_killed_is_started_anew(start, name):
    """As the kernel does when memory is out."""
    running = start("--period", "4s")
    running.await_text("controller ready")
    time.sleep(1.2)
    agents = sorted(agents_of(running))
    os.kill(agents[0] if name == "receiver" else agents[1], signal.SIGKILL)
    done = running.finish()
    assert done.status == 3, done.stderr
    assert done.result["undelivered_bytes"] == 0
    assert any(f"the {name} ended" in reason for reason in done.result["reasons"])


def test_steps_of_the_wall_clock_change_nothing(run, tmp_path):
    """As NTP makes them, here an hour forth and back at every look of any part of the run."""
    (tmp_path / "sitecustomize.py").write_text(
        "import random, time\n_true = time.time\ntime.time = lambda: _true() + random.choice((-3600, 0, 3600))\n")
    done = run(environment={"PYTHONPATH": str(tmp_path)})
    assert done.status in (0, 3), done.stderr
    assert done.result["undelivered_bytes"] == 0 and done.result["measured_over_predicted"] == pytest.approx(1, abs=0.05)


def agents_of(running):
    """The two processes that the conductor has forked and that have not become another program."""
    ours = [pid for pid in running.descendants() if b"testbed/run.py" in cmdline_of(pid)]
    parents = {pid: int(open(f"/proc/{pid}/stat", encoding="utf-8").read().rpartition(")")[2].split()[1]) for pid in ours}
    conductor = max(ours, key=lambda pid: list(parents.values()).count(pid))
    return [pid for pid in ours if parents[pid] == conductor]


def cmdline_of(pid):
    """Command line of a process, empty where it is gone."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as stream:
            return stream.read()
    except OSError:
        return b""


def name_of(pid):
    """Name of a process, empty where it is gone."""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8") as stream:
            return stream.read().strip()
    except OSError:
        return ""


def test_agents_give_root_up(start):
    running = start("--period", "4s")
    running.await_text("controller ready")
    time.sleep(0.5)
    agents = agents_of(running)
    assert len(agents) == 2
    for pid in agents:
        with open(f"/proc/{pid}/status", encoding="utf-8") as stream:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in stream if ":\t" in line)
        assert status["Uid"].split() == ["65534"] * 4 and status["Gid"].split() == ["65534"] * 4 and not status["Groups"].strip()
        assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0
    assert running.finish().status in (0, 3)
