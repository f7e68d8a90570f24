"""All schedulers: what each must keep to, and what is its own."""

import itertools
import sys

import numpy as np
import pytest

from controller.scheduling.bounds import lower_bound_s
from controller.scheduling.eclipse import eclipse
from controller.scheduling.less import split_s
from controller.scheduling.registry import SCHEDULERS, refusal
from controller.scheduling.solstice import perfect_matching, quick_stuff
from controller.scheduling.spectra import decompose, refine
from controller.scheduling.spectra_lp import lp_weights_s
from controller.scheduling.tms import bottleneck_matching, sinkhorn
from testbed.workloads import generate

every_scheduler = pytest.mark.parametrize("name", sorted(SCHEDULERS))
DELAYS_S = (0.0, 0.001, 0.01, 0.1, 1.0)


def random_demand(rng, n):
    """A matrix of any density, with sizes of several orders of magnitude, equal entries and empty lines at times."""
    demand = 10.0 ** rng.uniform(-4, 0, (n, n)) if rng.random() < 0.5 else rng.integers(1, 4, (n, n)) / 4
    demand[rng.random((n, n)) > rng.uniform(0.1, 1)] = 0
    demand[rng.random(n) < 0.1] = 0
    if rng.random() < 0.7:
        np.fill_diagonal(demand, 0)
    return demand


def cases(name, count):
    """(demand, switches, delta_s) that a scheduler can do."""
    rng = np.random.default_rng(7)
    most_ports, most_switches = (4, 2) if name == "optimal" else (9, 4)
    for _ in range(count):
        demand = random_demand(rng, int(rng.integers(2, most_ports + 1)))
        yield demand, int(rng.integers(1, most_switches + 1)), float(rng.choice(DELAYS_S))


@every_scheduler
def test_500_random_demands_are_covered_and_not_faster_than_the_bound(name):
    for demand, switches, delta_s in cases(name, 60 if name == "optimal" else 500):
        schedule = SCHEDULERS[name](demand, switches, delta_s)
        assert schedule.covers(demand), (demand, switches, delta_s)
        assert len(schedule.switches) == switches
        assert schedule.makespan_s >= lower_bound_s(demand, switches, delta_s) * (1 - 1e-6)


@every_scheduler
@pytest.mark.parametrize("workload", ["gpt", "moe", "benchmark"])
def test_workloads_are_covered(name, workload):
    hosts = 4 if name == "optimal" else 16
    demand = generate(workload, hosts, 1)
    assert SCHEDULERS[name](demand, 2, 0.01).covers(demand)


def test_no_scheduler_beats_the_optimum():
    for demand, switches, delta_s in cases("optimal", 60):
        least_s = SCHEDULERS["optimal"](demand, switches, delta_s).makespan_s
        for name, scheduler in SCHEDULERS.items():
            assert scheduler(demand, switches, delta_s).makespan_s >= least_s * (1 - 1e-5), (name, demand, switches, delta_s)


@pytest.mark.parametrize("entry_s, delta_s", [(1.0, 0.1), (0.1, 0.2)])
def test_optimum_of_one_entry_on_two_switches_is_half_of_it_on_each(entry_s, delta_s):
    demand = np.array([[0, entry_s], [0, 0]])
    assert SCHEDULERS["optimal"](demand, 2, delta_s).makespan_s == pytest.approx(delta_s + entry_s / 2)


def test_optimum_of_one_switch_is_worked_out_by_hand():
    """Row 0 has 3 and 1 to send, row 1 has 1: two permutations, of 3 and of 1."""
    demand = np.array([[0, 3.0, 1.0], [1.0, 0, 0], [0, 0, 0]])
    assert SCHEDULERS["optimal"](demand, 1, 0.5).makespan_s == pytest.approx(5.0)


def test_optimum_of_two_switches_splits_where_that_pays():
    """Loads of 3 and 1 in one row: 4 in all, and three reconfigurations of 0.1."""
    demand = np.array([[0, 3.0, 1.0], [0, 0, 0], [0, 0, 0]])
    assert SCHEDULERS["optimal"](demand, 2, 0.1).makespan_s == pytest.approx((4 + 3 * 0.1) / 2)


@every_scheduler
def test_nothing_to_send_is_no_slot(name):
    schedule = SCHEDULERS[name](np.zeros((3, 3)), 2, 0.01)
    assert schedule.switches == ((), ())


@every_scheduler
def test_demand_is_left_as_it_was_and_the_schedule_the_same_each_time(name):
    demand = random_demand(np.random.default_rng(3), 4)
    before = demand.copy()
    first = SCHEDULERS[name](demand, 2, 0.01)
    assert np.array_equal(demand, before)
    assert SCHEDULERS[name](demand, 2, 0.01) == first


@every_scheduler
def test_unit_of_time_does_not_matter(name):
    demand = random_demand(np.random.default_rng(5), 4)
    made, scaled = SCHEDULERS[name](demand, 2, 0.01), SCHEDULERS[name](demand * 1000, 2, 10.0)
    assert scaled.makespan_s == pytest.approx(1000 * made.makespan_s, rel=1e-6)


@every_scheduler
def test_says_where_it_comes_from(name):
    function = SCHEDULERS[name]
    assert function.__doc__
    module = sys.modules[function.__module__].__doc__
    assert any(source in module + function.__doc__ for source in ("arXiv", "SIGMETRICS", "SIGCOMM", "CoNEXT", "UCC"))


def test_optimal_is_refused_where_it_is_too_slow():
    assert "at most 4 hosts and 2 switches" in refusal("optimal", 5, 2)
    assert "at most 4 hosts and 2 switches" in refusal("optimal", 4, 3)
    assert refusal("optimal", 4, 2) is None
    assert refusal("spectra", 4096, 16) is None
    with pytest.raises(ValueError, match="at most 4 hosts"):
        SCHEDULERS["optimal"](np.ones((5, 5)), 2, 0.01)


def test_linear_program_needs_no_more_than_the_greedy():
    rng = np.random.default_rng(1)
    for _ in range(50):
        demand = random_demand(rng, 7)
        permutations, weights_s = decompose(demand)
        assert lp_weights_s(demand, permutations).sum() <= refine(demand, permutations, weights_s).sum() + 1e-9


def test_eclipse_takes_the_best_duration_and_matching_first():
    rng = np.random.default_rng(2)
    for _ in range(30):
        demand = random_demand(rng, 4)
        if not demand.any():
            continue
        permutations, weights_s = eclipse(demand, 0.05)

        def quotient(outputs, duration_s):
            return np.minimum(demand[range(4), outputs], duration_s).sum() / (duration_s + 0.05)

        best = max(quotient(outputs, duration_s) for outputs in itertools.permutations(range(4))
                   for duration_s in np.unique(demand[demand > 0]))
        assert quotient(permutations[0], weights_s[0]) >= best * (1 - 0.01)


def test_less_splits_every_line_evenly_and_few_entries():
    rng = np.random.default_rng(4)
    for switches in (1, 2, 3, 4, 5):
        demand = random_demand(rng, 8)
        parts = split_s(demand, switches)
        assert len(parts) == switches
        assert np.allclose(sum(parts), demand, rtol=1e-12, atol=0)
        for part, axis in itertools.product(parts, (0, 1)):
            assert np.allclose(part.sum(axis=axis), demand.sum(axis=axis) / switches, rtol=1e-5)
            assert (part >= 0).all()
        extra = sum(np.count_nonzero(part) for part in parts) - np.count_nonzero(demand)
        assert extra <= 2 * 8 * (switches - 1)


def test_less_even_plays_the_same_on_every_switch():
    first, *others = SCHEDULERS["less-even"](generate("moe", 8, 0), 3, 0.01).switches
    assert all(other == first for other in others)


def test_without_equalize_no_permutation_is_split():
    demand = np.diag([0.61, 0, 0.0], 1)
    assert sum(map(len, SCHEDULERS["spectra-no-equalize"](demand, 2, 0.01).switches)) == 1
    assert sum(map(len, SCHEDULERS["spectra"](demand, 2, 0.01).switches)) == 2


def test_stuffing_makes_all_lines_equal_and_takes_nothing_away():
    rng = np.random.default_rng(6)
    for _ in range(50):
        demand = rng.integers(0, 5, (6, 6))
        stuffed = quick_stuff(demand)
        assert (stuffed >= demand).all()
        largest = max(demand.sum(axis=0).max(), demand.sum(axis=1).max())
        assert (stuffed.sum(axis=0) == largest).all() and (stuffed.sum(axis=1) == largest).all()


def test_perfect_matching_is_one_or_none():
    allowed = np.array([[1, 1, 0], [1, 0, 0], [0, 1, 1]], dtype=bool)
    outputs = perfect_matching(allowed)
    assert list(outputs) == [1, 0, 2]
    assert perfect_matching(np.array([[1, 1, 0], [1, 0, 0], [1, 0, 0]], dtype=bool)) is None


def test_sinkhorn_is_doubly_stochastic():
    scaled = sinkhorn(np.random.default_rng(8).uniform(0.1, 1, (7, 7)))
    assert np.allclose(scaled.sum(axis=0), 1, atol=1e-8) and np.allclose(scaled.sum(axis=1), 1, atol=1e-8)


def test_bottleneck_matching_is_the_best_of_all():
    rng = np.random.default_rng(9)
    for _ in range(30):
        matrix = rng.integers(1, 9, (4, 4)) / 8
        best = max(matrix[range(4), outputs].min() for outputs in itertools.permutations(range(4)))
        outputs, smallest = bottleneck_matching(matrix)
        assert smallest == best == matrix[range(4), outputs].min()


def test_solstice_and_tms_hold_no_slice_shorter_than_the_delay_but_for_the_rest():
    """Every slice is worth a reconfiguration: with a large delay they come down to Decompose and Refine."""
    demand = generate("benchmark", 12, 0)
    for name in ("solstice", "tms"):
        assert SCHEDULERS[name](demand, 1, 10.0).makespan_s == pytest.approx(SCHEDULERS["spectra"](demand, 1, 10.0).makespan_s)
        assert SCHEDULERS[name](demand, 1, 0.01) != SCHEDULERS["spectra"](demand, 1, 0.01)


def test_rotor_is_blind():
    one = np.zeros((5, 5))
    one[0, 1] = 0.5
    other = np.zeros((5, 5))
    other[3, 2] = 0.5
    assert SCHEDULERS["rotor"](one, 2, 0.01) == SCHEDULERS["rotor"](other, 2, 0.01)


def test_rotor_turns_through_all_shifts_as_often_as_the_largest_entry_needs():
    demand = np.zeros((4, 4))
    demand[0, 1] = 0.25
    schedule = SCHEDULERS["rotor"](demand, 2, 0.01)
    slots = [slot for slots in schedule.switches for slot in slots]
    assert {slot.duration_s for slot in slots} == {0.09}
    assert len(slots) == 3 * 3  # three shifts, three cycles of 0.09 s
    assert set(slot.permutation for slot in slots) == {(1, 2, 3, 0), (2, 3, 0, 1), (3, 0, 1, 2)}


def test_rotor_turns_no_more_than_a_thousand_times():
    demand = np.zeros((3, 3))
    demand[0, 1] = 1.0
    for delta_s in (0.0, 1e-9):
        schedule = SCHEDULERS["rotor"](demand, 1, delta_s)
        assert len(schedule.switches[0]) == 2 * 1000
        assert schedule.covers(demand)


def test_eclipse_ends_where_reconfiguration_is_free():
    """Without a shortest duration, each slice would be the least of what is left, and leave something smaller."""
    for seed in range(5):
        demand = np.random.default_rng(seed).uniform(0.5, 1, (9, 9))
        permutations, _ = eclipse(demand, 0.0)
        assert len(permutations) < 1000
