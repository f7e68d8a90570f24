"""Bytes into slots: nothing lost, nothing twice, nothing outside its slot."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from controller.scheduling.schedule import Schedule, Slot
from controller.scheduling.spectra import spectra
from testbed import transfer
from testbed.transfer import (
    MAX_PAYLOAD_BYTES, OVERHEAD_BYTES, OVERLOAD_MAX, REPAIR_SLOT_S, SHORT_SLOT_S, LinkModel, plan, plan_repair,
    repair_demand_s)
from tests.unit.strategies import demands_bytes

LINK = LinkModel(10e6, 2426)  # with 74 bytes of headers, a datagram is 2500 bytes: 2 ms
ROUNDING_S = 1e-9


@st.composite
def cases(draw):
    """Demand, link and schedule of a small run."""
    demand_bytes = draw(demands_bytes())
    switches = draw(st.integers(1, 3))
    link = LinkModel.choose(draw(st.sampled_from([1e6, 10e6, 33e6, 1e9])), len(demand_bytes) * switches, 8000)
    demand_s = link.demand_s(demand_bytes)
    schedule = spectra(demand_s, switches, draw(st.sampled_from([0.001, 0.02, 0.1])))
    return demand_bytes, link, schedule.lit_only_where(demand_bytes > 0)


def one_pair(*switches, delta_s=0.02):
    """A schedule of two hosts; each switch holds the swap for the durations given."""
    return Schedule(delta_s, tuple(tuple(Slot((1, -1), duration_s) for duration_s in slots) for slots in switches))


def bytes_from_first_host(size_bytes):
    return np.array([[0, size_bytes], [0, 0]])


def assert_inside_lit_windows(schedule, releases):
    windows = [schedule.windows(h) for h in range(len(schedule.switches))]
    for i, j, h, k, release_s, end_s in zip(releases.source, releases.destination, releases.switch, releases.slot,
                                            releases.release_s, releases.end_s):
        assert schedule.switches[h][k].permutation[i] == j
        assert windows[h][k].lit_s - ROUNDING_S <= release_s <= windows[h][k].end_s + ROUNDING_S
        assert end_s <= windows[h][k].end_s + ROUNDING_S


# The link model.

def test_link_time_counts_headers():
    assert OVERHEAD_BYTES == 14 + 20 + 8 + 32
    assert LINK.wire_s(2426, 1) == LINK.datagram_s == pytest.approx(0.002, abs=1e-15)
    assert LINK.demand_s(np.array([0, 1, 2426, 2427])) == pytest.approx(
        [0, 75 * 8e-7, 2500 * 8e-7, (2427 + 2 * 74) * 8e-7], abs=1e-15)


@pytest.mark.parametrize("rate_bps, links, payload_bytes", [
    (10e6, 16, 2426),  # 2 ms
    (10e6, 32, 4926),  # 32 links at 8000 packets a second: 4 ms
    (100e6, 16, 5960),  # a third below the largest
    (1e3, 2, 64),
])
def test_datagram_size_of_a_rate(rate_bps, links, payload_bytes):
    assert LinkModel.choose(rate_bps, links, 8000) == LinkModel(rate_bps, payload_bytes)


def test_largest_datagram_fits_a_jumbo_frame():
    assert MAX_PAYLOAD_BYTES + OVERHEAD_BYTES - 14 == 9000


@given(st.integers(0, 10**7), st.sampled_from([1e6, 3e6, 10e6, 33e6, 1e9, 5e3]), st.integers(2, 200))
def test_bytes_to_link_time_and_back(size_bytes, rate_bps, links):
    link = LinkModel.choose(rate_bps, links, 8000)
    demand_bytes = np.array([size_bytes])
    assert link.demand_bytes(link.demand_s(demand_bytes)).tolist() == [size_bytes]


def test_whole_datagrams_to_link_time_and_back():
    """Rounding of doubles must not make one datagram more out of them."""
    for rate_bps in (3e6, 10e6, 20e6):
        link = LinkModel.choose(rate_bps, 16, 8000)
        demand_bytes = np.arange(1, 100) * link.payload_bytes
        assert link.demand_bytes(link.demand_s(demand_bytes)).tolist() == demand_bytes.tolist()


@given(st.floats(1e-3, 10.0), st.sampled_from([1e6, 3e6, 10e6, 1e9]))
def test_link_time_to_bytes_and_back(demand_s, rate_bps):
    """To within a header: a rest too short for a header carries nothing."""
    link = LinkModel.choose(rate_bps, 16, 8000)
    back_s = link.demand_s(link.demand_bytes(np.array([demand_s])))[0]
    assert abs(back_s - demand_s) <= (OVERHEAD_BYTES + 1) * 8 / rate_bps + ROUNDING_S


def test_no_link_time_is_no_bytes_and_little_is_at_least_one():
    assert LINK.demand_bytes(np.array([0.0, 1e-9])).tolist() == [0, 1]


# Any demand.

@given(cases())
def test_datagrams_hold_exactly_the_demand(case):
    demand_bytes, link, schedule = case
    datagrams, _ = plan(schedule, demand_bytes, link)
    assert np.array_equal(datagrams.bytes_by_pair(len(demand_bytes)), demand_bytes)


@given(cases())
def test_datagrams_of_a_pair_tile_its_bytes(case):
    demand_bytes, link, schedule = case
    datagrams, _ = plan(schedule, demand_bytes, link)
    for i, j in np.argwhere(demand_bytes):
        mine = np.flatnonzero((datagrams.source == i) & (datagrams.destination == j))
        mine = mine[np.argsort(datagrams.offset[mine])]
        ends = datagrams.offset[mine] + datagrams.size_bytes[mine]
        assert datagrams.offset[mine].tolist() == [0, *ends[:-1]]
        assert ends[-1] == demand_bytes[i, j]


@given(cases())
def test_every_datagram_fits_on_the_wire(case):
    demand_bytes, link, schedule = case
    datagrams, _ = plan(schedule, demand_bytes, link)
    assert (datagrams.size_bytes >= 1).all()
    assert (datagrams.size_bytes <= MAX_PAYLOAD_BYTES).all()


@given(cases())
def test_every_datagram_is_released_once_and_as_its_pair(case):
    demand_bytes, link, schedule = case
    datagrams, releases = plan(schedule, demand_bytes, link)
    real = releases.sequence >= 0
    sequence = releases.sequence[real]
    assert sorted(sequence) == list(range(len(datagrams)))
    assert np.array_equal(releases.source[real], datagrams.source[sequence])
    assert np.array_equal(releases.destination[real], datagrams.destination[sequence])


@given(cases())
def test_releases_are_sorted_and_inside_lit_windows(case):
    demand_bytes, link, schedule = case
    _, releases = plan(schedule, demand_bytes, link)
    assert (np.diff(releases.release_s) >= 0).all()
    assert_inside_lit_windows(schedule, releases)


@given(cases())
def test_predicted_makespan_is_within_the_computed_and_after_the_last_release(case):
    demand_bytes, link, schedule = case
    predicted_s = transfer.last_byte_s(transfer.share_out(schedule, link.demand_s(demand_bytes)))
    _, releases = plan(schedule, demand_bytes, link)
    real = releases.sequence >= 0
    assert releases.release_s[real].max() < predicted_s <= schedule.makespan_s + ROUNDING_S
    assert predicted_s == pytest.approx(releases.end_s[real].max(), abs=ROUNDING_S)


@given(cases())
def test_no_slot_is_given_more_than_its_time(case):
    demand_bytes, link, schedule = case
    datagrams, releases = plan(schedule, demand_bytes, link)
    windows = [schedule.windows(h) for h in range(len(schedule.switches))]
    used_s = {}
    for sequence, i, h, k in zip(releases.sequence, releases.source, releases.switch, releases.slot):
        if sequence >= 0:
            used_s[h, k, i] = used_s.get((h, k, i), 0.0) + link.wire_s(datagrams.size_bytes[sequence], 1)
    for (h, k, _), seconds in used_s.items():
        window = windows[h][k]
        assert seconds <= (window.end_s - window.lit_s) * (1 + OVERLOAD_MAX) + link.datagram_s


# By hand.

def test_datagrams_of_a_full_slot():
    """Five datagrams of 2 ms fill a slot from 20 to 30 ms."""
    datagrams, releases = plan(one_pair([0.010]), bytes_from_first_host(5 * 2426), LINK)
    assert datagrams.size_bytes.tolist() == [2426] * 5
    assert datagrams.offset.tolist() == [0, 2426, 4852, 7278, 9704]
    assert releases.end_s == pytest.approx([0.022, 0.024, 0.026, 0.028, 0.030], abs=ROUNDING_S)


@pytest.mark.parametrize("switch", [0, 1, 2])
def test_each_unit_of_ten_milliseconds_leaves_at_once_and_away_from_both_its_ends(switch):
    """Fifteen datagrams of 2 ms fill a slot from 20 to 50 ms: three units, each with 2 ms to spare at both ends."""
    _, releases = plan(one_pair(*[[]] * switch, [0.030]), bytes_from_first_host(15 * 2426), LINK)
    for unit, start_s in enumerate((0.020, 0.030, 0.040)):
        release_s = set(releases.release_s[5 * unit:5 * unit + 5])
        assert len(release_s) == 1
        assert start_s + 0.002 <= release_s.pop() <= start_s + 0.008


def test_bytes_are_shared_out_in_proportion_to_time_earliest_first():
    """Fifteen datagrams of 2 ms: 20 ms in slot 0 of the first switch, the rest of 10 ms in slot 1."""
    _, releases = plan(one_pair([0.020, 0.050]), bytes_from_first_host(15 * 2426), LINK)
    real = releases.sequence >= 0
    assert releases.slot[real].tolist() == [0] * 10 + [1] * 5
    assert releases.sequence[real].tolist() == list(range(15))


def test_share_that_leaves_room_keeps_away_from_the_head_of_its_slot():
    """10 ms in a slot from 20 to 70 ms begin 5 ms late; 35 ms are left, which are three spare places of 10 ms."""
    _, releases = plan(one_pair([0.050]), bytes_from_first_host(5 * 2426), LINK)
    assert releases.sequence.tolist() == [0, 1, 2, 3, 4, -1, -1, -1]
    assert releases.end_s == pytest.approx([0.027, 0.029, 0.031, 0.033, 0.035, 0.045, 0.055, 0.065], abs=ROUNDING_S)
    assert all(end_s - 0.010 < release_s < end_s
               for release_s, end_s in zip(releases.release_s[4:], releases.end_s[4:]))


def test_share_of_a_very_short_slot_moves_to_the_largest():
    """100 ms in 99.5 ms: half a percent above the rate, and nothing in the slot of 1 ms."""
    assert 0.001 < SHORT_SLOT_S
    _, releases = plan(one_pair([0.0995], [0.001]), bytes_from_first_host(50 * 2426), LINK)
    assert set(releases.switch) == {0}
    assert sorted(releases.sequence[releases.sequence >= 0]) == list(range(50))
    assert releases.end_s.max() == pytest.approx(0.1195, abs=ROUNDING_S)


def test_share_of_a_short_slot_stays_where_the_largest_would_be_overloaded():
    """4 ms on top of 96 ms would be 4 % above the rate."""
    _, releases = plan(one_pair([0.096], [0.004]), bytes_from_first_host(50 * 2426), LINK)
    assert set(releases.switch) == {0, 1}


def test_share_of_a_slot_that_is_long_enough_stays():
    _, releases = plan(one_pair([0.994], [0.006]), bytes_from_first_host(500 * 2426), LINK)
    assert set(releases.switch) == {0, 1}


# Repairs.

@given(cases(), st.data())
def test_repair_releases_every_missing_datagram_once_inside_lit_windows(case, data):
    demand_bytes, link, schedule = case
    datagrams, _ = plan(schedule, demand_bytes, link)
    numbers = st.integers(0, len(datagrams) - 1)
    missing = np.array(sorted(data.draw(st.sets(numbers, min_size=1, max_size=30))))
    demand_s = repair_demand_s(datagrams, missing, len(demand_bytes), link)
    schedule = spectra(demand_s, len(schedule.switches), schedule.delta_s)
    releases = plan_repair(schedule, datagrams, missing, link)
    assert sorted(releases.sequence) == missing.tolist()
    assert np.array_equal(releases.source, datagrams.source[releases.sequence])
    assert np.array_equal(releases.destination, datagrams.destination[releases.sequence])
    assert (np.diff(releases.release_s) >= 0).all()
    assert_inside_lit_windows(schedule, releases)


def test_repair_fills_one_slot_before_the_next():
    datagrams, _ = plan(one_pair([0.2]), bytes_from_first_host(100 * 2426), LINK)
    releases = plan_repair(one_pair([0.020, 0.020]), datagrams, np.arange(40, 55), LINK)
    assert releases.slot.tolist() == [0] * 10 + [1] * 5
    assert releases.sequence.tolist() == list(range(40, 55))


def test_repair_pushes_together_what_the_last_slot_of_a_pair_is_too_short_for():
    datagrams, _ = plan(one_pair([0.2]), bytes_from_first_host(100 * 2426), LINK)
    releases = plan_repair(one_pair([0.010]), datagrams, np.arange(10), LINK)
    assert releases.end_s == pytest.approx(np.arange(0.021, 0.0305, 0.001), abs=ROUNDING_S)


def test_repair_demand_is_the_link_time_of_what_is_missing_and_at_least_a_slot():
    datagrams, _ = plan(one_pair([0.2]), np.array([[0, 100 * 2426], [0, 0]]), LINK)
    assert repair_demand_s(datagrams, np.arange(50), 2, LINK).tolist() == [[0, pytest.approx(0.1)], [0, 0]]
    assert repair_demand_s(datagrams, np.array([7]), 2, LINK).tolist() == [[0, REPAIR_SLOT_S], [0, 0]]


def test_repair_sends_in_the_middle_of_its_slot():
    """One datagram of 2 ms in a slot from 20 to 40 ms: its place is 29 to 31 ms."""
    datagrams, _ = plan(one_pair([0.2]), bytes_from_first_host(100 * 2426), LINK)
    releases = plan_repair(one_pair([0.020]), datagrams, np.array([7]), LINK)
    assert (releases.sequence.tolist(), releases.slot.tolist()) == ([7], [0])
    assert 0.029 <= releases.release_s[0] <= releases.end_s[0] == pytest.approx(0.031, abs=ROUNDING_S)


def test_repair_of_nothing_is_empty():
    datagrams, _ = plan(one_pair([0.2]), bytes_from_first_host(100), LINK)
    assert len(plan_repair(one_pair([0.1]), datagrams, np.zeros(0, dtype=np.int64), LINK)) == 0
