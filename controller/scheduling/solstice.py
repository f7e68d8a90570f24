"""Solstice: stuff the demand to equal lines, then slice off the longest matchings first.

H. Liu, M. K. Mukerjee, C. Li, N. Feltman, G. Papen, S. Savage, S. Seshan, G. M. Voelker, D. G. Andersen, M. Kaminsky,
G. Porter, A. C. Snoeren, "Scheduling Techniques for Hybrid Circuit/Packet Networks", CoNEXT 2015.
"""

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import maximum_bipartite_matching

from controller.scheduling.spectra import decompose, largest_line, on_switches, refine

# Slices are cut from whole numbers, so that the lines stay exactly equal: the largest line is about this many units.
_UNITS = 2.0**48


def quick_stuff(demand):
    """Add to a matrix until all lines sum to the largest (QuickStuff): first on its nonzeros, then anywhere.

    Parameters
    ----------
    demand : ndarray of int, shape (n, n)

    Returns
    -------
    ndarray of int, shape (n, n)
    """
    stuffed = demand.copy()
    rows, columns = stuffed.sum(axis=1), stuffed.sum(axis=0)
    full = max(rows.max(), columns.max())
    order = np.argsort(-demand, axis=None, kind="stable")
    wanted = np.count_nonzero(demand)
    for place in np.concatenate([order[:wanted], np.arange(demand.size)]):
        i, j = divmod(int(place), len(demand))
        added = min(full - rows[i], full - columns[j])
        if added > 0:
            stuffed[i, j] += added
            rows[i] += added
            columns[j] += added
    return stuffed


def perfect_matching(allowed):
    """Output of each input in a matching of all inputs along allowed pairs (Hopcroft-Karp), or None if there is none.

    Parameters
    ----------
    allowed : ndarray of bool, shape (n, n)

    Returns
    -------
    ndarray of int, shape (n,), or None
    """
    if not (allowed.any(axis=0).all() and allowed.any(axis=1).all()):
        return None
    outputs = maximum_bipartite_matching(sparse.csr_matrix(allowed), perm_type="column")
    return None if (outputs < 0).any() else outputs


def rest_of(demand_s, permutations, weights_s):
    """Permutations and weights for what others leave of a demand: Decompose and Refine of it.

    Parameters
    ----------
    demand_s : array_like, shape (n, n)
    permutations : sequence of ndarray of int, shape (n,)
    weights_s : sequence of float

    Returns
    -------
    permutations : ndarray of int, shape (k, n)
    weights_s : ndarray, shape (k,)
    """
    rest_s = np.array(demand_s, dtype=float)
    for outputs, weight_s in zip(permutations, weights_s):
        rest_s[np.arange(len(rest_s)), outputs] -= weight_s
    rest_s = np.where(rest_s > 1e-12 * np.asarray(demand_s), rest_s, 0)  # less is rounding
    more, more_s = decompose(rest_s)
    return more, refine(rest_s, more, more_s)


def cover_rest(demand_s, permutations, weights_s):
    """Weighted permutations, and after them those that `rest_of` adds: together they cover the demand."""
    more, more_s = rest_of(demand_s, permutations, weights_s)
    return (np.concatenate([np.array(permutations, dtype=int).reshape(-1, len(demand_s)), more]),
            np.concatenate([np.array(weights_s, dtype=float), more_s]))


def solstice(demand_s, switches, delta_s):
    """Solstice, for circuits alone, and spread over parallel switches by Schedule and Equalize of Spectra.

    Slices are matchings in which every pair has at least a threshold left, each as long as its smallest pair allows;
    where there is none, the threshold is halved (BigSlice).

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
    Departs from the paper, which leaves small entries to a packet switch and has one circuit switch: here slicing ends
    where a slice would be shorter than the reconfiguration delay, and what is left is covered by Decompose and
    Refine of Spectra.
    """
    demand_s = np.asarray(demand_s, dtype=float)
    if not demand_s.any():
        return on_switches(demand_s, np.zeros((0, len(demand_s)), dtype=int), [], switches, delta_s)
    unit_s = largest_line(demand_s) / _UNITS
    rest = quick_stuff(np.ceil(demand_s / unit_s).astype(np.int64))
    rows = np.arange(len(rest))
    permutations, weights_s = [], []
    threshold = 1 << int(rest.max()).bit_length()
    left_s = demand_s.copy()
    while left_s.any() and threshold >= 1 and threshold * 2 * unit_s > delta_s:
        outputs = perfect_matching(rest >= threshold)
        if outputs is None:
            threshold //= 2
            continue
        size = rest[rows, outputs].min()
        if size * unit_s < delta_s:
            break
        rest[rows, outputs] -= size
        left_s[rows, outputs] = np.maximum(0, left_s[rows, outputs] - size * unit_s)
        permutations.append(outputs)
        weights_s.append(size * unit_s)
    return on_switches(demand_s, *cover_rest(demand_s, permutations, weights_s), switches, delta_s)
