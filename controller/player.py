"""Plays a schedule on switches: absolute deadlines from one epoch, one small message an event."""

from dataclasses import dataclass, replace

from controller import circuits

DARK, LIT, LOAD = "dark", "lit", "load"
_XID_BASE = 0x5000_0000


@dataclass(frozen=True)
class Action:
    """Something to write to a switch at an instant.

    Parameters
    ----------
    planned_s : float
        When the switch shall have changed, in seconds from the epoch.
    send_s : float
        When the message is written, in seconds from the epoch: ahead of `planned_s` by the compensation.
    switch : int
    kind : {'dark', 'lit', 'load'}
    slot : int
        Index of the slot that this prepares or begins; for the dark that ends a schedule, the number of slots.
    data : bytes
        Serialised OpenFlow messages.
    """

    planned_s: float
    send_s: float
    switch: int
    kind: str
    slot: int
    data: bytes


def plan_actions(schedule, protocol, lead_dark_s=0.0, lead_lit_s=0.0, late_s=None):
    """All that has to be written to play a schedule, the first permutation of each switch included.

    Parameters
    ----------
    schedule : Schedule
    protocol : ProtocolDesc
        OpenFlow 1.3.
    lead_dark_s, lead_lit_s : float
        How far ahead of its planned instant each message is sent, to make up for the switch's latency.
    late_s : dict of int to (float, float), optional
        By how much the circuits of a switch are lit late on purpose, and from when on: a fault to be injected.

    Returns
    -------
    prologue : list of Action
        To be written before the epoch: the first permutation of each switch, loaded while all is dark.
    actions : list of Action
        Sorted by `send_s`. Slot k + 1 is loaded into the table that is not lit, as far from any change as can be: in
        the middle of slot k, or of the dark interval after it where that is longer.
    """
    dark = circuits.to_bytes([circuits.select(protocol, None)], _XID_BASE)
    lit = {table: circuits.to_bytes([circuits.select(protocol, table)], _XID_BASE)
           for table in circuits.PERMUTATION_TABLES}
    prologue, actions, late_s = [], [], late_s or {}
    for h, slots in enumerate(schedule.switches):
        windows = schedule.windows(h)
        by_s, from_s = late_s.get(h, (0.0, 0.0))
        for k, (slot, window) in enumerate(zip(slots, windows)):
            table = table_of(k)
            loading = circuits.to_bytes(circuits.load(protocol, table, slot.permutation), _XID_BASE)
            if k == 0:
                prologue.append(Action(0.0, 0.0, h, LOAD, 0, loading))
            else:
                before = windows[k - 1]
                long_slot = before.end_s - before.lit_s >= schedule.delta_s
                at_s = (before.lit_s + before.end_s) / 2 if long_slot else (window.dark_s + window.lit_s) / 2
                actions.append(Action(at_s, at_s, h, LOAD, k, loading))
            actions.append(Action(window.dark_s, window.dark_s - lead_dark_s, h, DARK, k, dark))
            actions.append(Action(window.lit_s, window.lit_s - lead_lit_s + (by_s if window.lit_s >= from_s else 0.0), h, LIT, k, lit[table]))
        if slots:
            end_s = windows[-1].end_s
            actions.append(Action(end_s, end_s - lead_dark_s, h, DARK, len(slots), dark))
    return prologue, _in_order(actions)


def resume_actions(schedule, protocol, now_s):
    """All that brings switches, whatever they hold, to where a schedule is at an instant.

    Parameters
    ----------
    schedule : Schedule
    protocol : ProtocolDesc
    now_s : float
        From the epoch.

    Returns
    -------
    list of Action
        To be written at once; the actions of `plan_actions` after `now_s` follow. Both tables are loaded, that of the slot
        that goes on and that of the next one, and the circuits are lit where they should be.
    """
    actions = []
    for h, slots in enumerate(schedule.switches):
        messages, lit, on = circuits.reset(protocol), None, len(slots)
        for k, window in enumerate(schedule.windows(h)):
            if now_s < window.end_s:
                on = k
                for number in (k, k + 1):
                    if number < len(slots):
                        messages += circuits.load(protocol, table_of(number), slots[number].permutation)
                lit = table_of(k) if window.lit_s <= now_s else None
                break
        messages.append(circuits.select(protocol, lit))
        actions.append(Action(now_s, now_s, h, LIT if lit else DARK, on, circuits.to_bytes(messages, _XID_BASE)))
    return actions


def _in_order(actions):
    """Actions by the time they are sent; leads never swap two of one switch, however short a slot is."""
    latest_s, ordered = {}, []
    for action in sorted(actions, key=lambda action: action.planned_s):
        send_s = max(action.send_s, latest_s.get(action.switch, action.send_s))
        latest_s[action.switch] = send_s
        ordered.append(replace(action, send_s=send_s))
    return sorted(ordered, key=lambda action: action.send_s)


def table_of(slot):
    """The permutation table that a slot is loaded into: they alternate."""
    return circuits.PERMUTATION_TABLES[slot % 2]


def play(actions, epoch_s, clock, write):
    """Write each action at its instant.

    Parameters
    ----------
    actions : list of Action
        Sorted by `send_s`.
    epoch_s : float
        The epoch on the clock.
    clock : object
        `now()` and `sleep_until(t)`, which is false where the play is to end early.
    write : callable
        `write(switch, data)` puts bytes on the switch's connection at once.

    Returns
    -------
    list of float
        When each was written, in seconds from the epoch; of fewer actions where the play ended early.
    """
    written_s = []
    for action in actions:
        if not clock.sleep_until(epoch_s + action.send_s):
            break
        write(action.switch, action.data)
        written_s.append(clock.now() - epoch_s)
    return written_s
