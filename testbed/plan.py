"""The plan of a run: everything that is known before anything is started."""

import time
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from controller.scheduling.bounds import lower_bound_s
from controller.scheduling.registry import SCHEDULERS, refusal
from controller.scheduling.schedule import Schedule
from controller.scheduling.spectra import largest_line
from controller.scheduling.spectra_plus import PLAN_TIME_S, search
from controller.scheduling.tight_bound import tight_lower_bound_s
from testbed import demand as demands
from testbed import faults, transfer
from testbed.errors import UserError
from testbed.settings import Settings
from testbed.units import format_rate, format_time
from topologies.parallel_ocs import host_name

MAKESPAN_S = 6.0  # where the period is ours to choose
MAKESPAN_LONG_S = 14.0  # … and the longest we choose, to have packets small beside slots
ROUNDING_MAX = 0.003  # of a slot
MAKESPAN_MAX_S = 600.0
DATAGRAMS_MAX = 2_000_000


@dataclass(frozen=True)
class Plan:
    """What a run will do.

    Parameters
    ----------
    settings : Settings
    demand : str
        Name of the demand.
    demand_bytes : ndarray of int, shape (n, n)
    link : LinkModel
    schedule : Schedule
        For `link.demand_s(demand_bytes)`; dark where a circuit carries no demand.
    lower_bound_s : float
    shares : dict
        What each circuit carries, as `transfer.share_out` gives it.
    compensation_s : (float, float)
        How far ahead of its instant the message is sent that makes a switch dark, and that lights its circuits.
    period_s : float or None
        Link time of a line of 1, for a normalised demand.
    dilation : float or None
        How many seconds of the run stand for one of the physical fabric.
    why : str
        How the time scale was chosen.
    datapath : {'kernel', 'user'}
        Which of Open vSwitch's.
    planning : str
        How a scheduler that searches came to its end.
    """

    settings: Settings
    demand: str
    demand_bytes: np.ndarray
    link: transfer.LinkModel
    schedule: Schedule
    lower_bound_s: float
    shares: dict
    compensation_s: tuple[float, float] = (0.0, 0.0)
    period_s: float | None = None
    dilation: float | None = None
    why: str = ""
    datapath: str = "user"
    planning: str = ""

    @cached_property
    def faults(self):
        """The faults to inject; UserError where one is none, or of something that the run does not have."""
        return [faults.parse(text, self.hosts, self.schedule) for text in self.settings.fault]

    @cached_property
    def tight_lower_bound_s(self):
        """A tighter lower bound than the paper's, in seconds."""
        return tight_lower_bound_s(self.link.demand_s(self.demand_bytes), self.settings.switches, self.schedule.delta_s)

    @property
    def repair_scheduler(self):
        """What schedules a repair: the same, but one that searches would take longer than it saves."""
        return SCHEDULERS["spectra-pack" if self.settings.scheduler == "spectra-plus" else self.settings.scheduler]

    @property
    def hosts(self):
        """Number n of hosts."""
        return len(self.demand_bytes)

    @property
    def predicted_makespan_s(self):
        """When the last byte arrives if the schedule is played ideally."""
        return transfer.last_byte_s(self.shares) + 2 * self.link_delay_s

    @property
    def link_delay_s(self):
        """What each of the two links on a way adds."""
        return self.settings.link_delay or 0.0

    @property
    def datagrams_about(self):
        """Number of datagrams, but for rounding in each slot."""
        return float(self.link.demand_s(self.demand_bytes).sum() / self.link.datagram_s)

    @cached_property
    def _cut(self):
        return transfer.cut(self.shares, self.demand_bytes, self.link)

    @property
    def datagrams(self):
        """All `Datagrams` of the run; made when first asked for, since a plan alone does not need them."""
        return self._cut[0]

    @property
    def releases(self):
        """When each is sent, as `Releases`."""
        return self._cut[1]


def make_plan(settings, calibration):
    """Plan a run.

    Parameters
    ----------
    settings : Settings
    calibration : Calibration
        What the machine can carry: it decides what the settings leave open.

    Returns
    -------
    Plan

    Raises
    ------
    UserError
        The demand is not usable, or does not fit the rate and period.
    """
    name, matrix = demands.demand_of(settings)
    n = len(matrix)
    refused = refusal(settings.scheduler, n, settings.switches)
    if refused:
        raise UserError(f"--scheduler {settings.scheduler}: {refused}")
    for host in settings.pcap:
        if host not in map(host_name, range(n)):
            raise UserError(f"--pcap {host}: no such host; the hosts are {host_name(0)} to {host_name(n - 1)}")
    links = n * settings.switches
    chosen = {"compensation_s": calibration.compensation_s(n), "datapath": settings.datapath or calibration.datapath}
    packets_per_s = calibration.safe_packets_per_s(links)
    rate_bps = settings.rate or transfer.rate_for(links, packets_per_s)
    link = transfer.LinkModel.choose(rate_bps, links, packets_per_s)
    why = [] if settings.rate else [f"rate {format_rate(rate_bps)}: at most {packets_per_s:,.0f} packets/s on all links"]
    if settings.physical_rate:
        if demands.is_normalised(settings):
            raise UserError(f"--demand {settings.demand}: with --physical-rate the demand has to be a file of bytes")
        delta_s, dilation = _dilate(settings, matrix, calibration)
        why.append(f"time dilated {dilation:,.4g} times: δ {format_time(settings.physical_delta)} is played as "
                   f"{format_time(delta_s)}")
        demand_bytes = _to_bytes(matrix * 8 / settings.physical_rate * dilation, link, settings)
        plan = _lay_out(settings, name, demand_bytes, link, delta_s)
        return replace(plan, dilation=dilation, why="; ".join(why), **chosen)
    if demands.is_normalised(settings):
        period_s, plan = _choose_period(settings, name, matrix, link)
        if not settings.period:
            why.append(f"period {format_time(period_s)}: a makespan of {plan.schedule.makespan_s:.0f} s, with packets "
                       f"rounded by at most {100 * transfer.rounding(plan.shares, plan.demand_bytes, link):.2g} % of a slot")
        plan = replace(plan, period_s=period_s)
    else:
        plan = _lay_out(settings, name, np.rint(matrix).astype(np.int64), link, settings.delta)
    return replace(plan, why="; ".join(why), **chosen)


def _lay_out(settings, name, demand_bytes, link, delta_s, scheduler=None):
    """Schedule a demand in bytes, and share it out over the circuits."""
    demand_s = link.demand_s(demand_bytes)
    schedule, planning = _scheduled(settings, scheduler or settings.scheduler, demand_s, delta_s)
    schedule = schedule.lit_only_where(demand_bytes > 0)
    return Plan(settings, name, demand_bytes, link, schedule, lower_bound_s(demand_s, settings.switches, delta_s),
                transfer.share_out(schedule, demand_s), planning=planning)


_ENDS = {"time": "its time was up", "steps": "its steps were done", "bound": "nothing shorter was worth searching for",
         "end": "it had nothing more to try",
         "too short": "its time was up before Spectra had its own schedule, which is what it gives: allow more with --plan-time"}


def _scheduled(settings, scheduler, demand_s, delta_s):
    """(schedule, how a search ended)."""
    if scheduler != "spectra-plus":
        return SCHEDULERS[scheduler](demand_s, settings.switches, delta_s), ""
    min_slot_s = min(transfer.SHORT_SLOT_S, delta_s / 2) if settings.min_slot is None else settings.min_slot
    begin_s = time.perf_counter()
    found = search(demand_s, settings.switches, delta_s, plan_time_s=settings.plan_time or PLAN_TIME_S, plan_steps=settings.plan_steps,
                   seed=settings.seed, min_slot_s=min_slot_s)
    return found.schedule, (f"searched {format_time(time.perf_counter() - begin_s)}, {found.steps} steps, for slots of at least "
                            f"{format_time(min_slot_s)}, until {_ENDS[found.stopped]}")


def _choose_period(settings, name, matrix, link):
    """(period, plan): the period asked for, or one that is long enough for packets to be small beside slots.

    It is chosen by the slots of Spectra, whatever the scheduler: different schedulers then get the same demand.
    """
    def laid_out(scheduler):
        demand_bytes = _to_bytes(matrix * period_s, link, settings, period_s)
        return _lay_out(settings, name, demand_bytes, link, settings.delta, scheduler)

    period_s = settings.period
    if not period_s:
        period_s = _two_digits(MAKESPAN_S * settings.switches / largest_line(matrix))
        while True:
            plan = laid_out("spectra")
            rounding, makespan_s = transfer.rounding(plan.shares, plan.demand_bytes, link), plan.schedule.makespan_s
            if rounding <= ROUNDING_MAX or makespan_s > 0.9 * MAKESPAN_LONG_S:
                break
            period_s = _two_digits(period_s * min(1.2 * rounding / ROUNDING_MAX, MAKESPAN_LONG_S / makespan_s))
        if settings.scheduler == "spectra":
            return period_s, plan
    return period_s, laid_out(settings.scheduler)


def _dilate(settings, matrix, calibration):
    """(δ in the run, dilation): one factor for rate and delay, so that the makespan is a few seconds and δ honest."""
    physical_s = matrix * 8 / settings.physical_rate
    longest_s = lower_bound_s(physical_s, settings.switches, settings.physical_delta)
    honest_s = calibration.smallest_delta_s(len(matrix))
    dilation = max(MAKESPAN_S / longest_s, honest_s / settings.physical_delta)
    if longest_s * dilation > MAKESPAN_MAX_S:
        nearest_s = settings.physical_delta
        for _ in range(10):  # a larger δ also makes the transfer longer
            nearest_s = 1.02 * honest_s * lower_bound_s(physical_s, settings.switches, nearest_s) / MAKESPAN_MAX_S
        raise UserError(
            f"--physical-delta {format_time(settings.physical_delta)}: the smallest honest δ here is "
            f"{format_time(honest_s)}, and dilated to that the transfer takes "
            f"{longest_s * dilation / 60:,.0f} minutes of at most {MAKESPAN_MAX_S / 60:.0f}; the nearest that works is "
            f"--physical-delta {format_time(nearest_s).replace(' ', '')}, or a demand "
            f"{longest_s * dilation / MAKESPAN_MAX_S:,.1f} times smaller")
    return settings.physical_delta * dilation, dilation


def _to_bytes(demand_s, link, settings, period_s=None):
    """Payload bytes of each pair; refuses a demand that is less than a byte."""
    smallest_s = demand_s[demand_s > 0].min()
    if smallest_s < link.wire_s(1, 1):
        length = f", --period {format_time(period_s)}" if period_s else ""
        raise UserError(f"--rate {format_rate(link.rate_bps)}{length}: the smallest demand of {settings.demand} is "
                        f"{format_time(smallest_s)} of link time, less than one byte in one datagram; use a higher "
                        "rate or a longer period")
    return link.demand_bytes(demand_s)


def _two_digits(value):
    return float(f"{value:.2g}")


def check_size(plan):
    """Refuse what would take too long or too much memory to be played; planning alone has no such limit.

    Raises
    ------
    UserError
        It names the nearest setting that works.
    """
    if plan.schedule.makespan_s > MAKESPAN_MAX_S:
        faster = format_rate(plan.link.rate_bps * plan.schedule.makespan_s / MAKESPAN_MAX_S)
        raise UserError(f"--rate {format_rate(plan.link.rate_bps)}: the schedule takes "
                        f"{plan.schedule.makespan_s / 60:.0f} minutes, and at most {MAKESPAN_MAX_S / 60:.0f} are played; "
                        f"use a smaller demand or about {faster}, or plan only with --dry-run")
    if plan.datagrams_about > DATAGRAMS_MAX:
        raise UserError(f"--demand {plan.settings.demand}: {plan.datagrams_about:,.0f} datagrams, and at most "
                        f"{DATAGRAMS_MAX:,} are played; use a smaller demand, or plan only with --dry-run")


def check_playable(plan, calibration):
    """Refuse what this machine cannot carry.

    Raises
    ------
    UserError
        It names the nearest setting that works.
    """
    settings, links = plan.settings, plan.hosts * plan.settings.switches
    if links > calibration.most_links:
        raise UserError(f"--hosts {plan.hosts}, --switches {settings.switches}: {links} links, and this machine holds "
                        f"{calibration.most_links}; the nearest that works is "
                        f"--hosts {max(2, calibration.most_links // settings.switches)}, or plan only with --dry-run")
    # Links send at the same time only where circuits are lit: the mean over the makespan is what has to be carried.
    packets_per_s = plan.datagrams_about / plan.schedule.makespan_s
    most = calibration.most_packets_per_s(links)
    if packets_per_s > most:
        slower = plan.link.rate_bps * most / packets_per_s
        raise UserError(f"--rate {format_rate(plan.link.rate_bps)}: {packets_per_s:,.0f} packets/s, and this machine "
                        f"carries {most:,.0f}; the nearest that works is about {format_rate(slower)}, or plan only with "
                        "--dry-run")
