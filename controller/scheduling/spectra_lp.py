"""Spectra with its weights from a linear program (arXiv 2603.07373, eq. 5) in place of the greedy Refine."""

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from controller.scheduling.spectra import decompose, on_switches, refine


def lp_weights_s(demand_s, permutations):
    """The weights of least sum with which permutations cover a demand (paper, eq. 5): min Σα, Σ αP ≥ D, α ≥ 0.

    Parameters
    ----------
    demand_s : array_like, shape (n, n)
    permutations : ndarray of int, shape (k, n)
        Together they match every nonzero of the demand.

    Returns
    -------
    ndarray, shape (k,)
        Seconds. The solver's tolerance is made up for by `refine`, so that the demand is covered exactly.
    """
    demand_s = np.asarray(demand_s, dtype=float)
    if not len(permutations):
        return np.zeros(0)
    n = len(demand_s)
    cells = np.arange(n) * n + permutations
    wanted = np.flatnonzero(demand_s)
    scale_s = demand_s.max()
    covers = sparse.csr_matrix((np.ones(cells.size), (cells.ravel(), np.repeat(np.arange(len(cells)), n))),
                               shape=(n * n, len(cells)))[wanted]
    found = linprog(np.ones(len(cells)), A_ub=-covers, b_ub=-demand_s.ravel()[wanted] / scale_s, method="highs")
    if found.status != 0:
        raise RuntimeError(f"the solver found no weights: {found.message}")
    return refine(demand_s, permutations, np.maximum(found.x, 0) * scale_s)


def spectra_lp(demand_s, switches, delta_s):
    """Spectra whose Refine is the LP of eq. 5; Decompose, Schedule and Equalize are those of `spectra`.

    The LP minimises the sum of the weights for the permutations that Decompose found, whatever their number s of
    switches; the paper finds the greedy as good in practice.

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
    permutations, _ = decompose(demand_s)
    return on_switches(demand_s, permutations, lp_weights_s(demand_s, permutations), switches, delta_s)
