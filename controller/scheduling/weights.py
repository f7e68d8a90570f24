"""Weights of given permutations by linear programs that are small and many: a dual simplex of their own size.

The programs are those of K. Liang, L. Qiao, I. Keslassy, B. Lin, "Scheduling Parallel Optical Circuit Switches for AI
Training", arXiv 2603.07373, eq. 5 (least sum of weights) and eqs. 3 and 4 (least makespan for slots that are already on
their switches). A search solves thousands of them with a dozen or two of variables each, for which SciPy's interface takes
longer than its solver.
"""

from functools import cached_property

import numpy as np
from scipy import sparse

# Relative to the largest entry of the demand, which the programs are scaled by.
_TOLERANCE = 1e-9
# Programs of more coefficients than this are kept sparse.
_DENSE = 400_000
# For the least makespan: what a second of slots costs beside a second of makespan, so that switches below it do not idle on.
_SLOT_COST = 1e-5


class Demand:
    """A demand matrix by its nonzeros.

    Parameters
    ----------
    demand_s : array_like, shape (n, n)
        Seconds of link time.

    Attributes
    ----------
    matrix_s : ndarray, shape (n, n)
    ports : int
    cells : ndarray of int, shape (N,)
        Flat indices of the nonzeros.
    sizes_s : ndarray, shape (N,)
        What they are.
    place : ndarray of int, shape (n, n)
        Index of each entry among the nonzeros, N where there is no demand.
    """

    def __init__(self, demand_s):
        self.matrix_s = np.asarray(demand_s, dtype=float)
        self.ports = len(self.matrix_s)
        self.cells = np.flatnonzero(self.matrix_s)
        self.sizes_s = self.matrix_s.ravel()[self.cells]
        self.place = np.full(self.matrix_s.shape, len(self.cells))
        self.place.ravel()[self.cells] = np.arange(len(self.cells))

    @cached_property
    def rows(self):
        """Indices of the rows, 0 … n − 1."""
        return np.arange(self.ports)

    @cached_property
    def largest_s(self):
        """The largest entry."""
        return self.sizes_s.max(initial=0.0)

    @cached_property
    def largest_line_s(self):
        """Largest sum of a row or column."""
        return max(self.matrix_s.sum(axis=0).max(initial=0.0), self.matrix_s.sum(axis=1).max(initial=0.0))

    def places(self, permutations):
        """Index among the nonzeros of what each permutation matches: shape (k, n), N for no demand."""
        return self.place[self.rows, permutations]

    def spread(self, values):
        """An n×n matrix with a value for each nonzero, zero elsewhere."""
        matrix = np.zeros(self.ports * self.ports)
        matrix[self.cells] = values
        return matrix.reshape(self.ports, self.ports)

    def matched_by(self, permutations):
        """Whether each nonzero is in one of the permutations at least."""
        return bool(np.bincount(self.places(permutations).ravel(), minlength=len(self.cells) + 1)[:-1].all())

    def coverage_s(self, permutations, weights_s):
        """Seconds that weighted permutations give to each nonzero: shape (N,)."""
        places = self.places(permutations)
        return np.bincount(places.ravel(), np.repeat(weights_s, self.ports), len(self.cells) + 1)[:-1]


def least_weights(demand, permutations, min_slot_s=0.0, cap_s=np.inf):
    """The weights of least sum with which permutations cover a demand (paper, eq. 5).

    Parameters
    ----------
    demand : Demand
    permutations : ndarray of int, shape (k, n)
    min_slot_s, cap_s : float
        Bounds of each weight, in seconds.

    Returns
    -------
    weights_s : ndarray, shape (k,)
    prices : ndarray, shape (N,)
        Of each nonzero: how much the sum grows with it (the dual solution).

    None where there are no such weights, or rounding kept the solver from finding them.
    """
    # To the solver, an entry far below the largest would be none.
    if not demand.matched_by(permutations):
        return None
    count = len(permutations)
    carries, least_s, pinned = _carries(demand, permutations)
    least_s = np.maximum(least_s, min_slot_s)
    scale_s = demand.largest_s
    rows, sides = [carries, np.eye(count)], [demand.sizes_s, least_s]
    if np.isfinite(cap_s):
        rows.append(-np.eye(count))
        sides.append(np.full(count, -cap_s))
    first = len(demand.cells) + np.arange(count)
    found = _dual_simplex(_stacked(rows), np.concatenate(sides) / scale_s, _distinct(count), first, np.eye(count))
    if found is None:
        return None
    weights, active, multipliers = found
    # What a permutation serves alone was made a bound of its weight: the price is that of the largest of these.
    pinned = np.concatenate([np.arange(len(demand.cells)), pinned, np.full(count, len(demand.cells))])
    prices = np.bincount(pinned[active], multipliers, len(demand.cells) + 1)
    return np.maximum(weights * scale_s, least_s), prices[:-1]


def least_makespan(demand, permutations, homes, switches, delta_s, min_slot_s=0.0):
    """The durations of least makespan for slots that are on their switches (paper, eqs. 3 and 4 for given permutations).

    Parameters
    ----------
    demand : Demand
    permutations : ndarray of int, shape (k, n)
        One for each slot.
    homes : ndarray of int, shape (k,)
        The switch of each slot.
    switches : int
    delta_s, min_slot_s : float

    Returns
    -------
    durations_s : ndarray, shape (k,)
        None where there are none, or rounding kept the solver from finding them.
    """
    if not demand.matched_by(permutations):
        return None
    count = len(permutations)
    carries, least_s, _ = _carries(demand, permutations)
    least_s = np.maximum(least_s, min_slot_s)
    scale_s = demand.largest_s
    on_switch = (homes == np.arange(switches)[:, None]).astype(float)
    rows = np.zeros((count + switches, count + 1))
    rows[:count, :count] = np.eye(count)
    rows[count:, :count] = -on_switch
    rows[count:, count] = 1.0
    fixed_s = delta_s * on_switch.sum(axis=1)
    most = int((fixed_s + on_switch @ least_s).argmax())
    bounds = len(demand.cells) + np.arange(count)
    inverse = np.eye(count + 1)
    inverse[count, :count] = on_switch[most]
    costs = np.append(_SLOT_COST * _distinct(count), 1.0)
    found = _dual_simplex(_stacked([_padded(carries), rows]), np.concatenate([demand.sizes_s, least_s, fixed_s]) / scale_s,
                          costs, np.append(bounds, len(demand.cells) + count + most), inverse)
    return None if found is None else np.maximum(found[0][:count] * scale_s, least_s)


def _distinct(count):
    """Costs of 1, each a little different: ties between them would make the simplex method turn in circles."""
    return 1.0 + 1e-7 * np.modf(0.618034 * np.arange(1, count + 1))[0]


def _carries(demand, permutations):
    """(which nonzeros each permutation serves, the largest size it serves alone, and which that is, N for none)."""
    count, wanted = len(permutations), len(demand.cells)
    places = demand.places(permutations)
    owners = np.repeat(np.arange(count), demand.ports)
    times = np.bincount(places.ravel(), minlength=wanted + 1)
    alone = np.append(np.where(times[:-1] == 1, demand.sizes_s, 0.0), 0.0)
    pinned = places[np.arange(count), alone[places].argmax(axis=1)]
    least_s = alone[pinned]
    if wanted * count > _DENSE:
        carries = sparse.csr_matrix((np.ones(owners.size), (places.ravel(), owners)), shape=(wanted + 1, count))[:-1]
    else:
        carries = np.zeros((wanted + 1, count))
        carries[places.ravel(), owners] = 1.0
        carries = carries[:-1]
    return carries, least_s, np.where(least_s > 0, pinned, wanted)


def _padded(carries):
    """The same rows with a column of zeros, for the makespan."""
    if sparse.issparse(carries):
        return sparse.hstack([carries, sparse.csr_matrix((carries.shape[0], 1))], format="csr")
    return np.hstack([carries, np.zeros((len(carries), 1))])


def _stacked(rows):
    if sparse.issparse(rows[0]):
        return sparse.vstack([sparse.csr_matrix(block) for block in rows], format="csr")
    return np.concatenate(rows)


def _dual_simplex(rows, sides, costs, active, inverse):
    """Minimise costs·x subject to rows·x ≥ sides, from a basis of active rows with multipliers that are not negative.

    Parameters
    ----------
    rows : ndarray or sparse matrix, shape (m, k)
    sides : ndarray, shape (m,)
    costs : ndarray, shape (k,)
    active : ndarray of int, shape (k,)
        The rows that hold with equality at the start.
    inverse : ndarray, shape (k, k)
        Inverse of those rows.

    Returns
    -------
    x : ndarray, shape (k,)
    active : ndarray of int, shape (k,)
    multipliers : ndarray, shape (k,)
        Of the active rows.

    None where the rows contradict each other, or rounding took over.

    Notes
    -----
    Each round makes the most violated row active and drops the active one whose multiplier is the first to reach zero.
    About two rounds a variable on demands like those of the evaluation; O(m·k + k²) each.
    """
    active, inverse = active.copy(), inverse.copy()
    x, multipliers = inverse @ sides[active], costs @ inverse
    indptr, indices, data = (rows.indptr, rows.indices, rows.data) if sparse.issparse(rows) else (None, None, None)
    for _ in range(100 + 20 * len(costs)):
        violation = sides - rows @ x
        worst = violation.argmax()
        if violation[worst] <= _TOLERANCE:
            return x, active, multipliers
        if indptr is None:
            shares = rows[worst] @ inverse
        else:
            part = slice(indptr[worst], indptr[worst + 1])
            shares = data[part] @ inverse[indices[part]]
        leaving = np.where(shares > 1e-9, multipliers / np.maximum(shares, 1e-9), np.inf)
        place = leaving.argmin()
        step = leaving[place]
        if step == np.inf:
            return None
        column = inverse[:, place] / shares[place]
        x = x + column * violation[worst]
        multipliers = np.maximum(multipliers - step * shares, 0.0)
        multipliers[place] = step
        inverse -= np.outer(column, shares)
        inverse[:, place] = column
        active[place] = worst
    return None
