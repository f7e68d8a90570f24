"""The tighter lower bound: each part by hand, and the whole against schedulers, the optimum and the paper's bound."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.scheduling.bounds import lower_bound_s
from controller.scheduling.registry import SCHEDULERS
from controller.scheduling.tight_bound import (
    OneLine, SharedSlots, groupings, largest_denied, most_taken, sorted_lines, tight_lower_bound_s)
from tests.unit.strategies import demands_bytes
from tests.unit.test_schedulers import from_entries, random_demand
from testbed.workloads import generate

# The optimum is known to a millionth.
SOLVER = 1e-6


def skewed_demand(rng, n):
    """One large entry a line, cut more than once where switches are many, and others of about the same size."""
    demand_s = np.where(random_demand(rng, n) > 0, 0.02 + 0.05 * rng.random((n, n)), 0)
    demand_s[np.arange(n), rng.permutation(n)] = 0.9 + 0.02 * rng.random(n)
    return demand_s


def cases(count, most_ports, most_switches, least_ports=2):
    """(demand, switches, delta_s), every other one skewed."""
    rng = np.random.default_rng(11)
    for index in range(count):
        n = int(rng.integers(least_ports, most_ports + 1))
        demand_s = (random_demand, skewed_demand)[index % 2](rng, n)
        yield demand_s, int(rng.integers(1, most_switches + 1)), float(rng.choice([0.0, 0.01, 0.1, 0.3, 1.0]))


def row(*entries, n=10):
    return from_entries(n, {(0, j): size for j, size in enumerate(entries, 1)})


@pytest.mark.parametrize("count, ways", [(1, 1), (2, 2), (3, 5), (4, 15)])
def test_groupings_are_all_ways_to_part_a_set(count, ways):
    masks = groupings(count)
    assert len({frozenset(way) - {0} for way in masks.tolist()}) == len(masks) == ways
    assert np.all(masks.sum(axis=1) == 2**count - 1)


def test_most_taken_is_the_largest_pieces():
    # Pieces of 2 at most: 2, 2, 1 of the 5, 2, 1 of the 3, and 1.
    assert most_taken(np.array([[5.0, 3.0, 1.0]]), 2.0, 7).tolist() == [[0, 2, 4, 6, 7, 8, 9, 9]]


def test_bisection_ends_below_what_is_possible():
    assert largest_denied(lambda makespan_s: makespan_s >= 7.3, 1.0, 0.1) == pytest.approx(7.3, rel=2e-9)
    assert largest_denied(lambda makespan_s: makespan_s >= 7.3, 1.0, 0.1) < 7.3
    assert largest_denied(lambda makespan_s: True, 1.0, 0.1) == 1.0


@pytest.mark.parametrize("entries, switches, delta_s, expected_s", [
    # 0.9 alone on six switches, 0.07 on the seventh, both 0.02 on the eighth. Paper: 0.226.
    ((0.9, 0.07, 0.02, 0.02), 8, 0.1, 0.1 + 0.9 / 6),
    # 0.9 on all four switches, so with 4 + 3 slots; on three it would take 0.34. Paper: 0.3025.
    ((0.9, 0.07, 0.02, 0.02), 4, 0.04, (1.01 + 7 * 0.04) / 4),
    # Three equal entries on two switches: one is cut, so four slots; two on one switch would take 4. Paper: 3.
    ((1, 1, 1), 2, 1.0, (3 + 4) / 2),
    # 0.5 and 0.1 on one switch; with a cut it would take (1.6 + 4)/2. Paper: 2.3.
    ((1, 0.5, 0.1), 2, 1.0, 0.6 + 2 * 1.0),
    # More entries than are grouped: 4 is cut, with 10 slots (4.54), or alone on a switch. Paper: 4.29.
    ((4, *[0.01] * 8), 2, 0.5, 4.5),
    # … with 10 slots, where that is less. Paper: 2.49.
    ((4, *[0.01] * 8), 2, 0.1, (4.08 + 10 * 0.1) / 2),
])
def test_one_line_by_its_groups(entries, switches, delta_s, expected_s):
    line = OneLine(sorted_lines(row(*entries)), switches, delta_s)
    assert not line.possible(expected_s * (1 - 1e-8))
    assert line.possible(expected_s * (1 + 1e-8))
    assert tight_lower_bound_s(row(*entries), switches, delta_s) == pytest.approx(expected_s, rel=1e-8)


@pytest.mark.parametrize("slots, least_s, rest_s", [
    # α1 ≥ 3 and α2 ≥ 2, though no line has more than 4.
    (2, [3, 2], [5, 2, 0]),
    # One slot more: the first line may have 3 cut, or 1, or the other one 2, but α1 ≥ 2 and all are 4 at least.
    (3, [2, 0, 0], [4, 2, 0, 0]),
])
def test_durations_of_two_lines(slots, least_s, rest_s):
    shared = SharedSlots(np.array([[3.0, 1.0], [2.0, 2.0]]), 1, 0.5)
    durations = shared.durations(slots, 100.0)
    assert durations.least_s.tolist() == least_s
    assert durations.rest_s.tolist() == rest_s


def test_durations_where_one_slot_cannot_carry_an_entry():
    """Three slots of 4.5 at most: 6 takes two, at least 1.5 and 3; 2 the third; 7 takes two, at least 2.5 and 3.5."""
    durations = SharedSlots(np.array([[7.0, 1.0], [6.0, 2.0]]), 2, 1.0).durations(3, 4.5)
    assert durations.least_s == pytest.approx([3.5, 2.5, 1.5], rel=1e-6)
    assert durations.rest_s == pytest.approx([7 + 1.5, 2.5 + 1.5, 1.5, 0], rel=1e-6)


def test_fewest_slots_beside_longer_ones():
    """T = 5, δ = 1: slots of 3 at most (two a switch), beside N of 4. Each of these spares two, if not one exactly."""
    shared = SharedSlots(np.array([[5.0, 5.0]]), 2, 1.0)
    assert shared._fewest_beside(2, 4, 5.0).tolist() == [4, 2, 0, 0, 0]


@pytest.mark.parametrize("entries, switches, delta_s, expected_s", [
    # The weight of one line, the count of another: 9 + 4·0.5 on two switches. Paper: 5.
    ({(0, 1): 9, (1, 0): 1, (1, 2): 1, (1, 3): 1, (1, 4): 1}, 2, 0.5, (9 + 4 * 0.5) / 2),
    # Two slots hold 3 and 2, three hold 4. Paper: 5.
    ({(0, 1): 3, (0, 2): 1, (1, 3): 2, (1, 0): 2}, 1, 0.5, 4 + 3 * 0.5),
    ({(0, 1): 3, (0, 2): 1, (1, 3): 2, (1, 0): 2}, 1, 1.5, 5 + 2 * 1.5),
    # Three permutations on two switches: one switch has two of them, or a fourth slot costs as much. Paper: 2.25.
    ({(i, j): 1 for i in range(4) for j in range(4) if i != j}, 2, 0.5, (3 + 4 * 0.5) / 2),
    # 7 and 6 are both cut, by the same two slots of the three: 7 + (6 − (T − 1)) + 3 = 2T. Paper: 5.5.
    ({(0, 1): 6, (0, 2): 2, (1, 3): 7, (1, 0): 1}, 2, 1.0, 17 / 3),
    # Four slots: three of 2 and one of 0.1, so one switch has a 2 and another slot; cutting costs a fifth and sixth.
    ({(0, 1): 2, (0, 2): 2, (0, 3): 2, (0, 4): 0.1}, 3, 2.0, (6.1 + 6 * 2.0) / 3),
])
def test_slots_that_lines_share(entries, switches, delta_s, expected_s):
    demand_s = from_entries(5, entries)
    assert tight_lower_bound_s(demand_s, switches, delta_s) == pytest.approx(expected_s, rel=1e-8)
    assert tight_lower_bound_s(demand_s.T, switches, delta_s) == pytest.approx(expected_s, rel=1e-8)
    if len(demand_s) <= 4 and switches <= 2:
        assert SCHEDULERS["optimal"](demand_s, switches, delta_s).makespan_s == pytest.approx(expected_s, rel=SOLVER)


def test_is_not_above_the_optimum():
    exact = 0
    for demand_s, switches, delta_s in cases(60, 4, 2, least_ports=3):
        optimum_s = SCHEDULERS["optimal"](demand_s, switches, delta_s).makespan_s
        bound_s = tight_lower_bound_s(demand_s, switches, delta_s)
        assert bound_s <= optimum_s * (1 + SOLVER), (demand_s, switches, delta_s)
        exact += bound_s >= optimum_s * (1 - SOLVER)
    assert exact >= 40  # where it is weaker, a part no longer does its work


@pytest.mark.parametrize("name", sorted(SCHEDULERS.keys() - {"optimal"}))
def test_no_scheduler_is_faster(name):
    for demand_s, switches, delta_s in cases(60, 7, 6):
        makespan_s = SCHEDULERS[name](demand_s, switches, delta_s).makespan_s
        assert makespan_s >= tight_lower_bound_s(demand_s, switches, delta_s) * (1 - 1e-9), (demand_s, switches, delta_s)


@settings(max_examples=200, deadline=None)
@given(demands_bytes(), st.integers(1, 9), st.sampled_from([0.0, 1e-9, 1.0, 300.0, 20_000.0, 1e6]))
def test_is_at_least_the_bound_of_the_paper(demand, switches, delta_s):
    assert tight_lower_bound_s(demand, switches, delta_s) >= lower_bound_s(demand, switches, delta_s)


@pytest.mark.parametrize("workload, hosts, switches, delta_s, ratio", [
    ("gpt", 32, 8, 0.1, 1.09), ("gpt", 32, 2, 0.04, 1.03), ("moe", 64, 4, 0.04, 1.01), ("benchmark", 100, 8, 0.1, 1.12)])
def test_is_well_above_the_bound_of_the_paper_on_workloads(workload, hosts, switches, delta_s, ratio):
    demand_s = generate(workload, hosts, 1)
    assert tight_lower_bound_s(demand_s, switches, delta_s) >= ratio * lower_bound_s(demand_s, switches, delta_s)


def test_no_demand_needs_no_time():
    assert tight_lower_bound_s(np.zeros((4, 4)), 2, 0.5) == 0.0


def test_without_delay_it_is_the_largest_line_shared_out():
    assert tight_lower_bound_s(row(3, 2, 1), 4, 0.0) == pytest.approx(6 / 4)


def test_order_of_hosts_does_not_matter():
    rng = np.random.default_rng(5)
    for demand_s, switches, delta_s in cases(40, 9, 6):
        n = len(demand_s)
        shuffled_s = demand_s[rng.permutation(n)][:, rng.permutation(n)]
        bound_s = tight_lower_bound_s(demand_s, switches, delta_s)
        assert tight_lower_bound_s(shuffled_s, switches, delta_s) == pytest.approx(bound_s, rel=1e-12)
        assert tight_lower_bound_s(shuffled_s.T, switches, delta_s) == pytest.approx(bound_s, rel=1e-12)


@pytest.mark.parametrize("scale", [1e-6, 1 / 3, 7.0, 1e6])
def test_unit_of_time_does_not_matter(scale):
    for demand_s, switches, delta_s in cases(40, 9, 6):
        bound_s = tight_lower_bound_s(demand_s, switches, delta_s)
        assert tight_lower_bound_s(scale * demand_s, switches, scale * delta_s) == pytest.approx(scale * bound_s, rel=1e-8)
