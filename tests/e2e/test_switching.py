"""Switches, wiring and controller, on real Open vSwitch: circuits are directed, dark is dark, faults are named."""

import json
import socket
import struct
import subprocess
import sys
import time

import pytest

from controller.scheduling.schedule import Schedule, Slot
from testbed.errors import TestbedError
from testbed.control import ROOT, ControllerProcess
from testbed.namespaces import isolated, network_namespace
from testbed.network import OpticalNetwork, run
from topologies.parallel_ocs import ParallelOCS, host_interface

BROADCAST = b"\xff" * 6


def inside(function, *arguments):
    """Run a function in namespaces of its own; returns its result."""
    run_inside = isolated(lambda: function(*arguments))
    try:
        return run_inside.result()
    finally:
        run_inside.kill()


def packet_sockets(network, switch):
    """A raw packet socket on each host's interface to a switch."""
    sockets = []
    for i, host in enumerate(network.hosts):
        with network_namespace(host.pid):
            endpoint = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        endpoint.bind((host_interface(i, switch), 0))
        endpoint.settimeout(0.0)
        sockets.append(endpoint)
    return sockets


def who_hears(sockets):
    """{(sender, receiver)} when every host broadcasts one frame of an unused type."""
    for i, endpoint in enumerate(sockets):
        endpoint.send(BROADCAST + bytes(6) + b"\x88\xb5" + struct.pack("!H", i) + bytes(46))
    time.sleep(0.2)
    heard = set()
    for j, endpoint in enumerate(sockets):
        while True:
            try:
                frame, address = endpoint.recvfrom(2048)
            except BlockingIOError:
                break
            if frame[12:14] == b"\x88\xb5" and address[2] != 4:  # not our own, going out
                heard.add((struct.unpack("!H", frame[14:16])[0], j))
    return heard


def play_by_hand(permutation):
    network = OpticalNetwork(ParallelOCS(hosts=4, switches=2))
    with open("/dev/null", "w", encoding="utf-8") as log:
        controller = ControllerProcess(network, "os-ken", log)
    controller.expect("listening", 10)
    before = [who_hears(packet_sockets(network, h)) for h in range(2)]
    for switch in network.switches:
        switch.connect()
    controller.expect("ready", 10)
    dark = [who_hears(packet_sockets(network, h)) for h in range(2)]
    schedule = Schedule(0.02, ((Slot(permutation, 1.5),), ()))
    controller.arm(schedule)
    sockets = [packet_sockets(network, h) for h in range(2)]
    controller.tell(do="play", epoch_s=time.monotonic() + 0.1)
    time.sleep(0.4)
    lit = [who_hears(endpoints) for endpoints in sockets]
    controller.expect("played", 10)
    after = [who_hears(packet_sockets(network, h)) for h in range(2)]
    return before, dark, lit, after


def test_only_the_permutation_is_forwarded_and_dark_is_dark():
    permutation = (2, 0, -1, 1)
    before, dark, lit, after = inside(play_by_hand, permutation)
    assert before == dark == after == [set(), set()]
    assert lit == [{(0, 2), (1, 0), (3, 1)}, set()]


def cut_a_link():
    network = OpticalNetwork(ParallelOCS(hosts=3, switches=2))
    network.check_wiring()
    ports = network.wiring().number_of_edges()
    with network_namespace(network.hosts[1].pid):
        run(["ip", "link", "del", "h2-o2"])
    try:
        network.check_wiring()
    except TestbedError as error:
        return ports, str(error)
    return ports, "nothing was noticed"


def test_every_port_is_counted_and_a_missing_link_named():
    ports, message = inside(cut_a_link)
    assert ports == 6
    assert "h2 to o2" in message and "1 of 6" in message


def leave_a_switch_out():
    network = OpticalNetwork(ParallelOCS(hosts=2, switches=2))
    process = subprocess.Popen(
        [sys.executable, "-m", "controller", "--switches", "2", "--commands", "--timeout", "4", "--netns-of",
         *(str(switch.pid) for switch in network.switches)], cwd=ROOT, text=True, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.readline()
    network.switches[0].connect()
    _, complaint = process.communicate(timeout=30)
    return process.returncode, complaint


def test_a_missing_switch_is_named():
    status, complaint = inside(leave_a_switch_out)
    assert status == 1
    assert "o2" in complaint and "o1" not in complaint and "Traceback" not in complaint


def play_alone(path):
    network = OpticalNetwork(ParallelOCS(hosts=3, switches=1))
    process = subprocess.Popen(
        [sys.executable, "-m", "controller", "--switches", "1", "--schedule", path, "--netns-of",
         str(network.switches[0].pid)], cwd=ROOT, text=True, stdout=subprocess.PIPE)
    process.stdout.readline()
    network.switches[0].connect()
    output, _ = process.communicate(timeout=20)
    return process.returncode, [json.loads(line) for line in output.splitlines()]


def test_controller_alone_plays_a_schedule_file(tmp_path):
    path = tmp_path / "schedule.json"
    path.write_text(Schedule(0.02, ((Slot((1, 2, 0), 0.05), Slot((2, 0, 1), 0.05)),)).to_json())
    status, events = inside(play_alone, str(path))
    assert status == 0
    kinds = [action["kind"] for action in events[-1]["actions"]]
    assert kinds == ["dark", "lit", "load", "dark", "lit", "dark"]
    assert all(action["sent_s"] >= action["planned_s"] for action in events[-1]["actions"])


def ping_across():
    """Mininet's own API on the network: a command on a host, both circuits lit, the management of packets ours."""
    network = OpticalNetwork(ParallelOCS(hosts=2, switches=1))
    with open("/dev/null", "w", encoding="utf-8") as log:
        controller = ControllerProcess(network, "os-ken", log)
    controller.expect("listening", 10)
    network.switches[0].connect()
    controller.expect("ready", 10)
    controller.arm(Schedule(0.02, ((Slot((1, 0), 3.0),),)))
    controller.tell(do="play", epoch_s=time.monotonic())
    time.sleep(0.3)
    return network.hosts[0].cmd("ping -c 2 -i 0.2 -W 1", network.hosts[1].IP())


def test_mininet_hosts_reach_each_other_over_lit_circuits():
    assert " 0% packet loss" in inside(ping_across)


def mn(*arguments):
    """Mininet's command line with a private Open vSwitch at the usual place."""
    directory = "/run/openvswitch"
    run(["ovsdb-tool", "create", f"{directory}/conf.db", "/usr/share/openvswitch/vswitch.ovsschema"])
    for command in (["ovsdb-server", f"{directory}/conf.db", f"--remote=punix:{directory}/db.sock"],
                    ["ovs-vswitchd", f"unix:{directory}/db.sock"]):
        subprocess.Popen([*command, f"--unixctl={directory}/{command[0]}.ctl"], stderr=subprocess.DEVNULL)
        time.sleep(0.3)
    run(["ovs-vsctl", "--retry", "--timeout=10", "--no-wait", "init"])
    return subprocess.run(["mn", "--custom", f"{ROOT}/topologies/parallel_ocs.py", *arguments],
                          capture_output=True, text=True, timeout=50, stdin=subprocess.DEVNULL)


def test_topology_works_with_mn():
    done = inside(mn, "--topo", "parallel_ocs,3,2", "--switch", "ovs,datapath=user", "--controller", "none",
                  "--test", "none")
    assert done.returncode == 0, done.stderr
    for link in ("(h1, o1)", "(h3, o2)"):
        assert link in done.stderr + done.stdout


def test_exceptions_cross_the_border():
    def fail():
        raise ValueError("of the inside")
    with pytest.raises(ValueError, match="of the inside"):
        inside(fail)
