"""The plan of a run: everything that is known before anything is started."""

from dataclasses import dataclass

import numpy as np

from controller.scheduling.bounds import lower_bound_s
from controller.scheduling.registry import SCHEDULERS
from controller.scheduling.schedule import Schedule
from testbed import demand as demands
from testbed import transfer
from testbed.errors import UserError
from testbed.settings import Settings
from testbed.units import format_rate, format_time


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
    datagrams : Datagrams
    releases : Releases
    """

    settings: Settings
    demand: str
    demand_bytes: np.ndarray
    link: transfer.LinkModel
    schedule: Schedule
    lower_bound_s: float
    datagrams: transfer.Datagrams
    releases: transfer.Releases

    @property
    def hosts(self):
        """Number n of hosts."""
        return len(self.demand_bytes)

    @property
    def predicted_makespan_s(self):
        """When the last byte arrives if the schedule is played ideally."""
        return self.releases.last_s


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
    datagrams, releases = transfer.plan(schedule, demand_bytes, link)
    return Plan(settings, name, demand_bytes, link, schedule,
                lower_bound_s(demand_s, settings.switches, settings.delta), datagrams, releases)
