"""What follows from a machine's calibration: rates, leads, limits, and the plan they lead to."""

import dataclasses
import pathlib

import numpy as np
import pytest

from testbed import calibration
from testbed.calibration import GUESS, LEAD_MAX_S, Calibration, Trial, trial_plan
from testbed.errors import UserError
from testbed.plan import MAKESPAN_LONG_S, ROUNDING_MAX, check_playable, check_size, make_plan
from testbed.settings import load
from testbed.transfer import rounding


def trial(hosts, switches, latency_s=0.001, packets_per_s=20000.0, dark_error_s=0.001):
    return Trial(hosts, switches, latency_s, 0.004, latency_s / 2, 0.004, dark_error_s, 0.0, 0.001, packets_per_s)


MACHINE = Calibration((trial(8, 2, 0.001), trial(32, 4, 0.002), trial(100, 4, 0.003, 10000.0, 0.004)), "a machine")


def test_leads_are_the_median_latencies_between_sizes():
    assert MACHINE.compensation_s(8) == (0.001, 0.0005)
    assert MACHINE.compensation_s(20) == pytest.approx((0.0015, 0.00075))
    assert MACHINE.compensation_s(500) == (0.003, 0.0015)


def test_leads_are_bounded_and_never_negative():
    slow = Calibration((trial(8, 2, 1.0),), "slow")
    odd = Calibration((trial(8, 2, -0.001),), "odd")
    assert slow.compensation_s(8) == (LEAD_MAX_S, LEAD_MAX_S)
    assert odd.compensation_s(8) == (0.0, 0.0)


def test_packets_a_second_leave_headroom():
    assert MACHINE.most_packets_per_s(16) == 20000
    assert MACHINE.safe_packets_per_s(16) == 8000
    assert MACHINE.safe_packets_per_s(400) == 4000


def test_smallest_delta_grows_with_the_spread_of_dark_intervals():
    assert MACHINE.smallest_delta_s(8) == 0.005  # the floor
    assert MACHINE.smallest_delta_s(100) == pytest.approx(0.016)


def test_calibration_survives_json():
    assert Calibration.from_json(MACHINE.to_json()) == MACHINE


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """cache(kernel) begins an empty cache on a machine with or without the kernel datapath; its trials are made up."""
    def begin(kernel, dark_error_s=None):
        monkeypatch.setenv("SPECTRA_CACHE", str(tmp_path / "new"))
        monkeypatch.setattr(calibration.machine, "has_module", lambda name: kernel)
        monkeypatch.setattr(calibration, "evaluate", lambda plan, seen: trial(
            plan.hosts, plan.settings.switches, dark_error_s=(dark_error_s or {}).get(plan.datapath, 0.001)))
    return begin


def test_cache_that_is_missing_or_damaged_is_none(cache):
    cache(kernel=False)
    assert calibration.load() is None
    path = pathlib.Path(calibration.cache_path("user"))
    path.parent.mkdir()
    for text in ("", "{", "[]", '{"trials": [{}], "machine": ""}'):
        path.write_text(text, encoding="utf-8")
        assert calibration.load() is None


def test_measured_machine_is_kept(cache):
    cache(kernel=False)
    measured = calibration.measure_machine(lambda plan: None, lambda text: None)
    assert [each.hosts for each in measured.trials] == [8, 32, 100] and measured.datapath == "user"
    assert calibration.load() == measured


@pytest.mark.parametrize("better, worse", [("kernel", "user"), ("user", "kernel")])
def test_of_two_datapaths_the_steadier_is_chosen_and_the_other_can_be_asked_for(cache, better, worse):
    cache(kernel=True, dark_error_s={better: 0.0005, worse: 0.002})
    said = []
    assert calibration.measure_machine(lambda plan: None, said.append).datapath == better and len(said) == 6
    assert calibration.load().datapath == better and calibration.load(worse).datapath == worse
    plans = [make_plan(load({"hosts": 4, **asked}), calibration.load(asked.get("datapath"))) for asked in ({}, {"datapath": worse})]
    assert [plan.datapath for plan in plans] == [better, worse]


def test_only_what_is_missing_is_measured(cache):
    cache(kernel=True)
    said = []
    calibration.measure_machine(lambda plan: None, said.append, asked="user")
    assert calibration.load() is None and calibration.load("user") and len(said) == 3
    calibration.measure_machine(lambda plan: None, said.append, only_missing=True)
    assert calibration.load() and len(said) == 6


def test_link_delay_is_on_both_links_of_the_way():
    plans = [make_plan(load({"hosts": 4, **delay}), GUESS) for delay in ({}, {"link_delay": "200us"})]
    assert plans[1].predicted_makespan_s == pytest.approx(plans[0].predicted_makespan_s + 400e-6)
    assert plans[1].schedule == plans[0].schedule


def test_trial_plan_is_playable_and_its_load_rises():
    plan = trial_plan(8, 2)
    assert (plan.datagrams.bytes_by_pair(8) == plan.demand_bytes).all()
    first = plan.releases
    sent = np.bincount(first.slot[first.sequence >= 0])
    assert len(sent) == len(plan.schedule.switches[0])
    assert (np.diff(sent[-8:]) > 0).all()


def plan_of(machine=MACHINE, **options):
    return make_plan(load({name: str(value) for name, value in options.items()}), machine)


@pytest.mark.parametrize("demand, hosts, switches", [("gpt", 8, 2), ("moe", 64, 4), ("benchmark", 100, 4)])
def test_time_scale_keeps_rounding_small_and_packets_few(demand, hosts, switches):
    plan = plan_of(demand=demand, hosts=hosts, switches=switches)
    assert plan.datagrams_about / plan.schedule.makespan_s <= MACHINE.safe_packets_per_s(hosts * switches) * 1.05
    assert 5 <= plan.schedule.makespan_s <= 1.2 * MAKESPAN_LONG_S
    assert (rounding(plan.shares, plan.demand_bytes, plan.link) <= ROUNDING_MAX
            or plan.schedule.makespan_s > 0.9 * MAKESPAN_LONG_S)
    assert "packets/s" in plan.why and "period" in plan.why


def test_time_scale_asked_for_is_kept():
    plan = plan_of(period="2s", rate="3Mbit")
    assert (plan.period_s, plan.link.rate_bps, plan.why) == (2.0, 3e6, "")


@pytest.fixture
def file(tmp_path):
    def write(size_bytes):
        path = tmp_path / "demand.csv"
        path.write_text(f"0,{size_bytes}\n{size_bytes},0\n")
        return path
    return write


def test_dilation_is_one_factor_for_rate_and_delay(file):
    plan = plan_of(demand=file(10**9), physical_rate="100Gbit", physical_delta="100us")
    assert plan.schedule.delta_s == pytest.approx(100e-6 * plan.dilation)
    link_s = plan.link.demand_s(plan.demand_bytes)[0, 1]
    assert link_s / plan.dilation == pytest.approx(10**9 * 8 / 100e9, rel=1e-3)
    assert plan.schedule.makespan_s / plan.dilation == pytest.approx(0.0401, rel=0.01)


def test_dilation_is_larger_where_delta_would_not_be_honest(file):
    plan = plan_of(demand=file(10**9), physical_rate="100Gbit", physical_delta="1us")
    assert plan.schedule.delta_s == pytest.approx(0.005)


def test_dilation_that_takes_too_long_names_the_nearest_delta(file):
    with pytest.raises(UserError, match=r"nearest that works is --physical-delta \d+(\.\d+)?[nµm]?s"):
        plan_of(demand=file(10**13), physical_rate="100Gbit", physical_delta="1us")


def test_nearest_delta_does_work(file):
    path = file(10**13)
    with pytest.raises(UserError) as caught:
        plan_of(demand=path, physical_rate="100Gbit", physical_delta="1us")
    nearest = str(caught.value).split("--physical-delta ")[-1].split(",")[0]
    check_size(dataclasses.replace(plan_of(demand=path, physical_rate="100Gbit", physical_delta=nearest)))


def test_workload_is_no_demand_for_a_physical_fabric():
    with pytest.raises(UserError, match="has to be a file of bytes"):
        plan_of(demand="moe", physical_rate="100Gbit", physical_delta="10us")


def test_more_links_than_the_machine_holds_are_refused_with_a_number_that_works():
    plan = plan_of(demand="benchmark", hosts=300, switches=4)
    with pytest.raises(UserError, match="--hosts 100, or plan only with --dry-run") as caught:
        check_playable(plan, MACHINE)
    assert "1200 links, and this machine holds 400" in str(caught.value)


def test_rate_that_cannot_be_carried_is_refused_with_one_that_can():
    plan = plan_of(demand="moe", hosts=8, switches=2, rate="1Gbit", period="1s")
    with pytest.raises(UserError, match=r"the nearest that works is about (\d+(\.\d+)?) Mbit/s") as caught:
        check_playable(plan, MACHINE)
    rate = str(caught.value).split("about ")[1].split("/s")[0].replace(" ", "")
    check_playable(plan_of(demand="moe", hosts=8, switches=2, rate=rate, period="1s"), MACHINE)


def test_guess_is_careful():
    assert not GUESS.measured
    assert GUESS.compensation_s(8) == (0.0, 0.0)
