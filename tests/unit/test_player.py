"""The player on a fake clock, and whole schedules through an in-memory flow table."""

from itertools import groupby

from hypothesis import given, strategies as st

from controller import circuits
from controller.framework import ProtocolDesc, ofproto_v1_3
from controller.player import Action, plan_actions, play, table_of
from controller.scheduling.schedule import Schedule, Slot
from tests.unit.flowtable import FlowTable
from tests.unit.strategies import schedules

PROTOCOL = ProtocolDesc(version=ofproto_v1_3.OFP_VERSION)
SCHEDULE = Schedule(0.5, (
    (Slot((1, 0, -1), 2.0), Slot((2, -1, 0), 1.0)),
    (Slot((-1, 2, 1), 4.0),)))


class FakeClock:
    """Time passes only in sleep_until, which overshoots by the amounts given, in order, and then by nothing."""

    def __init__(self, now_s, overshoots_s=()):
        self.now_s, self._overshoots_s, self.end_s = now_s, list(overshoots_s), float("inf")

    def now(self):
        return self.now_s

    def sleep_until(self, deadline_s):
        if deadline_s > self.now_s:
            self.now_s = deadline_s + (self._overshoots_s.pop(0) if self._overshoots_s else 0.0)
        return deadline_s <= self.end_s


def summary(actions):
    return [(action.send_s, action.switch, action.kind, action.slot) for action in actions]


def action_at(send_s):
    """An action that is sent ahead of its plan."""
    return Action(send_s + 0.0625, send_s, 0, "dark", 0, f"at {send_s}".encode())


def played(actions, clock, epoch_s):
    """What was written, as (instant on the clock, data), and what play returned."""
    writes = []
    written_s = play(actions, epoch_s, clock, lambda switch, data: writes.append((clock.now(), data)))
    return writes, written_s


def test_actions_in_order_with_their_instants():
    _, actions = plan_actions(SCHEDULE, PROTOCOL)
    assert summary(actions) == [
        (0.0, 0, "dark", 0), (0.0, 1, "dark", 0),
        (0.5, 0, "lit", 0), (0.5, 1, "lit", 0),
        (1.5, 0, "load", 1),  # the middle of slot 0, which is lit from 0.5 to 2.5
        (2.5, 0, "dark", 1), (3.0, 0, "lit", 1), (4.0, 0, "dark", 2),
        (4.5, 1, "dark", 1)]


def test_first_permutations_are_loaded_before_the_epoch():
    prologue, _ = plan_actions(SCHEDULE, PROTOCOL)
    assert summary(prologue) == [(0.0, 0, "load", 0), (0.0, 1, "load", 0)]


def test_slot_after_a_short_one_is_loaded_in_the_dark():
    """Slot 0 is lit from 0.5 to 0.75, and the middle of the dark interval after it is 1.0."""
    _, actions = plan_actions(Schedule(0.5, ((Slot((1, 0), 0.25), Slot((1, 0), 1.0)),)), PROTOCOL)
    assert (1.0, 0, "load", 1) in summary(actions)


def test_switch_without_slots_is_left_alone():
    prologue, actions = plan_actions(Schedule(0.5, ((), (Slot((1, 0), 1.0),))), PROTOCOL)
    assert {action.switch for action in prologue + actions} == {1}


def test_tables_alternate():
    assert [table_of(k) for k in range(4)] == [1, 2, 1, 2]


def test_leads_bring_messages_forward_and_leave_the_plan():
    _, plain = plan_actions(SCHEDULE, PROTOCOL)
    _, ahead = plan_actions(SCHEDULE, PROTOCOL, lead_dark_s=0.0625, lead_lit_s=0.125)
    lead_s = {"dark": 0.0625, "lit": 0.125, "load": 0.0}
    assert summary(ahead) == sorted(
        ((action.send_s - lead_s[action.kind], action.switch, action.kind, action.slot) for action in plain),
        key=lambda row: row[0])
    assert [action.planned_s for action in ahead] == [action.planned_s for action in plain]


@given(schedules(delays_s=(0.005, 0.02), shortest_s=0.0002), st.floats(0, 0.004), st.floats(0, 0.004))
def test_leads_never_change_the_order_on_a_switch(schedule, lead_dark_s, lead_lit_s):
    """Else a circuit stays lit in the dark, or a table is lit before its permutation is in it."""
    _, actions = plan_actions(schedule, PROTOCOL, lead_dark_s, lead_lit_s)
    for h, slots in enumerate(schedule.switches):
        order = [(action.kind, action.slot) for action in actions if action.switch == h]
        changes = [change for k in range(len(slots)) for change in (("dark", k), ("lit", k))]
        assert [entry for entry in order if entry[0] != "load"] == changes + [("dark", len(slots))] * bool(slots)
        for k in range(1, len(slots)):
            assert order.index(("dark", k - 1)) < order.index(("load", k)) < order.index(("lit", k))


def test_deliberately_late_switch_is_lit_late_and_the_others_are_not():
    _, actions = plan_actions(SCHEDULE, PROTOCOL, late_s={1: (0.25, 0.0)})
    lit = {(action.switch, action.slot): action.send_s for action in actions if action.kind == "lit"}
    assert lit == {(0, 0): 0.5, (0, 1): 3.0, (1, 0): 0.75}


def test_changes_are_one_small_message_each():
    _, actions = plan_actions(SCHEDULE, PROTOCOL)
    assert all(len(action.data) < 100 for action in actions if action.kind != "load")


def test_each_action_is_written_at_its_instant():
    clock = FakeClock(99.0)
    writes, written_s = played([action_at(0.0), action_at(0.5), action_at(2.0)], clock, 100.0)
    assert writes == [(100.0, b"at 0.0"), (100.5, b"at 0.5"), (102.0, b"at 2.0")]
    assert written_s == [0.0, 0.5, 2.0]


def test_overshoot_does_not_shift_later_deadlines():
    clock = FakeClock(99.0, overshoots_s=[0.25, 0.125])
    _, written_s = played([action_at(0.0), action_at(0.5), action_at(2.0)], clock, 100.0)
    assert written_s == [0.25, 0.625, 2.0]


def test_what_is_overdue_is_written_at_once_and_in_order():
    clock = FakeClock(99.0, overshoots_s=[1.0])
    writes, written_s = played([action_at(0.0), action_at(0.25), action_at(0.5), action_at(2.0)], clock, 100.0)
    assert [data for _, data in writes] == [b"at 0.0", b"at 0.25", b"at 0.5", b"at 2.0"]
    assert written_s == [1.0, 1.0, 1.0, 2.0]


@given(schedules())
def test_nothing_is_written_before_its_time(schedule):
    _, actions = plan_actions(schedule, PROTOCOL)
    _, written_s = played(actions, FakeClock(1.0, overshoots_s=[0.02] * len(actions)), 8.0)
    assert len(written_s) == len(actions)
    assert all(at_s >= action.send_s - 1e-9 for at_s, action in zip(written_s, actions))
    assert all(at_s <= action.send_s + 0.02 + 1e-9 for at_s, action in zip(written_s, actions))


def test_writes_go_to_the_switch_of_the_action():
    _, actions = plan_actions(SCHEDULE, PROTOCOL)
    writes = []
    play(actions, 5.0, FakeClock(0.0), lambda *write: writes.append(write))
    assert writes == [(action.switch, action.data) for action in actions]


def armed_switches(schedule, prologue):
    switches = [FlowTable(PROTOCOL) for _ in schedule.switches]
    for table in switches:
        table.apply_all(circuits.reset(PROTOCOL))
    for action in prologue:
        switches[action.switch].apply_bytes(action.data)
    return switches


def due(schedule, switch, instant_s):
    """What a switch has to do at an instant: a slot's permutation, or dark."""
    for slot, window in zip(schedule.switches[switch], schedule.windows(switch)):
        if window.lit_s <= instant_s < window.end_s:
            return slot.permutation
    return (-1,) * schedule.ports


@given(schedules())
def test_at_any_time_each_switch_is_dark_or_lit_as_scheduled(schedule):
    prologue, actions = plan_actions(schedule, PROTOCOL)
    switches = armed_switches(schedule, prologue)
    for table in switches:
        assert table.forwarding(schedule.ports) == (-1,) * schedule.ports
    batches = [(at_s, list(batch)) for at_s, batch in groupby(actions, key=lambda action: action.planned_s)]
    next_s = [at_s for at_s, _ in batches[1:]] + [float("inf")]
    for (at_s, batch), until_s in zip(batches, next_s):
        for action in batch:
            switches[action.switch].apply_bytes(action.data)
        between_s = min(at_s + 1.0, (at_s + until_s) / 2)
        for h, table in enumerate(switches):
            assert table.forwarding(schedule.ports) == due(schedule, h, between_s)
