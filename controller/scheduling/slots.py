"""The last step of Spectra+: changes to slots that are on their switches, with durations from a joint linear program.

A search of this project, on the model of K. Liang, L. Qiao, I. Keslassy, B. Lin, "Scheduling Parallel Optical Circuit
Switches for AI Training", arXiv 2603.07373, eqs. 3 and 4.
"""

import numpy as np

from controller.scheduling.matching import extra, rematched


def move_slots(search):
    """Match slots anew, swap, move, add or drop them, and go on with what is no longer, or hardly.

    Parameters
    ----------
    search : Search
        It starts from the best so far, and is offered what is found, until its budget is spent.
    """
    if not search.allows("slots") or (slots := search.best_slots()) is None:
        return
    search.offer_slots(slots)
    moves, odds = zip(*_MOVES.items())
    while search.allows("slots"):
        candidate = moves[search.rng.choice(len(moves), p=odds)](search, slots)
        found = candidate and search.slots(*candidate)
        if found and search.accepts(search.switches * (found.makespan_s - slots.makespan_s)):
            slots = found
            search.offer_slots(slots)


def _rematched(search, slots):
    """One or two slots matched anew."""
    rng, softness_s = search.rng, search.softness_s
    chosen = rng.choice(len(slots.homes), min(len(slots.homes), rng.integers(1, 3)), replace=False, p=_odds(slots))
    permutations = rematched(search.demand, slots.permutations, slots.durations_s, chosen,
                             softness_s * rng.choice((1, 3, 10)), softness_s * rng.choice((0, 1, 3)))
    return None if np.array_equal(permutations, slots.permutations) else (permutations, slots.homes)


def _swapped(search, slots):
    """Two slots of different switches, each on the switch of the other."""
    one, other = search.rng.integers(len(slots.homes), size=2)
    if slots.homes[one] == slots.homes[other]:
        return None
    homes = slots.homes.copy()
    homes[[one, other]] = homes[[other, one]]
    return slots.permutations, homes


def _moved(search, slots):
    """One slot on another switch."""
    one, switch = search.rng.integers(len(slots.homes)), search.rng.integers(search.switches)
    if slots.homes[one] == switch:
        return None
    homes = slots.homes.copy()
    homes[one] = switch
    return slots.permutations, homes


def _added(search, slots):
    """One slot more, on the least loaded switch or on any."""
    rng, softness_s = search.rng, search.softness_s
    loads_s = np.bincount(slots.homes, slots.durations_s + search.delta_s, search.switches)
    switch = loads_s.argmin() if rng.random() < 0.5 else rng.integers(search.switches)
    lowered_s = np.maximum(slots.durations_s - softness_s * rng.choice((0, 1, 3)), 0.0)
    added = extra(search.demand, slots.permutations, lowered_s, 0.0, softness_s * rng.choice((1, 3, 10)))
    return np.vstack([slots.permutations, added]), np.append(slots.homes, switch)


def _dropped(search, slots):
    """One slot less."""
    if len(slots.homes) < 2:
        return None
    one = search.rng.choice(len(slots.homes), p=_odds(slots))
    return np.delete(slots.permutations, one, axis=0), np.delete(slots.homes, one)


def _odds(slots):
    """Short slots are chosen more often."""
    odds = 1 / (slots.durations_s + 0.1 * slots.durations_s.max())
    return odds / odds.sum()


# How often each change is tried.
_MOVES = {_rematched: 0.6, _swapped: 0.15, _moved: 0.05, _added: 0.15, _dropped: 0.05}
