"""Conducts one run inside its namespaces: network up, controller and agents ready, play, repair, collect."""

import contextlib
import json
import logging
import os
import select
import subprocess
import sys
import time
from dataclasses import dataclass, field

import mininet.log
import numpy as np

from controller.scheduling.registry import SCHEDULERS
from testbed import machine, transfer
from testbed.agent import Agents
from testbed.captures import Capture
from testbed.errors import TestbedError
from testbed.network import OpticalNetwork
from testbed.probes import Probes, plan_probes
from testbed.stages import Stages
from testbed.units import parse_time_s
from topologies.parallel_ocs import ParallelOCS

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RYU_PYTHON = os.path.join(ROOT, ".venv-ryu", "bin", "python")
_EPOCH_AHEAD_S = 0.3
_REPAIR_AHEAD_S = 0.005
_GRACE_S = 0.008  # the last datagrams are on their way for this long at most
_ROUNDS_WITHOUT_PROGRESS = 3
_READY_TIMEOUT_S = 30.0
_GREETINGS, _GREETING_EVERY_S = 10, 0.017


@dataclass
class Round:
    """One schedule that was played: the first is the plan's, the others are repairs. Times are CLOCK_MONOTONIC."""

    epoch_s: float
    makespan_s: float
    datagrams: int
    actions: list = field(default_factory=list)


@dataclass
class Observation:
    """What was seen during a run; arrays are indexed by sequence number, times are CLOCK_MONOTONIC, 0 for never."""

    rounds: list
    probes: Probes
    first_sent_s: np.ndarray
    last_sent_s: np.ndarray
    arrived_s: np.ndarray
    arrived_switch: np.ndarray
    probe_sent_s: np.ndarray
    probe_arrived_s: np.ndarray
    counters: dict
    stray_packets: int
    cpu: dict
    stages_s: dict
    versions: dict
    errors: list
    clock_jump_s: float
    captured: dict = field(default_factory=dict)


class ControllerProcess:
    """The controller in a process of its own, spoken to by JSON lines.

    Parameters
    ----------
    network : OpticalNetwork
    framework : {'os-ken', 'ryu'}
    log : file
        Receives its standard error.
    """

    def __init__(self, network, framework, log):
        command = [RYU_PYTHON if framework == "ryu" else sys.executable, "-m", "controller",
                   "--switches", str(len(network.switches)), "--commands",
                   "--netns-of", *(str(switch.pid) for switch in network.switches)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                                         cwd=ROOT, start_new_session=True)
        self._buffer = b""
        self.pid = self._process.pid

    def expect(self, event, timeout_s):
        """The next event, which must be of a kind.

        Raises
        ------
        TestbedError
            The controller failed, ended, or said nothing in time.
        """
        deadline_s = time.monotonic() + timeout_s
        file = self._process.stdout.fileno()
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([file], [], [], max(0.0, deadline_s - time.monotonic()))
            data = os.read(file, 1 << 16) if ready else None
            if data is None:
                raise TestbedError(f"the controller did not say {event!r} within {timeout_s:g} s")
            if not data:
                raise TestbedError(f"the controller ended before it was {event} (see log.txt)")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        message = json.loads(line)
        if message["event"] == "failed":
            raise TestbedError(f"controller: {message['error']}")
        if message["event"] != event:
            raise TestbedError(f"the controller said {message['event']!r} where {event!r} was due")
        return message

    def tell(self, **command):
        """Send a command."""
        try:
            self._process.stdin.write(json.dumps(command).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise TestbedError("the controller ended before its time (see log.txt)") from None

    def arm(self, schedule, compensation_s=(0.0, 0.0), late_s=None):
        """Have a schedule loaded and checked; `late_s` are switches that light their circuits late on purpose."""
        self.tell(do="arm", schedule=json.loads(schedule.to_json()), lead_dark_s=compensation_s[0],
                  lead_lit_s=compensation_s[1], late_s=late_s or {})
        self.expect("armed", _READY_TIMEOUT_S)


def conduct(plan, log_path, say, repairs=True, watch=None):
    """Run a plan on emulated switches, to the last byte or until repairs bring nothing more.

    Parameters
    ----------
    plan : Plan
    log_path : str
        File that takes the log of the parts.
    say : callable
        `say(text)` tells the user what is going on.
    repairs : bool
        False leaves what is missing at the end of the schedule undelivered.
    watch : callable, optional
        `watch(plan, ledger, epoch_s)` is a context manager that shows the play while it goes on.

    Returns
    -------
    Observation

    Raises
    ------
    TestbedError
        A part did not come up, or failed.
    """
    stages = Stages(say)
    with open(log_path, "a", encoding="utf-8") as log:
        mininet.log.lg.handlers = [logging.StreamHandler(log)]
        stages.enter("network up")
        network = OpticalNetwork(ParallelOCS(hosts=plan.hosts, switches=plan.settings.switches))
        stages.enter("controller ready")
        controller = ControllerProcess(network, plan.settings.framework, log)
        framework = controller.expect("listening", _READY_TIMEOUT_S)
        for switch in network.switches:
            switch.connect()
        probes = plan_probes(plan.schedule)
        agents = Agents([host.pid for host in network.hosts], plan.settings.switches, plan.datagrams, probes,
                        plan.settings.seed, os.getpid() ^ int(time.time()) & 0xFFFFFFFF)
        controller.expect("ready", _READY_TIMEOUT_S)
        for switch in network.switches:
            switch.hush()
        groups = {"switches": [daemon.pid for switch in network.switches for daemon in switch.daemons],
                  "controller": [controller.pid], "agents": list(agents.pids.values()), "testbed": [os.getpid()]}
        conductor = _Conductor(plan, controller, agents, watch)
        if plan.settings.cli:
            stages.enter("shell before the play")
            _shell(network)
        conductor.rehearse()
        captures = [Capture(interface, os.path.dirname(log_path)) for name in plan.settings.pcap
                    for interface in network[name].intfList()]
        if captures:
            groups["captures"] = [capture.pid for capture in captures]
        packets_before = _received_packets(network, agents)
        before = machine.read_cpu_times(groups)
        clocks_before_s = machine.clock_distance_s()
        stages.enter("play")
        conductor.first_round()
        stages.enter("repair")
        if repairs:
            conductor.repair()
        clock_jump_s = machine.clock_distance_s() - clocks_before_s
        after = machine.read_cpu_times(groups)
        stages.enter("collect")
        stray_packets = _received_packets(network, agents) - packets_before
        agents.stop()
        captured = {capture.name: capture.stop() for capture in captures}
        if plan.settings.cli:
            stages.enter("shell after the play")
            _shell(network)
        stages.enter(None)
        ledger = agents.ledger
        return Observation(
            conductor.rounds, probes, ledger.first_sent_s.copy(), ledger.last_sent_s.copy(), ledger.arrived_s.copy(),
            ledger.arrived_switch.copy(), ledger.probe_sent_s.copy(), ledger.probe_arrived_s.copy(),
            {name: ledger.counter(name) for name in ledger.COUNTERS},
            stray_packets, machine.cpu_load(before, after), stages.seconds,
            {framework["framework"]: framework["version"]}, conductor.errors, clock_jump_s, captured)


def _shell(network):
    """Mininet's shell, on what the user types until `exit`."""
    from mininet.cli import CLI

    to_file, mininet.log.lg.handlers = mininet.log.lg.handlers, [mininet.log.StreamHandlerNoNewline()]
    try:
        CLI(network)
    finally:
        mininet.log.lg.handlers = to_file


def _received_packets(network, agents):
    """Packets that reached the hosts' interfaces, less those that the agents took: packets to a wrong host."""
    return (sum(network.received_packets(host) for host in network.hosts)
            - int(agents.ledger.received_packets.sum()))


class _Conductor:
    """Plays rounds until everything has arrived."""

    def __init__(self, plan, controller, agents, watch):
        self._plan, self._controller, self._agents = plan, controller, agents
        self._watch = watch or (lambda *_: contextlib.nullcontext())
        self.rounds, self.errors = [], []

    def rehearse(self):
        """Warm every part up with packets that do not count, and leave every switch dark and settled."""
        self._controller.arm(self._plan.schedule)
        self._controller.tell(do="rehearse")
        for _ in range(_GREETINGS):
            self._agents.greet()
            time.sleep(_GREETING_EVERY_S)
        self._controller.expect("rehearsed", _READY_TIMEOUT_S)

    def first_round(self):
        self._play(self._plan.schedule, self._plan.releases, _EPOCH_AHEAD_S)

    def repair(self):
        """Schedule what is missing as a demand of its own, again and again."""
        idle_rounds, missing = 0, self._agents.ledger.missing()
        settings, datagrams = self._plan.settings, self._plan.datagrams
        while len(missing) and idle_rounds < _ROUNDS_WITHOUT_PROGRESS:
            demand_s = transfer.repair_demand_s(datagrams, missing, self._plan.hosts, self._plan.link)
            schedule = SCHEDULERS[settings.scheduler](demand_s, settings.switches, self._plan.schedule.delta_s)
            self._play(schedule, transfer.plan_repair(schedule, datagrams, missing, self._plan.link), _REPAIR_AHEAD_S)
            still_missing = self._agents.ledger.missing()
            idle_rounds = 0 if len(still_missing) < len(missing) else idle_rounds + 1
            missing = still_missing

    def _play(self, schedule, releases, ahead_s):
        first = not self.rounds
        self._controller.arm(schedule, self._plan.compensation_s, _deliberately_late_s() if first else None)
        self._agents.arm(releases, with_probes=first)
        this = Round(time.monotonic() + ahead_s, schedule.makespan_s, int((releases.sequence >= 0).sum()))
        self._controller.tell(do="play", epoch_s=this.epoch_s)
        self._agents.play(this.epoch_s)
        timeout_s = ahead_s + schedule.makespan_s + 60
        with self._watch(self._plan, self._agents.ledger, this.epoch_s) if first else contextlib.nullcontext():
            self._agents.finished(timeout_s)
        played = self._controller.expect("played", timeout_s)
        end_s = this.epoch_s + schedule.makespan_s + _GRACE_S
        while len(self._agents.ledger.missing()) and (rest_s := end_s - time.monotonic()) > 0:
            time.sleep(min(rest_s, 0.002))
        this.actions = played["actions"]
        self.errors += played["errors"]
        self.rounds.append(this)


def _deliberately_late_s():
    """Switches to light late in the first round, from the environment: `o2:30ms`. A hook for tests of the verdict."""
    name, _, time_text = os.environ.get("SPECTRA_TEST_LIT_LATE", "").partition(":")
    return {int(name[1:]) - 1: parse_time_s(time_text)} if name else {}
