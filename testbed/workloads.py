"""Demand matrices of the evaluation (arXiv 2603.07373, section V), generated for any number of racks.

All are fractions of one period: a line (row or column) of 1 keeps one link busy for the whole period. The diagonal is
zero, since a rack has nothing to send to itself.

The authors' measured GPT and MoE matrices are not public as numbers: `gpt` and `moe` are generated from the same
parallelism layout and routing, and are not the published measurements.
"""

import numpy as np

NOISE = 0.003  # σ on nonzeros, in fractions of the link (section V)


def gpt(hosts, rng):
    """Tensor × pipeline × data parallel training of a GPT model: sparse, strongly skewed, doubly stochastic but for noise.

    Ring all-reduce inside each tensor-parallel group and each data-parallel group, point-to-point activations and
    gradients between neighbouring pipeline stages; then scaled to line sums of 1 (Sinkhorn) with noise on the nonzeros.

    Parameters
    ----------
    hosts : int
        Number n of hosts (GPUs), at least 2.
    rng : numpy.random.Generator

    Returns
    -------
    ndarray, shape (n, n)
    """
    tensor, pipeline, data = gpt_layout(hosts)
    host = np.arange(hosts).reshape(data, pipeline, tensor)
    demand = np.zeros((hosts, hosts))
    _add_rings(demand, np.moveaxis(host, 2, -1), 0.62)
    _add_rings(demand, np.moveaxis(host, 0, -1), 0.26)
    for stage in range(pipeline - 1):
        before, after = host[:, stage].ravel(), host[:, stage + 1].ravel()
        demand[before, after] += 0.12  # activations
        demand[after, before] += 0.12  # gradients
    # A little spread between groups, as measured matrices have; scaling then keeps the line sums at 1.
    demand *= rng.uniform(0.8, 1.2, demand.shape)
    return _with_noise(_doubly_stochastic(demand), rng)


def gpt_layout(hosts):
    """The (tensor, pipeline, data) parallel degrees used for a number of hosts.

    Tensor parallelism first (up to 4 hosts), then a pipeline of up to 4 stages, the rest data parallel; every host has
    at least one neighbour.
    """
    tensor = max(t for t in (1, 2, 4) if hosts % t == 0 and (t < 4 or hosts >= 16))
    groups = hosts // tensor
    pipeline = max(p for p in (1, 2, 4) if groups % p == 0 and (p == 1 or groups // p >= 2))
    return tensor, pipeline, groups // pipeline


def moe(hosts, rng):
    """Expert routing of a mixture-of-experts model: dense, near uniform, mildly skewed by destination, sub-stochastic.

    Each host routes the same number of tokens; a destination's popularity is log-normal (σ = 0.15), the counts
    multinomial; scaled so that the largest line is 1.

    Parameters
    ----------
    hosts : int
        Number n of hosts, one expert on each, at least 2.
    rng : numpy.random.Generator

    Returns
    -------
    ndarray, shape (n, n)
    """
    popularity = rng.lognormal(0.0, 0.15, hosts)
    demand = np.zeros((hosts, hosts))
    for i in range(hosts):
        share = popularity.copy()
        share[i] = 0.0
        demand[i] = rng.multinomial(2048 * hosts, share / share.sum())
    return demand / max(demand.sum(axis=0).max(), demand.sum(axis=1).max())


def benchmark(hosts, rng):
    """The standard benchmark: 16 flows per port, 4 large that share 70 % and 12 small that share 30 %, with noise.

    Each flow is a random permutation without fixed points, so that flows of one pair may add up.

    Parameters
    ----------
    hosts : int
        Number n of hosts, at least 2.
    rng : numpy.random.Generator

    Returns
    -------
    ndarray, shape (n, n)
    """
    demand = np.zeros((hosts, hosts))
    for share in [0.7 / 4] * 4 + [0.3 / 12] * 12:
        demand[np.arange(hosts), _derangement(hosts, rng)] += share
    return _with_noise(demand, rng)


WORKLOADS = {"gpt": gpt, "moe": moe, "benchmark": benchmark}


def generate(name, hosts, seed):
    """The demand matrix of a workload, in fractions of the period.

    Parameters
    ----------
    name : {'gpt', 'moe', 'benchmark'}
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
        Fewer than two hosts.
    """
    if hosts < 2:
        raise ValueError(f"a workload needs at least 2 hosts, not {hosts}")
    return WORKLOADS[name](hosts, np.random.default_rng(seed))


def _add_rings(demand, groups, weight):
    """Add a ring all-reduce along the last axis of `groups`: each member sends to the next."""
    if groups.shape[-1] < 2:
        return
    demand[groups.ravel(), np.roll(groups, -1, axis=-1).ravel()] += weight


def _doubly_stochastic(demand):
    """Scale rows and columns until all sum to 1 (Sinkhorn); the support must allow it."""
    for _ in range(1000):
        demand = demand / demand.sum(axis=0, keepdims=True)
        rows = demand.sum(axis=1, keepdims=True)
        demand = demand / rows
        if np.abs(rows - 1).max() < 1e-12:
            break
    return demand


def _with_noise(demand, rng):
    """Gaussian noise on the nonzeros, which stay positive."""
    noisy = demand + rng.normal(0.0, NOISE, demand.shape)
    return np.where(demand > 0, np.maximum(noisy, NOISE / 10), 0.0)


def _derangement(hosts, rng):
    """A random permutation without fixed points, by rejection (three tries on average)."""
    while True:
        permutation = rng.permutation(hosts)
        if not np.any(permutation == np.arange(hosts)):
            return permutation
