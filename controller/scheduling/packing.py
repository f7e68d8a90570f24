"""Packing weighted permutations on parallel switches: Spectra's Schedule and Equalize with moves and swaps between them.

A search of this project; what it improves on is algorithms 3 and 4 of K. Liang, L. Qiao, I. Keslassy, B. Lin, "Scheduling
Parallel Optical Circuit Switches for AI Training", arXiv 2603.07373.
"""

import numpy as np

from controller.scheduling.spectra import assign, decompose, equalize, refine, to_schedule

# A gain below this share of the load is rounding.
_LEAST_GAIN = 1e-12
# Each step of `descend` lowers the largest load, but many small steps are not worth their time.
_MAX_STEPS = 200


def makespan_s(plan, delta_s):
    """The largest load of a plan, in seconds (paper, eq. 4); a weight of zero is no slot.

    Parameters
    ----------
    plan : list of list of (int, float)
        For each switch, (index of the permutation, weight in seconds).
    delta_s : float
    """
    return max(sum(delta_s + weight_s for _, weight_s in entries if weight_s > 0) for entries in plan)


def pack(weights_s, switches, delta_s, min_slot_s=0.0):
    """Spread weighted permutations over switches: the shorter of two ways (a search of this project).

    One is the paper's, longest first (`assign`), then `equalize`. The other brings the loads nearer to each other between
    the two by moving and swapping whole permutations (`descend`), which costs no reconfiguration, and once more after.

    Parameters
    ----------
    weights_s : sequence of float
        The weight α of each permutation, in seconds.
    switches : int
        Number s of switches.
    delta_s : float
        Reconfiguration delay in seconds.
    min_slot_s : float
        A piece shorter than this is not split off.

    Returns
    -------
    list of list of (int, float)
        For each switch, (index of the permutation, weight in seconds) in the order they are played.
    """
    longest_first = assign(weights_s, switches, delta_s)
    plain = equalize(longest_first, delta_s, min_slot_s)
    better = [[entry for entry in entries if entry[1] > 0] for entries in longest_first]
    better = merged(descend(equalize(descend(better, delta_s), delta_s, min_slot_s), delta_s))
    return min(better, plain, key=lambda plan: makespan_s(plan, delta_s))


def descend(plan, delta_s):
    """Lower the largest load by moving a permutation off its switch, or swapping it for another one, while that helps.

    Parameters
    ----------
    plan : list of list of (int, float)
        It is left as it is.
    delta_s : float
        Reconfiguration delay in seconds.

    Returns
    -------
    list of list of (int, float)

    Notes
    -----
    Of all moves and swaps with the most loaded switch each step takes the one after which the larger of the two loads is
    least. O(K²) a step for K permutations.
    """
    entries = [entry for slots in plan for entry in slots]
    if len(plan) < 2 or not entries:
        return plan
    home = np.repeat(np.arange(len(plan)), [len(slots) for slots in plan])
    # The last one stands for no permutation at all, on any switch: swapped for it, a permutation just moves.
    cost_s = np.array([delta_s + weight_s for _, weight_s in entries])
    loads_s = np.bincount(home, cost_s, len(plan))
    for _ in range(_MAX_STEPS):
        most = int(loads_s.argmax())
        mine, theirs = np.flatnonzero(home == most), np.flatnonzero(home != most)
        partner = np.concatenate([home[theirs], np.arange(len(plan))])
        back_s = np.concatenate([cost_s[theirs], np.zeros(len(plan))])
        given_s = cost_s[mine, None] - back_s
        after_s = np.maximum(loads_s[most] - given_s, loads_s[partner] + given_s)
        after_s[:, partner == most] = np.inf
        place, other = np.unravel_index(after_s.argmin(), after_s.shape)
        if after_s[place, other] >= loads_s[most] * (1 - _LEAST_GAIN):
            break
        home[mine[place]] = partner[other]
        if other < len(theirs):
            home[theirs[other]] = most
        loads_s[most] -= given_s[place, other]
        loads_s[partner[other]] += given_s[place, other]
    return [[entries[place] for place in np.flatnonzero(home == switch)] for switch in range(len(plan))]


def merged(plan):
    """A plan in which no switch plays a permutation twice: one slot for both saves a reconfiguration.

    Parameters
    ----------
    plan : list of list of (int, float)

    Returns
    -------
    list of list of (int, float)
    """
    totals_s = [{} for _ in plan]
    for entries, total_s in zip(plan, totals_s):
        for index, weight_s in entries:
            total_s[index] = total_s.get(index, 0.0) + weight_s
    return [list(total_s.items()) for total_s in totals_s]


def no_shorter_than(weights_s, min_slot_s):
    """The weights with those below the shortest slot raised to it; a weight of zero is no slot and stays.

    Parameters
    ----------
    weights_s : array_like, shape (k,)
    min_slot_s : float

    Returns
    -------
    ndarray, shape (k,)
    """
    return np.where(np.asarray(weights_s) > 0, np.maximum(weights_s, min_slot_s), 0.0)


def spectra_pack(demand_s, switches, delta_s):
    """Spectra with `pack` in place of its last two steps, Schedule and Equalize; never longer than Spectra.

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
    permutations, weights_s = decompose(demand_s)
    plan = pack(refine(demand_s, permutations, weights_s), switches, delta_s)
    return to_schedule(demand_s, permutations, plan, delta_s)
