"""Spectra+: a search, from Spectra's schedule on, for shorter ones; the best so far when the time to plan is up.

A search of this project. What it starts from, Spectra, and the model are those of K. Liang, L. Qiao, I. Keslassy, B. Lin,
"Scheduling Parallel Optical Circuit Switches for AI Training", arXiv 2603.07373.
"""

import math
import time
from dataclasses import dataclass

import numpy as np

from controller.scheduling.budget import Budget
from controller.scheduling.candidates import Search
from controller.scheduling.columns import add_extras, exchange, longest_slot_s, split_long
from controller.scheduling.packing import no_shorter_than
from controller.scheduling.schedule import Schedule
from controller.scheduling.slots import move_slots
from controller.scheduling.spectra import assign, decompose, equalize, refine, to_schedule

# What can be left out, in the order in which it is first made use of.
STEPS = ("pack", "refine", "exchange", "cap", "extras", "slots")

PLAN_TIME_S = 0.1  # where no other time is asked for

# Shares of the budget at which the exchange and the extra permutations end at the latest; the rest is for slots.
_EXCHANGE_UNTIL, _EXTRAS_UNTIL = 0.6, 0.9
# In units of the spread: from this δ on an extra permutation hardly pays, and as many as the degree have to do.
_LONG_DELAY = 0.6


@dataclass(frozen=True)
class Found:
    """What a search found.

    Parameters
    ----------
    schedule : Schedule
    stopped : str
        Why it ended: "time" or "steps", which are spent; "bound", since it is so near to the lower bound that no more is
        worth it; "end" of the last step, where some are left out; "too short", where the time was up before Spectra's own
        schedule was made, which is then the result.
    steps : int
        Steps made.
    """

    schedule: Schedule
    stopped: str
    steps: int


def spectra_plus(demand_s, switches, delta_s, *, plan_time_s=PLAN_TIME_S, plan_steps=None, seed=0, without=(), min_slot_s=0.0):
    """Schedule a demand on parallel switches: never longer than Spectra's schedule, and shorter where time allows.

    Parameters
    ----------
    demand_s : array_like, shape (n, n)
        Seconds of link time from input i to output j, zero or more.
    switches : int
        Number s of parallel switches, at least 1.
    delta_s : float
        Reconfiguration delay δ in seconds, zero or more.
    plan_time_s : float
        Seconds to plan, from the call on. Spectra's own schedule is made in any case.
    plan_steps : int, optional
        If given, this many steps are made, whatever the time: the same arguments then give the same schedule.
    seed : int
        Of what is random in the search.
    without : sequence of str
        Steps to leave out, of `STEPS`. Without "pack", the permutations are spread over the switches by Spectra's Schedule
        and Equalize; without "refine", their weights are those of Spectra's Refine.
    min_slot_s : float
        No slot is shorter: shorter weights are raised to it, and none is split into shorter parts. Spectra's schedule, which
        the result is never longer than, is then the one made by the same rule.

    Returns
    -------
    Schedule
        It covers the demand (eq. 3).

    Raises
    ------
    ValueError
        A name in `without` that is no step, or a number that is negative or none.

    Notes
    -----
    A random search: a step takes a linear sum assignment or two, O(n³), and as many small linear programs.
    """
    return search(demand_s, switches, delta_s, plan_time_s=plan_time_s, plan_steps=plan_steps, seed=seed, without=without,
                  min_slot_s=min_slot_s).schedule


def search(demand_s, switches, delta_s, *, plan_time_s=PLAN_TIME_S, plan_steps=None, seed=0, without=(), min_slot_s=0.0):
    """As `spectra_plus`, and says why it ended.

    Returns
    -------
    Found
    """
    start_s = time.perf_counter()
    _check(plan_time_s, plan_steps, without, min_slot_s)
    budget = Budget(start_s, plan_time_s, plan_steps)
    permutations, weights_s = decompose(demand_s)
    weights_s = no_shorter_than(refine(demand_s, permutations, weights_s), min_slot_s)
    plan = equalize(assign(weights_s, switches, delta_s), delta_s, min_slot_s)
    made_s = time.perf_counter()
    plain = to_schedule(demand_s, permutations, plan, delta_s)
    # The best has to be made into a schedule in the end, too, and can have more slots.
    budget.reserve(2 * (time.perf_counter() - made_s))
    if not len(permutations):
        return Found(plain, "bound", 0)
    if budget.share() >= 1:
        return Found(plain, "too short" if plan_steps is None else "steps", 0)
    under_way = Search(demand_s, switches, delta_s, budget, np.random.default_rng(seed), frozenset(without), min_slot_s)
    under_way.offer(permutations, weights_s)
    _improve(under_way, permutations)
    if under_way.done():
        stopped = "bound"
    elif not budget.spent:
        stopped = "end"
    else:
        stopped = "time" if plan_steps is None else "steps"
    return Found(min(plain, under_way.schedule(), key=lambda schedule: schedule.makespan_s), stopped, budget.taken)


def _check(plan_time_s, plan_steps, without, min_slot_s):
    if isinstance(without, str) or set(without) - set(STEPS):
        raise ValueError(f"without is {without!r}: it must be a sequence of steps, which are {', '.join(STEPS)}")
    for name, value in (("plan_time_s", plan_time_s), ("plan_steps", plan_steps), ("min_slot_s", min_slot_s)):
        if value is not None and not 0 <= value < math.inf:
            raise ValueError(f"{name} is {value}: it must be a finite number, zero or more")


def _improve(search, permutations):
    """Run the steps one after the other, until the budget is spent."""
    if not search.allows("weights") or (columns := search.columns(permutations)) is None:
        return
    search.offer(columns.permutations, columns.weights_s)
    excess_s = columns.weights_s.sum() - search.demand.largest_line_s
    search.spread_s = max(excess_s / len(columns.weights_s), 1e-3 * columns.weights_s.mean())
    steps = set(STEPS) - search.without
    if search.delta_s > _LONG_DELAY * search.spread_s:
        columns = _few_permutations(search, columns, steps)
    if "extras" in steps:
        add_extras(search, columns, _EXTRAS_UNTIL)
    if "slots" in steps:
        move_slots(search)


def _few_permutations(search, columns, steps):
    """Get the most out of as many permutations as there are, or out of their copies where they are too long."""
    split = "cap" in steps and (columns.weights_s > longest_slot_s(search, columns)).any()
    if "exchange" in steps:
        columns = exchange(search, columns, _EXCHANGE_UNTIL / 2 if split else _EXCHANGE_UNTIL)
    if split:
        columns = split_long(search, columns)
        if "exchange" in steps:
            columns = exchange(search, columns, _EXCHANGE_UNTIL)
    return columns
