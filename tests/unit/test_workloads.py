"""Generated demands: their form, and that a seed fixes them."""

import numpy as np
import pytest

from controller.scheduling.spectra import degree
from testbed.workloads import NOISE, WORKLOADS, generate, gpt_layout

SIZES = [2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 30, 32, 64, 100]
every_workload = pytest.mark.parametrize("name", sorted(WORKLOADS))


def lines(demand):
    """Sums of all rows and columns."""
    return np.concatenate([demand.sum(axis=0), demand.sum(axis=1)])


@every_workload
@pytest.mark.parametrize("hosts", SIZES)
def test_square_not_negative_and_zero_on_the_diagonal(name, hosts):
    demand = generate(name, hosts, 3)
    assert demand.shape == (hosts, hosts)
    assert np.isfinite(demand).all()
    assert (demand >= 0).all()
    assert not demand.diagonal().any()


@every_workload
@pytest.mark.parametrize("hosts", SIZES)
def test_every_host_sends_and_receives(name, hosts):
    assert (lines(generate(name, hosts, 3)) > 0).all()


@every_workload
def test_same_seed_same_demand(name):
    assert np.array_equal(generate(name, 12, 5), generate(name, 12, 5))


@every_workload
@pytest.mark.parametrize("hosts", [3, 12])
def test_other_seed_other_demand(name, hosts):
    """From 3 hosts on: two hosts have one destination each, and MoE has no noise."""
    assert not np.array_equal(generate(name, hosts, 5), generate(name, hosts, 6))


@every_workload
@pytest.mark.parametrize("hosts", [1, 0])
def test_fewer_than_two_hosts_are_refused(name, hosts):
    with pytest.raises(ValueError, match=f"at least 2 hosts, not {hosts}"):
        generate(name, hosts, 0)


@pytest.mark.parametrize("hosts", SIZES)
def test_gpt_lines_are_one_but_for_noise(hosts):
    """A line is the sum of at most four entries, each with noise of its own."""
    assert np.abs(lines(generate("gpt", hosts, 1)) - 1).max() < 5 * NOISE * 2


@pytest.mark.parametrize("hosts", SIZES)
def test_gpt_has_low_degree(hosts):
    """One entry a tensor ring, one a data ring, one for each neighbouring stage."""
    assert degree(generate("gpt", hosts, 1)) <= 4


def test_gpt_is_skewed():
    demand = generate("gpt", 32, 1)
    assert demand.max() > 4 * demand[demand > 0].min()


@pytest.mark.parametrize("hosts, layout", [
    (2, (2, 1, 1)), (3, (1, 1, 3)), (4, (2, 1, 2)), (8, (2, 2, 2)), (16, (4, 2, 2)), (32, (4, 4, 2)), (64, (4, 4, 4))])
def test_gpt_layout(hosts, layout):
    assert gpt_layout(hosts) == layout


@pytest.mark.parametrize("hosts", SIZES)
def test_moe_largest_line_is_exactly_one(hosts):
    assert lines(generate("moe", hosts, 1)).max() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("hosts", SIZES)
def test_moe_is_dense_off_the_diagonal(hosts):
    assert np.count_nonzero(generate("moe", hosts, 1)) == hosts * (hosts - 1)


def test_moe_hosts_send_alike_and_receive_unlike():
    demand = generate("moe", 64, 1)
    assert np.ptp(demand.sum(axis=1)) < 1e-12
    assert np.ptp(demand.sum(axis=0)) > 0.1


def test_benchmark_lines_are_one_but_for_noise():
    """Sixteen entries a line, each with noise of its own."""
    assert np.abs(lines(generate("benchmark", 100, 1)) - 1).max() < 5 * NOISE * 4


def test_benchmark_has_sixteen_flows_a_port():
    demand = generate("benchmark", 100, 1)
    assert degree(demand) <= 16
    assert np.count_nonzero(demand) > 14 * 100  # flows of one pair that add up are few


def test_benchmark_large_flows_share_seventy_percent():
    """Flows of 0.175 and 0.025; a small one adds to the share of the large only where it is of the same pair."""
    demand = generate("benchmark", 100, 1)
    large = demand > 0.1
    assert 3.5 * 100 < np.count_nonzero(large) <= 4 * 100
    assert demand[large].sum() / demand.sum() == pytest.approx(0.71, abs=0.02)
    assert np.median(demand[large]) == pytest.approx(0.7 / 4, abs=NOISE)
    assert np.median(demand[(demand > 0) & ~large]) == pytest.approx(0.3 / 12, abs=NOISE)
