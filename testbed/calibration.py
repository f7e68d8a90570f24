"""What this machine can emulate honestly: measured by short trials on the real thing, and kept.

A trial is a run like any other, with a schedule made for measuring: many short slots for the latency of the switches,
then slots in which ever more packets a second are sent. Three sizes are tried; what lies between is interpolated.
"""

import dataclasses
import functools
import hashlib
import json
import os
import platform
import shutil
import subprocess
from dataclasses import dataclass

import numpy as np

from controller.scheduling.schedule import Schedule, Slot
from testbed import machine, transfer
from testbed.files import whole
from testbed.measure import changes_seen, distribution, first_places, sender_late_s, versions
from testbed.plan import Plan
from testbed.settings import Settings

SIZES = ((8, 2), (32, 4), (100, 4))
_LATENCY_SLOTS, _LATENCY_SLOT_S = 10, 0.050
_RAMP_SLOT_S = 0.080
_RAMP_PACKETS_PER_S = (6000, 10000, 14000, 18000, 24000, 32000, 44000, 60000)
_TRIAL_PACKETS_PER_S = 5000
_SAFE_SHARE = 0.4  # of the packets a second that went without loss: the rest is headroom
_SAFE_PACKETS_PER_S = 9000
_LINK_PACKETS_PER_S_MIN = 10  # fewer on a link leave too few places in a slot
_LATE_MAX_S = 0.003
LEAD_MAX_S = 0.004
DELTA_FLOOR_S = 0.005  # Open vSwitch brings two changes to its data plane at least 5 ms apart
VERSION = 4


@dataclass(frozen=True)
class Trial:
    """What one size showed; times in seconds, each as median and 99th percentile."""

    hosts: int
    switches: int
    down_p50_s: float
    down_p99_s: float
    up_p50_s: float
    up_p99_s: float
    dark_error_p95_s: float
    sender_late_p50_s: float
    sender_late_p99_s: float
    packets_per_s: float


@dataclass(frozen=True)
class Calibration:
    """The trials of a machine, and what follows from them.

    Parameters
    ----------
    trials : tuple of Trial
        By rising number of links.
    machine : str
        What they hold for.
    measured : bool
        False for the careful guess that is used where nothing was measured.
    datapath : {'user', 'kernel'}
        Which of Open vSwitch's it holds for.
    """

    trials: tuple
    machine: str
    measured: bool = True
    datapath: str = "user"

    def compensation_s(self, hosts):
        """(dark, lit): how far ahead of its instant each message is sent, the median latency at this size."""
        return tuple(min(max(self._at_hosts(hosts, name), 0.0), LEAD_MAX_S) for name in ("down_p50_s", "up_p50_s"))

    def _at_hosts(self, hosts, name):
        """A figure of the trials, between their numbers of hosts."""
        return float(np.interp(hosts, [trial.hosts for trial in self.trials],
                               [getattr(trial, name) for trial in self.trials]))

    def safe_packets_per_s(self, links):
        """Packets a second, over all links, that leave headroom."""
        return min(_SAFE_SHARE * self.most_packets_per_s(links), _SAFE_PACKETS_PER_S)

    def most_packets_per_s(self, links):
        """Packets a second, over all links, that arrived without loss."""
        sizes = [trial.hosts * trial.switches for trial in self.trials]
        return float(np.interp(links, sizes, [trial.packets_per_s for trial in self.trials]))

    def smallest_delta_s(self, hosts):
        """The smallest δ that is honest at this size: 95 % of the dark intervals are within a quarter of it."""
        return max(DELTA_FLOOR_S, 4 * self._at_hosts(hosts, "dark_error_p95_s"))

    @property
    def unsteadiness_s(self):
        """How far dark intervals are from their median, over all sizes: of two datapaths, the one with less is more faithful."""
        return float(np.mean([trial.dark_error_p95_s for trial in self.trials]))

    @property
    def most_links(self):
        """The largest n × s that leaves every link a few packets a second."""
        return int(self.safe_packets_per_s(self.trials[-1].hosts * self.trials[-1].switches) / _LINK_PACKETS_PER_S_MIN)

    def to_json(self):
        """As text."""
        return json.dumps(dataclasses.asdict(self), indent=1)

    @classmethod
    def from_json(cls, text):
        """From text; ValueError, KeyError or TypeError where it is none."""
        value = json.loads(text)
        return cls(tuple(Trial(**trial) for trial in value["trials"]), value["machine"], datapath=value["datapath"])


GUESS = Calibration(tuple(Trial(hosts, switches, 0.0, 0.004, 0.0, 0.004, 0.002, 0.0, 0.002, 20000.0)
                          for hosts, switches in SIZES), "none", measured=False)


def datapaths(asked=None):
    """The datapaths of Open vSwitch that a run can choose from: the one asked for, or those that this kernel has."""
    return (asked,) if asked else ("user", "kernel") if machine.has_module("openvswitch") else ("user",)


def cache_path(datapath):
    """Where the calibration of this machine is kept."""
    directory = os.environ.get("SPECTRA_CACHE", "/var/cache/spectra-testbed")
    return os.path.join(directory, f"calibration-{_fingerprint(datapath)[1]}.json")


def load(asked=None):
    """The calibration kept for this machine and these versions, of the more faithful datapath.

    Parameters
    ----------
    asked : {'kernel', 'user'}, optional
        Of this datapath.

    Returns
    -------
    Calibration or None
        None where that of a datapath is missing.
    """
    kept = [_load(datapath) for datapath in datapaths(asked)]
    return None if None in kept else min(kept, key=lambda calibration: calibration.unsteadiness_s)


def _load(datapath):
    try:
        with open(cache_path(datapath), encoding="utf-8") as stream:
            return Calibration.from_json(stream.read())
    except (OSError, ValueError, KeyError, TypeError):
        return None


def measure_machine(conduct_trial, say, asked=None, only_missing=False):
    """Measure this machine, and keep the result.

    Parameters
    ----------
    conduct_trial : callable
        `conduct_trial(plan) -> Observation` plays a plan, without repairs.
    say : callable
        `say(text)` tells the user what is going on.
    asked : {'kernel', 'user'}, optional
        Only this datapath.
    only_missing : bool
        Leave out what is kept.

    Returns
    -------
    Calibration
        As `load` gives it.
    """
    for datapath in datapaths(asked):
        if not (only_missing and _load(datapath)):
            _measure(conduct_trial, say, datapath)
    return load(asked)


def _measure(conduct_trial, say, datapath):
    trials = []
    for hosts, switches in SIZES:
        say(f"calibrating with {hosts} hosts and {switches} switches ({datapath} datapath)")
        plan = trial_plan(hosts, switches, datapath)
        trials.append(evaluate(plan, conduct_trial(plan)))
    calibration = Calibration(tuple(trials), _fingerprint(datapath)[0], datapath=datapath)
    path = cache_path(datapath)
    with whole(path) as part:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(part, "w", encoding="utf-8") as stream:
            stream.write(calibration.to_json())


def trial_plan(hosts, switches, datapath="user"):
    """A plan that shows latencies at a moderate load, then how many packets a second go without loss."""
    links = hosts * switches
    link = transfer.LinkModel.choose(transfer.rate_for(links, _TRIAL_PACKETS_PER_S), links, _TRIAL_PACKETS_PER_S)
    # Slots of another length on each switch, so that changes of several switches fall together now and then.
    lengths = [[_LATENCY_SLOT_S * (1 + h / 40)] * _LATENCY_SLOTS + [_RAMP_SLOT_S] * len(_RAMP_PACKETS_PER_S)
               for h in range(switches)]
    schedule = Schedule(0.020, tuple(
        tuple(Slot(tuple((i + 1 + (k * switches + h) % (hosts - 1)) % hosts for i in range(hosts)), length_s)
              for k, length_s in enumerate(lengths[h])) for h in range(switches)))
    shares = {}
    for h in range(switches):
        for k, window in enumerate(schedule.windows(h)):
            load = 1.0 if k < _LATENCY_SLOTS else _RAMP_PACKETS_PER_S[k - _LATENCY_SLOTS] / _TRIAL_PACKETS_PER_S
            share_s = load * (window.end_s - window.lit_s)
            for pair in schedule.switches[h][k].circuits():
                shares.setdefault(pair, []).append(transfer.Share(h, k, window.lit_s, share_s, window.end_s))
    demand_s = np.zeros((hosts, hosts))
    for (i, j), parts in shares.items():
        demand_s[i, j] = sum(part.share_s for part in parts)
    settings = Settings(hosts=hosts, switches=switches, rate=link.rate_bps)
    return Plan(settings, "calibration", link.demand_bytes(demand_s), link, schedule, 0.0, shares, datapath=datapath)


def evaluate(plan, seen):
    """What a trial showed.

    Parameters
    ----------
    plan : Plan
        As `trial_plan` makes it.
    seen : Observation

    Returns
    -------
    Trial
    """
    changes = [change for change in changes_seen(plan, seen) if 0 < change["slot"] < _LATENCY_SLOTS]
    down = distribution(change["down_late_s"] for change in changes)
    up = distribution(change["up_late_s"] for change in changes)
    dark = [change["dark_seen_s"] for change in changes if change["dark_seen_s"] is not None]
    late = distribution(sender_late_s(plan, seen)[first_places(plan).slot < _LATENCY_SLOTS])
    error = distribution(np.abs(np.array(dark) - np.median(dark))) if dark else {"p95": 1.0}
    worst = {"p50": 1.0, "p99": 1.0}
    down, up, late = down or worst, up or worst, late or worst
    return Trial(plan.hosts, plan.settings.switches, down["p50"], down["p99"], up["p50"], up["p99"], error["p95"],
                 late["p50"], late["p99"], _packets_without_loss(plan, seen))


def _packets_without_loss(plan, seen):
    """The last step of the ramp before one in which a datagram was lost or the sender was late."""
    slot, late_s, best = first_places(plan).slot, sender_late_s(plan, seen), 0.0
    for step, packets_per_s in enumerate(_RAMP_PACKETS_PER_S, _LATENCY_SLOTS):
        mine = slot == step
        late = distribution(late_s[mine])
        if not late or (seen.arrived_s[mine] == 0).any() or late["p99"] > _LATE_MAX_S:
            break
        best = float(packets_per_s)
    return best or float(_RAMP_PACKETS_PER_S[0]) / 2


@functools.cache
def _fingerprint(datapath):
    """(text, hash) of the machine and of the versions that a calibration holds for."""
    with open("/proc/cpuinfo", encoding="utf-8") as stream:
        model = next((line.split(":")[1].strip() for line in stream if line.startswith(("model name", "CPU part"))), "")
    vswitchd = shutil.which("ovs-vswitchd")
    ovs = subprocess.run([vswitchd, "--version"], capture_output=True, text=True, check=False).stdout.splitlines() \
        if vswitchd else [""]
    own = {name: version for name, version in versions().items() if name not in ("scipy", "spectra-testbed")}
    text = f"{model}, {os.cpu_count()} cores, {platform.machine()}, {ovs[0] if ovs else ''}, {own}, {datapath} datapath, calibration {VERSION}"
    return text, hashlib.sha256(text.encode()).hexdigest()[:16]
