"""The steps of Spectra+ on permutations and their weights, before they are on switches.

A search of this project, from the permutations of K. Liang, L. Qiao, I. Keslassy, B. Lin, "Scheduling Parallel Optical
Circuit Switches for AI Training", arXiv 2603.07373, on. On one switch, k permutations of weights α take Σα + δ·k: this cost
is what the steps bring down, and on parallel switches it is shared out.

Each step takes a `Search` and `Columns` and returns `Columns` that cost no more, and offers the search what it finds.
"""

import numpy as np

from controller.scheduling.exchange import completed, dealt, rounds, sweep
from controller.scheduling.matching import extra

_MOST_SWEEPS = 300
_SOFTEST, _HARDEST = 0.4, 0.02  # the softness of the first sweep and the last, in units of the spread
_SWEEP_HEAT = 0.02
_FAILS = 3  # extras in a row that do not pay before no more are tried


def longest_slot_s(search, columns):
    """What a slot can be long: δ less than the least makespan at which the slots that it takes fit on the switches.

    With slots of at most T − δ, permutations of weights α take Σ ceil(α/(T − δ)) of them, and at least one on each switch:
    s·T ≥ Σα + δ·max(s, Σ ceil(α/(T − δ))).
    """
    weights_s, delta_s, switches = columns.weights_s, search.delta_s, search.switches
    low_s, high_s = weights_s.sum() / switches + delta_s, weights_s.sum() + delta_s * (len(weights_s) + switches)
    for _ in range(30):
        makespan_s = (low_s + high_s) / 2
        slots = np.ceil(weights_s / (makespan_s - delta_s)).sum()
        if switches * makespan_s >= weights_s.sum() + delta_s * max(switches, slots):
            high_s = makespan_s
        else:
            low_s = makespan_s
    return max(high_s - delta_s, search.min_slot_s)


def split_long(search, columns):
    """Cap: split permutations that are longer than a slot can be into copies, which later steps then change one by one.

    Equalize splits, too, but the parts remain the same permutation.

    Returns
    -------
    Columns
        The same where none is too long; otherwise `search.cap_s` is set.
    """
    cap_s = longest_slot_s(search, columns)
    copies = np.ceil(columns.weights_s / cap_s).astype(int)
    if (copies == 1).all():
        return columns
    search.cap_s = cap_s
    split = search.columns(np.repeat(columns.permutations, copies, axis=0))
    if split is None:
        search.cap_s = np.inf
        return columns
    search.offer(split.permutations, split.weights_s)
    return split


def exchange(search, columns, until):
    """Exchange alternating cycles between the permutations, ever less softly (`controller.scheduling.exchange`).

    Parameters
    ----------
    search : Search
    columns : Columns
    until : float
        Share of the budget at which to end.
    """
    outputs, parts_s = dealt(search.demand, columns.permutations, columns.weights_s)
    pairings = rounds(len(outputs))
    first, sweeps = search.budget.share(), 0
    while sweeps < _MOST_SWEEPS and search.allows("sweep", until):
        progress = max(sweeps / _MOST_SWEEPS, min(1.0, (search.budget.share() - first) / (until - first)))
        softness_s = search.spread_s * _SOFTEST * (_HARDEST / _SOFTEST) ** progress
        sweep(outputs, parts_s, pairings, softness_s, _SWEEP_HEAT * (1 - progress), search.rng)
        sweeps += 1
    if not sweeps:
        return columns
    found = search.columns(completed(search.demand, outputs, parts_s, search.softness_s))
    if found is None or found.cost_s > columns.cost_s:
        return columns
    search.offer(found.permutations, found.weights_s)
    return found


def add_extras(search, columns, until):
    """Add permutations while the weights fall by more than the δ that each costs.

    Parameters
    ----------
    search : Search
    columns : Columns
    until : float
        Share of the budget at which to end.
    """
    best, fails = columns, 0
    while fails < _FAILS and search.allows("extra", until):
        # No weights are less than the largest line.
        if search.demand.largest_line_s + search.delta_s * (len(columns.weights_s) + 1) >= best.cost_s:
            break
        added = extra(search.demand, columns.permutations, columns.weights_s, columns.prices, search.softness_s)
        columns = search.columns(np.vstack([columns.permutations, added]))
        if columns is None:
            break
        search.offer(columns.permutations, columns.weights_s)
        if columns.cost_s < best.cost_s * (1 - 1e-9):
            best, fails = columns, 0
        else:
            fails += 1
    return best
