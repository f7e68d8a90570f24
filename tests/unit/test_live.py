"""The view of a play, at instants that a fake ledger gives."""

import io
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from testbed import live
from testbed.calibration import GUESS
from testbed.plan import make_plan
from testbed.settings import load


@pytest.fixture(scope="module")
def plan():
    return make_plan(load({"hosts": 4, "demand": "moe", "period": "2s"}), GUESS)


def shown(plan, now_s, arrived):
    """Lines of the view."""
    ledger = SimpleNamespace(arrived_s=np.where(np.arange(len(plan.datagrams)) < arrived, 1.0, 0.0))
    windows = [plan.schedule.windows(h) for h in range(2)]
    stream = io.StringIO()
    Console(file=stream, width=110).print(live.view(plan, windows, ledger, now_s))
    return [" ".join(line.split()) for line in stream.getvalue().splitlines()]


def test_slot_and_what_is_left_of_it(plan):
    window = plan.schedule.windows(0)[1]
    assert shown(plan, window.end_s - 0.2, 0)[0].startswith("o1 slot 2 of 2 ")
    assert shown(plan, window.end_s - 0.2, 0)[0].endswith("0.2 s left")
    assert "slot 2 of 2, dark" in shown(plan, window.dark_s + 0.001, 0)[0]
    assert shown(plan, 99.0, 0)[0].startswith("o1 2 slots played")


def test_delivered_bytes_of_demanded_bytes(plan):
    half = len(plan.datagrams) // 2
    total, bytes_ = int(plan.demand_bytes.sum()), int(plan.datagrams.size_bytes[:half].sum())
    assert f"delivered {bytes_:,} B of {total:,} B" in shown(plan, 0.5, half)[2]
    assert shown(plan, 0.5, len(plan.datagrams))[2].endswith("100%")


def test_time_to_the_computed_makespan(plan):
    assert shown(plan, plan.schedule.makespan_s - 0.3, 0)[3] == "computed makespan in 0.3 s"
    assert shown(plan, plan.schedule.makespan_s + 0.25, 0)[3] == "computed makespan over by 250 ms"


def test_before_the_epoch_nothing_is_played(plan):
    assert "slot 1 of 2, dark" in shown(plan, -0.2, 0)[0]
