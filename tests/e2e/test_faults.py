"""Every fault, early, in the middle, and in the last slot: all is delivered wherever a path is left, once and whole."""

import json
import os
import signal

import numpy as np
import pytest

DEMAND = ["--demand", "moe", "--seed", "3", "--hosts", "8", "--period", "2.4s", "--rate", "20Mbit"]
# (fault without its time, whether parts of the network are planned around)
FAULTS = {
    "dies": ("switch 1 dies", True), "sticks": ("switch 1 sticks", True), "slow": ("switch 0 slow by 15ms", False),
    "down": ("link h3-o2 down for 300ms", True), "loses": ("port h3-o2 loses 2%", False),
    "restarts": ("controller restarts", False), "agent": ("agent h5 dies", True)}




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
def test_all_is_delivered_whatever_fails(run, slots, kind, switches, when):
    text, planned_anew = FAULTS[kind]
    last = slots[switches][0 if kind == "slow" else 1]
    slot = {"early": 1, "middle": (last + 1) // 2, "last": last}[when]
    of = " of switch 1" if kind in ("restarts", "agent") else ""
    done = run(*DEMAND, "--switches", str(switches), "--fault", f"{text} at slot {slot}{of}")
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
