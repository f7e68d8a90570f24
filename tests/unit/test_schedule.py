"""The value Schedule: what it refuses, and what it tells."""

import json
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given

from controller.scheduling.schedule import Schedule, Slot, Window
from tests.unit.strategies import schedules

GOOD = Slot((1, 0), 1.0)
SCHEDULE = Schedule(0.5, (
    (Slot((1, 0, -1), 2.0), Slot((2, 1, 0), 1.0)),
    (Slot((1, 2, 0), 4.0),)))


@pytest.mark.parametrize("slot, problem", [
    (Slot((0,), 1.0), "1 inputs, but the first slot has 2"),
    (Slot((0, 2), 1.0), "input 1 goes to 2,"),
    (Slot((-2, 0), 1.0), "input 0 goes to -2,"),
    (Slot((0.0, 1), 1.0), "input 0 goes to 0.0,"),
    (Slot((True, 0), 1.0), "input 0 goes to True,"),
    (Slot(("a", 0), 1.0), "input 0 goes to 'a',"),
    (Slot((1, 1), 1.0), "output 1 is connected to more than one input"),
    (Slot((1, 0), 0.0), "duration_s is 0.0"),
    (Slot((1, 0), -1.0), "duration_s is -1.0"),
    (Slot((1, 0), float("nan")), "duration_s is nan"),
    (Slot((1, 0), float("inf")), "duration_s is inf"),
])
def test_bad_slot_is_refused_by_switch_and_slot(slot, problem):
    with pytest.raises(ValueError) as caught:
        Schedule(0.1, ((GOOD,), (GOOD, slot)))
    assert str(caught.value).startswith(f"switch 1, slot 1: {problem}")


@pytest.mark.parametrize("delta_s", [-0.1, float("nan"), float("inf")])
def test_bad_delta_is_refused(delta_s):
    with pytest.raises(ValueError, match=f"delta_s is {delta_s}"):
        Schedule(delta_s, ((GOOD,),))


def test_schedule_needs_a_switch():
    with pytest.raises(ValueError, match="at least one switch"):
        Schedule(0.1, ())


def test_several_inputs_may_be_dark():
    assert Slot((-1, 2, -1, 0), 1.0).circuits() == [(1, 2), (3, 0)]
    Schedule(0.1, ((Slot((-1, 2, -1, 0), 1.0),),))


def test_schedule_is_frozen():
    with pytest.raises(FrozenInstanceError):
        SCHEDULE.delta_s = 1.0


def test_loads_count_delta_before_every_slot():
    assert SCHEDULE.loads_s == (4.0, 4.5)


def test_makespan_is_the_largest_load():
    assert SCHEDULE.makespan_s == 4.5


def test_windows_are_dark_then_lit():
    assert SCHEDULE.windows(0) == [Window(0.0, 0.5, 2.5), Window(2.5, 3.0, 4.0)]
    assert SCHEDULE.windows(1) == [Window(0.0, 0.5, 4.5)]


@given(schedules())
def test_last_window_ends_at_the_load(schedule):
    for h, load_s in enumerate(schedule.loads_s):
        ends_s = [window.end_s for window in schedule.windows(h)] or [0.0]
        assert ends_s[-1] == pytest.approx(load_s, abs=1e-12)


def test_coverage_sums_durations_over_switches_and_slots():
    assert SCHEDULE.coverage_s().tolist() == [[0, 6, 1], [2, 1, 4], [5, 0, 0]]


def test_covers_to_a_billionth_of_a_second():
    coverage_s = SCHEDULE.coverage_s()
    assert SCHEDULE.covers(coverage_s)
    assert SCHEDULE.covers(coverage_s + 1e-10)
    assert not SCHEDULE.covers(coverage_s + 1e-8)


def test_one_entry_too_large_is_not_covered():
    demand_s = np.zeros((3, 3))
    demand_s[2, 2] = 0.001
    assert not SCHEDULE.covers(demand_s)


def test_demand_of_another_size_is_not_covered():
    assert not SCHEDULE.covers(np.zeros((2, 2)))


def test_schedule_without_slots_covers_only_nothing():
    empty = Schedule(0.1, ((), ()))
    assert (empty.ports, empty.loads_s, empty.makespan_s, empty.windows(1)) == (0, (0, 0), 0, [])
    assert empty.covers(np.zeros((3, 3)))
    assert not empty.covers(np.eye(3))


def test_lit_only_where_keeps_times_and_darkens_the_rest():
    wanted = np.zeros((3, 3), dtype=bool)
    wanted[0, 1] = wanted[2, 0] = True
    assert SCHEDULE.lit_only_where(wanted) == Schedule(0.5, (
        (Slot((1, -1, -1), 2.0), Slot((-1, -1, 0), 1.0)),
        (Slot((1, -1, 0), 4.0),)))


def test_json_has_the_documented_form():
    schedule = Schedule(0.02, ((Slot((1, 0, -1), 0.15),), ()))
    assert json.loads(schedule.to_json()) == {
        "delta_s": 0.02, "switches": [[{"permutation": [1, 0, -1], "duration_s": 0.15}], []]}


@given(schedules())
def test_json_round_trip(schedule):
    assert Schedule.from_json(schedule.to_json()) == schedule


def test_json_round_trip_of_numpy_integers():
    """NumPy integers are valid outputs, and algorithms produce them."""
    schedule = Schedule(0.02, ((Slot(tuple(np.array([1, 0])), 0.15),),))
    assert Schedule.from_json(schedule.to_json()) == schedule


SLOT = '{"permutation": [1, 0], "duration_s": 1.0}'


@pytest.mark.parametrize("text", [
    "", "no JSON", "null", "3", "[]", "{}", '"text"',
    '{"delta_s": 0.1}',
    f'{{"switches": [[{SLOT}]]}}',
    f'{{"delta_s": null, "switches": [[{SLOT}]]}}',
    f'{{"delta_s": "20ms", "switches": [[{SLOT}]]}}',
    f'{{"delta_s": NaN, "switches": [[{SLOT}]]}}',
    f'{{"delta_s": 1{"0" * 400}, "switches": [[{SLOT}]]}}',
    '{"delta_s": 0.1, "switches": []}',
    '{"delta_s": 0.1, "switches": null}',
    '{"delta_s": 0.1, "switches": [3]}',
    f'{{"delta_s": 0.1, "switches": [{SLOT}]}}',
    '{"delta_s": 0.1, "switches": [[{"permutation": [1, 0]}]]}',
    '{"delta_s": 0.1, "switches": [[{"permutation": [1, 0], "duration_s": null}]]}',
    '{"delta_s": 0.1, "switches": [[{"permutation": [1, 0], "duration_s": "1"}]]}',
    '{"delta_s": 0.1, "switches": [[{"permutation": 1, "duration_s": 1.0}]]}',
    '{"delta_s": 0.1, "switches": [[{"permutation": "10", "duration_s": 1.0}]]}',
    '{"delta_s": 0.1, "switches": [[{"permutation": [[1], [0]], "duration_s": 1.0}]]}',
])
def test_garbage_is_a_value_error(text):
    with pytest.raises(ValueError):
        Schedule.from_json(text)
