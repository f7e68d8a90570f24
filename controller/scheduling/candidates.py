"""What the steps of Spectra+ share: candidates for a schedule, which all cover the demand, and the best one so far.

A search of this project, on the model of K. Liang, L. Qiao, I. Keslassy, B. Lin, "Scheduling Parallel Optical Circuit
Switches for AI Training", arXiv 2603.07373.
"""

from dataclasses import dataclass

import numpy as np

from controller.scheduling.bounds import lower_bound_s
from controller.scheduling.packing import makespan_s, no_shorter_than, pack
from controller.scheduling.spectra import assign, equalize, refine, to_schedule
from controller.scheduling.weights import Demand, least_makespan, least_weights

_NEAR_BOUND = 2e-4  # this near to the lower bound, nothing is worth searching for
_NO_WEIGHT = 1e-9  # of the largest entry: a weight below it is none
# The two that follow are in units of the spread.
_SOFTNESS = 0.08  # how far from being needed an entry still counts
_HEAT = 0.02  # what a candidate may be worse by to be gone on with, e times less often for each


@dataclass(frozen=True)
class Columns:
    """Permutations that cover the demand, not yet on switches.

    Parameters
    ----------
    permutations : ndarray of int, shape (k, n)
    weights_s : ndarray, shape (k,)
    prices : ndarray, shape (N,)
        Of the nonzeros of the demand: how much the sum of the weights grows with each.
    cost_s : float
        Σα + δ·k, what they take on one switch.
    """

    permutations: np.ndarray
    weights_s: np.ndarray
    prices: np.ndarray
    cost_s: float


@dataclass(frozen=True)
class Slots:
    """Slots that cover the demand, each on its switch.

    Parameters
    ----------
    permutations : ndarray of int, shape (k, n)
    homes : ndarray of int, shape (k,)
        The switch of each.
    durations_s : ndarray, shape (k,)
    makespan_s : float
        The largest load.
    """

    permutations: np.ndarray
    homes: np.ndarray
    durations_s: np.ndarray
    makespan_s: float


class Search:
    """A search under way.

    Parameters
    ----------
    demand_s : array_like, shape (n, n)
        Seconds of link time.
    switches : int
    delta_s : float
    budget : Budget
    rng : numpy.random.Generator
    without : set of str
        Steps to leave out; "pack" and "refine" are left out here, by taking Spectra's own in their place.
    min_slot_s : float
        No slot is shorter.

    Attributes
    ----------
    spread_s : float
        By how much the weights, of Spectra's permutations, exceed what the largest line of the demand needs, for each
        permutation: the scale on which weights differ from where they could be. All steps measure by it.
    cap_s : float
        No weight is longer; set by the step that splits long ones.
    """

    def __init__(self, demand_s, switches, delta_s, budget, rng, without=frozenset(), min_slot_s=0.0):
        self.demand, self.switches, self.delta_s = Demand(demand_s), switches, delta_s
        self.budget, self.rng, self.without, self.min_slot_s = budget, rng, without, min_slot_s
        self.spread_s, self.cap_s = 0.0, np.inf
        self._good_enough_s = (1 + _NEAR_BOUND) * lower_bound_s(demand_s, switches, delta_s)
        self._best_s, self._permutations, self._plan = np.inf, None, None

    @property
    def best_s(self):
        """The least makespan of what was offered."""
        return self._best_s

    @property
    def softness_s(self):
        """How far from being needed an entry still counts, in seconds."""
        return _SOFTNESS * self.spread_s

    def done(self):
        """Whether nothing is worth searching for any more."""
        return self._best_s <= self._good_enough_s

    def allows(self, kind, until=1.0):
        """Whether one more step of a kind may begin, to end at a share of the budget."""
        return not self.done() and self.budget.allows(kind, until)

    def accepts(self, worse_s):
        """Whether to go on with a candidate that is worse by this much: the later, the less likely."""
        heat_s = _HEAT * self.spread_s * max(0.0, 1 - self.budget.share())
        return worse_s <= heat_s * self.rng.standard_exponential()

    def columns(self, permutations):
        """Permutations with the least weights, those without weight left out; None where they do not cover the demand."""
        greedy = "refine" in self.without
        found = self._refined(permutations) if greedy else least_weights(
            self.demand, permutations, self.min_slot_s, self.cap_s)
        if found is None:
            return None
        weights_s, prices = found
        permutations, weights_s, _ = self._kept(permutations, weights_s)
        return Columns(permutations, weights_s, prices, weights_s.sum() + self.delta_s * len(weights_s))

    def _kept(self, permutations, weights_s, homes=None):
        """The permutations that have weight; all of them, where one without matches entries too small to give it any."""
        least_s = _NO_WEIGHT * self.demand.largest_s
        kept = weights_s > least_s
        if kept.all():
            return permutations, weights_s, homes
        if not self.demand.matched_by(permutations[kept]):
            return permutations, np.maximum(weights_s, least_s), homes
        return permutations[kept], weights_s[kept], None if homes is None else homes[kept]

    def _refined(self, permutations):
        weights_s = refine(self.demand.matrix_s, permutations, np.zeros(len(permutations)))
        weights_s = no_shorter_than(weights_s, self.min_slot_s)
        missing_s = self.demand.sizes_s - self.demand.coverage_s(permutations, weights_s)
        if (missing_s > _NO_WEIGHT * self.demand.largest_s).any() or (weights_s > self.cap_s).any():
            return None
        return weights_s, np.zeros(len(missing_s))

    def slots(self, permutations, homes):
        """Slots with the durations of least makespan, empty ones left out; None where they do not cover the demand."""
        found = least_makespan(self.demand, permutations, homes, self.switches, self.delta_s, self.min_slot_s)
        if found is None:
            return None
        permutations, durations_s, homes = self._kept(permutations, found, homes)
        return Slots(permutations, homes, durations_s, np.bincount(homes, durations_s + self.delta_s, self.switches).max())

    def offer(self, permutations, weights_s):
        """Spread weighted permutations over the switches, and keep that if nothing shorter was offered before."""
        if "pack" in self.without:
            plan = equalize(assign(weights_s, self.switches, self.delta_s), self.delta_s, self.min_slot_s)
        else:
            plan = pack(weights_s, self.switches, self.delta_s, self.min_slot_s)
        self._keep(makespan_s(plan, self.delta_s), permutations, plan)

    def offer_slots(self, slots):
        """Keep slots if nothing shorter was offered before."""
        if slots.makespan_s < self._best_s:
            self._keep(slots.makespan_s, slots.permutations, [
                [(int(index), float(slots.durations_s[index])) for index in np.flatnonzero(slots.homes == switch)]
                for switch in range(self.switches)])

    def _keep(self, length_s, permutations, plan):
        if length_s < self._best_s:
            self._best_s, self._permutations, self._plan = length_s, permutations, plan

    def best_slots(self):
        """The best as slots, their durations by the joint linear program; None where rounding kept that from working."""
        entries = [(index, switch) for switch, entries in enumerate(self._plan) for index, weight_s in entries
                   if weight_s > 0]
        return self.slots(self._permutations[[index for index, _ in entries]], np.array([switch for _, switch in entries]))

    def schedule(self):
        """The best as a `Schedule`; what rounding left uncovered is made up for."""
        places = [index for entries in self._plan for index, _ in entries]
        weights_s = [weight_s for entries in self._plan for _, weight_s in entries]
        refined_s = iter(refine(self.demand.matrix_s, self._permutations[places], weights_s))
        plan = [[(index, next(refined_s)) for index, _ in entries] for entries in self._plan]
        return to_schedule(self.demand.matrix_s, self._permutations, plan, self.delta_s)
