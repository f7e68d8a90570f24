"""From synthetic observations of a small run to its result, events and verdict."""

import dataclasses
import json

import numpy as np
import pytest

from controller.framework import ProtocolDesc, ofproto_v1_3
from controller.player import plan_actions
from testbed.agent import Ledger
from testbed.calibration import GUESS
from testbed.conductor import Round
from testbed.experiment import Observation
from testbed.faults import Fault
from testbed.measure import CPU_BUSY_MAX, CPU_STEAL_MAX, SENDER_LATE_P99_MAX_S, measure, planned
from testbed.plan import make_plan
from testbed.probes import plan_probes
from testbed.recovery import Notice
from testbed.report import to_json
from testbed.settings import load

EPOCH_S = 1000.0
EXACT_S = 1e-9
PLAN = make_plan(load({"demand": "moe", "hosts": "4", "period": "0.3", "rate": "10Mbit", "delta": "20ms"}), GUESS)
MEASURED = ("delivered_bytes", "undelivered_bytes", "corrupt_bytes", "retransmitted_bytes", "measured_makespan_s",
            "measured_over_computed", "measured_over_predicted", "dark_violations", "trustworthy", "reasons")


@pytest.fixture
def seen():
    """A run in which every datagram, change and probe was exactly on time."""
    real = PLAN.releases.sequence >= 0
    sequence = PLAN.releases.sequence[real]
    sent_s, arrived_s, switch = np.zeros((3, len(PLAN.datagrams)))
    sent_s[sequence] = EPOCH_S + PLAN.releases.release_s[real]
    # Never before it was sent: a unit's first datagrams have their place on the link before its release.
    arrived_s[sequence] = EPOCH_S + np.maximum(PLAN.releases.end_s[real], PLAN.releases.release_s[real] + 0.0001)
    switch[sequence] = PLAN.releases.switch[real]
    probes = plan_probes(PLAN.schedule)
    windows = [PLAN.schedule.windows(h)[k] for h, k in zip(probes.switch, probes.slot)]
    lit = [window.lit_s <= release_s < window.end_s for window, release_s in zip(windows, probes.release_s)]
    probe_sent_s = EPOCH_S + probes.release_s
    _, actions = plan_actions(PLAN.schedule, ProtocolDesc(version=ofproto_v1_3.OFP_VERSION))
    played = [{"switch": action.switch, "kind": action.kind, "slot": action.slot, "planned_s": action.planned_s,
               "sent_s": action.send_s} for action in actions]
    return Observation(
        rounds=[Round(EPOCH_S, PLAN.schedule.makespan_s, len(PLAN.datagrams), played)],
        probes=probes, first_sent_s=sent_s, last_sent_s=sent_s.copy(), arrived_s=arrived_s,
        arrived_switch=switch.astype(int), probe_sent_s=probe_sent_s,
        probe_arrived_s=np.where(lit, probe_sent_s + 0.0001, 0.0), counters=dict.fromkeys(Ledger.COUNTERS, 0),
        stray_packets=0, cpu={"cores": 2, "busy": 0.2, "steal": 0.0, "of_core": {"agents": 0.1}},
        stages_s={"play": 0.5}, versions={"os-ken": "4.2.2"}, errors=[], clock_jump_s=0.0)


def result_of(seen):
    return measure(PLAN, seen)[0]


def repaired_later(seen, number, delay_s):
    """Datagram `number` was lost, and arrived by its second sending after everything else."""
    seen.last_sent_s[number] = seen.arrived_s.max() + delay_s
    seen.arrived_s[number] = seen.last_sent_s[number]


def test_synthetic_run_has_what_the_tests_need():
    """Several slots on each of two switches, all long enough to be judged."""
    assert all(len(slots) > 1 for slots in PLAN.schedule.switches)
    assert min(slot.duration_s for slots in PLAN.schedule.switches for slot in slots) > 0.01


# All well.

def test_run_on_time_is_trustworthy(seen):
    result = result_of(seen)
    assert result["reasons"] == []
    assert result["trustworthy"] is True
    assert result["dark_violations"] == 0


def test_run_on_time_takes_as_long_as_predicted(seen):
    result = result_of(seen)
    assert result["measured_makespan_s"] == pytest.approx(PLAN.predicted_makespan_s, abs=EXACT_S)
    assert result["measured_over_predicted"] == pytest.approx(1, abs=1e-8)
    assert result["measured_over_computed"] == pytest.approx(
        PLAN.predicted_makespan_s / PLAN.schedule.makespan_s, abs=1e-8)


def test_measured_makespan_is_the_last_arrival_after_the_epoch(seen):
    seen.arrived_s[3] = EPOCH_S + 2 * PLAN.schedule.makespan_s
    result = result_of(seen)
    assert result["measured_makespan_s"] == pytest.approx(2 * PLAN.schedule.makespan_s, abs=EXACT_S)
    assert result["measured_over_computed"] == pytest.approx(2, abs=1e-8)


def test_everything_is_counted_as_delivered(seen):
    result = result_of(seen)
    assert result["delivered_bytes"] == result["demand_bytes"] == PLAN.demand_bytes.sum()
    assert result["undelivered_bytes"] == 0
    assert result["datagrams"] == len(PLAN.datagrams)


def test_bytes_are_counted_by_the_switch_they_came_over(seen):
    seen.arrived_switch[:] = 1
    seen.arrived_switch[0] = 0
    first = int(PLAN.datagrams.size_bytes[0])
    assert result_of(seen)["bytes_by_switch"] == [first, int(PLAN.demand_bytes.sum()) - first]


def test_dark_intervals_are_seen_as_long_as_delta(seen):
    """To within one step of the probes."""
    result = result_of(seen)
    assert result["dark_interval_s"]["count"] == sum(len(slots) - 1 for slots in PLAN.schedule.switches)
    assert result["dark_interval_s"]["min"] > 0.020 - 0.0011
    assert result["dark_interval_s"]["max"] < 0.020 + 0.0011


def test_versions_name_the_framework_and_the_libraries(seen):
    assert {"os-ken", "numpy", "scipy", "python", "kernel", "spectra-testbed"} <= result_of(seen)["versions"].keys()


def test_result_holds_all_that_is_planned_and_is_json(seen):
    result = result_of(seen)
    assert planned(PLAN).keys() <= result.keys()
    assert json.loads(to_json(result)) == result


def test_planned_result_knows_nothing_measured():
    result = planned(PLAN)
    assert {name: result[name] for name in MEASURED} == dict.fromkeys(MEASURED)
    assert (result["hosts"], result["switches"], result["delta_s"]) == (4, 2, 0.02)
    assert result["computed_makespan_s"] == PLAN.schedule.makespan_s
    assert 0 < result["predicted_makespan_s"] <= result["computed_makespan_s"]


# Not all delivered.

def test_missing_datagram_is_undelivered_and_there_is_no_makespan(seen):
    seen.arrived_s[5] = 0
    result = result_of(seen)
    assert result["undelivered_bytes"] == PLAN.datagrams.size_bytes[5]
    assert result["delivered_bytes"] == PLAN.demand_bytes.sum() - PLAN.datagrams.size_bytes[5]
    assert {result[name] for name in ("measured_makespan_s", "measured_over_computed", "measured_over_predicted",
                                      "difference_s")} == {None}


def test_nothing_delivered_is_still_a_result(seen):
    seen.arrived_s[:] = 0
    result, events = measure(PLAN, seen)
    assert (result["delivered_bytes"], result["undelivered_bytes"]) == (0, PLAN.demand_bytes.sum())
    assert "delivered" not in {event["event"] for event in events}
    json.loads(to_json(result))


# Why a run is not trusted.

def only_reason(seen):
    result = result_of(seen)
    assert result["trustworthy"] is False
    assert len(result["reasons"]) == 1
    return result["reasons"][0]


def test_corrupt_datagram_is_a_reason(seen):
    seen.counters.update(corrupt_packets=1, corrupt_bytes=2000)
    assert only_reason(seen) == "1 datagrams arrived corrupt"
    assert result_of(seen)["corrupt_bytes"] == 2000


def test_corrupt_header_without_payload_is_a_reason(seen):
    seen.counters["corrupt_packets"] = 1
    assert "corrupt" in only_reason(seen)


def test_misdelivered_packet_is_a_reason(seen):
    seen.counters["misdelivered_packets"] = 1
    assert "a host that they were not for" in only_reason(seen)


def test_stray_packet_is_a_reason(seen):
    """It reached an interface, and no agent took it."""
    seen.stray_packets = 2
    assert only_reason(seen).startswith("2 packets reached a host")


def test_busy_cpu_is_a_reason(seen):
    seen.cpu["busy"] = CPU_BUSY_MAX + 0.05
    assert only_reason(seen).startswith("the CPU was 90% busy, above 85%")


def test_stolen_cpu_is_a_reason(seen):
    seen.cpu["steal"] = CPU_STEAL_MAX + 0.01
    assert only_reason(seen).startswith("the hypervisor took 6.0% of the CPU, above 5%")


@pytest.mark.parametrize("jump_s", [0.005, -0.005])
def test_jump_of_the_clock_is_a_reason(seen, jump_s):
    seen.clock_jump_s = jump_s
    assert only_reason(seen).startswith("the machine's clocks came apart by ")


def test_unsent_packet_is_a_reason(seen):
    seen.counters["unsent_packets"] = 1
    assert only_reason(seen) == "1 packets could not be sent"


def test_losses_above_one_in_a_thousand_are_a_reason(seen):
    few = len(PLAN.datagrams) // 1000
    for number in range(few):
        repaired_later(seen, number, 0.01)
    assert result_of(seen)["reasons"] == []
    repaired_later(seen, few, 0.01)
    assert "of the datagrams were lost at first, above 0.1%" in only_reason(seen)


def test_dark_intervals_that_are_not_delta_are_a_reason(seen):
    """Every switch is lit 2.9 ms late: too little to be called late, but more than a tenth of δ."""
    seen.probe_sent_s[~seen.probes.after] += 0.0029
    assert only_reason(seen).startswith("half of the dark intervals were ")


def test_late_sender_is_a_reason(seen):
    late = slice(len(PLAN.datagrams) // 50)
    seen.first_sent_s[late] += SENDER_LATE_P99_MAX_S + 0.001
    seen.last_sent_s[late] = seen.first_sent_s[late]
    assert only_reason(seen).startswith("one datagram in a hundred was sent over 4.0 ms late")


def test_switch_error_is_a_reason(seen):
    seen.errors.append("switch o1: OpenFlow error type 1, code 2")
    assert only_reason(seen) == "switch o1: OpenFlow error type 1, code 2"


def test_late_switch_is_a_reason_that_names_it(seen):
    """All probes that tell of the second switch's lighting were sent 7.5 ms later than they would be."""
    seen.probe_sent_s[~seen.probes.after & (seen.probes.switch == 1)] += 0.0075
    reasons = result_of(seen)["reasons"]
    assert any(reason.startswith("switch o2 changed ") for reason in reasons)
    assert not any("o1" in reason for reason in reasons)


def test_slot_that_no_probe_saw_lit_is_a_reason(seen):
    probes = seen.probes
    seen.probe_arrived_s[~probes.after & (probes.switch == 0) & (probes.slot == 1)] = 0
    assert only_reason(seen) == "switch o1 was not lit in time in 1 of its slots"


def probe_in_mid_dark(seen, switch, slot):
    """The probe nearest to the middle of the dark interval after a slot."""
    middle_s = PLAN.schedule.windows(switch)[slot].end_s + PLAN.schedule.delta_s / 2
    mine = np.flatnonzero(seen.probes.after & (seen.probes.switch == switch) & (seen.probes.slot == slot))
    nearest = mine[np.argmin(np.abs(seen.probes.release_s[mine] - middle_s))]
    assert abs(seen.probes.release_s[nearest] - middle_s) < 0.005 - 0.001
    return nearest


def test_probe_through_in_mid_dark_is_a_violation(seen):
    number = probe_in_mid_dark(seen, 0, 0)
    seen.probe_arrived_s[number] = seen.probe_sent_s[number] + 0.0001
    result = result_of(seen)
    assert result["dark_violations"] == 1
    assert "1 packets were forwarded by a switch that had to be dark" in result["reasons"]
    assert result["trustworthy"] is False


def test_probe_through_within_the_tolerance_of_a_change_is_none(seen):
    """6 ms, less than a third of δ."""
    probes = seen.probes
    end_s = np.array([PLAN.schedule.windows(h)[k].end_s for h, k in zip(probes.switch, probes.slot)])
    late_s = probes.release_s - end_s
    number = np.flatnonzero(probes.after & (0.004 < late_s) & (late_s < 0.0059))[0]
    seen.probe_arrived_s[number] = seen.probe_sent_s[number] + 0.0001
    assert result_of(seen)["dark_violations"] == 0


def test_datagram_through_before_the_first_slot_is_a_violation(seen):
    """The first 20 ms are dark from their beginning: no change comes before them that could be late."""
    seen.first_sent_s[0] = seen.last_sent_s[0] = EPOCH_S + 0.003
    assert result_of(seen)["dark_violations"] == 1


def test_datagram_through_after_the_last_slot_is_a_violation(seen):
    seen.first_sent_s[0] = seen.last_sent_s[0] = EPOCH_S + PLAN.schedule.makespan_s + 0.010
    assert result_of(seen)["dark_violations"] == 1


def test_datagram_that_was_lost_in_the_dark_is_no_violation(seen):
    seen.first_sent_s[0] = EPOCH_S + 0.010
    repaired_later(seen, 0, 0.1)
    assert result_of(seen)["dark_violations"] == 0


# Repairs, losses, the parts of the difference.

def test_parts_of_the_difference_add_up(seen):
    repaired_later(seen, 7, 0.123)
    result = result_of(seen)
    parts = dict(result["difference_s"])
    total_s = parts.pop("total")
    assert total_s == pytest.approx(result["measured_makespan_s"] - result["computed_makespan_s"], abs=EXACT_S)
    assert sum(parts.values()) == pytest.approx(total_s, abs=1e-12)


def test_difference_of_a_run_on_time_is_only_rounding_and_the_way_through_the_switch(seen):
    parts = result_of(seen)["difference_s"]
    assert parts["start_up"] == parts["repair"] == 0
    assert parts["rest"] == pytest.approx(0, abs=EXACT_S)
    assert parts["packet_rounding"] + parts["switching_latency"] == pytest.approx(parts["total"], abs=EXACT_S)


def test_late_first_datagram_counts_as_start_up(seen):
    first = int(np.argmin(seen.first_sent_s))
    seen.first_sent_s += 0.004
    seen.last_sent_s += 0.004
    assert seen.first_sent_s.argmin() == first
    assert result_of(seen)["difference_s"]["start_up"] == pytest.approx(0.004)


def test_repair_is_what_came_after_the_last_datagram_that_was_not_lost(seen):
    repaired_later(seen, 7, 0.123)
    assert result_of(seen)["difference_s"]["repair"] == pytest.approx(0.123, abs=EXACT_S)


def test_retransmitted_bytes_are_reported(seen):
    seen.counters["resent_bytes"] = 4000
    assert result_of(seen)["retransmitted_bytes"] == 4000


@pytest.mark.parametrize("offset_s, place", [(0.002, "head_of_slot"), (-0.002, "tail_of_slot"), (0.5, "elsewhere")])
def test_losses_are_counted_by_their_place_in_the_slot(seen, offset_s, place):
    """Datagram 0 was sent 2 ms after the beginning, 2 ms before the end, or in the middle of its slot."""
    real = PLAN.releases.sequence == 0
    window = PLAN.schedule.windows(PLAN.releases.switch[real][0])[PLAN.releases.slot[real][0]]
    if place == "elsewhere":
        at_s = (window.lit_s + window.end_s) / 2
    else:
        at_s = (window.lit_s if offset_s > 0 else window.end_s) + offset_s
    seen.first_sent_s[0] = EPOCH_S + at_s
    repaired_later(seen, 0, 0.1)
    losses = result_of(seen)["losses"]
    assert losses == {"datagrams": 1, "head_of_slot": 0, "tail_of_slot": 0, "elsewhere": 0, place: 1}


# Events.

def test_events_are_json_sorted_by_time_and_begin_with_the_epoch(seen):
    _, events = measure(PLAN, seen)
    times_s = [event["t_s"] for event in events]
    assert times_s == sorted(times_s)
    assert events[0] == {"t_s": 0.0, "event": "epoch", "monotonic_s": EPOCH_S}
    assert json.loads(json.dumps(events)) == events


def test_every_change_of_every_switch_is_an_event(seen):
    _, events = measure(PLAN, seen)
    slots = sum(len(slots) for slots in PLAN.schedule.switches)
    kinds = [event["event"] for event in events]
    assert (kinds.count("lit"), kinds.count("dark")) == (slots, slots + 2)
    assert kinds.count("load") == slots - 2


def test_changes_tell_when_the_data_plane_saw_them(seen):
    """To within half a step of the probes."""
    _, events = measure(PLAN, seen)
    lit = [event for event in events if event["event"] == "lit"]
    assert all(event["seen_s"] == pytest.approx(event["planned_s"], abs=0.0006) for event in lit)


def test_circuit_events_add_up_to_the_demand(seen):
    _, events = measure(PLAN, seen)
    total_bytes = np.zeros_like(PLAN.demand_bytes)
    for event in events:
        if event["event"] == "circuit":
            total_bytes[event["input"], event["output"]] += event["bytes"]
            assert event["lost_datagrams"] == 0
            assert event["planned_lit_s"] <= event["first_packet_s"]
            assert event["first_packet_s"] <= event["last_packet_s"] <= event["planned_dark_s"]
    assert np.array_equal(total_bytes, PLAN.demand_bytes)


def test_lost_datagram_shows_in_the_event_of_its_circuit(seen):
    repaired_later(seen, 0, 0.1)
    _, events = measure(PLAN, seen)
    assert [(event["input"], event["output"], event["lost_datagrams"]) for event in events
            if event.get("lost_datagrams")] == [(PLAN.datagrams.source[0], PLAN.datagrams.destination[0], 1)]


def test_repair_round_is_an_event_and_its_changes_are_shifted_to_the_first_epoch(seen):
    action = {"switch": 0, "kind": "lit", "slot": 0, "planned_s": 0.02, "sent_s": 0.0201}
    seen.rounds.append(Round(EPOCH_S + 2, 0.04, 3, [action]))
    result, events = measure(PLAN, seen)
    assert result["rounds"] == 2
    assert [event for event in events if event.get("round") == 1] == [
        {"t_s": 2.0, "event": "repair", "round": 1, "datagrams": 3, "makespan_s": 0.04},
        {"t_s": 2.0201, "event": "lit", "round": 1, "switch": 0, "slot": 0, "planned_s": 2.02, "sent_s": 2.0201,
         "seen_s": None}]


def test_delivery_is_the_last_event_of_a_run_on_time(seen):
    result, events = measure(PLAN, seen)
    delivered = next(event for event in events if event["event"] == "delivered")
    assert delivered == {"t_s": result["measured_makespan_s"], "event": "delivered", "bytes": PLAN.demand_bytes.sum()}


def test_observation_is_left_as_it_is(seen):
    before = {field.name: np.array(getattr(seen, field.name)) for field in dataclasses.fields(seen)
              if isinstance(getattr(seen, field.name), np.ndarray)}
    measure(PLAN, seen)
    assert all(np.array_equal(getattr(seen, name), array) for name, array in before.items())


def test_what_fails_unasked_is_a_reason_and_what_was_asked_for_is_none(seen):
    seen.notices = [Notice(EPOCH_S + 0.2, "switch", "connection closed", switch=1)]
    assert any("switch o2 failed (connection closed), and no fault was asked for" in reason for reason in result_of(seen)["reasons"])
    seen.injected = [(Fault("switch 1 dies at 0.1s", "dies", 0.1, switch=1), 0.1)]
    result = result_of(seen)
    assert result["reasons"] == [] and result["trustworthy"]
    assert result["faults"] == [{"fault": "switch 1 dies at 0.1s", "injected_s": 0.1, "noticed_s": pytest.approx(0.2),
                                 "by": "connection closed", "traffic_again_s": None}]


def test_after_an_abort_the_first_round_is_judged_only_up_to_it(seen):
    first, = seen.rounds
    first.aborted_s = EPOCH_S + first.makespan_s / 2
    late = seen.first_sent_s > first.aborted_s
    again_s = first.aborted_s + 0.1
    seen.rounds.append(Round(again_s, 1.0, int(late.sum()), []))
    for times_s in (seen.first_sent_s, seen.last_sent_s, seen.arrived_s):
        times_s[late] += 0.5
    seen.notices = [Notice(first.aborted_s - 0.01, "switch", "connection closed", switch=1)]
    seen.injected = [(Fault("switch 1 dies", "dies", 0.0, switch=1), 0.0)]
    seen.bounds_s = [(first.aborted_s, 0.5)]
    result = result_of(seen)
    assert result["difference_s"] is None and result["losses"]["datagrams"] == 0 and result["undelivered_bytes"] == 0
    assert result["sender_late_s"]["max"] < 1e-6
    assert result["faults"][0]["traffic_again_s"] > result["faults"][0]["noticed_s"]
    assert result["survivors_lower_bound_s"] == pytest.approx(first.makespan_s / 2 + 0.5)
    assert result["faults_cost_s"] == pytest.approx(result["measured_makespan_s"] - result["predicted_makespan_s"])


def test_what_an_agent_that_died_sent_in_a_repair_is_not_late(seen):
    first, = seen.rounds
    never = seen.first_sent_s > EPOCH_S + first.makespan_s / 2
    again_s = EPOCH_S + first.makespan_s + 0.1
    seen.rounds.append(Round(again_s, 1.0, int(never.sum()), []))
    for times_s in (seen.first_sent_s, seen.last_sent_s, seen.arrived_s):
        times_s[never] += again_s - EPOCH_S
    result = result_of(seen)
    assert result["sender_late_s"]["max"] < 1e-6 and result["difference_s"]["rest"] == pytest.approx(0, abs=1e-9)
    assert result["difference_s"]["repair"] > 0.1
    for times_s in (seen.first_sent_s, seen.last_sent_s, seen.arrived_s):
        times_s[:] += 10
    assert result_of(seen)["difference_s"] is None
