"""All schedulers: what each must keep to, and what is its own."""

import itertools
import sys
from functools import cache, partial, update_wrapper

import numpy as np
import pytest
from scipy.optimize import linprog

from controller.scheduling import solstice, tms
from controller.scheduling.bounds import lower_bound_s
from controller.scheduling.eclipse import eclipse
from controller.scheduling.less import split_s
from controller.scheduling.registry import SCHEDULERS as REGISTERED
from controller.scheduling.registry import refusal
from controller.scheduling.solstice import cover_rest, perfect_matching, quick_stuff
from controller.scheduling.spectra import assign, decompose, degree, refine
from controller.scheduling.spectra_lp import lp_weights_s
from controller.scheduling.tms import bottleneck_matching, sinkhorn
from testbed.workloads import generate

# By steps in place of time it is fast, and the same each time.
SCHEDULERS = {**REGISTERED, "spectra-plus": update_wrapper(partial(REGISTERED["spectra-plus"], plan_steps=20),
                                                           REGISTERED["spectra-plus"])}
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


@cache
def small_cases():
    """(demand, switches, delta_s, optimal schedule): the solver takes time, so it is asked once."""
    return [(*case, SCHEDULERS["optimal"](*case)) for case in cases("optimal", 60)]


def from_entries(n, entries):
    demand = np.zeros((n, n))
    for (i, j), size in entries.items():
        demand[i, j] = size
    return demand


def all_slots(schedule):
    return [slot for slots in schedule.switches for slot in slots]


@every_scheduler
def test_500_random_demands_are_covered_and_not_faster_than_the_bound(name):
    """`Slot` and `Schedule` refuse by themselves what is no permutation."""
    planned = small_cases() if name == "optimal" else (
        (*case, SCHEDULERS[name](*case)) for case in cases(name, 500))
    for demand, switches, delta_s, schedule in planned:
        assert schedule.covers(demand), (demand, switches, delta_s)
        assert (len(schedule.switches), schedule.delta_s) == (switches, delta_s)
        assert schedule.ports in (0, len(demand))
        assert schedule.makespan_s >= lower_bound_s(demand, switches, delta_s) * (1 - 1e-9)


@every_scheduler
@pytest.mark.parametrize("workload", ["gpt", "moe", "benchmark"])
def test_workloads_are_covered(name, workload):
    hosts = 4 if name == "optimal" else 16
    demand = generate(workload, hosts, 1)
    assert SCHEDULERS[name](demand, 2, 0.01).covers(demand)


def test_no_scheduler_beats_the_optimum():
    missed = set()
    for demand, switches, delta_s, optimal in small_cases():
        for name in SCHEDULERS.keys() - {"optimal"}:
            over = SCHEDULERS[name](demand, switches, delta_s).makespan_s - optimal.makespan_s
            assert over >= -1e-6 * optimal.makespan_s, (name, demand, switches, delta_s)
            if over > 1e-6 * optimal.makespan_s:
                missed.add(name)
    assert missed == SCHEDULERS.keys() - {"optimal"}  # the cases are hard enough for each


@pytest.mark.parametrize("entries, switches, delta_s, expected_s", [
    # One entry: half of it on each switch, whatever δ is, since both may be dark at the same time.
    ({(0, 1): 1.0}, 1, 0.1, 0.1 + 1.0),
    ({(0, 1): 1.0}, 2, 0.1, 0.1 + 0.5),
    ({(0, 1): 0.1}, 2, 0.2, 0.2 + 0.05),
    # Two entries of different lines: one permutation carries both.
    ({(0, 1): 2.0, (2, 3): 1.0}, 1, 0.1, 0.1 + 2.0),
    ({(0, 1): 2.0, (2, 3): 1.0}, 2, 0.1, 0.1 + 1.0),
    # A whole permutation, its fixed points included.
    ({(0, 0): 1.0, (1, 1): 1.0, (2, 2): 1.0, (3, 3): 1.0}, 1, 0.3, 0.3 + 1.0),
    ({(0, 2): 1.0, (1, 3): 1.0, (2, 0): 1.0, (3, 1): 1.0}, 2, 0.3, 0.3 + 0.5),
    # Two permutations, of 3 and of 1, on one switch.
    ({(0, 1): 3.0, (0, 2): 1.0, (1, 0): 1.0}, 1, 0.5, 3.0 + 1.0 + 2 * 0.5),
    # Two entries of a line on two switches: 3 is split with three reconfigurations, unless δ is more than 2.
    ({(0, 1): 3.0, (0, 2): 1.0}, 2, 0.1, (4.0 + 3 * 0.1) / 2),
    ({(0, 1): 3.0, (0, 2): 1.0}, 2, 1.9, (4.0 + 3 * 1.9) / 2),
    ({(0, 1): 3.0, (0, 2): 1.0}, 2, 2.5, 3.0 + 2.5),
    # All six pairs of three hosts, each 1: two permutations, one for each switch.
    ({(i, j): 1.0 for i in range(3) for j in range(3) if i != j}, 2, 0.1, 0.1 + 1.0),
    # Lines of 4: 3 with 3 and 1 with 1 beside each other, not 3 with 1 twice.
    ({(0, 1): 3.0, (0, 2): 1.0, (3, 2): 3.0, (3, 1): 1.0}, 1, 0.5, 3.0 + 1.0 + 2 * 0.5),
])
def test_optimum_worked_out_by_hand(entries, switches, delta_s, expected_s):
    schedule = SCHEDULERS["optimal"](from_entries(4, entries), switches, delta_s)
    assert schedule.makespan_s == pytest.approx(expected_s, rel=1e-6)


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
    """A power of two, since that is exact: rounding may decide which of two equally good matchings is taken."""
    for demand, switches, delta_s in cases(name, 10 if name == "optimal" else 40):
        made, scaled = SCHEDULERS[name](demand, switches, delta_s), SCHEDULERS[name](
            1024 * demand, switches, 1024 * delta_s)
        assert scaled.makespan_s == pytest.approx(1024 * made.makespan_s, rel=1e-6)


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
    assert [name for name in SCHEDULERS if refusal(name, 4096, 32)] == ["optimal"]
    with pytest.raises(ValueError, match="at most 4 hosts"):
        SCHEDULERS["optimal"](np.ones((5, 5)), 2, 0.01)


def test_linear_program_needs_no_more_than_the_greedy():
    rng = np.random.default_rng(1)
    for _ in range(50):
        demand = random_demand(rng, 7)
        permutations, weights_s = decompose(demand)
        least_s = lp_weights_s(demand, permutations)
        assert least_s.sum() <= refine(demand, permutations, weights_s).sum() + 1e-9
        played_s = [slot.duration_s for slot in SCHEDULERS["spectra-lp"](demand, 1, 0.1).switches[0]]
        assert sorted(played_s) == pytest.approx(sorted(least_s[least_s > 0]))


def test_linear_program_is_solved_to_the_optimum():
    """Strong duality: the most that prices of the pairs can fetch, with no permutation above 1."""
    rng = np.random.default_rng(11)
    for _ in range(20):
        demand = rng.random((5, 5))
        permutations = rng.permuted(np.tile(np.arange(5), (12, 1)), axis=1)
        permutations = np.concatenate([permutations, [np.roll(np.arange(5), shift) for shift in range(5)]])
        carries = [np.eye(5)[outputs].ravel() for outputs in permutations]
        dual = linprog(-demand.ravel(), A_ub=carries, b_ub=np.ones(len(permutations)))
        assert lp_weights_s(demand, permutations).sum() == pytest.approx(-dual.fun, rel=1e-6)


def test_linear_program_counts_what_two_permutations_carry_together():
    """Pair (1, 1) is in both permutations: 3 and 2 are enough for its 5, where the greedy needs 5 and 1."""
    demand = from_entries(3, {(0, 0): 3.0, (0, 2): 1.0, (1, 1): 5.0, (2, 2): 3.0})
    permutations = np.array([[0, 1, 2], [2, 1, 0]])
    assert lp_weights_s(demand, permutations).sum() == pytest.approx(5.0)
    assert refine(demand, permutations, [0.0, 0.0]).sum() == 6.0


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
        assert quotient(permutations[0], weights_s[0]) >= best * (1 - 0.005)


def test_eclipse_never_finds_a_better_quotient_later():
    """What remains only shrinks; the search is exact to 0.5 %."""
    rng = np.random.default_rng(12)
    for _ in range(50):
        rest, delta_s = random_demand(rng, 6), 0.05
        carried_per_s = []
        for outputs, weight_s in zip(*eclipse(rest, delta_s)):
            before = rest.sum()
            rest[range(6), outputs] = np.maximum(0, rest[range(6), outputs] - weight_s)
            carried_per_s.append((before - rest.sum()) / (weight_s + delta_s))
        assert not rest.any()
        assert all(later <= earlier * 1.00501 for earlier, later in itertools.pairwise(carried_per_s))


def test_eclipse_ends_where_reconfiguration_is_free():
    """Without a shortest duration, each slice would be the least of what is left, and leave something smaller."""
    for seed in range(5):
        demand = np.random.default_rng(seed).uniform(0.5, 1, (9, 9))
        permutations, _ = eclipse(demand, 0.0)
        assert len(permutations) < 1000


def test_less_splits_every_line_evenly_and_few_entries():
    rng = np.random.default_rng(4)
    for switches in (1, 2, 3, 4, 5) * 6:
        n = int(rng.integers(2, 10))
        demand = random_demand(rng, n)
        parts = split_s(demand, switches)
        assert len(parts) == switches
        assert np.allclose(sum(parts), demand, rtol=1e-12, atol=0)
        for part, axis in itertools.product(parts, (0, 1)):
            assert np.allclose(part.sum(axis=axis), demand.sum(axis=axis) / switches, rtol=1e-6, atol=0)
            assert (part >= 0).all()
        extra = sum(np.count_nonzero(part) for part in parts) - np.count_nonzero(demand)
        assert extra <= 2 * n * (switches - 1)


def test_less_leaves_entries_whole_where_it_can():
    """Two permutations of equal entries: one for each switch, where an even split plays both on both."""
    demand = np.roll(np.eye(4), 1, axis=1) + np.roll(np.eye(4), 2, axis=1)
    assert SCHEDULERS["less"](demand, 2, 0.1).loads_s == pytest.approx((1.1, 1.1))
    assert SCHEDULERS["less-even"](demand, 2, 0.1).loads_s == pytest.approx((1.2, 1.2))


def test_less_deals_out_the_entries_of_each_line():
    """No part keeps many more entries of a line than half of its 23; any basic solution would keep up to 18."""
    for seed in range(4):
        assert max(map(degree, split_s(generate("moe", 24, seed), 2))) <= 23 / 2 + 4


def test_less_even_plays_the_same_on_every_switch():
    first, *others = SCHEDULERS["less-even"](generate("moe", 8, 0), 3, 0.01).switches
    assert all(other == first for other in others)


def test_without_equalize_no_permutation_is_split():
    demand = np.diag([0.61, 0, 0.0], 1)
    assert sum(map(len, SCHEDULERS["spectra-no-equalize"](demand, 2, 0.01).switches)) == 1
    assert sum(map(len, SCHEDULERS["spectra"](demand, 2, 0.01).switches)) == 2


def test_without_equalize_the_loads_are_those_of_assign():
    for demand, switches, delta_s in cases("spectra-no-equalize", 60):
        plain = SCHEDULERS["spectra-no-equalize"](demand, switches, delta_s)
        permutations, weights_s = decompose(demand)
        plan = assign(refine(demand, permutations, weights_s), switches, delta_s)
        assert plain.loads_s == pytest.approx([sum(delta_s + weight_s for _, weight_s in part) for part in plan])
        assert len(all_slots(plain)) == degree(demand)
        assert SCHEDULERS["spectra"](demand, switches, delta_s).makespan_s <= plain.makespan_s * (1 + 1e-9)


def test_stuffing_makes_all_lines_equal_and_takes_nothing_away():
    rng = np.random.default_rng(6)
    for _ in range(50):
        demand = rng.integers(0, 5, (6, 6)) * rng.integers(0, 2, (6, 1)) * 10**12
        stuffed = quick_stuff(demand)
        assert stuffed.dtype.kind == "i"
        assert (stuffed >= demand).all()
        largest = max(demand.sum(axis=0).max(), demand.sum(axis=1).max())
        assert (stuffed.sum(axis=0) == largest).all() and (stuffed.sum(axis=1) == largest).all()


def test_perfect_matching_is_one_or_none():
    allowed = np.array([[1, 1, 0], [1, 0, 0], [0, 1, 1]], dtype=bool)
    outputs = perfect_matching(allowed)
    assert list(outputs) == [1, 0, 2]
    assert perfect_matching(np.array([[1, 1, 0], [1, 0, 0], [1, 0, 0]], dtype=bool)) is None


@pytest.mark.parametrize("demand, stuffed", [
    ([[0, 3], [0, 0]], [[0, 3], [3, 0]]),
    ([[0, 1, 0], [0, 0, 4], [1, 0, 0]], [[0, 4, 0], [0, 0, 4], [4, 0, 0]]),
    ([[1, 2, 0], [0, 0, 4], [0, 0, 0]], [[1, 3, 0], [0, 0, 4], [3, 1, 0]]),
])
def test_stuffing_is_on_nonzeros_first_and_of_these_on_the_largest(demand, stuffed):
    assert quick_stuff(np.array(demand)).tolist() == stuffed


def test_perfect_matching_is_found_wherever_there_is_one():
    rng = np.random.default_rng(10)
    found = 0
    for _ in range(200):
        n = int(rng.integers(1, 6))
        allowed = rng.random((n, n)) < 0.45
        exists = any(allowed[range(n), outputs].all() for outputs in itertools.permutations(range(n)))
        outputs = perfect_matching(allowed)
        assert (outputs is not None) == exists
        if exists:
            assert sorted(outputs) == list(range(n)) and allowed[range(n), outputs].all()
        found += exists
    assert 40 < found < 160


def test_sinkhorn_is_doubly_stochastic():
    scaled = sinkhorn(np.random.default_rng(8).uniform(0.1, 1, (7, 7)))
    assert np.allclose(scaled.sum(axis=0), 1, atol=1e-8) and np.allclose(scaled.sum(axis=1), 1, atol=1e-8)


def test_bottleneck_matching_is_the_best_of_all():
    rng = np.random.default_rng(9)
    for _ in range(100):
        n = int(rng.integers(1, 6))
        matrix = rng.integers(0, 9, (n, n)) / 8
        best = max(matrix[range(n), outputs].min() for outputs in itertools.permutations(range(n)))
        outputs, smallest = bottleneck_matching(matrix)
        assert smallest == best
        assert outputs is None if best == 0 else matrix[range(n), outputs].min() == best


def test_what_is_left_of_a_demand_is_covered():
    demand = from_entries(3, {(0, 1): 3.0, (1, 0): 1.0, (0, 2): 0.5})
    permutations, weights_s = cover_rest(demand, [np.array([1, 0, 2])], [2.0])
    assert (permutations[0].tolist(), weights_s[0]) == ([1, 0, 2], 2.0)
    assert sorted(weights_s[1:]) == [0.5, 1.0]


@pytest.mark.parametrize("module, name", [(solstice, "solstice"), (tms, "tms")])
def test_slices_are_no_shorter_than_the_delay_before_the_rest(monkeypatch, module, name):
    sliced = []
    monkeypatch.setattr(module, "cover_rest", lambda *rest: sliced.append(list(rest[2])) or cover_rest(*rest))
    for demand, switches, delta_s in cases(name, 200):
        sliced.clear()
        SCHEDULERS[name](demand, switches, delta_s)
        assert all(weight_s >= delta_s for weights_s in sliced for weight_s in weights_s)
    for seed in range(5):
        sliced.clear()
        SCHEDULERS[name](generate("benchmark:flows=6", 12, seed), 2, 0.02)
        assert len(sliced[0]) > 5


def test_solstice_slices_equal_lines_without_loss():
    """Lines of 1 take 1 and the reconfigurations."""
    for seed in range(3):
        (slots,) = SCHEDULERS["solstice"](generate("benchmark:noise=0", 12, seed), 1, 1e-6).switches
        assert sum(slot.duration_s for slot in slots) == pytest.approx(1, abs=1e-9)


def test_tms_takes_apart_the_scaled_demand(monkeypatch):
    """Its lines are 1, although the least of the demand is 0.3: nearly all of a line is sliced."""
    sliced = []
    monkeypatch.setattr(tms, "cover_rest", lambda *rest: sliced.append(sum(rest[2])) or cover_rest(*rest))
    for seed in range(3):
        SCHEDULERS["tms"](generate("moe:skew=0.8", 16, seed), 1, 1e-4)
    assert sliced == pytest.approx([1, 1, 1], abs=0.01)


def test_tms_takes_the_largest_bottleneck_first(monkeypatch):
    sliced = []
    monkeypatch.setattr(tms, "cover_rest", lambda *rest: sliced.extend(rest[2]) or cover_rest(*rest))
    SCHEDULERS["tms"](generate("moe", 8, 0), 2, 0.001)
    assert len(sliced) > 5
    assert all(later <= earlier * (1 + 1e-9) for earlier, later in itertools.pairwise(sliced))


def test_solstice_and_tms_hold_no_slice_shorter_than_the_delay_but_for_the_rest():
    """Every slice is worth a reconfiguration: with a large delay they come down to Decompose and Refine."""
    demand = generate("benchmark", 12, 0)
    for name in ("solstice", "tms"):
        plain_s = SCHEDULERS["spectra"](demand, 1, 10.0).makespan_s
        assert SCHEDULERS[name](demand, 1, 10.0).makespan_s == pytest.approx(plain_s)
        assert SCHEDULERS[name](demand, 1, 0.01) != SCHEDULERS["spectra"](demand, 1, 0.01)


def test_rotor_is_blind_but_for_the_largest_entry():
    one = from_entries(5, {(0, 1): 0.5})
    other = generate("moe", 5, 0)
    other *= 0.5 / other.max()
    assert SCHEDULERS["rotor"](one, 2, 0.01) == SCHEDULERS["rotor"](other, 2, 0.01)
    assert SCHEDULERS["rotor"](2 * one, 2, 0.01) != SCHEDULERS["rotor"](one, 2, 0.01)


def test_rotor_turns_through_all_shifts_as_often_as_the_largest_entry_needs():
    """Three cycles of 0.09 s for 0.25 s; the shifts are dealt out to the switches and stay there."""
    schedule = SCHEDULERS["rotor"](from_entries(4, {(0, 1): 0.25}), 2, 0.01)
    assert [[slot.permutation for slot in slots] for slots in schedule.switches] == [
        [(1, 2, 3, 0), (3, 0, 1, 2)] * 3, [(2, 3, 0, 1)] * 3]
    assert {slot.duration_s for slot in all_slots(schedule)} == {0.09}


def test_rotor_turns_no_more_than_a_thousand_times():
    demand = from_entries(3, {(0, 1): 1.0})
    for delta_s in (0.0, 1e-9):
        schedule = SCHEDULERS["rotor"](demand, 1, delta_s)
        assert len(schedule.switches[0]) == 2 * 1000
        assert schedule.covers(demand)


def test_rotor_stands_still_only_for_a_demand_on_the_diagonal():
    schedule = SCHEDULERS["rotor"](from_entries(3, {(2, 2): 0.05}), 1, 0.01)
    assert [slot.permutation for slot in all_slots(schedule)] == [(0, 1, 2), (1, 2, 0), (2, 0, 1)]


def test_optimum_plays_nothing_that_only_the_solver_s_tolerance_allows():
    """One permutation of 0.95 and two small ones, of which a slot too many would cost δ = 1."""
    demand = np.array([[0, .0002802520756127692, .2301423128245465, 0],
                       [.03594997614298801, 0, .0016889543080693967, .01135124223294746],
                       [.0005698315966317521, 9.754964298591172e-05, 0, .09327886290691913],
                       [.9529784886028371, 0, .0001941263784562097, 0]])
    least_s = SCHEDULERS["optimal"](demand, 1, 1.0).makespan_s
    assert all(least_s <= scheduler(demand, 1, 1.0).makespan_s * (1 + 1e-5) for scheduler in SCHEDULERS.values())


@pytest.mark.parametrize("name", ["optimal", "solstice", "tms"])
@pytest.mark.parametrize("small_s", [2e-6, 1e-8, 1e-12])
def test_entries_that_are_tiny_beside_the_largest_are_served(name, small_s):
    demand = np.array([[0, 30, small_s], [0, 0, 0], [0, 0, 0]])
    schedule = SCHEDULERS[name](demand, 1, 0.1)
    assert (schedule.coverage_s(3) >= demand * (1 - 1e-9)).all()
    assert schedule.makespan_s >= lower_bound_s(demand, 1, 0.1) * (1 - 1e-9)
