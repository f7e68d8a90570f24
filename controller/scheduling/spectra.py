"""Spectra: Decompose, Refine, Schedule, Equalize.

K. Liang, L. Qiao, I. Keslassy, B. Lin, "Scheduling Parallel Optical Circuit Switches for AI Training",
arXiv 2603.07373, section III. The four steps are separate functions; `spectra` runs them all.
"""

import numpy as np
from scipy.optimize import linear_sum_assignment

from controller.scheduling.schedule import Schedule, Slot


def largest_line(matrix):
    """The largest sum of any row or column.

    Parameters
    ----------
    matrix : ndarray, shape (n, n)
        At least one line.
    """
    return max(matrix.sum(axis=0).max(), matrix.sum(axis=1).max())


def degree(matrix):
    """Degree of a matrix: the largest number of nonzeros in any row or column (paper, section III).

    Parameters
    ----------
    matrix : array_like, shape (n, n)

    Returns
    -------
    int
    """
    support = np.asarray(matrix) != 0
    if not support.size:
        return 0
    return int(largest_line(support))


def decompose(demand_s):
    """Decompose (paper, algorithm 1): exactly degree-many permutations that cover the support of the demand.

    Parameters
    ----------
    demand_s : array_like, shape (n, n)
        Seconds of link time, zero or more.

    Returns
    -------
    permutations : ndarray of int, shape (k, n)
        k is the degree of the demand; all are full permutations, entries without demand included.
    weights_s : ndarray, shape (k,)
        The weight α of each, as algorithm 1 leaves it: often 0, to be raised by `refine`.

    Notes
    -----
    Each round takes the matching of largest remaining weight among those that match every critical line at an
    uncovered entry, and k rounds cover all (König). One linear sum assignment each: O(k·n³) in all.
    """
    rest_s = np.array(demand_s, dtype=float)
    n = len(rest_s)
    uncovered = rest_s > 0
    rows = np.arange(n)
    permutations, weights_s = [], []
    row_count, column_count = uncovered.sum(axis=1), uncovered.sum(axis=0)
    while (k := max(row_count.max(initial=0), column_count.max(initial=0))) > 0:
        # A bonus above the weight of any matching makes covering the critical lines come first.
        bonus = 1.01 * rest_s.max(axis=1).sum()
        critical = (row_count == k).astype(float)[:, None] + (column_count == k).astype(float)[None, :]
        _, outputs = linear_sum_assignment(rest_s + uncovered * (bonus * critical), maximize=True)
        weight_s = rest_s[rows, outputs].min()
        rest_s[rows, outputs] -= weight_s
        newly = uncovered[rows, outputs]
        row_count -= newly
        column_count[outputs] -= newly
        uncovered[rows, outputs] = False
        permutations.append(outputs)
        weights_s.append(weight_s)
    return np.array(permutations, dtype=int).reshape(-1, n), np.array(weights_s)


def refine(demand_s, permutations, weights_s):
    """Refine (paper, algorithm 2): raise the weights, greedily and in the order given, until the demand is covered.

    Parameters
    ----------
    demand_s : array_like, shape (n, n)
    permutations : ndarray of int, shape (k, n)
    weights_s : ndarray, shape (k,)

    Returns
    -------
    ndarray, shape (k,)
        The new weights, in seconds.
    """
    rest_s = np.array(demand_s, dtype=float)
    rows = np.arange(len(rest_s))
    for outputs, weight_s in zip(permutations, weights_s):
        rest_s[rows, outputs] -= weight_s
    np.maximum(rest_s, 0, out=rest_s)
    refined_s = np.array(weights_s, dtype=float)
    for index, outputs in enumerate(permutations):
        missing_s = rest_s[rows, outputs]
        raise_s = missing_s.max(initial=0)
        refined_s[index] += raise_s
        rest_s[rows, outputs] = np.maximum(0, missing_s - raise_s)
    return refined_s


def assign(weights_s, switches, delta_s):
    """Schedule (paper, algorithm 3): longest processing time first.

    Parameters
    ----------
    weights_s : sequence of float
        The weight α of each permutation, in seconds.
    switches : int
        Number s of switches.
    delta_s : float
        Reconfiguration delay in seconds.

    Returns
    -------
    list of list of (int, float)
        For each switch, (index of the permutation, weight in seconds) in the order they are played.
    """
    plan = [[] for _ in range(switches)]
    loads_s = [0.0] * switches
    for index in sorted(range(len(weights_s)), key=lambda index: -weights_s[index]):
        least = min(range(switches), key=loads_s.__getitem__)
        plan[least].append((index, float(weights_s[index])))
        loads_s[least] += delta_s + weights_s[index]
    return plan


def equalize(plan, delta_s, min_slot_s=0.0):
    """Equalize (paper, algorithm 4): move weight from the most to the least loaded switch while that pays.

    Parameters
    ----------
    plan : list of list of (int, float)
        As `assign` returns it; it is left as it is.
    delta_s : float
        Reconfiguration delay in seconds.
    min_slot_s : float
        No weight is split into parts of which one is shorter; not in the paper, where it is 0.

    Returns
    -------
    list of list of (int, float)
    """
    plan = [list(entries) for entries in plan]
    loads_s = [sum(delta_s + weight_s for _, weight_s in entries) for entries in plan]
    while True:
        most = max(range(len(plan)), key=loads_s.__getitem__)
        least = min(range(len(plan)), key=loads_s.__getitem__)
        if not plan[most] or loads_s[most] - loads_s[least] <= delta_s:
            return plan
        target_s = (loads_s[most] + loads_s[least] + delta_s) / 2
        moved_s = loads_s[most] - target_s
        place = max(range(len(plan[most])), key=lambda place: plan[most][place][1])
        index, weight_s = plan[most][place]
        # Rounding can leave nothing to move although the loads still differ by more than δ = 0.
        if not 0 < moved_s < weight_s or weight_s - moved_s == weight_s or min(moved_s, weight_s - moved_s) < min_slot_s:
            return plan
        plan[most][place] = (index, weight_s - moved_s)
        plan[least].append((index, moved_s))
        loads_s[most] = loads_s[least] = target_s


def to_schedule(demand_s, permutations, plan, delta_s):
    """The `Schedule` that plays a plan; entries that carry no demand are dark.

    Parameters
    ----------
    demand_s : array_like, shape (n, n)
    permutations : ndarray of int, shape (k, n)
    plan : list of list of (int, float)
        As `assign` and `equalize` return it; weights of zero are left out.
    delta_s : float

    Returns
    -------
    Schedule
    """
    wanted = np.asarray(demand_s) > 0
    rows = np.arange(len(wanted))
    masked = [tuple(np.where(wanted[rows, outputs], outputs, -1).tolist()) for outputs in permutations]
    return Schedule(float(delta_s), tuple(
        tuple(Slot(masked[index], float(weight_s)) for index, weight_s in entries if weight_s > 0)
        for entries in plan))


def on_switches(demand_s, permutations, weights_s, switches, delta_s):
    """Spread weighted permutations, found for one switch, over parallel ones: Schedule, then Equalize.

    Parameters
    ----------
    demand_s : array_like, shape (n, n)
    permutations : ndarray of int, shape (k, n)
    weights_s : ndarray, shape (k,)
    switches : int
    delta_s : float

    Returns
    -------
    Schedule
    """
    return to_schedule(demand_s, permutations, equalize(assign(weights_s, switches, delta_s), delta_s), delta_s)


def spectra(demand_s, switches, delta_s):
    """Schedule a demand on parallel switches with Spectra (paper, section III).

    Parameters
    ----------
    demand_s : array_like, shape (n, n)
        Seconds of link time from input i to output j, zero or more.
    switches : int
        Number s of parallel switches, at least 1.
    delta_s : float
        Reconfiguration delay δ in seconds, zero or more.

    Returns
    -------
    Schedule
        It covers the demand (eq. 3).

    Notes
    -----
    O(k·n³) for a demand of degree k, nearly all of it in the assignments of Decompose.
    """
    permutations, weights_s = decompose(demand_s)
    return on_switches(demand_s, permutations, refine(demand_s, permutations, weights_s), switches, delta_s)


def spectra_no_equalize(demand_s, switches, delta_s):
    """Spectra without its last step, Equalize: for the comparison of the paper's figure 7. Otherwise as `spectra`."""
    permutations, weights_s = decompose(demand_s)
    plan = assign(refine(demand_s, permutations, weights_s), switches, delta_s)
    return to_schedule(demand_s, permutations, plan, delta_s)
