"""Conducts one run inside its namespaces: network up, controller and agents ready, play, repair, collect."""

import logging
import os
import time
from dataclasses import dataclass, field

import mininet.log
import numpy as np

from testbed import machine
from testbed.agent import Agents
from testbed.captures import Capture
from testbed.conductor import Conductor
from testbed.control import READY_TIMEOUT_S, ControllerProcess
from testbed.injector import Injector
from testbed.network import OpticalNetwork
from testbed.probes import Probes, plan_probes
from testbed.stages import Stages
from topologies.parallel_ocs import ParallelOCS


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
    injected: list = field(default_factory=list)
    notices: list = field(default_factory=list)
    bounds_s: list = field(default_factory=list)


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
        network = OpticalNetwork(ParallelOCS(hosts=plan.hosts, switches=plan.settings.switches), plan.datapath, plan.link_delay_s)
        stages.enter("controller ready")
        controller = ControllerProcess(network, plan.settings.framework, log)
        framework = controller.expect("listening", READY_TIMEOUT_S)
        for switch in network.switches:
            switch.connect()
        probes = plan_probes(plan.schedule)
        agents = Agents([host.pid for host in network.hosts], plan.settings.switches, plan.datagrams, probes,
                        plan.settings.seed, os.getpid() ^ int(time.time()) & 0xFFFFFFFF)
        controller.await_ready()
        for switch in network.switches:
            switch.hush()
        groups = {"switches": [daemon.pid for switch in network.switches for daemon in switch.daemons],
                  "controller": [controller.pid], "agents": list(agents.pids.values()), "testbed": [os.getpid()]}
        injector = Injector(plan.faults, network, controller, agents)
        conductor = Conductor(plan, controller, agents, injector, watch)
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
            {framework["framework"]: framework["version"]}, conductor.errors, clock_jump_s, captured,
            injector.injected, conductor.notices, conductor.bounds_s)


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
