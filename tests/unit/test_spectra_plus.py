"""Spectra+ and its parts: packing, small linear programs, exchange of cycles, matchings, and the search."""

import itertools
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from controller.scheduling import budget, exchange, matching, packing, spectra_plus as plus
from controller.scheduling.bounds import lower_bound_s
from controller.scheduling.columns import longest_slot_s, split_long
from controller.scheduling.candidates import Search
from controller.scheduling.spectra import assign, decompose, equalize, refine, spectra
from controller.scheduling.spectra_lp import lp_weights_s
from controller.scheduling.weights import Demand, least_makespan, least_weights
from testbed.workloads import generate

sizes = st.just(0.0) | st.sampled_from([0.25, 0.5, 1.0]) | st.floats(1e-4, 1.0)
demands = st.integers(1, 6).flatmap(lambda n: st_numpy.arrays(float, (n, n), elements=sizes))
delays = st.sampled_from([0.0, 0.001, 0.01, 0.1, 1.0])


def durations_s(schedule):
    return [slot.duration_s for slots in schedule.switches for slot in slots]


def with_min_slot(demand, switches, delta_s, min_slot_s):
    """Spectra's schedule with its weights raised to the shortest slot, and none split into shorter parts."""
    permutations, weights_s = decompose(demand)
    weights_s = packing.no_shorter_than(refine(demand, permutations, weights_s), min_slot_s)
    plan = equalize(assign(weights_s, switches, delta_s), delta_s, min_slot_s)
    return packing.makespan_s(plan, delta_s)


@settings(deadline=None, max_examples=60)
@given(demands, st.integers(1, 5), delays, st.integers(0, 60), st.sampled_from([0.0, 0.0, 0.05, 0.7]))
def test_covers_and_is_never_longer_than_spectra(demand, switches, delta_s, steps, min_slot_s):
    found = plus.search(demand, switches, delta_s, plan_steps=steps, min_slot_s=min_slot_s)
    assert found.schedule.covers(demand)
    assert len(found.schedule.switches) == switches
    assert found.schedule.makespan_s >= lower_bound_s(demand, switches, delta_s) * (1 - 1e-9)
    assert found.schedule.makespan_s <= with_min_slot(demand, switches, delta_s, min_slot_s)
    assert min(durations_s(found.schedule), default=1.0) >= min_slot_s
    assert found.steps <= steps and found.stopped in ("steps", "bound")
    if not min_slot_s:
        assert found.schedule.makespan_s <= spectra(demand, switches, delta_s).makespan_s


@settings(deadline=None, max_examples=60)
@given(demands, st.integers(1, 5), delays)
def test_packing_covers_and_is_never_longer_than_spectra(demand, switches, delta_s):
    schedule = packing.spectra_pack(demand, switches, delta_s)
    assert schedule.covers(demand)
    assert schedule.makespan_s <= spectra(demand, switches, delta_s).makespan_s


@pytest.mark.parametrize("workload, hosts, switches, delta_s", [
    ("gpt", 16, 2, 0.001), ("gpt", 16, 4, 0.05), ("moe", 16, 2, 0.01), ("benchmark", 24, 2, 0.01), ("benchmark", 24, 4, 0.001)])
def test_is_shorter_than_spectra_on_the_workloads_and_the_same_each_time(workload, hosts, switches, delta_s):
    demand = generate(workload, hosts, 3)
    first, again = (plus.spectra_plus(demand, switches, delta_s, plan_steps=60, seed=5) for _ in range(2))
    assert first == again
    assert first.covers(demand)
    assert first.makespan_s < spectra(demand, switches, delta_s).makespan_s * 0.999


def test_more_steps_and_another_seed_give_another_schedule():
    demand = generate("benchmark", 24, 3)
    schedules = [plus.spectra_plus(demand, 2, 0.01, plan_steps=steps, seed=seed) for steps, seed in ((40, 0), (40, 1), (160, 0))]
    assert all(one != other for one, other in itertools.combinations(schedules, 2))


@pytest.mark.parametrize("left_out", [*plus.STEPS, None])
@pytest.mark.parametrize("delta_s", [1e-4, 0.02])
def test_every_step_can_be_left_out(left_out, delta_s):
    demand = generate("benchmark", 20, 1)
    without = plus.STEPS if left_out is None else (left_out,)
    schedule = plus.spectra_plus(demand, 4, delta_s, plan_steps=40, without=without)
    assert schedule.covers(demand)
    assert schedule.makespan_s <= spectra(demand, 4, delta_s).makespan_s


def test_without_any_step_it_is_spectra_with_weights_as_they_were():
    demand = generate("benchmark", 20, 1)
    found = plus.search(demand, 2, 0.01, plan_steps=40, without=plus.STEPS)
    assert found.schedule == spectra(demand, 2, 0.01)
    assert found.stopped == "end"


@pytest.mark.parametrize("workload, hosts", [("gpt", 32), ("moe", 32), ("benchmark", 64)])
@pytest.mark.parametrize("plan_time_s", [0.02, 0.15])
def test_the_time_to_plan_is_kept_to(workload, hosts, plan_time_s):
    demand = generate(workload, hosts, 2)
    start_s = time.perf_counter()
    found = plus.search(demand, 4, 0.01, plan_time_s=plan_time_s)
    assert time.perf_counter() - start_s < plan_time_s + 0.1
    assert found.schedule.covers(demand)
    assert found.stopped in ("time", "bound", "too short")


def test_too_short_a_time_gives_spectra_s_schedule_and_says_so():
    demand = generate("benchmark", 24, 0)
    found = plus.search(demand, 2, 0.01, plan_time_s=0.0)
    assert (found.schedule, found.stopped, found.steps) == (spectra(demand, 2, 0.01), "too short", 0)


def test_nothing_is_searched_for_where_the_bound_is_reached():
    found = plus.search(np.diag([1.0, 0, 0], 1), 2, 0.1, plan_steps=1000)
    assert (found.stopped, found.steps) == ("bound", 0)
    assert found.schedule.makespan_s == pytest.approx(0.6)


def test_all_zero_demand_is_no_slot():
    found = plus.search(np.zeros((3, 3)), 2, 0.1)
    assert (found.schedule.switches, found.stopped) == (((), ()), "bound")


def test_more_switches_than_entries():
    """One entry of 0.3 on five switches at δ = 0.1: all five carry a part, and it takes 0.1 + 0.3 / 5."""
    assert plus.spectra_plus(np.diag([0.3], 1), 5, 0.1, plan_steps=40).makespan_s == pytest.approx(0.16)


def test_finds_that_two_entries_of_a_line_are_split_into_three_slots():
    """3 and 1 in one line, two switches, δ = 0.1: the least is (4 + 3·0.1) / 2."""
    demand = np.array([[0, 3.0, 1.0], [0, 0, 0], [0, 0, 0]])
    assert plus.spectra_plus(demand, 2, 0.1, plan_steps=40).makespan_s == pytest.approx(2.15)


@pytest.mark.parametrize("arguments, words", [
    ({"without": ("kempe",)}, "sequence of steps"), ({"without": "cap"}, "sequence of steps"),
    ({"plan_time_s": -1}, "plan_time_s is -1"),
    ({"plan_steps": -1}, "plan_steps is -1"), ({"min_slot_s": float("nan")}, "min_slot_s is nan")])
def test_bad_arguments_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        plus.spectra_plus(np.zeros((2, 2)), 2, 0.1, **arguments)


def test_short_slots_are_raised_or_gone():
    demand = generate("gpt", 16, 0)
    assert min(durations_s(plus.spectra_plus(demand, 2, 0.001, plan_steps=150))) < 0.02
    raised = plus.spectra_plus(demand, 2, 0.001, plan_steps=150, min_slot_s=0.02)
    assert min(durations_s(raised)) >= 0.02 and raised.covers(demand)


# Packing.


def test_descent_swaps_two_permutations():
    """5 and 4 beside 3 and 2: with 4 and 2 swapped, or 5 and 3, 9 and 5 become 7 and 7."""
    plan = [[(0, 5.0), (1, 4.0)], [(2, 3.0), (3, 2.0)]]
    assert [sum(weight_s for _, weight_s in entries) for entries in packing.descend(plan, 0.0)] == [7.0, 7.0]
    assert plan == [[(0, 5.0), (1, 4.0)], [(2, 3.0), (3, 2.0)]]


def test_descent_moves_one_permutation():
    assert packing.makespan_s(packing.descend([[(0, 1.0), (1, 1.0)], []], 0.5), 0.5) == 1.5


def test_descent_counts_the_reconfigurations():
    """Three of 1 beside one of 3 at δ = 1: loads 6 and 4; no swap helps, a move of 1 makes it 4 and 6."""
    plan = [[(0, 1.0), (1, 1.0), (2, 1.0)], [(3, 3.0)]]
    assert packing.descend(plan, 1.0) == plan


def test_packing_swaps_where_longest_first_would_split():
    """7, 6, 5, 4, 3 on two switches at δ = 0.1: longest first has 7 + 4 + 3 beside 6 + 5 and splits, for 12.8; whole,
    7 + 6 beside 5 + 4 + 3 is 13.2 and 12.3, and 7 + 5 beside 6 + 4 + 3 is 12.2 and 13.3."""
    weights_s = [7.0, 6.0, 5.0, 4.0, 3.0]
    plan = packing.pack(weights_s, 2, 0.1)
    assert packing.makespan_s(plan, 0.1) == pytest.approx((25 + 6 * 0.1) / 2)
    total_s = np.zeros(5)
    for index, weight_s in itertools.chain(*plan):
        total_s[index] += weight_s
    assert total_s == pytest.approx(weights_s)


def test_packing_needs_no_split_where_whole_permutations_fit():
    """3, 3, 2, 2, 2 on two switches: 3 + 3 beside 2 + 2 + 2, which longest first misses (3 + 2 + 2 beside 3 + 2)."""
    plan = packing.pack([3.0, 3.0, 2.0, 2.0, 2.0], 2, 0.0)
    assert sorted(sorted(weight_s for _, weight_s in entries) for entries in plan) == [[2.0, 2.0, 2.0], [3.0, 3.0]]


def test_parts_of_a_permutation_on_one_switch_become_one_slot():
    assert packing.merged([[(0, 1.0), (1, 2.0), (0, 0.5)], []]) == [[(0, 1.5), (1, 2.0)], []]


def test_no_part_is_shorter_than_the_shortest_slot():
    """0.61, 0.30, 0.10 at δ = 0.01: Equalize would move 0.095."""
    plan = assign([0.61, 0.30, 0.10], 2, 0.01)
    assert packing.makespan_s(equalize(plan, 0.01, 0.09), 0.01) == pytest.approx(0.525)
    assert equalize(plan, 0.01, 0.1) == plan


# Weights.


def test_the_small_solver_finds_the_optimum_of_the_large_one():
    rng = np.random.default_rng(3)
    for _ in range(60):
        n = int(rng.integers(2, 9))
        matrix = rng.random((n, n)) * (rng.random((n, n)) < 0.7)
        if not matrix.any():
            continue
        permutations = np.concatenate([decompose(matrix)[0], rng.permuted(np.tile(np.arange(n), (4, 1)), axis=1)])
        demand = Demand(matrix)
        weights_s, prices = least_weights(demand, permutations)
        assert (weights_s >= 0).all()
        assert weights_s.sum() == pytest.approx(lp_weights_s(matrix, permutations).sum(), rel=1e-6)
        assert (demand.coverage_s(permutations, weights_s) >= demand.sizes_s - 1e-8).all()
        assert prices @ demand.sizes_s == pytest.approx(weights_s.sum(), rel=1e-5)  # strong duality


def test_weights_keep_to_their_bounds():
    matrix = np.array([[0, 3.0], [1.0, 0]])
    demand = Demand(matrix)
    twice = np.array([[1, 0], [1, 0]])
    assert least_weights(demand, twice, cap_s=2.0)[0].sum() == pytest.approx(3.0)
    assert least_weights(demand, twice, cap_s=2.0)[0].max() <= 2.0 + 1e-9
    assert least_weights(demand, twice, cap_s=1.4) is None
    assert least_weights(demand, twice, min_slot_s=2.0)[0] == pytest.approx([2.0, 2.0])
    assert least_weights(demand, np.array([[0, 1]])) is None


def test_the_joint_program_moves_weight_between_slots_that_overlap():
    """An entry of 4 in both slots, one of 1 in the first only: 2 seconds each."""
    matrix = np.array([[0, 4.0, 0], [0, 0, 1.0], [0, 0, 0]])
    found_s = least_makespan(Demand(matrix), np.array([[1, 2, 0], [1, 0, 2]]), np.array([0, 1]), 2, 0.5)
    assert found_s == pytest.approx([2.0, 2.0])
    assert least_makespan(Demand(matrix), np.array([[1, 0, 2]]), np.array([0]), 2, 0.5) is None


def test_the_joint_program_is_never_longer_than_the_plan_it_starts_from():
    for seed in range(5):
        matrix = generate("benchmark", 20, seed)
        permutations, weights_s = decompose(matrix)
        plan = packing.pack(refine(matrix, permutations, weights_s), 4, 0.01)
        entries = [(index, switch) for switch, entries in enumerate(plan) for index, _ in entries]
        homes = np.array([switch for _, switch in entries])
        found_s = least_makespan(Demand(matrix), permutations[[index for index, _ in entries]], homes, 4, 0.01)
        assert np.bincount(homes, found_s + 0.01).max() <= packing.makespan_s(plan, 0.01) * (1 + 1e-6)


def test_the_sparse_form_gives_the_same(monkeypatch):
    matrix = generate("benchmark", 20, 0)
    permutations, _ = decompose(matrix)
    homes = np.arange(len(permutations)) % 2
    dense = least_weights(Demand(matrix), permutations), least_makespan(Demand(matrix), permutations, homes, 2, 0.01)
    monkeypatch.setattr("controller.scheduling.weights._DENSE", 0)
    few = least_weights(Demand(matrix), permutations), least_makespan(Demand(matrix), permutations, homes, 2, 0.01)
    assert few[0][0] == pytest.approx(dense[0][0]) and few[1] == pytest.approx(dense[1])


# Exchange and matchings.


def test_rounds_pair_everything_once():
    for count in range(1, 9):
        pairs = [pair for first, second in exchange.rounds(count) for pair in zip(first.tolist(), second.tolist())]
        assert sorted(map(sorted, pairs)) == [list(pair) for pair in itertools.combinations(range(count), 2)]
        assert all(len({*first, *second}) == 2 * len(first) for first, second in exchange.rounds(count))


def test_chains_are_paths_and_cycles():
    """Inputs 0 and 1 swap outputs: a cycle. Output 2 goes from input 2 to input 3, which the second leads on to output 2:
    a path. Input 4 is on its own."""
    label = exchange.chains(np.array([[0, 1, 2, -1, 4]]), np.array([[1, 0, -1, 2, 3]]))[0]
    assert label[0] == label[1] and label[2] == label[3]
    assert len(set(label.tolist())) == 3


def test_an_exchange_brings_large_entries_together():
    """Two cycles with parts 9 and 1, and 1 and 8: exchanged on the second, the maxima are 9 and 1 instead of 9 and 8."""
    outputs = np.array([[0, 1, 2, 3], [1, 0, 3, 2]])
    parts_s = np.array([[9.0, 9.0, 1.0, 1.0], [1.0, 1.0, 8.0, 8.0]])
    exchange.sweep(outputs, parts_s, exchange.rounds(2), 1.0, 0.0, np.random.default_rng(0))
    assert sorted(parts_s.max(axis=1)) == [1.0, 9.0]
    assert sorted(map(tuple, outputs.tolist())) == [(0, 1, 3, 2), (1, 0, 2, 3)]


def test_sweeps_lose_nothing():
    matrix = generate("benchmark", 30, 0)
    demand = Demand(matrix)
    permutations, weights_s = decompose(matrix)
    outputs, parts_s = exchange.dealt(demand, permutations, refine(matrix, permutations, weights_s))
    rng = np.random.default_rng(0)
    for softness_s in (0.01, 0.001, 1e-5):
        before_s = parts_s.max(axis=1).sum()
        exchange.sweep(outputs, parts_s, exchange.rounds(len(outputs)), softness_s, 0.01, rng)
        carried_s = np.zeros_like(matrix)
        for row, part_s in zip(outputs, parts_s):
            lit = np.flatnonzero(row >= 0)
            assert len(set(row[lit].tolist())) == len(lit)
            carried_s[lit, row[lit]] += part_s[lit]
        assert carried_s == pytest.approx(matrix)
    assert parts_s.max(axis=1).sum() <= before_s * 1.001
    full = exchange.completed(demand, outputs, parts_s, 0.001)
    assert (np.sort(full, axis=1) == np.arange(30)).all()
    assert (full == outputs)[outputs >= 0].all()


def test_an_extra_permutation_takes_what_is_tight():
    """0.5 covers 0.5, 0.5 and 0.1: the extra one matches the first two together."""
    demand = Demand(np.array([[0, 0.5, 0.1], [0.5, 0, 0], [0, 0, 0]]))
    added = matching.extra(demand, np.array([[1, 0, 2], [2, 0, 1]]), np.array([0.5, 0.1]), 0.0, 0.01)
    assert added.tolist() == [1, 0, 2]


def test_what_is_matched_anew_takes_what_the_others_leave():
    demand = Demand(np.array([[0, 0.5, 0.3], [0.5, 0, 0], [0, 0.3, 0]]))
    permutations = np.array([[1, 0, 2], [0, 1, 2]])
    assert matching.rematched(demand, permutations, np.array([0.5, 0.3]), [1], 0.01, 0.0).tolist() == [[1, 0, 2], [2, 0, 1]]


def test_the_longest_slot_leaves_room_for_all_parts():
    """1 and 0.2 on two switches at δ = 0.1. With T = 0.75: Σα + δ·slots is 1.2 + 3·0.1 = 1.5 = 2·T, and 1 is two slots."""
    matrix = np.array([[0, 1.0, 0.2], [0, 0, 0], [0, 0, 0]])
    search = Search(matrix, 2, 0.1, budget.Budget(0.0, 1.0, 10), np.random.default_rng(0))
    columns = search.columns(decompose(matrix)[0])
    assert longest_slot_s(search, columns) == pytest.approx(0.65)
    split = split_long(search, columns)
    assert search.cap_s == pytest.approx(0.65)
    assert len(split.weights_s) == 3 and split.weights_s.max() <= 0.65 + 1e-9 and split.weights_s.sum() == pytest.approx(1.2)


# The budget.


def test_steps_are_counted():
    steps = budget.Budget(0.0, 0.0, 4)
    assert [steps.allows("a", 0.5) for _ in range(3)] == [True, True, False]
    assert [steps.allows("b") for _ in range(3)] == [True, True, False]
    assert (steps.taken, steps.share()) == (4, 1.0)
    assert budget.Budget(0.0, 0.0, 0).share() == 1.0


def test_a_step_begins_only_if_one_like_it_would_end_in_time(monkeypatch):
    now_s = 10.0
    monkeypatch.setattr(budget.time, "perf_counter", lambda: now_s)
    left = budget.Budget(10.0, 1.0)
    assert left.allows("slow")
    now_s = 10.4
    assert left.allows("fast")
    now_s = 10.45
    assert left.allows("slow") and not left.allows("slow", 0.6)
    now_s = 10.7
    assert not left.allows("slow") and left.allows("fast")
    left.reserve(0.3)
    assert not left.allows("fast")


def test_packing_is_spectra_otherwise():
    """Where moves and swaps change nothing, the schedule is Spectra's."""
    demand = np.diag([0.61, 0, 0.0], 1)
    assert packing.spectra_pack(demand, 2, 0.01) == spectra(demand, 2, 0.01)
