"""The steps of Spectra+ on permutations and their weights, before they are on switches.

A search of this project, from the permutations of K. Liang, L. Qiao, I. Keslassy, B. Lin, "Scheduling Parallel Optical
Circuit Switches for AI Training", arXiv 2603.07373, on. On one switch, k permutations of weights α take Σα + δ·k: this cost
is what the steps bring down, and on parallel switches it is shared out.

Each step takes a `Search` and `Columns` and returns `Columns` that cost no more, and offers the search what it finds.
"""

import numpy as np

from controller.scheduling.exchange import completed, dealt, rounds, sweep
from controller.scheduling.matching import extra, rematched

_MOST_SWEEPS = 300
_SOFTEST, _HARDEST = 0.4, 0.02  # the softness of the first sweep and the last, in units of the spread
_SWEEP_HEAT = 0.02
_FAILS = 3  # extras in a row that do not pay before no more are tried
_REMATCH, _ONE = 0.6, 0.3  # how often permutations are rematched rather than added, and then only one


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
        columns = _with_one_more(search, columns, search.softness_s)
        if columns is None:
            break
        search.offer(columns.permutations, columns.weights_s)
        if columns.cost_s < best.cost_s * (1 - 1e-9):
            best, fails = columns, 0
        else:
            fails += 1
    return best


def rematch(search, columns, until):
    """Match one or two permutations anew, or add one and drop one, and go on with what costs no more, or hardly.

    Parameters
    ----------
    search : Search
    columns : Columns
    until : float
        Share of the budget at which to end.
    """
    best = columns
    while search.allows("rematch", until):
        add = "extras" not in search.without and search.rng.random() > _REMATCH
        found = _added_and_dropped(search, columns) if add else _rematched(search, columns)
        if found is None or not search.accepts(found.cost_s - columns.cost_s):
            continue
        columns = found
        if found.cost_s < search.switches * search.best_s:
            search.offer(found.permutations, found.weights_s)
        if found.cost_s < best.cost_s:
            best = found
    return best


def _rematched(search, columns):
    rng = search.rng
    chosen = rng.permutation(len(columns.weights_s))[:1 if rng.random() < _ONE else 2]
    permutations = rematched(search.demand, columns.permutations, columns.weights_s, chosen,
                             search.softness_s * rng.choice((1, 3)), search.softness_s * rng.choice((1, 3)))
    return None if np.array_equal(permutations, columns.permutations) else search.columns(permutations)


def _added_and_dropped(search, columns):
    """One permutation more; where that costs more, without one of the two of least weight, if that is cheaper."""
    found = _with_one_more(search, columns, search.softness_s * search.rng.choice((0.5, 1, 2, 4)))
    if found is None or found.cost_s <= columns.cost_s:
        return found
    fewer = [search.columns(np.delete(found.permutations, index, axis=0)) for index in np.argsort(found.weights_s)[:2]]
    return min([found, *filter(None, fewer)], key=lambda columns: columns.cost_s)


def _with_one_more(search, columns, softness_s):
    added = extra(search.demand, columns.permutations, columns.weights_s, columns.prices, softness_s)
    return search.columns(np.vstack([columns.permutations, added]))
