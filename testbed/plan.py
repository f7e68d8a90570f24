"""The plan of a run: everything that is known before anything is started."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from controller.scheduling.bounds import lower_bound_s
from controller.scheduling.registry import SCHEDULERS
from controller.scheduling.schedule import Schedule
from testbed import demand as demands
from testbed import transfer
from testbed.errors import UserError
from testbed.settings import Settings
from testbed.units import format_rate, format_time

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
    """

    settings: Settings
    demand: str
    demand_bytes: np.ndarray
    link: transfer.LinkModel
    schedule: Schedule
    lower_bound_s: float
    shares: dict

    @property
    def hosts(self):
        """Number n of hosts."""
        return len(self.demand_bytes)

    @property
    def predicted_makespan_s(self):
        """When the last byte arrives if the schedule is played ideally."""
        return transfer.last_byte_s(self.shares)

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


def make_plan(settings):
    """Plan a run.

    Parameters
    ----------
    settings : Settings

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
    link = transfer.LinkModel.choose(settings.rate, n * settings.switches)
    if demands.is_normalised(settings):
        demand_s = matrix * settings.period
        smallest_s = demand_s[demand_s > 0].min()
        if smallest_s < link.wire_s(1, 1):
            raise UserError(
                f"--rate {format_rate(settings.rate)}, --period {format_time(settings.period)}: the smallest demand "
                f"is {format_time(smallest_s)} of link time, less than one byte in one datagram; "
                "use a higher rate or a longer period")
        demand_bytes = link.demand_bytes(demand_s)
    else:
        demand_bytes = np.rint(matrix).astype(np.int64)
    demand_s = link.demand_s(demand_bytes)
    schedule = SCHEDULERS[settings.scheduler](demand_s, settings.switches, settings.delta)
    schedule = schedule.lit_only_where(demand_bytes > 0)
    return Plan(settings, name, demand_bytes, link, schedule,
                lower_bound_s(demand_s, settings.switches, settings.delta), transfer.share_out(schedule, demand_s))


def check_playable(plan):
    """Refuse what would take too long or too much memory to be played; planning alone has no such limit.

    Raises
    ------
    UserError
        It names a rate that does.
    """
    wire_bytes = plan.link.demand_s(plan.demand_bytes).sum() * plan.link.rate_bps / 8
    datagrams = wire_bytes / (plan.link.payload_bytes + transfer.OVERHEAD_BYTES)
    if plan.schedule.makespan_s > MAKESPAN_MAX_S:
        faster = format_rate(plan.settings.rate * plan.schedule.makespan_s / MAKESPAN_MAX_S)
        raise UserError(f"--rate {format_rate(plan.settings.rate)}: the schedule takes "
                        f"{plan.schedule.makespan_s / 60:.0f} minutes, and at most {MAKESPAN_MAX_S / 60:.0f} are played; "
                        f"use a smaller demand or about {faster}, or plan only with --dry-run")
    if datagrams > DATAGRAMS_MAX:
        raise UserError(f"--demand {plan.settings.demand}: {datagrams:,.0f} datagrams, and at most {DATAGRAMS_MAX:,} "
                        "are played; use a smaller demand, or plan only with --dry-run")
