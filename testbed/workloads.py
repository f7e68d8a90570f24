"""Demand matrices of the evaluation (arXiv 2603.07373, section V), generated for any number of racks.

All are fractions of one period: a line (row or column) of 1 keeps one link busy for the whole period. The diagonal is
zero, since a rack has nothing to send to itself.

The authors' measured GPT and MoE matrices are not public as numbers: `Gpt` and `Moe` are generated from the same
parallelism layout and routing, and are not the published measurements.
"""

from typing import Annotated, Optional

import numpy as np
import pydantic

from controller.scheduling.spectra import largest_line
from testbed.errors import explain, nearest

_Count = Annotated[int, pydantic.Field(ge=1, le=10**6)]
_Noise = Annotated[float, pydantic.Field(ge=0, le=0.1)]


class Workload(pydantic.BaseModel):
    """Parameters of a generated demand; `matrix` makes it."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def resolved(self, hosts):
        """The same workload with nothing left open for a number of hosts.

        Raises
        ------
        ValueError
            The parameters do not fit the number of hosts.
        """
        raise NotImplementedError

    def matrix(self, hosts, rng):
        """The demand.

        Parameters
        ----------
        hosts : int
            Number n of hosts, at least 2.
        rng : numpy.random.Generator

        Returns
        -------
        ndarray, shape (n, n)
            Fractions of the period.

        Raises
        ------
        ValueError
            The parameters do not fit the number of hosts.
        """
        raise NotImplementedError


class Gpt(Workload):
    """Training step of a GPT model, tensor × pipeline × data parallel: sparse, strongly skewed, doubly stochastic.

    One GPU a host, numbered with the tensor rank fastest, then the pipeline stage, then the data rank. What each GPU
    sends in one step, in 16-bit numbers, with A = sequence · hidden the activations of one micro-batch:

    - tensor: ring all-reduce (2(t−1)/t of the data, to the next of the ring) of A, four times a layer and micro-batch;
    - pipeline: A to the next stage and back for every micro-batch, point to point between equal ranks;
    - data: ring all-reduce of the gradients of its own 12 · layers · hidden² / (tensor · pipeline) parameters.

    The sums of all lines are then made 1 (Sinkhorn), and noise is added to the nonzeros. The model's size by default is
    that of GPT-3 with 2.7 billion parameters (Brown et al. 2020, table 2.1).

    Parameters
    ----------
    tensor, pipeline, data : int, optional
        Degrees of parallelism; their product is the number of hosts. What is left open is chosen by `gpt_layout`.
    layers, hidden, sequence : int
        Of the model.
    microbatches : int
        Micro-batches of one sequence that each data rank works through in a step.
    noise : float
        σ of Gaussian noise on nonzeros, in fractions of the link.
    """

    tensor: Optional[_Count] = None
    pipeline: Optional[_Count] = None
    data: Optional[_Count] = None
    layers: _Count = 32
    hidden: _Count = 2560
    sequence: _Count = 2048
    microbatches: _Count = 8
    noise: _Noise = 0.003

    def resolved(self, hosts):
        """As `Workload.resolved`."""
        tensor, pipeline, data = gpt_layout(hosts, self.tensor, self.pipeline, self.data)
        if tensor == data == 1 and pipeline > 2:
            raise ValueError(f"a pipeline of {pipeline} stages alone cannot be made doubly stochastic; use tensor or data "
                             "parallelism too")
        return self.model_copy(update={"tensor": tensor, "pipeline": pipeline, "data": data})

    def matrix(self, hosts, rng):
        """As `Workload.matrix`."""
        layout = self.resolved(hosts)
        tensor, pipeline, data = layout.tensor, layout.pipeline, layout.data
        activations = self.sequence * self.hidden * self.microbatches
        parameters = 12 * self.layers * self.hidden**2
        host = np.arange(hosts).reshape(data, pipeline, tensor)
        demand = np.zeros((hosts, hosts))
        _add_ring_all_reduce(demand, host, 4 * activations * self.layers / pipeline)
        _add_ring_all_reduce(demand, np.moveaxis(host, 0, -1), parameters / (tensor * pipeline))
        for stage in range(pipeline - 1):
            before, after = host[:, stage].ravel(), host[:, stage + 1].ravel()
            demand[before, after] += activations
            demand[after, before] += activations
        return _with_noise(_doubly_stochastic(demand), self.noise, rng)


def gpt_layout(hosts, tensor=None, pipeline=None, data=None):
    """The (tensor, pipeline, data) parallel degrees for a number of hosts.

    What is left open: tensor parallelism first (up to 4 hosts), then a pipeline of up to 4 stages, the rest data
    parallel; every host has at least one neighbour.

    Raises
    ------
    ValueError
        The degrees given do not make up the hosts.
    """
    given = [degree for degree in (tensor, pipeline, data) if degree]
    rest, too_many = divmod(hosts, int(np.prod(given)))
    if too_many or not rest or (len(given) == 3 and rest != 1):
        raise ValueError(f"tensor × pipeline × data is {' × '.join(str(d or '?') for d in (tensor, pipeline, data))}, which "
                         f"does not make {hosts} hosts")
    if not tensor:
        tensor = rest if len(given) == 2 else max(t for t in (1, 2, 4) if rest % t == 0 and (t < 4 or hosts >= 16))
        rest //= tensor
    if not pipeline:
        pipeline = rest if data else max(p for p in (1, 2, 4) if rest % p == 0 and (p == 1 or rest // p >= 2))
        rest //= pipeline
    return tensor, pipeline, data or rest


class Moe(Workload):
    """Expert routing of a mixture-of-experts model: dense, near uniform, mildly skewed by destination, sub-stochastic.

    Every host sends its tokens to the experts that the router picks for them, k distinct ones a token; hosts hold
    equally many experts. The router prefers some experts: their popularity is log-normal, and the k experts are drawn
    one after the other by popularity. Tokens for experts of their own host stay there. Scaled so that the largest
    line is 1. By default as Qwen2-57B-A14B: 64 experts, 8 a token.

    Parameters
    ----------
    experts : int, optional
        A multiple of the number of hosts; by default the smallest one from 64 on.
    top_k : int
        Experts a token, at most half of all.
    tokens : int
        Tokens a host.
    skew : float
        σ of the logarithm of popularity.
    noise : float
        σ of Gaussian noise on nonzeros, in fractions of the link.
    """

    experts: Optional[_Count] = None
    top_k: _Count = 8
    tokens: _Count = 2048
    skew: Annotated[float, pydantic.Field(ge=0, le=3)] = 0.15
    noise: _Noise = 0.0

    def resolved(self, hosts):
        """As `Workload.resolved`."""
        experts = self.experts or hosts * -(-64 // hosts)
        if experts % hosts:
            raise ValueError(f"experts is {experts}, which is no multiple of {hosts} hosts")
        if self.top_k > experts // 2:
            raise ValueError(f"top_k is {self.top_k}, and at most half of the {experts} experts can be picked")
        return self.model_copy(update={"experts": experts})

    def matrix(self, hosts, rng):
        """As `Workload.matrix`."""
        experts = self.resolved(hosts).experts
        popularity = rng.lognormal(0.0, self.skew, experts)
        demand = np.zeros((hosts, hosts))
        for host in range(hosts):
            picked = _top_k(popularity, self.tokens, self.top_k, rng)
            demand[host] = np.bincount(picked // (experts // hosts), minlength=hosts)
        np.fill_diagonal(demand, 0)
        if not demand.any():
            raise ValueError(f"no token leaves its host: with tokens={self.tokens} and top_k={self.top_k} there are too few")
        return _with_noise(demand / largest_line(demand), self.noise, rng)


def _top_k(popularity, tokens, top_k, rng):
    """The distinct experts of all tokens, drawn one after the other by popularity (Plackett-Luce), in one flat array."""
    edges = np.cumsum(popularity) / popularity.sum()
    edges[-1] = 1.0
    picked = np.searchsorted(edges, rng.random((tokens, top_k)), side="right")
    for turn in range(1, top_k):
        again = np.arange(tokens)
        while (again := again[(picked[again, turn, None] == picked[again, :turn]).any(axis=1)]).size:
            picked[again, turn] = np.searchsorted(edges, rng.random(again.size), side="right")
    return picked.ravel()


class Benchmark(Workload):
    """The standard benchmark: 16 flows a port, 4 large that share 70 % and 12 small that share 30 %, with noise.

    Each flow is a random permutation without fixed points, so that flows of one pair may add up.

    Parameters
    ----------
    flows : int
        Flows a port.
    large : int, optional
        How many of them are large; by default a quarter.
    large_share : float
        What the large ones share of the link.
    noise : float
        σ of Gaussian noise on nonzeros, in fractions of the link.
    """

    flows: _Count = 16
    large: Optional[_Count] = None
    large_share: Annotated[float, pydantic.Field(gt=0, lt=1)] = 0.7
    noise: _Noise = 0.003

    def resolved(self, hosts):
        """As `Workload.resolved`."""
        large = self.large or max(1, self.flows // 4)
        if large > self.flows:
            raise ValueError(f"large is {large}, more than all {self.flows} flows")
        return self.model_copy(update={"large": large})

    def matrix(self, hosts, rng):
        """As `Workload.matrix`."""
        large = self.resolved(hosts).large
        small = self.flows - large
        large_share = self.large_share if small else 1.0
        demand = np.zeros((hosts, hosts))
        for share in [large_share / large] * large + [(1 - large_share) / small for _ in range(small)]:
            demand[np.arange(hosts), _derangement(hosts, rng)] += share
        return _with_noise(demand, self.noise, rng)


WORKLOADS = {"gpt": Gpt, "moe": Moe, "benchmark": Benchmark}


def parse(text):
    """The workload that a text such as `gpt`, or `gpt:tensor=8,noise=0.01`, names.

    Parameters
    ----------
    text : str
        A name of `WORKLOADS`, then the parameters that differ from its defaults.

    Returns
    -------
    name : str
    workload : Workload

    Raises
    ------
    ValueError
        Unknown name or parameter (it tells the nearest), or a value out of range.
    """
    name, _, rest = text.partition(":")
    if name not in WORKLOADS:
        raise ValueError(f"unknown workload {name!r}{nearest(name, WORKLOADS)}")
    kind = WORKLOADS[name]
    values = {}
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        key = key.strip().replace("-", "_")
        if key not in kind.model_fields:
            raise ValueError(f"{name} has no parameter {key!r}{nearest(key, kind.model_fields)}")
        if not equals or key in values:
            raise ValueError(f"parameter {key!r} of {name}: write it once, as {key}=VALUE")
        values[key] = value.strip()
    try:
        return name, kind.model_validate(values)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"parameter {first['loc'][0]!r} of {name}: {explain(first)}") from None


def generate(text, hosts, seed):
    """The demand matrix of a workload, in fractions of the period.

    Parameters
    ----------
    text : str
        As `parse` takes it.
    hosts : int
        At least 2.
    seed : int
        The same seed gives the same matrix.

    Returns
    -------
    ndarray, shape (hosts, hosts)

    Raises
    ------
    ValueError
        Fewer than two hosts, or parameters that are none or do not fit the hosts.
    """
    if hosts < 2:
        raise ValueError(f"a workload needs at least 2 hosts, not {hosts}")
    return parse(text)[1].matrix(hosts, np.random.default_rng(seed))


def _add_ring_all_reduce(demand, groups, size):
    """Add a ring all-reduce of `size` along the last axis of `groups`: each member sends to the next."""
    members = groups.shape[-1]
    if members > 1:
        demand[groups.ravel(), np.roll(groups, -1, axis=-1).ravel()] += 2 * (members - 1) / members * size


def _doubly_stochastic(demand):
    """Scale rows and columns until all sum to 1 (Sinkhorn); the support must allow it."""
    for _ in range(1000):
        demand = demand / demand.sum(axis=0, keepdims=True)
        rows = demand.sum(axis=1, keepdims=True)
        demand = demand / rows
        if np.abs(rows - 1).max() < 1e-12:
            break
    return demand


def _with_noise(demand, noise, rng):
    """Gaussian noise on the nonzeros, which stay positive."""
    noisy = demand + rng.normal(0.0, noise, demand.shape)
    return np.where(demand > 0, np.maximum(noisy, np.minimum(demand, noise / 10)), 0.0)


def _derangement(hosts, rng):
    """A random permutation without fixed points, by rejection (three tries on average)."""
    while True:
        permutation = rng.permutation(hosts)
        if not np.any(permutation == np.arange(hosts)):
            return permutation
