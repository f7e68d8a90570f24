"""Every fault, early, in the middle, and in the last slot: all is delivered wherever a path is left, once and whole."""

import json
import os
import sys
import traceback

import numpy as np
import pytest

from testbed import page  # noqa: F401 - loaded here once, and not by each run
from testbed.run import main
from tests.e2e.conftest import Finished

DEMAND = ["--demand", "moe", "--seed", "3", "--hosts", "8", "--period", "1.6s", "--rate", "20Mbit"]
# (fault without its time, whether parts of the network are planned around)
FAULTS = {
    "dies": ("switch 1 dies", True), "sticks": ("switch 1 sticks", True), "slow": ("switch 0 slow by 15ms", False),
    "down": ("link h3-o2 down for 300ms", True), "loses": ("port h3-o2 loses 2%", False),
    "restarts": ("controller restarts", False), "agent": ("agent h5 dies", True)}




@pytest.fixture
def forked(tmp_path):
    """forked(*arguments) is a run of testbed/run.py in a process that has loaded it already: so many add up."""
    def run_forked(*arguments):
        folder, texts = tmp_path / "run", [tmp_path / "stdout", tmp_path / "stderr"]
        pid = os.fork()
        if not pid:
            status = 99
            try:
                os.setsid()
                for number, path in enumerate(texts, 1):
                    os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
                sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)
                status = main(["--out", str(folder), *arguments])
                sys.stdout.flush()
            except BaseException:  # noqa: BLE001 - for the test to show
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        result = json.loads((folder / "result.json").read_text()) if (folder / "result.json").exists() else None
        return Finished(status, result, folder, *(path.read_text() for path in texts))

    return run_forked


@pytest.fixture(scope="module")
def slots(start_runs):
    """Number of slots of each switch, by number of switches."""
    found = {}
    for switches in (2, 4):
        done = start_runs("--dry-run", *DEMAND, "--switches", str(switches)).finish()
        found[switches] = [len(slots) for slots in json.loads((done.folder / "schedule.json").read_text())["switches"]]
    return found


@pytest.mark.parametrize("when", ["early", "middle", "last"])
@pytest.mark.parametrize("switches", [2, 4])
@pytest.mark.parametrize("kind", FAULTS)
def test_all_is_delivered_whatever_fails(forked, slots, kind, switches, when):
    text, planned_anew = FAULTS[kind]
    last = slots[switches][0 if kind == "slow" else 1]
    slot = {"early": 1, "middle": (last + 1) // 2, "last": last}[when]
    of = " of switch 1" if kind in ("restarts", "agent") else ""
    done = forked(*DEMAND, "--switches", str(switches), "--fault", f"{text} at slot {slot}{of}")
    result = done.result
    assert done.status in (0, 3), done.stderr
    assert result["delivered_bytes"] == result["demand_bytes"] > 0
    assert result["undelivered_bytes"] == result["corrupt_bytes"] == 0
    assert not any("no fault was asked for" in reason for reason in result["reasons"]), result["reasons"]
    fault, = result["faults"]
    assert fault["injected_s"] is not None and fault["fault"] in done.stdout.replace("\n", " ")
    if planned_anew and fault["noticed_s"] is not None:
        # Where hardly anything is left to carry, nothing may be missed before the end.
        assert fault["traffic_again_s"] - fault["noticed_s"] < 0.5 + result["delta_s"] + 1.0  # a busy machine's second
    if kind in ("dies", "restarts") or (planned_anew and when == "early"):
        assert fault["noticed_s"] is not None
    assert [event["fault"] for event in done.events("fault")] == [fault["fault"]]


def test_without_any_switch_left_it_tells_what_was_delivered(run):
    done = run("--fault", "switch 0 dies at 300ms", "--fault", "switch 1 dies at 500ms")
    assert done.status == 1, done.stderr
    assert 0 < done.result["delivered_bytes"] < done.result["demand_bytes"]
    assert done.result["undelivered_bytes"] == done.result["demand_bytes"] - done.result["delivered_bytes"]
    assert "Traceback" not in done.stderr and "- (not everything was delivered)" in done.stdout


def test_a_host_without_links_gets_its_bytes_when_one_is_back(run):
    done = run("--hosts", "4", "--fault", "link h2-o1 down for 2s at 300ms", "--fault", "link h2-o2 down for 2s at 300ms")
    assert done.status in (0, 3), done.stderr
    assert done.result["undelivered_bytes"] == 0 and done.result["measured_makespan_s"] > 2.3
    assert [event["of"] for event in done.events("notice") if event["back"]][:1] in (["port h2-o1"], ["port h2-o2"])


def test_a_port_loses_about_what_it_is_told(run):
    done = run("--hosts", "4", "--period", "4s", "--fault", "port h2-o1 loses 30%", "--fault", "port h2-o2 loses 30%")
    assert done.status in (0, 3), done.stderr
    to_h2 = [event for event in done.events("circuit") if event["output"] == 1]
    lost = sum(event["lost_datagrams"] for event in to_h2)
    demand = np.loadtxt(done.folder / "demand.csv", delimiter=",", dtype=int)
    datagrams = demand[:, 1].sum() / done.result["datagram_payload_bytes"]
    assert 0.2 < lost / datagrams < 0.4
    assert sum(event["lost_datagrams"] for event in done.events("circuit")) < 1.1 * lost


@pytest.mark.parametrize("faults", [
    ["agent h3 dies at 500ms", "agent h3 dies at 510ms", "link h1-o1 down for 300ms at 200ms", "link h1-o1 down for 300ms at 300ms",
     "controller restarts at 700ms", "controller restarts at 750ms"],
    ["switch 0 slow by 46ms at 0.5s", "agent h3 dies at 0.9s", "controller restarts at 1.1s"],
], ids=["the same twice", "several"])
def test_all_is_delivered_whatever_comes_together(run, faults):
    done = run("--hosts", "4", *(word for fault in faults for word in ("--fault", fault)))
    assert done.status in (0, 3), done.stderr
    assert done.result["undelivered_bytes"] == done.result["corrupt_bytes"] == 0
    assert len(done.result["faults"]) == len(faults)
    assert not any("no fault was asked for" in reason for reason in done.result["reasons"]), done.result["reasons"]


def test_an_only_switch_that_is_late_is_not_given_up(run):
    """Short slots of a late switch let nothing pass: that alone does not prove it dead."""
    done = run("--hosts", "4", "--switches", "1", "--demand", "moe", "--delta", "40ms", "--fault", "switch 0 slow by 30ms at 300ms")
    assert done.status in (0, 3), done.stderr
    assert done.result["undelivered_bytes"] == 0
