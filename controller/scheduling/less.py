"""The paper's Baseline, after LESS: the demand is split for the switches first, and each part scheduled by itself.

S. Liu, H. Xu, S. Singh, UCC 2019; as arXiv 2603.07373, section V, uses it.
"""

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from controller.scheduling.schedule import Schedule
from controller.scheduling.spectra import decompose, refine, to_schedule


def split_s(demand_s, switches):
    """Split a demand into one part for each switch, every line shared out evenly, few entries split.

    Parameters
    ----------
    demand_s : array_like, shape (n, n)
    switches : int

    Returns
    -------
    list of ndarray, shape (n, n)
        The parts add up to the demand.

    Notes
    -----
    The switches are halved again and again; each time a basic solution of the transport problem splits at most one
    entry a line. Of those solutions, which differ widely in what Decompose makes of them, one is taken that deals the
    entries of each line alternately, largest first: it leaves the parts alike.
    """
    demand_s = np.asarray(demand_s, dtype=float)
    if switches == 1:
        return [demand_s]
    few = switches // 2
    share = _share(demand_s, few / switches)
    return split_s(demand_s * share, few) + split_s(demand_s * (1 - share), switches - few)


def _share(demand_s, of_line):
    """What share of each entry goes to the first side, so that a given share of every line does."""
    share = np.zeros(demand_s.shape)
    sources, sinks = np.nonzero(demand_s)
    if not len(sources):
        return share
    n, count = len(demand_s), len(sources)
    sizes = demand_s[sources, sinks] / demand_s.max()
    lines = sparse.vstack([sparse.csr_matrix((sizes, (ends, np.arange(count))), shape=(n, count))
                           for ends in (sources, sinks)])
    # Even ranks (the largest of a line first) are wanted on the first side, odd ones on the second.
    odd = sum((np.argsort(np.argsort(-demand_s, axis=axis, kind="stable"), axis=axis) % 2)[sources, sinks]
              for axis in (0, 1))
    found = linprog(odd, A_eq=lines.tocsr(), b_eq=of_line * np.asarray(lines.sum(axis=1)).ravel(), bounds=(0, 1), method="highs-ds")
    if found.status != 0:
        raise RuntimeError(f"the solver found no even split: {found.message}")
    # The solver is exact to 1e-7: within that, an entry is not split.
    share[sources, sinks] = np.where(found.x < 1e-6, 0, np.where(found.x > 1 - 1e-6, 1, found.x))
    return share


def less(demand_s, switches, delta_s):
    """The paper's Baseline, with few entries split: every line is shared out evenly, most entries go to one switch whole.

    Each switch plays Decompose and Refine of its part; nothing is exchanged between switches. LESS itself splits for
    electrical as well as optical switches; here all are optical.

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
    return _each_alone(demand_s, split_s(demand_s, switches), delta_s)


def less_even(demand_s, switches, delta_s):
    """The paper's Baseline, with every entry split evenly: each switch carries the s-th part of all.

    The published makespan on GPT lies between this and `less`; those on MoE are reached only near this one.

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
    part_s = np.asarray(demand_s, dtype=float) / switches
    return _each_alone(demand_s, [part_s] * switches, delta_s)


def _each_alone(demand_s, parts_s, delta_s):
    """Decompose and Refine of each part, on a switch of its own."""
    permutations, plan = [], []
    for part_s in parts_s:
        found, weights_s = decompose(part_s)
        weights_s = refine(part_s, found, weights_s)
        plan.append([(len(permutations) + index, weight_s) for index, weight_s in enumerate(weights_s)])
        permutations.extend(found)
    return to_schedule(demand_s, permutations, plan, delta_s)
