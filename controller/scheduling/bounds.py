"""Lower bounds on the makespan (arXiv 2603.07373, section IV)."""

import numpy as np


def lower_bound_s(demand_s, switches, delta_s):
    """The paper's lower bound on the makespan of any schedule: the largest of LB1 and LB2 over all lines.

    For a line (row or column) with k nonzeros x1 ≥ … ≥ xk of sum w on s switches:

    - LB1 = (w + δ·max(k, s)) / s;
    - LB2, only where k = s: δ + min(x1, max(x2, (w + δ)/s, xs + δ),
      min over 2 ≤ m ≤ s² of max(x_{m+1}, (w + m·δ)/s)), with x = 0 beyond the k-th.

    Parameters
    ----------
    demand_s : array_like, shape (n, n)
        Seconds of link time.
    switches : int
    delta_s : float

    Returns
    -------
    float
        Seconds; 0 where there is no demand.
    """
    demand_s = np.asarray(demand_s, dtype=float)
    lines = np.concatenate([demand_s, demand_s.T])
    lines = -np.sort(-lines, axis=1)
    counts, sums = (lines > 0).sum(axis=1), lines.sum(axis=1)
    if not counts.any():
        return 0.0
    used = counts > 0
    bounds = [(sums[used] + delta_s * np.maximum(counts[used], switches)) / switches]
    full = counts == switches
    if full.any():
        bounds.append(_second_bound(lines[full], sums[full], switches, delta_s))
    return float(max(bound.max() for bound in bounds))


def _second_bound(lines, sums, switches, delta_s):
    """LB2 of lines with exactly s nonzeros, sorted by falling size."""
    x = np.zeros((len(lines), max(switches * switches, lines.shape[1]) + 2))
    x[:, :lines.shape[1]] = lines
    best = np.minimum(x[:, 0], np.maximum.reduce([
        x[:, 1], (sums + delta_s) / switches, x[:, switches - 1] + delta_s]))
    for m in range(2, switches * switches + 1):
        best = np.minimum(best, np.maximum(x[:, m], (sums + m * delta_s) / switches))
    return delta_s + best
