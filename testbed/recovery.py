"""What is left of a network in which parts have failed, and a schedule for it. Pure."""

from dataclasses import dataclass, field

import numpy as np

from controller.scheduling.bounds import lower_bound_s
from controller.scheduling.schedule import COVER_TOLERANCE_S, Schedule
from topologies.parallel_ocs import host_interface, host_name, switch_name


NOTHING_ARRIVES = "nothing arrives over it"


@dataclass(frozen=True)
class Notice:
    """Something that was seen to fail, or to come back: `t_s` on CLOCK_MONOTONIC, and by what it was seen."""

    t_s: float
    what: str
    by: str
    switch: int | None = None
    host: int | None = None
    back: bool = False

    def about(self, fault):
        """Whether it is what an injected fault does."""
        kinds = {"switch": ("dies", "sticks", "slow"), "port": ("down", "loses"), "agent": ("agent",), "controller": ("restarts",)}
        return fault.kind in kinds[self.what] and (self.switch, self.host) == (fault.switch, fault.host)

    def explained_by(self, fault):
        """Whether an injected fault can be the reason.

        Nothing passes where the other end of a circuit fails, or the only link to a switch; a host seems dead where its
        switches or links are.
        """
        if (self.what == "port" or self.by == NOTHING_ARRIVES) and (fault.kind == "agent" or fault.switch == self.switch):
            return True
        if self.what == "agent" and self.host is not None and fault.switch is not None and fault.host in (None, self.host):
            return True
        return self.about(fault)

    @property
    def name(self):
        """What it is of, in words."""
        if self.what == "switch":
            return f"switch {switch_name(self.switch)}"
        if self.what == "port":
            return f"port {host_interface(self.host, self.switch)}"
        if self.what == "agent":
            return "an agent process" if self.host is None else f"agent {host_name(self.host)}"
        return "controller"


@dataclass
class Survivors:
    """Which switches and ports can be used.

    Parameters
    ----------
    hosts, switches : int
    """

    hosts: int
    switches: int
    switches_out: set = field(default_factory=set)
    ports_out: set = field(default_factory=set)
    _suspects: set = field(default_factory=set)

    def take(self, notice):
        """Note what was seen; returns whether that changes what can be used."""
        before = set(self.switches_out), set(self.ports_out)
        part, out = ((notice.switch, self.switches_out) if notice.what == "switch" else
                     ((notice.host, notice.switch), self.ports_out) if notice.what == "port" else (None, set()))
        if notice.back or notice.by != NOTHING_ARRIVES:
            self._suspects.discard(part)
        elif part not in out:
            self._suspects.add(part)
        if notice.back:
            out.discard(part)
        else:
            out.add(part)
        return before != (self.switches_out, self.ports_out)

    def readmit(self):
        """Take back what is out only since nothing arrived over it, which can have other reasons.

        Returns
        -------
        bool
            Whether there is any.
        """
        back, self._suspects = self._suspects, set()
        self.switches_out -= back
        self.ports_out -= back
        return bool(back)

    @property
    def alive(self):
        """Indices of the switches that can be used."""
        return [h for h in range(self.switches) if h not in self.switches_out]

    def usable(self):
        """Whether a pair can use a switch.

        Returns
        -------
        ndarray of bool, shape (switches, hosts, hosts)
        """
        usable = np.ones((self.switches, self.hosts, self.hosts), dtype=bool)
        for h in self.switches_out:
            usable[h] = False
        for i, h in self.ports_out:
            usable[h, i, :] = usable[h, :, i] = False
        return usable

    def lower_bound_s(self, demand_s, delta_s):
        """The least makespan of a demand on the switches that are left; that some ports are out is left aside."""
        return lower_bound_s(demand_s, len(self.alive), delta_s) if self.alive and demand_s.any() else 0.0


def schedule_around(demand_s, delta_s, scheduler, survivors):
    """A schedule for what is left of the network, by an ordinary scheduler, for which all its switches are alike.

    It schedules the demand on all switches that are left, with the circuits dark that would use a port that is out; what
    these would have carried is scheduled on the switches that can, after it. Where that is longer than without the
    switches that have a port out, those are left out.

    Parameters
    ----------
    demand_s : ndarray, shape (n, n)
        Only of pairs that some switch can serve.
    delta_s : float
    scheduler : callable
    survivors : Survivors

    Returns
    -------
    Schedule
        Of all switches; those that are out play nothing.
    """
    usable = survivors.usable()
    choices = [survivors.alive]
    whole = [h for h in survivors.alive if all(out != h for _, out in survivors.ports_out)]
    if whole and whole != survivors.alive:
        choices.append(whole)
    return min((_on(switches, demand_s, delta_s, scheduler, usable) for switches in choices),
               key=lambda schedule: schedule.makespan_s)


def _on(switches, demand_s, delta_s, scheduler, usable):
    slots = [()] * len(usable)
    rest_s, group = demand_s, list(switches)
    while rest_s.any():
        part = scheduler(rest_s, len(group), delta_s)
        for h, mine in zip(group, part.switches):
            slots[h] += Schedule(delta_s, (mine,)).lit_only_where(usable[h] & (demand_s > 0)).switches[0] if mine else ()
        carried_s = Schedule(delta_s, tuple(slots)).coverage_s(len(demand_s))
        uncovered_s = np.where(demand_s - carried_s > COVER_TOLERANCE_S, demand_s - carried_s, 0.0)
        if not uncovered_s.any():
            break
        # The pairs that can use the same switches as the first of them, on just those.
        i, j = np.argwhere(uncovered_s)[0]
        same = (usable == usable[:, i, j][:, None, None]).all(axis=0)
        rest_s, group = np.where(same, uncovered_s, 0.0), np.flatnonzero(usable[:, i, j]).tolist()
    return Schedule(delta_s, tuple(slots))
