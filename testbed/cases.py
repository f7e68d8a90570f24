"""One cell of a sweep: a demand scheduled by one scheduler on so many switches at one δ, in fractions of the period."""

import functools
import hashlib
import importlib.metadata
import os
from dataclasses import asdict, dataclass

import numpy as np

from controller.scheduling.bounds import lower_bound_s
from controller.scheduling.registry import SCHEDULERS
from controller.scheduling.spectra import degree
from controller.scheduling.tight_bound import tight_lower_bound_s
from testbed import workloads

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_COMPUTES = ("controller/scheduling", "testbed/workloads.py", "testbed/cases.py")


@dataclass(frozen=True)
class Demand:
    """Where a demand matrix comes from: a workload, generated for a number of hosts, or the numbers of a file.

    Parameters
    ----------
    name : str
        Workload with its parameters, or the file's name without its ending.
    hosts : int
    matrix : ndarray, shape (n, n), optional
        Of a file: fractions of its largest line.
    """

    name: str
    hosts: int
    matrix: np.ndarray | None = None

    def generate(self, seed):
        """The matrix, in fractions of the period."""
        return workloads.generate(self.name, self.hosts, seed) if self.matrix is None else self.matrix

    @functools.cached_property
    def sha256(self):
        """Digest of a file's numbers; empty for a workload, which name, hosts and seed determine."""
        return "" if self.matrix is None else hashlib.sha256(self.matrix.tobytes()).hexdigest()[:16]

    @property
    def parameters(self):
        """Of a workload, by name."""
        return workloads.parse(self.name)[1].resolved(self.hosts).model_dump() if self.matrix is None else {}


@dataclass(frozen=True)
class Case:
    """What distinguishes one row of a sweep's table from all others."""

    demand: str
    hosts: int
    demand_sha256: str
    seed: int
    scheduler: str
    switches: int
    delta_periods: float


def evaluate(demand, seed, cases):
    """Schedule one matrix of a demand in several ways.

    Parameters
    ----------
    demand : Demand
    seed : int
    cases : sequence of Case
        All of this demand and seed.

    Returns
    -------
    list of dict
        For each case the columns that `schema` in `results` names, but for the measured ones; times in periods.
    """
    matrix = demand.generate(seed)
    common = {**demand.parameters, "degree": degree(matrix), "nonzeros": int(np.count_nonzero(matrix))}
    rows = []

    @functools.cache
    def bounds(switches, delta):
        return tuple(bound(matrix, switches, delta) for bound in (lower_bound_s, tight_lower_bound_s))

    for case in cases:
        schedule = SCHEDULERS[case.scheduler](matrix, case.switches, case.delta_periods)
        bound, tight = bounds(case.switches, case.delta_periods)
        rows.append({
            **asdict(case), **common,
            "slots": sum(len(slots) for slots in schedule.switches),
            "lower_bound_periods": bound,
            "tight_lower_bound_periods": tight,
            "makespan_periods": schedule.makespan_s,
            "makespan_over_bound": schedule.makespan_s / bound,
        })
    return rows


def code_version():
    """Digest of the code that computes rows, and of the libraries it stands on: another one may give other figures."""
    digest = hashlib.sha256()
    for path in _COMPUTES:
        path = os.path.join(_ROOT, path)
        files = [path] if path.endswith(".py") else [os.path.join(path, name) for name in sorted(os.listdir(path))
                                                     if name.endswith(".py")]
        for name in files:
            with open(name, "rb") as stream:
                digest.update(stream.read())
    for package in ("numpy", "scipy"):
        digest.update(importlib.metadata.version(package).encode())
    return digest.hexdigest()[:16]
