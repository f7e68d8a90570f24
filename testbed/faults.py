"""Faults to inject into a run, as people write them: `switch 2 dies at 1.2s`.

    FAULT   = "switch" SWITCH "dies" [AT]
            | "switch" SWITCH "sticks" [AT]                keeps its permutation, hears its controller no more
            | "switch" SWITCH "slow by" TIME [AT]          lights its circuits late
            | "link" HOST-SWITCH "down for" TIME [AT]
            | "port" HOST-SWITCH "loses" PERCENT "%" [AT]  of what arrives at the host
            | "controller restarts" [AT]
            | "agent" HOST "dies" [AT]
    AT      = "at" TIME                                    from the epoch
            | "at slot" NUMBER ["of switch" SWITCH]        when that slot is lit; of the fault's switch, or of o1
    SWITCH  = index from 0, as in result.json, or name: o1, o2, …
    HOST    = h1, h2, …

Without AT, a fault is there from the epoch on.
"""

import re
from dataclasses import dataclass

from testbed.errors import UserError
from testbed.units import parse_time_s
from topologies.parallel_ocs import host_name, switch_name

_TIME, _SWITCH, _LINK = r"(?P<time>\S+)", r"(?P<switch>o?\d+)", r"(?P<host>h\d+)-(?P<switch>o\d+)"
_KINDS = {
    "dies": rf"switch {_SWITCH} dies",
    "sticks": rf"switch {_SWITCH} sticks",
    "slow": rf"switch {_SWITCH} slow by {_TIME}",
    "down": rf"link {_LINK} down for {_TIME}",
    "loses": rf"port {_LINK} loses (?P<percent>\d+\.?\d*) ?%",
    "restarts": r"controller restarts",
    "agent": r"agent (?P<host>h\d+) dies",
}
_AT = r"(?: at (?:slot (?P<slot>\d+)(?: of switch (?P<of>o?\d+))?|(?P<at>\S+)))?"
_PATTERNS = {kind: re.compile(pattern + _AT) for kind, pattern in _KINDS.items()}
FORMS = ("switch 2 dies at 1.2s", "switch 1 sticks at slot 2", "switch 0 slow by 15ms", "link h3-o1 down for 300ms at 1s",
         "port h3-o1 loses 2%", "controller restarts at 1s", "agent h5 dies at 500ms")


@dataclass(frozen=True)
class Fault:
    """One fault of a run.

    Parameters
    ----------
    text : str
        As it was written.
    kind : {'dies', 'sticks', 'slow', 'down', 'loses', 'restarts', 'agent'}
    at_s : float
        From the epoch.
    switch, host : int or None
        By index, where the fault is of one.
    duration_s : float or None
        How long a link is down, or by how much a switch is late.
    share : float or None
        Of the packets that are lost.
    """

    text: str
    kind: str
    at_s: float
    switch: int | None = None
    host: int | None = None
    duration_s: float | None = None
    share: float | None = None


def parse(text, hosts, schedule):
    """A fault from its text.

    Parameters
    ----------
    text : str
    hosts : int
    schedule : Schedule
        That slots are of.

    Returns
    -------
    Fault

    Raises
    ------
    UserError
        It is none, or of something that the run does not have.
    """
    where = f"--fault {text!r}"
    match, kind = next(((found, kind) for kind, pattern in _PATTERNS.items() if (found := pattern.fullmatch(" ".join(text.split())))),
                       (None, None))
    if match is None:
        raise UserError(f"{where}: this is no fault; write it like one of: {'; '.join(FORMS)}")
    found = {name: value for name, value in match.groupdict().items() if value is not None}
    switches = len(schedule.switches)
    switch = _switch(found["switch"], switches, where) if "switch" in found else None
    host = int(found["host"][1:]) - 1 if "host" in found else None
    if host is not None and not 0 <= host < hosts:
        raise UserError(f"{where}: there is no host {found['host']}; the hosts are {host_name(0)} to {host_name(hosts - 1)}")
    share = float(found["percent"]) / 100 if "percent" in found else None
    if share is not None and not 0 < share <= 1:
        raise UserError(f"{where}: a port can lose more than 0 % and at most 100 %")
    duration_s = _time_s(found["time"], where) if "time" in found else None
    if duration_s == 0:
        raise UserError(f"{where}: the time has to be more than 0")
    if "slot" in found:
        of = _switch(found["of"], switches, where) if "of" in found else switch or 0
        at_s = _slot_s(int(found["slot"]), of, schedule, where)
    else:
        at_s = _time_s(found["at"], where) if "at" in found else 0.0
    return Fault(text, kind, at_s, switch, host, duration_s, share)


def _switch(text, switches, where):
    index = int(text[1:]) - 1 if text.startswith("o") else int(text)
    if not 0 <= index < switches:
        raise UserError(f"{where}: there is no switch {text}; the switches are 0 to {switches - 1}, "
                        f"or {switch_name(0)} to {switch_name(switches - 1)}")
    return index


def _time_s(text, where):
    try:
        value = parse_time_s(text)
    except ValueError as error:
        raise UserError(f"{where}: {error}") from None
    if value < 0:
        raise UserError(f"{where}: a time before the epoch")
    return value


def _slot_s(slot, switch, schedule, where):
    windows = schedule.windows(switch)
    if not 1 <= slot <= len(windows):
        raise UserError(f"{where}: switch {switch_name(switch)} has {len(windows)} slots, counted from 1")
    return windows[slot - 1].lit_s
