"""Plays rounds until everything has arrived, and plays around what fails meanwhile."""

import contextlib
import select
import time
from dataclasses import dataclass, field

import numpy as np

from testbed import transfer
from testbed.agent import AgentEnded
from testbed.control import READY_TIMEOUT_S, ControllerEnded
from testbed.errors import TestbedError
from testbed.recovery import NOTHING_ARRIVES, Notice, Survivors, schedule_around

_EPOCH_AHEAD_S = 0.3
_REPAIR_AHEAD_S = 0.005
_GRACE_S = 0.008  # the last datagrams are on their way for this long at most
_ROUNDS_WITHOUT_PROGRESS = 8  # each with slots twice as long, for a switch that is late by more than a short one
_GREETINGS, _GREETING_EVERY_S = 10, 0.017
_LOOK_EVERY_S = 0.02
# What was due so long ago, and has not arrived, tells of what has failed: of a switch or an agent sooner than of a port.
_OVERDUE_S, _RECENT_S, _OVERDUE_FROM_S = 0.06, 0.21, 0.36
_A_WHILE_S = 0.08  # a slot that is lit late loses less
_TELLING, _TELLING_OF_SWITCH = 4, 8  # so many datagrams have to be missing, and none arrived
_WORTH_S = 0.3  # what comes back is used if so much of the round is left
_HOPE_S = 3.0  # where no path is left to something, a link may come back within this time


@dataclass
class Round:
    """One schedule that was played: the first is the plan's, the others are repairs. Times are CLOCK_MONOTONIC.

    `aborted_s` is when it was ended, since something had failed.
    """

    epoch_s: float
    makespan_s: float
    datagrams: int
    actions: list = field(default_factory=list)
    aborted_s: float | None = None


class Conductor:
    """Plays rounds until everything has arrived.

    Parameters
    ----------
    plan : Plan
    controller : ControllerProcess
    agents : Agents
    injector : Injector
    watch : callable or None
        `watch(plan, ledger, epoch_s)` is a context manager that shows the first play.

    Attributes
    ----------
    rounds : list of Round
    errors : list of str
        What switches complained of.
    notices : list of Notice
        What was seen to fail, or to come back.
    bounds_s : list of (float, float)
        For each time that something failed: when on CLOCK_MONOTONIC, and the least time for what was still to deliver.
    """

    def __init__(self, plan, controller, agents, injector, watch):
        self._plan, self._controller, self._agents, self._injector = plan, controller, agents, injector
        self._watch = watch or (lambda *_: contextlib.nullcontext())
        self.survivors = Survivors(plan.hosts, plan.settings.switches)
        self.rounds, self.errors, self.notices, self.bounds_s = [], [], [], []
        self._blind_until_s, self._suspected_hosts = 0.0, set()

    def rehearse(self):
        """Warm every part up with packets that do not count, and leave every switch dark and settled."""
        self._controller.arm(self._plan.schedule)
        self._controller.tell(do="rehearse")
        for _ in range(_GREETINGS):
            self._agents.greet()
            time.sleep(_GREETING_EVERY_S)
        self._controller.expect("rehearsed", READY_TIMEOUT_S)

    def first_round(self):
        self._play(self._plan.schedule, self._plan.releases, _EPOCH_AHEAD_S)

    def repair(self):
        """Schedule what is missing as a demand of its own, on what is left of the network, again and again."""
        idle_rounds, missing = 0, self._agents.ledger.missing()
        plan, datagrams = self._plan, self._plan.datagrams
        while len(missing) and idle_rounds < _ROUNDS_WITHOUT_PROGRESS:
            self._agents.revive()
            demand_s = transfer.repair_demand_s(datagrams, missing, plan.hosts, plan.link, transfer.REPAIR_SLOT_S * 2**idle_rounds)
            reachable = self.survivors.usable().any(axis=0)
            if not (demand_s * reachable).any():
                if self.survivors.readmit():
                    idle_rounds += 1  # it is tried again, with longer slots
                elif not self._hope():
                    return
                continue
            schedule = schedule_around(demand_s * reachable, plan.schedule.delta_s, plan.repair_scheduler,
                                       self.survivors)
            there = missing[reachable[datagrams.source[missing], datagrams.destination[missing]]]
            self._play(schedule, transfer.plan_repair(schedule, datagrams, there, plan.link), _REPAIR_AHEAD_S)
            still_missing = self._agents.ledger.missing()
            if self.rounds[-1].aborted_s is None:
                idle_rounds = 0 if len(still_missing) < len(missing) else idle_rounds + 1
            missing = still_missing

    def _play(self, schedule, releases, ahead_s):
        first = not self.rounds
        shift_s = 0.0 if first else time.monotonic() + ahead_s - self.rounds[0].epoch_s
        self._arm_controller(schedule, shift_s)
        self._agents.arm(releases, with_probes=first)
        this = Round(time.monotonic() + ahead_s, schedule.makespan_s, int((releases.sequence >= 0).sum()))
        self.rounds.append(this)
        self._controller.tell(do="play", epoch_s=this.epoch_s)
        self._agents.play(this.epoch_s)
        with self._watch(self._plan, self._agents.ledger, this.epoch_s) if first else contextlib.nullcontext():
            self._attend(this, releases)
        end_s = (this.aborted_s or this.epoch_s + schedule.makespan_s) + _GRACE_S
        while len(self._agents.ledger.missing()) and (rest_s := end_s - time.monotonic()) > 0:
            time.sleep(min(rest_s, 0.002))

    def _arm_controller(self, schedule, shift_s):
        while True:
            try:
                return self._controller.arm(schedule, self._plan.compensation_s, self._injector.late_s(shift_s),
                                            self.survivors.switches_out)
            except ControllerEnded:
                if self._restart_controller():  # it plays what it did before: no more of that
                    self._controller.tell(do="abort")
                    self._controller.expect("played", READY_TIMEOUT_S)

    def _restart_controller(self):
        self._controller.notices.append(Notice(time.monotonic(), "controller", "its process ended"))
        resumes = self._controller.restart()
        self._blind_until_s = time.monotonic() + _OVERDUE_FROM_S  # what was lost meanwhile tells of nothing else
        return resumes

    def _attend(self, this, releases):
        """Inject what is due, and look for what fails, until the round is over, or aborted."""
        epoch_s, deadline_s = self.rounds[0].epoch_s, this.epoch_s + this.makespan_s + 60
        played = sent = deaf = False
        while not (played and sent):
            now_s = time.monotonic()
            if now_s > deadline_s:
                raise TestbedError("the round did not end" + ("" if played else ": the controller does not answer")
                                   + ("" if sent else ": the sender does not answer"))
            self._injector.inject(now_s - epoch_s)
            if not deaf and not self._agents.receiver_alive:
                deaf = True
                self._ends("receiver")
            sent = sent or self._sent()
            played = played or self._played(this)
            notices = self._overdue(this, releases, time.monotonic()) if not sent else []
            if self._changes([*self._told(), *notices], this) and this.aborted_s is None:
                this.aborted_s = time.monotonic()
                self._agents.abort()
                if not played:
                    self._abort_controller()
            if not (played and sent):
                ends = [self._controller] * (not played) + [self._agents.sender_pipe] * (not sent)
                rest_s = epoch_s + self._injector.next_s() - time.monotonic()
                select.select(ends, [], [], max(0.0, min(_LOOK_EVERY_S, rest_s)))

    def _abort_controller(self):
        with contextlib.suppress(ControllerEnded):  # heard of when it is listened to
            self._controller.tell(do="abort")

    def _sent(self):
        try:
            return self._agents.finished()
        except AgentEnded:
            self._ends("sender")
            return True

    def _ends(self, name):
        self._controller.notices.append(Notice(time.monotonic(), "agent", f"the {name} ended"))

    def _played(self, this):
        """Whether the controller has played all; one that has ended is started anew, and goes on."""
        try:
            message = self._controller.take(0.0)
        except ControllerEnded:
            self._restart_controller()
            if this.aborted_s is not None:
                self._abort_controller()
            return False
        if message is None:
            return False
        this.actions += message["actions"]
        self.errors += message["errors"]
        return True

    def _told(self):
        """What has been noticed since the last look."""
        while self._controller.notices:
            yield self._controller.notices.popleft()

    def _changes(self, notices, this):
        """Take notices; whether one of them makes it necessary to plan anew."""
        changes = False
        for notice in notices:
            self.notices.append(notice)
            rest_s = this.epoch_s + this.makespan_s - notice.t_s
            if self.survivors.take(notice):
                changes = changes or not notice.back or rest_s > _WORTH_S
            changes = changes or notice.what == "agent"
        if changes:
            plan = self._plan
            demand_s = transfer.repair_demand_s(plan.datagrams, self._agents.ledger.missing(), plan.hosts, plan.link, least_s=0.0)
            self.bounds_s.append((time.monotonic(), self.survivors.lower_bound_s(demand_s, plan.schedule.delta_s)))
        return changes

    def _overdue(self, this, releases, now_s):
        """Notices of what datagrams of late tell: where all of several are missing, something has failed.

        A host whose agent has died does not send, or takes nothing on any switch; a switch or a port lets nothing pass.
        """
        ledger, n = self._agents.ledger, self._plan.hosts
        first, last = np.searchsorted(releases.release_s, [now_s - this.epoch_s - _OVERDUE_FROM_S, now_s - this.epoch_s - _OVERDUE_S])
        sequence = releases.sequence[first:last]
        real = sequence >= 0
        sequence = sequence[real]
        if len(sequence) < _TELLING or now_s < self._blind_until_s:
            return []
        source, destination, switch = (column[first:last][real] for column in (releases.source, releases.destination,
                                                                                  releases.switch))
        sent = ledger.last_sent_s[sequence] > this.epoch_s - 0.1
        arrived = ledger.arrived_s[sequence] > 0
        release_s = releases.release_s[first:last][real]
        recent = release_s > now_s - this.epoch_s - _RECENT_S
        passed = recent & (np.arange(len(sequence)) < (np.flatnonzero(sent)[-1] if sent.any() else 0))
        switches = self.survivors.switches

        def silent(of, at_s, wanted, good, length, least):
            """Which of a column's values have at least so many wanted datagrams, over a while, and none that is good."""
            begin_s, end_s = np.full(length, np.inf), np.full(length, -np.inf)
            np.minimum.at(begin_s, of[wanted], at_s[wanted])
            np.maximum.at(end_s, of[wanted], at_s[wanted])
            return np.flatnonzero((np.bincount(of[wanted], minlength=length) >= least) & (end_s - begin_s >= _A_WHILE_S)
                                  & (np.bincount(of[wanted & good], minlength=length) == 0)).tolist()

        def notice(what, by, **of):
            return Notice(now_s, what, by, **of)

        notices = [notice("agent", "it sends nothing", host=i) for i in silent(source, release_s, passed, sent, n, _TELLING // 2)]
        notices += [notice("switch", NOTHING_ARRIVES, switch=h)
                    for h in silent(switch, release_s, sent & recent, arrived, switches, _TELLING_OF_SWITCH) if h in self.survivors.alive]
        if notices:
            return notices
        # Only where the switch lets others pass, and both ends of a circuit are looked at.
        live = sent & np.isin(switch, np.unique(switch[sent & recent & arrived]))
        ends, live, good = (np.concatenate(both) for both in (
            (source * switches + switch, destination * switches + switch), (live, live), (arrived, arrived)))
        out = [divmod(end, switches) for end in silent(ends, np.concatenate([release_s, release_s]), live, good, n * switches, _TELLING)]
        out = [end for end in out if end not in self.survivors.ports_out]
        hosts_good = {end // switches for end in np.unique(ends[live & good]).tolist()}
        for i in {i for i, _ in out} - hosts_good - self._suspected_hosts:
            self._suspected_hosts.add(i)  # its agent, rather than all its links at once; if that was not it, they are next
            return [notice("agent", "it takes nothing", host=i)]
        return [notice("port", NOTHING_ARRIVES, host=i, switch=h) for i, h in out]

    def _hope(self):
        """Wait for a link to come back; whether one has."""
        end_s = time.monotonic() + _HOPE_S
        while self.survivors.ports_out and time.monotonic() < end_s:
            self._injector.inject(time.monotonic() - self.rounds[0].epoch_s)
            self._controller.take(_LOOK_EVERY_S)
            for notice in self._told():
                self.notices.append(notice)
                if self.survivors.take(notice) and notice.back:
                    return True
        return False
