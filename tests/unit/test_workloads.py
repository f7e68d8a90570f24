"""Generated demands: their form, and that a seed fixes them."""

import numpy as np
import pytest

from controller.scheduling.spectra import degree
from testbed import workloads
from testbed.workloads import WORKLOADS, _top_k, generate, gpt_layout, parse

NOISE = 0.003

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
def test_gpt_without_noise_is_doubly_stochastic(hosts):
    assert np.abs(lines(generate("gpt:noise=0", hosts, 1)) - 1).max() < 1e-9


@pytest.mark.parametrize("hosts", SIZES)
def test_gpt_has_low_degree(hosts):
    """One entry a tensor ring, one a data ring, one for each neighbouring stage."""
    assert degree(generate("gpt", hosts, 1)) <= 4


def test_gpt_is_skewed():
    demand = generate("gpt", 32, 1)
    assert demand.max() > 0.8
    assert demand.max() > 20 * demand[demand > 0].min()


def test_gpt_sends_what_its_collectives_do():
    """2 × 2 × 2, worked out by hand in numbers of 16 bits, then scaled: all lines have the same three entries.

    A = 10 · 4 · 3 = 120 for all micro-batches. Tensor: 2 · 1/2 · 4 · 120 · 6 layers / 2 stages = 1440. Pipeline: 120.
    Data: 2 · 1/2 · 12 · 6 · 16 / 4 = 288.
    """
    text = "gpt:tensor=2,pipeline=2,data=2,layers=6,hidden=4,sequence=10,microbatches=3,noise=0"
    demand = generate(text, 8, 0)
    line = 1440 + 120 + 288
    assert demand[0, 1] == pytest.approx(1440 / line)  # the other tensor rank
    assert demand[0, 2] == pytest.approx(120 / line)  # the next stage
    assert demand[2, 0] == pytest.approx(120 / line)  # and back
    assert demand[0, 4] == pytest.approx(288 / line)  # the other data rank
    assert np.count_nonzero(demand) == 8 * 3


@pytest.mark.parametrize("text, hosts, expected", [
    # A = 2 · 2. Tensor: 3/2 · 4 · 4 = 24 to the next of four; data: 12 · 4 / 4 = 12.
    ("gpt:tensor=4,pipeline=1,data=2,layers=1,hidden=2,sequence=2,microbatches=1", 8,
     {(0, 1): 24 / 36, (3, 0): 24 / 36, (5, 6): 24 / 36, (0, 4): 12 / 36, (4, 0): 12 / 36}),
    # A = 2. Tensor: 4 · 2 = 8; data: 3/2 · 12 · 4 / 2 = 36 to the next of four.
    ("gpt:tensor=2,pipeline=1,data=4,layers=1,hidden=2,sequence=1,microbatches=1", 8,
     {(0, 1): 8 / 44, (1, 0): 8 / 44, (0, 2): 36 / 44, (3, 5): 36 / 44, (6, 0): 36 / 44}),
    # A = 3 · 2 = 6, data: 12 / 3 = 4. Three stages have lines of 10, 16 and 10, which are scaled to 1: with a on all
    # pairs of stages, the data are 1 − a and 1 − 2a, and (1 − a)(1 − 2a) / a² = 4² / 6², so that a = 3/7.
    ("gpt:tensor=1,pipeline=3,data=2,layers=1,hidden=1,sequence=3,microbatches=2", 6,
     {(0, 1): 3 / 7, (1, 2): 3 / 7, (1, 0): 3 / 7, (5, 4): 3 / 7, (0, 3): 4 / 7, (4, 1): 1 / 7, (5, 2): 4 / 7}),
])
def test_gpt_worked_out_by_hand(text, hosts, expected):
    demand = generate(f"{text},noise=0", hosts, 0)
    assert {pair: demand[pair] for pair in expected} == pytest.approx(expected, rel=1e-9)


def test_gpt_has_the_pairs_of_its_layout_and_no_others():
    """32 hosts in 4 × 4 × 2: rings of four and of two, and three boundaries of eight pairs, both ways."""
    demand = generate("gpt", 32, 1)
    assert np.count_nonzero(demand) == 32 + 32 + 3 * 8 * 2
    ring = [(0, 1), (1, 2), (2, 3), (3, 0)]
    assert {(int(i), int(j)) for i, j in np.argwhere(demand[:4, :4])} == set(ring)
    assert np.flatnonzero(demand[5]).tolist() == [1, 6, 9, 21]  # stage before, tensor, stage after, data


@pytest.mark.parametrize("hosts, layout", [
    (2, (2, 1, 1)), (3, (1, 1, 3)), (4, (2, 1, 2)), (8, (2, 2, 2)), (16, (4, 2, 2)), (32, (4, 4, 2)), (64, (4, 4, 4))])
def test_gpt_layout(hosts, layout):
    assert gpt_layout(hosts) == layout


@pytest.mark.parametrize("given, layout", [
    ({"tensor": 8}, (8, 4, 2)), ({"data": 64}, (1, 1, 64)), ({"pipeline": 8}, (4, 8, 2)),
    ({"tensor": 2, "data": 4}, (2, 8, 4)), ({"pipeline": 2, "data": 2}, (16, 2, 2)),
    ({"tensor": 4, "pipeline": 4, "data": 4}, (4, 4, 4))])
def test_gpt_layout_fills_what_is_left_open(given, layout):
    assert gpt_layout(64, **given) == layout


@pytest.mark.parametrize("given", [{"tensor": 3}, {"tensor": 4, "pipeline": 4, "data": 4}, {"data": 64}])
def test_gpt_layout_that_does_not_make_the_hosts_is_refused(given):
    with pytest.raises(ValueError, match="does not make 32 hosts"):
        gpt_layout(32, **given)


def test_tensor_ranks_are_neighbours():
    demand = generate("gpt:tensor=8", 32, 0)
    assert demand[6, 7] > 0.7 and demand[7, 0] > 0.7


@pytest.mark.parametrize("hosts", SIZES)
def test_moe_largest_line_is_exactly_one(hosts):
    assert lines(generate("moe", hosts, 1)).max() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("hosts", SIZES)
def test_moe_is_dense_off_the_diagonal(hosts):
    assert np.count_nonzero(generate("moe", hosts, 1)) == hosts * (hosts - 1)


def test_moe_hosts_send_nearly_alike_and_receive_unlike():
    demand = generate("moe", 64, 1)
    assert np.ptp(demand.sum(axis=1)) < 0.02
    assert np.ptp(demand.sum(axis=0)) > 0.1


def test_moe_skew_is_that_of_the_destinations():
    spread = [generate(f"moe:skew={skew},tokens=4096", 64, 1).sum(axis=0).std() for skew in (0, 0.1, 0.5)]
    assert spread[0] < 0.01 < spread[1] < spread[2]


def test_moe_is_sub_stochastic():
    assert lines(generate("moe:skew=0.5", 64, 1)).mean() < 0.6


def test_moe_counts_tokens_by_the_host_of_the_expert_but_its_own(monkeypatch):
    """Experts 0 and 1 are on host 0, 2 and 3 on host 1, 4 and 5 on host 2."""
    picked = iter(np.array([[0, 1, 2, 4, 5, 5], [0, 1, 1, 2, 3, 4], [4, 4, 4, 5, 5, 0]]))
    monkeypatch.setattr(workloads, "_top_k", lambda popularity, tokens, top_k, rng: next(picked))
    demand = generate("moe:experts=6,top_k=2,tokens=3", 3, 1)
    assert demand == pytest.approx(np.array([[0, 1, 3], [3, 0, 1], [1, 0, 0]]) / 4)


def test_moe_is_mildly_skewed_and_the_same_for_all_senders():
    """The columns differ by popularity; within one there is only the chance of each sender."""
    demand = generate("moe:tokens=20000", 64, 1)
    columns = demand.sum(axis=0) / 63
    off_diagonal = ~np.eye(64, dtype=bool)
    assert 0.1 < columns.std() / columns.mean() < 0.2
    assert (np.abs(demand - columns)[off_diagonal] / columns.mean()).mean() < 0.03


def test_experts_by_default_are_a_multiple_of_the_hosts_from_64_on():
    assert [parse("moe")[1].resolved(hosts).experts for hosts in (2, 12, 64, 65, 100)] == [64, 72, 64, 65, 100]


@pytest.mark.parametrize("text, complaint", [("moe:experts=12", "no multiple of 8"), ("moe:top_k=40", "at most half"),
                                             ("benchmark:large=17", "more than all 16")])
def test_parameters_that_do_not_fit_are_refused(text, complaint):
    with pytest.raises(ValueError, match=complaint):
        generate(text, 8, 0)


def test_experts_of_a_token_are_distinct():
    picked = _top_k(np.random.default_rng(0).lognormal(0, 2, 16), 500, 8, np.random.default_rng(1)).reshape(500, 8)
    assert all(len(set(token)) == 8 for token in picked.tolist())


def test_experts_are_picked_by_popularity():
    popularity = np.array([1.0, 2.0, 5.0, 2.0])
    first = np.bincount(_top_k(popularity, 20_000, 1, np.random.default_rng(1)), minlength=4) / 20_000
    assert np.allclose(first, popularity / popularity.sum(), atol=0.02)
    # Of two: the rarest is first in 1 of 10, and second by what the first leaves.
    both = np.bincount(_top_k(popularity, 20_000, 2, np.random.default_rng(1)), minlength=4) / 20_000
    assert both[0] == pytest.approx(0.1 + 0.2 / 8 + 0.5 / 5 + 0.2 / 8, abs=0.02)


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


@pytest.mark.parametrize("flows", [4, 8, 32])
def test_benchmark_flows(flows):
    demand = generate(f"benchmark:flows={flows},noise=0", 100, 1)
    assert np.allclose(lines(demand), 1)
    assert 0.8 * flows < np.count_nonzero(demand) / 100 <= flows


@pytest.mark.parametrize("text, sizes", [
    ("benchmark:flows=1,noise=0", [1.0]),
    ("benchmark:flows=4,large=4,large_share=0.2,noise=0", [0.25, 0.5]),
    ("benchmark:flows=3,large=1,large-share=0.5,noise=0", [0.25, 0.5])])
def test_benchmark_shares_the_whole_link(text, sizes):
    demand = generate(text, 50, 1)
    assert np.allclose(lines(demand), 1)
    found = demand[demand > 0].round(9)
    assert all((found == size).any() for size in sizes)
    assert found.min() == sizes[0]


def test_benchmark_large_share():
    demand = generate("benchmark:large=2,large_share=0.9,noise=0", 100, 1)
    assert np.median(demand[demand > 0.2]) == pytest.approx(0.45)


def test_noise_is_that_on_nonzeros():
    quiet, noisy = (generate(f"benchmark:noise={noise}", 100, 1) for noise in (0, 0.01))
    assert np.array_equal(quiet > 0, noisy > 0)
    assert (noisy - quiet)[quiet > 0].std() == pytest.approx(0.01, rel=0.15)


def test_parse_takes_parameters_in_any_order():
    assert parse("benchmark:noise=0.01, flows=8") == ("benchmark", WORKLOADS["benchmark"](flows=8, noise=0.01))
    assert parse("moe") == ("moe", WORKLOADS["moe"]())


def test_noise_leaves_small_demands_positive():
    demand = generate("benchmark:flows=100,noise=0.1", 100, 1)
    assert np.array_equal(demand > 0, generate("benchmark:flows=100,noise=0", 100, 1) > 0)


@pytest.mark.parametrize("text", ["gpt:", "gpt:,", "gpt: tensor = 4 ", "gpt:tensor=4,"])
def test_parse_forgives_blanks_and_commas(text):
    name, workload = parse(text)
    assert (name, workload.tensor) == ("gpt", 4 if "4" in text else None)


@pytest.mark.parametrize("text, complaint", [
    ("gtp", "unknown workload 'gtp'; did you mean 'gpt'"), ("gpt:tenso=2", "no parameter 'tenso'; did you mean 'tensor'"),
    ("gpt:tensor", "write it once, as tensor=VALUE"), ("gpt:tensor=2,tensor=4", "write it once"),
    ("gpt:tensor=two", "'two' is not a whole number"), ("gpt:noise=x", "'x' is not a number"),
    ("gpt:noise=0.5", "must be at most 0.1"), ("gpt:tensor=0", "must be at least 1"), ("moe:skew=nan", "finite")])
def test_bad_workloads_are_refused_in_words(text, complaint):
    with pytest.raises(ValueError, match=complaint):
        parse(text)


@pytest.mark.parametrize("text, resolved", [
    ("gpt", {"tensor": 4, "pipeline": 4, "data": 2}), ("moe", {"experts": 64}), ("benchmark:flows=8", {"large": 2})])
def test_resolved_leaves_nothing_open(text, resolved):
    parameters = parse(text)[1].resolved(32).model_dump()
    assert None not in parameters.values()
    assert resolved.items() <= parameters.items()


def test_routing_in_which_no_token_leaves_its_host_is_refused():
    with pytest.raises(ValueError, match="no token leaves its host"):
        for seed in range(20):
            generate("moe:experts=2,top_k=1,tokens=1", 2, seed)


def test_a_pipeline_alone_is_refused_where_it_cannot_be_doubly_stochastic():
    for stages in (3, 4, 5):
        with pytest.raises(ValueError, match="cannot be made doubly stochastic"):
            generate(f"gpt:tensor=1,pipeline={stages},data=1", stages, 0)
    assert np.allclose(lines(generate("gpt:tensor=1,pipeline=2,data=1,noise=0", 2, 0)), 1)
