"""Spectra(Eclipse): Eclipse in place of Decompose.

S. Bojja Venkatakrishnan, M. Alizadeh, P. Viswanath, "Costly circuits, submodular schedules and approximate
Carathéodory theorems", SIGMETRICS 2016 and Queueing Systems 2018.
"""

import heapq

import numpy as np
from scipy.optimize import linear_sum_assignment

from controller.scheduling.spectra import on_switches

# A duration is taken once no other can be better by more than this share.
_GAP = 5e-3
# For the search, δ is at least this share of the largest entry: a δ of 0 would cut ever smaller slices.
_LEAST_DELTA = 1e-3


def eclipse(demand_s, delta_s):
    """Durations and matchings that greedily carry most demand a second, until all of it is carried.

    Each round takes the duration a and the matching M of the largest Σ min(a, R)·M / (a + δ) for the remaining
    demand R.

    Parameters
    ----------
    demand_s : array_like, shape (n, n)
    delta_s : float

    Returns
    -------
    permutations : ndarray of int, shape (k, n)
    weights_s : ndarray, shape (k,)

    Notes
    -----
    Departs from the paper in three ways. It has no window of time after which the schedule ends and the rest is left to
    a packet switch: rounds go on until nothing remains. In the search δ is at least a thousandth of the largest entry,
    since a δ of 0 would cut ever smaller slices. And the duration is searched for among the entries of R
    not by bisection, as though the quotient had one peak, but by branch and bound: with g(a) the most that a
    matching carries in a, g rises and g(a)/a falls, which bounds the quotient between any two durations tried.
    The result is within 0.5 % of the best quotient: a tighter search gives the same makespans in twice the time.
    """
    rest_s = np.array(demand_s, dtype=float)
    n = len(rest_s)
    rows = np.arange(n)
    permutations, weights_s = [], []
    delta_s = max(delta_s, _LEAST_DELTA * rest_s.max(initial=0))
    while rest_s.any():
        weight_s, outputs = _best(rest_s, delta_s)
        permutations.append(outputs)
        weights_s.append(weight_s)
        rest_s[rows, outputs] = np.maximum(0, rest_s[rows, outputs] - weight_s)
    return np.array(permutations, dtype=int).reshape(-1, n), np.array(weights_s)


def _best(rest_s, delta_s):
    """(duration, outputs of the matching) of the largest quotient."""
    durations_s = np.unique(rest_s[rest_s > 0])
    rows = np.arange(len(rest_s))
    best = (-1.0, None, None)

    def carried_s(index):
        """g of a duration; remembers the best quotient."""
        nonlocal best
        clipped_s = np.minimum(rest_s, durations_s[index])
        _, outputs = linear_sum_assignment(clipped_s, maximize=True)
        sum_s = clipped_s[rows, outputs].sum()
        quotient = sum_s / (durations_s[index] + delta_s)
        if quotient > best[0]:
            best = (quotient, durations_s[index], outputs)
        return sum_s

    def bound(low, low_s, high, high_s):
        """What no quotient between two durations exceeds: there g(a) is at most min(g(high), g(low)·a/low)."""
        peak_s = durations_s[low] * high_s / low_s
        return high_s / (peak_s + delta_s)

    last = len(durations_s) - 1
    first_s, last_s = carried_s(0), carried_s(last)
    open_parts = [(-bound(0, first_s, last, last_s), 0, first_s, last, last_s)]
    while open_parts:
        negative, low, low_s, high, high_s = heapq.heappop(open_parts)
        if -negative <= best[0] * (1 + _GAP):
            break
        if high - low < 2:
            continue
        middle = (low + high) // 2
        middle_s = carried_s(middle)
        for part in ((low, low_s, middle, middle_s), (middle, middle_s, high, high_s)):
            if part[2] - part[0] > 1:
                heapq.heappush(open_parts, (-bound(*part), *part))
    return best[1], best[2]


def spectra_eclipse(demand_s, switches, delta_s):
    """Spectra(Eclipse) of the paper's evaluation: Eclipse decomposes for one switch, Schedule and Equalize spread it.

    Parameters
    ----------
    demand_s : array_like, shape (n, n)
        Seconds of link time.
    switches : int
    delta_s : float

    Returns
    -------
    Schedule
    """
    return on_switches(demand_s, *eclipse(demand_s, delta_s), switches, delta_s)
