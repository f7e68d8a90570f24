"""What the controller does with its switches: wait for them, load a schedule, check it was taken, play it."""

import os
import queue
import select
import time

from controller import circuits, player
from controller.framework import ofproto_v1_3

_STATS_TIMEOUT_S = 5.0
_REHEARSALS, _SETTLE_S = 4, 0.02


class SwitchError(Exception):
    """A switch is missing, or does not hold what it was told: one line that names it."""


class Session:
    """The switches of one run, by index; switch h has datapath id h + 1.

    Parameters
    ----------
    app : CircuitApp
    protocol : ProtocolDesc
    switches : int
    clock : object
        `now()` and `sleep_until(t)`.
    """

    def __init__(self, app, protocol, switches, clock):
        self._app, self._protocol, self._count, self._clock = app, protocol, switches, clock
        self._files = {}
        self._next_xid = 1

    def await_switches(self, timeout_s):
        """Wait until every switch has connected, make all dark, and check that they are.

        Raises
        ------
        SwitchError
            It names the switches that did not connect in time.
        """
        deadline_s = time.monotonic() + timeout_s
        wanted = set(range(1, self._count + 1))
        while missing := wanted - set(self._app.datapaths):
            if time.monotonic() > deadline_s:
                names = ", ".join(f"o{dpid} (datapath id {dpid})" for dpid in sorted(missing))
                raise SwitchError(f"{len(missing)} of {self._count} switches did not connect within {timeout_s:g} s: "
                                  f"{names}")
            time.sleep(0.005)
        # Our own descriptors: a connection that the framework closes must not leave its number to another file.
        self._files = {dpid - 1: os.dup(self._app.datapaths[dpid].socket.fileno()) for dpid in wanted}
        for h in range(self._count):
            self.write(h, circuits.to_bytes(circuits.reset(self._protocol), self._xids(2)))
        self.check_rules([()] * self._count)

    def rehearse(self):
        """Light the loaded permutation and go dark again a few times; end dark and settled.

        Open vSwitch passes a datapath flow by, the first time it brings a change of rules to the data plane after the
        flow was made. A flow made in the dark would stay dark when its circuit is lit, until the change after that: so
        every input has to have sent before the epoch, and two changes to have followed.
        """
        for table in (player.table_of(0), None) * _REHEARSALS + (None, None):
            for h in range(self._count):
                self.write(h, circuits.to_bytes([circuits.select(self._protocol, table)], self._xids(1)))
            self._clock.sleep_until(self._clock.now() + _SETTLE_S)

    def arm(self, schedule, **timing):
        """Load the first permutation of each switch, check it was taken, and serialise all that follows.

        Parameters
        ----------
        schedule : Schedule
        **timing
            `lead_dark_s`, `lead_lit_s` and `late_s` of `player.plan_actions`.

        Returns
        -------
        list of Action
            For `play`.

        Raises
        ------
        SwitchError
        """
        prologue, actions = player.plan_actions(schedule, self._protocol, **timing)
        for h in range(self._count):
            self.write(h, circuits.to_bytes(circuits.reset(self._protocol), self._xids(2)))
        for action in prologue:
            self.write(action.switch, action.data)
        self.check_rules([slots[0].permutation if slots else () for slots in schedule.switches])
        return actions

    def play(self, actions, epoch_s):
        """Play what `arm` returned, and say when each action was written.

        Returns
        -------
        list of dict
            `switch`, `kind`, `slot`, `planned_s` and `sent_s` of each action, in seconds from the epoch.
        """
        written_s = player.play(actions, epoch_s, self._clock, self.write)
        return [{"switch": action.switch, "kind": action.kind, "slot": action.slot, "planned_s": action.planned_s,
                 "sent_s": sent_s} for action, sent_s in zip(actions, written_s)]

    def check_rules(self, permutations):
        """Read every table of every switch, and compare with the first permutation, dark.

        Raises
        ------
        SwitchError
            It names the switch, and counts the rules that are missing or too many.
        """
        requests = {}
        parser = self._protocol.ofproto_parser
        for h in range(self._count):
            request = parser.OFPFlowStatsRequest(self._protocol)
            xid = self._xids(1)
            requests[xid] = h
            self.write(h, circuits.to_bytes([request], xid))
        for h, rules in self._replies(requests).items():
            expected = circuits.expected_rules(player.table_of(0), permutations[h])
            if rules != expected:
                raise SwitchError(f"switch o{h + 1} does not hold the rules it was sent: {len(expected - rules)} of "
                                  f"{len(expected)} missing, {len(rules - expected)} unexpected")

    def _replies(self, requests):
        """Rules of each switch that was asked, from replies of one or several parts."""
        rules = {h: set() for h in requests.values()}
        waiting = dict(requests)
        deadline_s = time.monotonic() + _STATS_TIMEOUT_S
        while waiting:
            try:
                _, message = self._app.replies.get(timeout=max(0.001, deadline_s - time.monotonic()))
            except queue.Empty:
                names = ", ".join(f"o{h + 1}" for h in sorted(waiting.values()))
                raise SwitchError(f"no answer within {_STATS_TIMEOUT_S:g} s from switch {names}") from None
            h = waiting.get(message.xid)
            if message.msg_type == ofproto_v1_3.OFPT_ERROR:
                raise SwitchError(f"switch o{message.datapath.id} refused a message: "
                                  f"OpenFlow error type {message.type}, code {message.code}")
            if h is None or not hasattr(message, "body"):
                continue
            rules[h] |= circuits.rules_of(message.body)
            if not message.flags & ofproto_v1_3.OFPMPF_REPLY_MORE:
                del waiting[message.xid]
        return rules

    def errors(self):
        """One line for each error message that switches have sent since the last look."""
        lines = []
        while True:
            try:
                dpid, message = self._app.replies.get_nowait()
            except queue.Empty:
                return lines
            if message.msg_type == ofproto_v1_3.OFPT_ERROR:
                lines.append(f"switch o{dpid}: OpenFlow error type {message.type}, code {message.code}")

    def write(self, switch, data):
        """Put bytes on a switch's connection now, past the framework's queue and its thread.

        The framework writes whole messages in single calls too, so that messages never mix.
        """
        file = self._files[switch]
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(file, view):]
            except BlockingIOError:
                select.select([], [file], [], 1.0)
            except OSError as error:
                raise SwitchError(f"the connection to switch o{switch + 1} is gone ({error.strerror})") from None

    def _xids(self, count):
        first = self._next_xid
        self._next_xid += count
        return first
