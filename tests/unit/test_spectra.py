"""Spectra: the worked example of the paper's section III, and what must hold for any demand."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from controller.scheduling import spectra as steps
from controller.scheduling.bounds import lower_bound_s
from controller.scheduling.schedule import Schedule
from controller.scheduling.spectra import assign, decompose, degree, equalize, refine, spectra, to_schedule
from testbed import workloads

EXACT = 1e-12


def loads_s(plan, delta_s):
    return [sum(delta_s + weight_s for _, weight_s in entries) for entries in plan]


def three_permutations():
    """Weights 0.61, 0.30 and 0.10 on three disjoint permutations of four hosts."""
    demand_s = np.zeros((4, 4))
    for shift, weight_s in ((1, 0.61), (2, 0.30), (3, 0.10)):
        demand_s[np.arange(4), (np.arange(4) + shift) % 4] = weight_s
    return demand_s


# The worked example.

def test_example_assign():
    plan = assign([0.61, 0.30, 0.10], 2, 0.01)
    assert plan == [[(0, 0.61)], [(1, 0.30), (2, 0.10)]]
    assert loads_s(plan, 0.01) == pytest.approx([0.62, 0.42], abs=EXACT)


def test_example_assign_in_any_order():
    assert assign([0.10, 0.61, 0.30], 2, 0.01) == [[(1, 0.61)], [(2, 0.30), (0, 0.10)]]


def test_assign_counts_delta():
    """The last goes to the first switch, at 0.7, and not to the second, at 0.4 without its two δ but 0.8 with them."""
    assert assign([0.5, 0.3, 0.1, 0.06], 2, 0.2) == [[(0, 0.5), (3, 0.06)], [(1, 0.3), (2, 0.1)]]


def test_example_equalize():
    plan = equalize(assign([0.61, 0.30, 0.10], 2, 0.01), 0.01)
    assert [[index for index, _ in entries] for entries in plan] == [[0], [1, 2, 0]]
    assert [weight_s for entries in plan for _, weight_s in entries] == pytest.approx(
        [0.515, 0.30, 0.10, 0.095], abs=EXACT)
    assert loads_s(plan, 0.01) == pytest.approx([0.525, 0.525], abs=EXACT)


def test_example_decompose_finds_the_permutations_and_their_weights():
    permutations, weights_s = decompose(three_permutations())
    assert permutations.tolist() == [[1, 2, 3, 0], [2, 3, 0, 1], [3, 0, 1, 2]]
    assert weights_s == pytest.approx([0.61, 0.30, 0.10], abs=EXACT)


def test_example_end_to_end():
    schedule = spectra(three_permutations(), 2, 0.01)
    assert schedule.loads_s == pytest.approx((0.525, 0.525), abs=EXACT)
    assert [[slot.permutation for slot in slots] for slots in schedule.switches] == [
        [(1, 2, 3, 0)], [(2, 3, 0, 1), (3, 0, 1, 2), (1, 2, 3, 0)]]


# Single steps, by hand.

@pytest.mark.parametrize("matrix, expected", [
    (np.zeros((0, 0)), 0),
    (np.zeros((3, 3)), 0),
    (np.eye(3), 1),
    ([[1, 1, 0], [0, 0, 1], [0, 0, 0]], 2),
    ([[1, 0, 0], [1, 0, 0], [1, 0, 1]], 3),
])
def test_degree_is_the_fullest_line(matrix, expected):
    assert degree(matrix) == expected


def test_decompose_takes_the_smallest_entry_and_refine_raises_it_to_the_largest():
    demand_s = np.array([[0.0, 3.0], [1.0, 0.0]])
    permutations, weights_s = decompose(demand_s)
    assert (permutations.tolist(), weights_s.tolist()) == ([[1, 0]], [1.0])
    assert refine(demand_s, permutations, weights_s).tolist() == [3.0]


def test_refine_counts_what_an_earlier_permutation_already_carries():
    """Pair (1, 1) is in both permutations, and whichever comes first is raised to its 5."""
    demand_s = np.array([[3.0, 0.0, 1.0], [0.0, 5.0, 0.0], [0.0, 0.0, 3.0]])
    permutations = np.array([[0, 1, 2], [2, 1, 0]])
    assert refine(demand_s, permutations, [0.0, 0.0]).tolist() == [5.0, 1.0]
    assert refine(demand_s, permutations[::-1], [0.0, 0.0]).tolist() == [5.0, 3.0]


def test_one_switch_plays_everything():
    schedule = spectra(three_permutations(), 1, 0.01)
    assert schedule.loads_s == pytest.approx((1.01 + 3 * 0.01,), abs=EXACT)


def test_equalize_splits_a_single_permutation_over_idle_switches():
    assert equalize([[(0, 1.0)], []], 0.1) == [[(0, pytest.approx(0.5))], [(0, pytest.approx(0.5))]]


def test_equalize_leaves_a_difference_of_delta():
    plan = [[(0, 0.5)], [(1, 0.4)]]
    assert equalize(plan, 0.11) == plan


def test_equalize_stops_where_the_longest_is_not_long_enough():
    """τ would be (0.44 - 0.01) / 2 = 0.215, more than any permutation on the first switch lasts."""
    plan = [[(0, 0.1), (1, 0.1), (2, 0.1), (3, 0.1)], []]
    assert equalize(plan, 0.01) == plan


def test_equalize_leaves_its_argument_alone():
    plan = [[(0, 1.0)], []]
    equalize(plan, 0.1)
    assert plan == [[(0, 1.0)], []]


def test_weights_of_zero_become_no_slots():
    assert to_schedule(np.eye(2), np.array([[0, 1], [1, 0]]), [[(0, 1.0), (1, 0.0)]], 0.1).loads_s == (1.1,)


def test_no_demand_gives_empty_switches():
    assert spectra(np.zeros((3, 3)), 2, 0.01) == Schedule(0.01, ((), ()))


def test_close_to_the_lower_bound_on_the_benchmark():
    """Our own check in spectra.md found 1.06 for two switches and δ = 0.01."""
    demand_s = workloads.generate("benchmark", 100, 0)
    assert spectra(demand_s, 2, 0.01).makespan_s < 1.1 * lower_bound_s(demand_s, 2, 0.01)


# Any demand.

@dataclass(frozen=True)
class Case:
    demand_s: np.ndarray
    switches: int
    delta_s: float
    schedule: Schedule


def random_demand(rng, kind, n):
    demand_s = rng.random((n, n))
    if kind == "sparse":
        demand_s *= rng.random((n, n)) < 3 / n
    elif kind == "integers":
        demand_s = rng.integers(0, 4, (n, n)).astype(float)
    elif kind == "skewed":
        demand_s = demand_s ** 12
    elif kind == "rectangle":
        demand_s[:, (n + 1) // 2:] = 0
    elif kind == "zero rows":
        demand_s[::2] = 0
    elif kind == "single entry":
        demand_s[:] = 0
        demand_s[rng.integers(n), rng.integers(n)] = 0.7
    return demand_s


@cache
def random_cases():
    rng = np.random.default_rng(2603_07373)
    kinds = ("dense", "sparse", "integers", "skewed", "rectangle", "zero rows", "single entry")
    cases = []
    for number in range(200):
        n = (1, 2, 3, 64)[number] if number < 4 else int(rng.integers(1, 65 if number % 10 == 0 else 17))
        demand_s = random_demand(rng, kinds[number % len(kinds)], n)
        demand_s.flags.writeable = False  # no step may change what it is given
        switches, delta_s = int(rng.integers(1, 6)), float(rng.choice([0.0, 0.001, 0.04, 0.5]))
        cases.append(Case(demand_s, switches, delta_s, spectra(demand_s, switches, delta_s)))
    return cases


def test_random_schedules_cover_their_demand():
    for case in random_cases():
        assert case.schedule.covers(case.demand_s)


def test_random_schedules_use_the_switches_they_are_given():
    for case in random_cases():
        assert (len(case.schedule.switches), case.schedule.delta_s) == (case.switches, case.delta_s)


def test_random_demands_take_exactly_degree_many_permutations():
    for case in random_cases():
        permutations, weights_s = decompose(case.demand_s)
        assert len(permutations) == len(weights_s) == degree(case.demand_s)


def test_random_demands_decompose_into_full_permutations_that_touch_every_entry():
    for case in random_cases():
        n = len(case.demand_s)
        permutations, weights_s = decompose(case.demand_s)
        untouched = case.demand_s > 0
        for outputs in permutations:
            assert sorted(outputs) == list(range(n))
            untouched[np.arange(n), outputs] = False
        assert not untouched.any()
        assert (weights_s >= 0).all()


def test_random_makespans_are_above_the_lower_bound():
    for case in random_cases():
        bound_s = lower_bound_s(case.demand_s, case.switches, case.delta_s)
        assert case.schedule.makespan_s >= bound_s - 1e-9


def test_equalize_never_makes_a_random_schedule_longer():
    for case in random_cases():
        permutations, weights_s = decompose(case.demand_s)
        weights_s = refine(case.demand_s, permutations, weights_s)
        plan = assign(weights_s, case.switches, case.delta_s)
        unequalised = to_schedule(case.demand_s, permutations, plan, case.delta_s)
        assert case.schedule.makespan_s <= unequalised.makespan_s + 1e-9


def test_equalize_leaves_no_random_schedule_with_a_movable_difference():
    """The loads differ by δ at most, or nothing on the longest switch is long enough to be split (algorithm 4)."""
    for case in random_cases():
        longest_s, shortest_s = max(case.schedule.loads_s), min(case.schedule.loads_s)
        if longest_s - shortest_s > case.delta_s + 1e-9:
            most = case.schedule.switches[case.schedule.loads_s.index(longest_s)]
            tau_s = (longest_s - shortest_s - case.delta_s) / 2
            assert max(slot.duration_s for slot in most) <= tau_s + 1e-9


def test_circuits_without_demand_are_dark():
    for case in random_cases():
        for slot in (slot for slots in case.schedule.switches for slot in slots):
            assert all(case.demand_s[i, j] > 0 for i, j in slot.circuits())


def test_lists_are_taken_like_arrays():
    assert spectra([[0, 2], [1, 0]], 1, 0.5).loads_s == (2.5,)


def test_every_step_is_used(monkeypatch):
    """Without Equalize the example has the loads of algorithm 3."""
    monkeypatch.setattr(steps, "equalize", lambda plan, delta_s: plan)
    assert spectra(three_permutations(), 2, 0.01).loads_s == pytest.approx((0.62, 0.42), abs=EXACT)
