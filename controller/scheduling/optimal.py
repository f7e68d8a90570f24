"""The shortest schedule of a tiny demand, by mixed-integer programming: what other schedulers are checked against."""

import itertools

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from controller.scheduling.solstice import rest_of
from controller.scheduling.spectra import refine, to_schedule

MAX_PORTS, MAX_SWITCHES = 4, 2


def optimal(demand_s, switches, delta_s):
    """A schedule of least makespan (arXiv 2603.07373, eqs. 3 and 4), for at most 4 ports and 2 switches.

    For each switch and each permutation a weight and whether it is played: minimise the makespan T, with
    Σ_h Σ_P α·P ≥ D, and Σ_P (δ·played + α) ≤ T on every switch. No switch gains by playing a permutation twice, nor
    any permutation longer than the largest entry. Solved by HiGHS.

    Parameters
    ----------
    demand_s : array_like, shape (n, n)
        Seconds of link time.
    switches : int
    delta_s : float

    Returns
    -------
    Schedule
        Its makespan is the least to the solver's tolerance, one part in a million, for entries above that.

    Raises
    ------
    ValueError
        More ports or switches than it can do.
    """
    demand_s = np.asarray(demand_s, dtype=float)
    n = len(demand_s)
    if n > MAX_PORTS or switches > MAX_SWITCHES:
        raise ValueError(f"optimal is exact, and does at most {MAX_PORTS} hosts and {MAX_SWITCHES} switches")
    wanted = np.argwhere(demand_s > 0)
    if not len(wanted):
        return to_schedule(demand_s, [], [[]] * switches, delta_s)
    permutations = _candidates(demand_s > 0)
    scale_s = demand_s.max()
    count = len(permutations)
    carries = np.array([[outputs[i] == j for outputs in permutations] for i, j in wanted], dtype=float)
    # Variables: weights by switch and permutation, then whether each is played, then the makespan.
    some = switches * count
    cover = sparse.hstack([sparse.csr_matrix(np.tile(carries, switches)), sparse.csr_matrix((len(wanted), some + 1))])
    played = sparse.hstack([sparse.identity(some), -sparse.identity(some), sparse.csr_matrix((some, 1))])
    of_switch = sparse.kron(sparse.identity(switches), np.ones((1, count)))
    load = sparse.hstack([of_switch, delta_s / scale_s * of_switch, -np.ones((switches, 1))])
    found = milp(
        np.append(np.zeros(2 * some), 1.0),
        integrality=np.concatenate([np.zeros(some), np.ones(some), [0]]),
        bounds=Bounds(0, np.concatenate([np.ones(2 * some), [np.inf]])),
        constraints=[LinearConstraint(cover.tocsr(), lb=demand_s[tuple(wanted.T)] / scale_s),
                     LinearConstraint(sparse.vstack([played, load]).tocsr(), ub=0)],
        options={"mip_rel_gap": 0})
    if found.status != 0:
        raise RuntimeError(f"the solver found no schedule: {found.message}")
    # To the solver a whole number may be off by 1e-6: what it does not play is dropped, and its tolerance made up for.
    played = np.flatnonzero(found.x[some:2 * some] > 0.5)
    weights_s = refine(demand_s, permutations[played % count], found.x[played] * scale_s)
    plan = [[(int(index) % count, weight_s) for index, weight_s in zip(played, weights_s) if index // count == switch]
            for switch in range(switches)]
    # An entry of less than a millionth of the largest may be nothing to the solver.
    more, more_s = rest_of(demand_s, permutations[played % count], weights_s)
    least = min(range(switches), key=lambda switch: sum(delta_s + weight_s for _, weight_s in plan[switch]))
    plan[least] += [(count + index, weight_s) for index, weight_s in enumerate(more_s)]
    return to_schedule(demand_s, [*permutations, *more], plan, delta_s)


def _candidates(wanted):
    """All permutations but those that serve no more than another one does."""
    rows = np.arange(len(wanted))
    kept = {}
    for outputs in itertools.permutations(rows):
        kept.setdefault(frozenset(rows[wanted[rows, outputs]] * len(rows) + np.array(outputs)[wanted[rows, outputs]]),
                        outputs)
    return np.array([outputs for served, outputs in kept.items() if not any(served < other for other in kept)])
