"""What the controller does with its switches: wait for them, load a schedule, check it was taken, play it."""

import os
import queue
import select
import threading
import time

from controller import circuits, player
from controller.framework import ofproto_v1_3

_STATS_TIMEOUT_S = 5.0
_ECHO_EVERY_S, _SILENT_S = 0.1, 0.5  # a switch that has not answered for so long has failed
_RULES_TIMEOUT_S = 0.3
_BLOCKED_S = 1.0
_REHEARSALS, _RESUMES, _SETTLE_S = 4, 3, 0.02


class SwitchError(Exception):
    """A switch is missing, or does not hold what it was told: one line that names it."""


class Session:
    """The switches of one run, by index; switch h has datapath id h + 1.

    Parameters
    ----------
    app : CircuitApp
    protocol : ProtocolDesc
    switches : int
    clock : MonotonicClock
    say : callable
        `say(event)` tells of a switch or a port that fails once all have connected: see `_fails` and `_on_notice`.
    alive : iterable of int, optional
        The switches that are to be used; by default all.
    """

    def __init__(self, app, protocol, switches, clock, say, alive=None):
        self._app, self._protocol, self._count, self._clock, self._say = app, protocol, switches, clock, say
        self._files, self._locks = {}, [threading.Lock() for _ in range(switches)]
        self._alive, self._left_out = set(range(switches) if alive is None else alive), set()
        self._watching = False
        self._answered_s = [0.0] * switches
        self._next_xid = 1

    @property
    def alive(self):
        """Indices of the switches that have not failed and are not left out."""
        return sorted(self._alive - self._left_out)

    def await_switches(self, timeout_s, reset=True):
        """Wait until every switch has connected, make all dark, and check that they are.

        Parameters
        ----------
        timeout_s : float
        reset : bool
            False, where they are met again, leaves what they hold and forward as it is, and does without those that are
            missing.

        Raises
        ------
        SwitchError
            It names the switches that did not connect in time.
        """
        deadline_s = time.monotonic() + timeout_s
        wanted = {h + 1 for h in self._alive}
        while missing := wanted - set(self._app.datapaths):
            if time.monotonic() > deadline_s and not reset:
                for dpid in missing:
                    self._fails(dpid - 1, "did not connect again")
                wanted -= missing
            elif time.monotonic() > deadline_s:
                names = ", ".join(f"o{dpid} (datapath id {dpid})" for dpid in sorted(missing))
                strangers = [f"a switch with datapath id {dpid} did" for dpid in sorted(set(self._app.datapaths) - wanted)]
                why = "".join(f"; {complaint}" for complaint in dict.fromkeys(self._app.complaints + strangers))
                raise SwitchError(f"{len(missing)} of {self._count} switches did not connect within {timeout_s:g} s: "
                                  f"{names}{why}")
            time.sleep(0.005)
        if self._app.complaints:
            raise SwitchError("; ".join(dict.fromkeys(self._app.complaints)))
        # Our own descriptors: a connection that the framework closes must not leave its number to another file.
        self._files = {dpid - 1: os.dup(self._app.datapaths[dpid].socket.fileno()) for dpid in wanted}
        if reset:
            for h in self.alive:
                self.write(h, circuits.to_bytes(circuits.reset(self._protocol), self._xids(2)))
            self.check_rules([()] * self._count)

    def watch(self):
        """From now on, what fails is told and played around, not raised; a thread asks every switch whether it is there."""
        self._app.notice = self._on_notice
        self._watching = True
        self._answered_s = [self._clock.now()] * self._count
        for dpid in {h + 1 for h in self._alive} - set(self._app.datapaths):
            self._fails(dpid - 1, "connection closed")
        threading.Thread(target=self._ask, daemon=True).start()

    def leave_out(self, switches):
        """Speak no more to switches that others have seen fail, until another call does without them."""
        for h in self._left_out - set(switches):
            self._answered_s[h] = self._clock.now()  # it was not asked meanwhile
        self._left_out = set(switches)

    def _ask(self):
        parser = self._protocol.ofproto_parser
        echo = circuits.to_bytes([parser.OFPEchoRequest(self._protocol, data=b"")])
        while True:
            for h in self.alive:  # a list of its own: another thread may leave one out meanwhile
                self.write(h, echo)
            time.sleep(_ECHO_EVERY_S)
            for h in self.alive:
                if self._clock.now() - self._answered_s[h] > _SILENT_S:
                    self._fails(h, f"no echo reply for {_SILENT_S:g} s")

    def _fails(self, switch, by):
        """A switch is not used any more."""
        if switch in self._alive:
            self._alive.discard(switch)
            self._say({"event": "notice", "what": "switch", "switch": switch, "by": by, "t_s": self._clock.now()})

    def _on_notice(self, dpid, kind, message):
        h = dpid - 1
        if not 0 <= h < self._count:
            return
        if kind == "echo":
            self._answered_s[h] = self._clock.now()
        elif kind == "gone":
            self._fails(h, "connection closed")
        elif message.desc.port_no <= ofproto_v1_3.OFPP_MAX:
            down = message.desc.config & ofproto_v1_3.OFPPC_PORT_DOWN or message.desc.state & ofproto_v1_3.OFPPS_LINK_DOWN
            self._say({"event": "notice", "what": "port", "switch": h, "host": message.desc.port_no - 1, "back": not down,
                       "by": "port status", "t_s": self._clock.now()})

    def rehearse(self):
        """Light the loaded permutation and go dark again a few times; end dark and settled.

        Open vSwitch passes a datapath flow by, the first time it brings a change of rules to the data plane after the
        flow was made. A flow made in the dark would stay dark when its circuit is lit, until the change after that: so
        every input has to have sent before the epoch, and two changes to have followed.
        """
        for table in (player.table_of(0), None) * _REHEARSALS + (None, None):
            self._select(table)
            self._clock.sleep_until(self._clock.now() + _SETTLE_S)

    def _select(self, table):
        for h in self.alive:
            self.write(h, circuits.to_bytes([circuits.select(self._protocol, table)], self._xids(1)))

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
        for h in self.alive:
            self.write(h, circuits.to_bytes(circuits.reset(self._protocol), self._xids(2)))
        for action in prologue:
            self.write(action.switch, action.data)
        self.check_rules([slots[0].permutation if slots else () for slots in schedule.switches])
        return actions

    def resume(self, schedule, epoch_s, **timing):
        """Bring the switches to where a schedule is now, whatever they hold, and return the actions that are left.

        Parameters
        ----------
        schedule : Schedule
        epoch_s : float
            Of its play.
        **timing
            As for `arm`.

        Returns
        -------
        list of Action
            For `play`.
        """
        for _ in range(_RESUMES):  # more than once, for the reason that `rehearse` tells
            now_s = self._clock.now() - epoch_s
            for action in player.resume_actions(schedule, self._protocol, now_s):
                self.write(action.switch, action.data)
            time.sleep(_SETTLE_S)
        return [action for action in player.plan_actions(schedule, self._protocol, **timing)[1] if action.send_s > now_s]

    def play(self, actions, epoch_s):
        """Play what `arm` returned, and say when each action was written; dark from when the clock is interrupted.

        Returns
        -------
        list of dict
            `switch`, `kind`, `slot`, `planned_s` and `sent_s` of each action, in seconds from the epoch.
        """
        written_s = player.play(actions, epoch_s, self._clock, self.write)
        if len(written_s) < len(actions):
            self._select(None)
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
        for h in self.alive:
            request = parser.OFPFlowStatsRequest(self._protocol)
            xid = self._xids(1)
            requests[xid] = h
            self.write(h, circuits.to_bytes([request], xid))
        for h, rules in self._replies(requests).items():
            if h not in self.alive:
                continue
            expected = circuits.expected_rules(player.table_of(0), permutations[h])
            if rules != expected:
                raise SwitchError(f"switch o{h + 1} does not hold the rules it was sent: {len(expected - rules)} of "
                                  f"{len(expected)} missing, {len(rules - expected)} unexpected")

    def _replies(self, requests):
        """Rules of each switch that was asked, from replies of one or several parts."""
        rules = {h: set() for h in requests.values()}
        waiting = dict(requests)
        deadline_s = time.monotonic() + (_RULES_TIMEOUT_S if self._watching else _STATS_TIMEOUT_S)
        while waiting:
            try:
                _, message = self._app.replies.get(timeout=max(0.001, deadline_s - time.monotonic()))
            except queue.Empty:
                if self._watching:
                    for h in waiting.values():
                        self._fails(h, "no answer to a request for its rules")
                    break
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
        if switch not in self._alive or switch in self._left_out:
            return
        file = self._files[switch]
        view = memoryview(data)
        with self._locks[switch]:
            while view:
                try:
                    view = view[os.write(file, view):]
                except BlockingIOError:
                    if not select.select([], [file], [], _BLOCKED_S)[1]:
                        return self._fails_or_raises(switch, "it takes no more messages")
                except OSError:
                    return self._fails_or_raises(switch, "connection closed")

    def _fails_or_raises(self, switch, by):
        if not self._watching:
            raise SwitchError(f"switch o{switch + 1} is gone: {by}")
        self._fails(switch, by)

    def _xids(self, count):
        first = self._next_xid
        self._next_xid += count
        return first
