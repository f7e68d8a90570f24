"""Exchange of alternating cycles between permutations (Kempe chains), so that entries of like size share a permutation.

A search of this project. Spectra's permutations are as many as the degree of the demand, and their weights are set by the
largest entry of each: the sum of the weights falls when large entries are matched in the same permutation.
"""

import numpy as np
from scipy.optimize import linear_sum_assignment

# An exchange that changes less than this is none.
_LEAST_CHANGE = 1e-9
# Exponents are cut off here.
_STEEPEST = 30.0


def dealt(demand, permutations, weights_s):
    """Deal each entry of the demand out to the permutations that match it, the longest first.

    Parameters
    ----------
    demand : Demand
    permutations : ndarray of int, shape (k, n)
    weights_s : ndarray, shape (k,)

    Returns
    -------
    outputs : ndarray of int, shape (k, n)
        The permutations, -1 where nothing was left for a permutation to carry.
    parts_s : ndarray, shape (k, n)
        What each permutation carries for each input.
    """
    rest_s = np.append(demand.sizes_s, 0.0)
    outputs, parts_s = np.full(permutations.shape, -1), np.zeros(permutations.shape)
    for index in np.argsort(-weights_s):
        places = demand.place[demand.rows, permutations[index]]
        parts_s[index] = np.minimum(rest_s[places], weights_s[index])
        rest_s[places] -= parts_s[index]
        outputs[index] = np.where(parts_s[index] > 0, permutations[index], -1)
    return outputs, parts_s


def rounds(count):
    """All pairs of a number of things, in rounds in which each is in one pair at most (a round-robin tournament).

    Returns
    -------
    list of (ndarray, ndarray)
    """
    order = np.arange(count + count % 2)
    result = []
    for _ in range(len(order) - 1):
        half = len(order) // 2
        first, second = order[:half], order[half:][::-1]
        real = np.maximum(first, second) < count
        result.append((first[real], second[real]))
        order = np.concatenate([order[:1], order[-1:], order[1:-1]])
    return result


def sweep(outputs, parts_s, pairings, softness_s, heat, rng):
    """Exchange chains between all pairs of permutations where that lowers the sum of their soft maxima; in place.

    Between two permutations, inputs and outputs fall apart into paths and cycles that alternate between the two; any of
    these may be exchanged. The soft maximum of parts v is b = τ·log Σ exp(v/τ). The sum of exp((v − b)/τ) over all parts,
    with the b from before the exchange, bounds what becomes of Σ b from above; and being a sum over the chains, it lets
    each of them decide for itself.

    Parameters
    ----------
    outputs, parts_s : ndarray, shape (k, n)
        As `dealt` returns them.
    pairings : list of (ndarray, ndarray)
        `rounds(k)`.
    softness_s : float
        τ in seconds.
    heat : float
        What an exchange may add to that sum to be made, e times less often for each; 0 for none that adds.
    rng : numpy.random.Generator
    """
    for first, second in pairings:
        scaled = parts_s / softness_s
        tops = scaled.max(axis=1, keepdims=True)
        shares = np.exp(scaled - tops)
        sums = shares.sum(axis=1, keepdims=True)
        bars = tops + np.log(sums)
        shares /= sums
        change = (np.exp(np.minimum(scaled[first] - bars[second], _STEEPEST)) - shares[first]
                  + np.exp(np.minimum(scaled[second] - bars[first], _STEEPEST)) - shares[second])
        one, other = outputs[first], outputs[second]
        label = chains(one, other)
        change = np.bincount(label.ravel(), change.ravel(), label.size)
        accepted = change < heat * rng.standard_exponential(label.size) - _LEAST_CHANGE
        swapped = accepted[label]
        one_s, other_s = parts_s[first], parts_s[second]
        outputs[first], outputs[second] = np.where(swapped, other, one), np.where(swapped, one, other)
        parts_s[first], parts_s[second] = np.where(swapped, other_s, one_s), np.where(swapped, one_s, other_s)


def chains(first, second):
    """Number the chains that alternate between two partial permutations, for several pairs of them at once.

    Parameters
    ----------
    first, second : ndarray of int, shape (m, n)
        -1 for no output.

    Returns
    -------
    ndarray of int, shape (m, n)
        The number of the chain that each input of each pair is on; below m·n.
    """
    pairs, ports = first.shape
    nodes = np.arange(pairs * ports).reshape(pairs, ports)
    pair = np.arange(pairs)[:, None]
    # Which input the second of a pair connects to an output; one column more takes those that it leaves dark.
    matched = np.full((pairs, ports + 1), -1)
    matched[pair, second] = nodes
    matched[:, -1] = -1
    after = matched[pair, first]
    # Doubling the steps: a path comes to its end, a cycle to one of its own, and its least number has come all around.
    after, label = np.where(after >= 0, after, nodes).ravel(), nodes.ravel()
    for _ in range(ports.bit_length()):
        label = np.minimum(label, label[after])
        after = after[after]
    return label[after].reshape(pairs, ports)


def completed(demand, outputs, parts_s, softness_s):
    """Full permutations from partial ones: free inputs and outputs are matched where the entries come nearest to need it.

    Parameters
    ----------
    demand : Demand
    outputs, parts_s : ndarray, shape (k, n)
        As `dealt` returns them.
    softness_s : float
        How much nearer makes a match e times as good, in seconds.

    Returns
    -------
    ndarray of int, shape (k, n)
    """
    full = outputs.copy()
    tops_s = parts_s.max(axis=1)
    for index, partial in enumerate(outputs):
        inputs = np.flatnonzero(partial < 0)
        if not len(inputs):
            continue
        free = np.setdiff1d(demand.rows, partial)
        worth = np.exp(np.minimum((demand.matrix_s[np.ix_(inputs, free)] - tops_s[index]) / softness_s, 30.0))
        worth[demand.matrix_s[np.ix_(inputs, free)] == 0] = 0.0
        rows, columns = linear_sum_assignment(worth, maximize=True)
        full[index, inputs[rows]] = free[columns]
    return full
