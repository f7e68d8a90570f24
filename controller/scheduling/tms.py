"""TMS (Mordia's traffic matrix scheduling): Sinkhorn, then a truncated Birkhoff-von Neumann decomposition.

G. Porter, R. Strong, N. Farrington, A. Forencich, P. Chen-Sun, T. Rosing, Y. Fainman, G. Papen, A. Vahdat, "Integrating
Microsecond Circuit Switching into the Data Center", SIGCOMM 2013.
"""

import numpy as np

from controller.scheduling.solstice import cover_rest, perfect_matching
from controller.scheduling.spectra import largest_line, on_switches

# What an entry without demand is given, as a share of an even one: only a positive matrix can always be scaled.
_FLOOR = 1e-3
_ITERATIONS = 200


def sinkhorn(matrix):
    """Scale rows and columns of a positive matrix in turn until all sum to 1.

    Parameters
    ----------
    matrix : ndarray, shape (n, n)

    Returns
    -------
    ndarray, shape (n, n)
        Doubly stochastic to 1e-9, or as near as a few hundred iterations come.
    """
    matrix = np.array(matrix, dtype=float)
    for _ in range(_ITERATIONS):
        matrix /= matrix.sum(axis=0, keepdims=True)
        rows = matrix.sum(axis=1, keepdims=True)
        matrix /= rows
        if np.abs(rows - 1).max() < 1e-9:
            break
    return matrix


def bottleneck_matching(matrix):
    """The perfect matching whose smallest entry is the largest.

    Parameters
    ----------
    matrix : ndarray, shape (n, n)

    Returns
    -------
    outputs : ndarray of int, shape (n,), or None
        None where the positive entries hold no perfect matching.
    smallest : float
    """
    values = np.unique(matrix[matrix > 0])
    best, low, high = None, 0, len(values) - 1
    while low <= high:
        middle = (low + high) // 2
        outputs = perfect_matching(matrix >= values[middle])
        if outputs is None:
            high = middle - 1
        else:
            best, low = outputs, middle + 1
    if best is None:
        return None, 0.0
    return best, float(matrix[np.arange(len(matrix)), best].min())


def tms(demand_s, switches, delta_s):
    """TMS, one cycle that covers the demand, spread over parallel switches by Schedule and Equalize of Spectra.

    The demand is scaled to a doubly stochastic matrix, and this is taken apart into permutations by largest bottleneck.

    Parameters
    ----------
    demand_s : array_like, shape (n, n)
        Seconds of link time.
    switches : int
    delta_s : float

    Returns
    -------
    Schedule

    Notes
    -----
    Departs from the paper, whose schedule repeats on one switch and leaves the rest to a packet switch. Here a weight
    of 1 is the demand's largest line; the decomposition is truncated where a permutation would be held shorter than
    the reconfiguration delay, and what is left is covered by Decompose and Refine of Spectra. Entries without demand
    are given a thousandth of an even share, since only then can every matrix be scaled.
    """
    demand_s = np.asarray(demand_s, dtype=float)
    permutations, weights_s = [], []
    if demand_s.any():
        n = len(demand_s)
        line_s = largest_line(demand_s)
        rest = sinkhorn(np.maximum(demand_s / line_s, _FLOOR / n))
        left_s = demand_s.copy()
        rows = np.arange(n)
        while left_s.any():
            outputs, weight = bottleneck_matching(rest)
            if outputs is None or weight * line_s < max(delta_s, 1e-9 * line_s):
                break
            rest[rows, outputs] -= weight
            rest[rest < 1e-12] = 0
            left_s[rows, outputs] = np.maximum(0, left_s[rows, outputs] - weight * line_s)
            permutations.append(outputs)
            weights_s.append(weight * line_s)
    return on_switches(demand_s, *cover_rest(demand_s, permutations, weights_s), switches, delta_s)
