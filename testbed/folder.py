"""A run folder, read back: what was asked, planned and measured."""

import io
import json
import os
from dataclasses import dataclass

import numpy as np

from controller.scheduling.schedule import Schedule
from testbed.errors import UserError


@dataclass(frozen=True)
class Run:
    """A run that ended, or that was interrupted, or only planned.

    Parameters
    ----------
    path : str
    result : dict
        result.json.
    events : list of dict
        events.jsonl; empty where the run did not end.
    demand_bytes : ndarray of int, shape (n, n)
    schedule : Schedule
    """

    path: str
    result: dict
    events: list
    demand_bytes: np.ndarray
    schedule: Schedule

    @property
    def measured(self):
        """Whether it was played to its end."""
        return self.result["delivered_bytes"] is not None

    @property
    def makespan_s(self):
        """Measured, or else computed."""
        return self.result["measured_makespan_s"] or self.result["computed_makespan_s"]

    def of(self, kind):
        """Its events of one kind, in the order of time."""
        return [event for event in self.events if event["event"] == kind]


def read(path):
    """Read a run folder.

    Parameters
    ----------
    path : str

    Returns
    -------
    Run

    Raises
    ------
    UserError
        It is no run folder, or a damaged one.
    """
    def text(name):
        with open(os.path.join(path, name), encoding="utf-8") as stream:
            return stream.read()

    try:
        result = json.loads(text("result.json"))
        events = ([json.loads(line) for line in text("events.jsonl").splitlines()]
                  if os.path.exists(os.path.join(path, "events.jsonl")) else [])
        demand_bytes = np.loadtxt(io.StringIO(text("demand.csv")), delimiter=",", dtype=np.int64, ndmin=2)
        run = Run(path, result, events, demand_bytes, Schedule.from_json(text("schedule.json")))
        result["delivered_bytes"], result["computed_makespan_s"]  # what every result has
    except OSError as error:
        raise UserError(f"{path}: this is no run folder ({os.path.basename(error.filename or path)}: {error.strerror})"
                        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: this run folder is damaged ({' '.join(str(error).split())[:120]})") from None
    return run
