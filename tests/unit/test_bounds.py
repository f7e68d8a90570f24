"""The paper's lower bound, against lines worked out by hand."""

import numpy as np
import pytest

from controller.scheduling.bounds import lower_bound_s
from controller.scheduling.spectra import spectra


def row(*entries, n=6):
    """A demand whose first row has these entries and nothing else."""
    demand_s = np.zeros((n, n))
    demand_s[0, :len(entries)] = entries
    return demand_s


@pytest.mark.parametrize("entries, switches, delta_s, expected_s", [
    # LB1 = (w + δ max(k, s)) / s, where k is not s.
    ((3, 2, 1), 2, 0.5, (6 + 3 * 0.5) / 2),
    ((1,), 4, 0.1, (1 + 4 * 0.1) / 4),
    ((1,), 2, 0.1, (1 + 2 * 0.1) / 2),
    ((2, 1), 1, 0.1, 3 + 2 * 0.1),
    ((4, 4, 1, 0.5), 3, 0.3, (9.5 + 4 * 0.3) / 3),
    # One switch, one entry: both formulas give δ + w.
    ((1,), 1, 0.25, 1.25),
    # LB2, k = s = 2: the smallest term is x1 = 1; LB1 is 1.45.
    ((1, 0.9), 2, 0.5, 0.5 + 1),
    # … it is (w + δ)/s = 2.05; LB1 is 2.1.
    ((3, 1), 2, 0.1, 0.1 + 2.05),
    # … k = s = 3: it is x2 = 1, between (2.9 + 0.08)/3 and (2.9 + 2·0.08)/3; LB1 is 1.047.
    ((1.2, 1, 0.7), 3, 0.08, 0.08 + 1),
    # … k = s = 3: it is xs + δ = 1.2, between (3.3 + 0.2)/3 and (3.3 + 2·0.2)/3; LB1 is 1.3.
    ((1.3, 1, 1), 3, 0.2, 0.2 + 1.2),
    # … k = s = 3: m = 2 gives max(x3, (9 + 2·0.3)/3) = 3.2, below x1 = x2 = 4; LB1 is 3.3.
    ((4, 4, 1), 3, 0.3, 0.3 + 3.2),
    # … k = s = 4: m = 2 gives x3 = 3, so m = 3 is best: max(x4, (9.5 + 3·0.2)/4) = 2.525; LB1 is 2.575.
    ((3, 3, 3, 0.5), 4, 0.2, 0.2 + 2.525),
])
def test_hand_checked_line(entries, switches, delta_s, expected_s):
    demand_s = row(*entries)
    assert lower_bound_s(demand_s, switches, delta_s) == pytest.approx(expected_s, abs=1e-12)
    assert lower_bound_s(demand_s.T, switches, delta_s) == pytest.approx(expected_s, abs=1e-12)


def test_order_within_a_line_does_not_matter():
    assert lower_bound_s(row(1, 4, 4), 3, 0.3) == lower_bound_s(row(4, 4, 1), 3, 0.3)


def test_largest_line_counts():
    demand_s = row(1, 1)
    demand_s[3, 3] = 10
    assert lower_bound_s(demand_s, 2, 0.5) == pytest.approx((10 + 2 * 0.5) / 2)


def test_no_demand_needs_no_time():
    assert lower_bound_s(np.zeros((4, 4)), 2, 0.5) == 0.0


@pytest.mark.parametrize("switches", [1, 2, 3, 4])
def test_spectra_is_never_below_the_bound_where_lines_have_s_entries(switches):
    """Random demands of exactly s permutations, so that LB2 applies to every line."""
    rng = np.random.default_rng(7)
    for _ in range(50):
        demand_s, delta_s = np.zeros((6, 6)), float(rng.choice([0.0, 0.01, 0.3]))
        for shift in range(switches):
            demand_s[np.arange(6), (np.arange(6) + shift) % 6] = rng.random(6) ** 3 + 0.001
        assert lower_bound_s(demand_s, switches, delta_s) <= spectra(demand_s, switches, delta_s).makespan_s + 1e-9
