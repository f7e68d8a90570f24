"""Permutations that fit in with others: matchings on what those leave of a demand, with a soft weighing of what is missing.

A search of this project, for the covers of K. Liang, L. Qiao, I. Keslassy, B. Lin, "Scheduling Parallel Optical Circuit
Switches for AI Training", arXiv 2603.07373, eq. 3.
"""

import numpy as np
from scipy.optimize import linear_sum_assignment

# Exponents of an extra permutation's weights are cut off here.
_STEEPEST = 30.0
# Beyond this many times the softness, twice as much missing is twice as bad, no longer exponentially worse.
_BEND = 8.0


def extra(demand, permutations, weights_s, prices, softness_s):
    """One more permutation, on the entries that keep the weights of the others from being less.

    Parameters
    ----------
    demand : Demand
    permutations : ndarray of int, shape (k, n)
    weights_s : ndarray, shape (k,)
        With which they cover the demand.
    prices : ndarray, shape (N,) or float
        Of each nonzero, as `least_weights` returns them.
    softness_s : float
        An entry counts e times less for every such amount by which it is covered more than it needs. Prices alone would be
        a step of column generation: they are on as few entries as there are permutations, and say nothing of the next ones.

    Returns
    -------
    ndarray of int, shape (n,)
    """
    missing_s = demand.sizes_s - demand.coverage_s(permutations, weights_s)
    return _matched(demand, np.exp(np.minimum(missing_s / softness_s, _STEEPEST)) + prices)


def rematched(demand, permutations, weights_s, chosen, softness_s, slack_s):
    """The permutations with some of them matched anew, one after the other, for the weights that they have.

    Parameters
    ----------
    demand : Demand
    permutations : ndarray of int, shape (k, n)
    weights_s : ndarray, shape (k,)
    chosen : ndarray of int
        Which ones.
    softness_s : float
        What is missing of an entry counts exponentially, e times more for every such amount.
    slack_s : float
        Taken off the weights of all others, so that entries which would keep them from falling count as missing.

    Returns
    -------
    ndarray of int, shape (k, n)
    """
    permutations, lowered_s = permutations.copy(), np.maximum(weights_s - slack_s, 0.0)
    lowered_s[chosen] = 0.0
    for index in sorted(chosen, key=lambda index: -weights_s[index]):
        weight_s = max(weights_s[index], softness_s)
        missing = (demand.sizes_s - demand.coverage_s(permutations, lowered_s)) / softness_s
        permutations[index] = _matched(demand, _badness(missing) - _badness(missing - weight_s / softness_s))
        lowered_s[index] = weight_s
    return permutations


def _badness(missing):
    return np.exp(np.minimum(missing, _BEND)) + np.exp(_BEND) * np.maximum(missing - _BEND, 0.0)


def _matched(demand, worth):
    """Outputs of the matching of largest worth, which is given for each nonzero of the demand."""
    return linear_sum_assignment(demand.spread(worth), maximize=True)[1]
