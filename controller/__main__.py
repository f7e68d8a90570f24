"""Launcher of the controller, as the testbed uses it and for use alone.

Alone, it plays one schedule on switches that connect to it, and prints what it did as JSON lines:

    python -m controller --switches 2 --schedule schedule.json

With `--commands` it reads JSON lines from standard input instead: `{"do": "arm", "schedule": {…}}`,
`{"do": "play", "epoch_s": …}` (on CLOCK_MONOTONIC), `{"do": "abort"}` while it plays, `{"do": "rehearse"}`, until the input
ends. What it plays stands in the file of `--state`; started anew with `--resume`, it goes on from there.
"""

import argparse
import contextlib
import ctypes
import gc
import json
import os
import queue
import socket
import struct
import sys
import threading
import time
import traceback

from controller import framework
from controller.app import CircuitApp, Handshake
from controller.clock import MonotonicClock, be_punctual
from controller.scheduling.schedule import Schedule
from controller.session import Session, SwitchError

_CLONE_NEWNET = 0x40000000
_EPOCH_AHEAD_S = 0.5
_RESUME_TIMEOUT_S = 3.0  # Open vSwitch tries again every second
_HEADER, _HELLO_TIMEOUT_S = struct.Struct("!BBHI"), 1.0


def main(arguments=None):
    """Run until the schedule is played or the commands end; the exit status is 0, or 1 with a line on stderr."""
    parser = argparse.ArgumentParser(prog="python -m controller", description=__doc__.splitlines()[0])
    parser.add_argument("--switches", type=int, required=True, help="how many switches will connect (ids 1, 2, …)")
    parser.add_argument("--listen", default="127.0.0.1:6653", metavar="HOST:PORT", help="default: %(default)s")
    parser.add_argument("--netns-of", type=int, nargs="+", metavar="PID", default=[],
                        help="listen in the network namespace of each of these processes instead of the own one")
    parser.add_argument("--timeout", type=float, default=15.0, metavar="S", help="wait this long for the switches")
    parser.add_argument("--state", metavar="FILE", help="keep here what is played")
    parser.add_argument("--resume", action="store_true", help="go on with what the file of --state holds")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--schedule", metavar="FILE", help="play this schedule.json once")
    source.add_argument("--commands", action="store_true", help="take JSON lines from standard input")
    options = parser.parse_args(arguments)

    host, _, port = options.listen.rpartition(":")
    schedule = None
    try:
        if options.schedule:
            with open(options.schedule, encoding="utf-8") as stream:
                schedule = Schedule.from_json(stream.read())
            if len(schedule.switches) != options.switches:
                raise ValueError(f"it is for {len(schedule.switches)} switches, not for {options.switches}")
        address = (host, int(port))
    except (OSError, ValueError) as error:
        print(f"controller: {options.schedule or options.listen}: {error}", file=sys.stderr)
        return 2

    # All threads, since any of them can hold the interpreter's lock; and none may hold it for the usual 5 ms.
    # Ahead of the agents, whose bursts can hold both cores for a millisecond.
    be_punctual(2)
    sys.setswitchinterval(0.0002)
    apps = framework.AppManager.get_instance()
    apps.instantiate(Handshake).start()
    app = apps.instantiate(CircuitApp)
    app.start()
    try:
        listeners = _listen(address, options.netns_of)
    except OSError as error:
        print(f"controller: cannot listen on {options.listen}: {error.strerror or error}", file=sys.stderr)
        return 2
    for listener in listeners:
        framework.hub.spawn(_accept, listener, app.complaints)
    _say({"event": "listening", "framework": framework.NAME, "version": framework.VERSION})

    outcome = []
    protocol = framework.ProtocolDesc(version=framework.ofproto_v1_3.OFP_VERSION)
    state = None
    if options.resume:
        with open(options.state, encoding="utf-8") as stream:
            state = json.load(stream)
    clock = MonotonicClock()
    session = Session(app, protocol, options.switches, clock, _say, state and state["alive"])
    body = (_play_file, session, options.timeout, schedule) if schedule else (_obey, session, clock, options, state)
    thread = threading.Thread(target=_guarded, args=(outcome, *body), daemon=True)
    thread.start()
    while thread.is_alive():
        framework.hub.sleep(0.05)  # lets Ryu's green threads run; with os-ken there is nothing to do here
    sys.stdout.flush()
    os._exit(outcome[0] if outcome else 1)  # the framework's threads never end by themselves


def _play_file(session, timeout_s, schedule):
    """What the session's thread does: connect, then play one schedule."""
    session.await_switches(timeout_s)
    _get_ready()
    actions = session.arm(schedule)
    epoch_s = time.monotonic() + _EPOCH_AHEAD_S
    _say({"event": "played", "epoch_s": epoch_s, "actions": session.play(actions, epoch_s), "errors": session.errors()})


def _obey(session, clock, options, state):
    """What the session's thread does: connect, then do what it is told."""
    commands = queue.Queue()
    threading.Thread(target=_read_commands, args=(commands, clock), daemon=True).start()
    session.await_switches(options.timeout if state is None else _RESUME_TIMEOUT_S, reset=state is None)
    if state is not None:
        session.watch()
        actions = session.resume(Schedule.from_json(json.dumps(state["schedule"])), state["epoch_s"], **_timing(state))
        _get_ready()
        _play(session, actions, state["epoch_s"])
    else:
        _get_ready()
        session.watch()
    actions, armed = [], {}
    while (command := commands.get()) is not None:
        if command["do"] == "arm":
            clock.interrupted.clear()
            armed = command
            session.leave_out(command.get("out", ()))
            actions = session.arm(Schedule.from_json(json.dumps(command["schedule"])), **_timing(command))
            _say({"event": "armed"})
        elif command["do"] == "rehearse":
            session.rehearse()
            _say({"event": "rehearsed"})
        elif command["do"] == "play":
            if options.state:
                _keep(options.state, {**armed, "epoch_s": command["epoch_s"], "alive": session.alive})
            _play(session, actions, command["epoch_s"])


def _get_ready():
    _say({"event": "ready"})
    gc.freeze()
    gc.disable()


def _play(session, actions, epoch_s):
    played = session.play(actions, epoch_s)
    _say({"event": "played", "actions": played, "errors": session.errors()})


def _timing(command):
    """What `player.plan_actions` takes, out of a command."""
    return {"lead_dark_s": command.get("lead_dark_s", 0.0), "lead_lit_s": command.get("lead_lit_s", 0.0),
            "late_s": {int(h): tuple(late_s) for h, late_s in command.get("late_s", {}).items()}}


def _read_commands(commands, clock):
    """Take commands from standard input; an abort is heard at once, and so is the end."""
    for line in sys.stdin:
        command = json.loads(line)
        if command["do"] == "abort":
            clock.interrupted.set()
        else:
            commands.put(command)
    commands.put(None)


def _keep(path, state):
    """Write the state whole: one that is killed meanwhile leaves the one before."""
    with open(path + ".part", "w", encoding="utf-8") as stream:
        json.dump(state, stream)
    os.replace(path + ".part", path)


def _guarded(outcome, function, *arguments):
    """Run a function and note the exit status: an exception in a thread is never lost."""
    try:
        function(*arguments)
        outcome.append(0)
    except SwitchError as error:
        _say({"event": "failed", "error": str(error)})
        print(f"controller: {error}", file=sys.stderr)
        outcome.append(1)
    except Exception as error:  # noqa: BLE001
        _say({"event": "failed", "error": f"{type(error).__name__}: {error}"})
        traceback.print_exc()
        outcome.append(1)


def _listen(address, pids):
    """A listening socket in the own network namespace, or in that of each process."""
    if not pids:
        return [framework.hub.listen(address)]
    return [_listen_inside(address, pid) for pid in pids]


def _listen_inside(address, pid):
    """A socket opened in another network namespace stays there."""
    libc = ctypes.CDLL(None, use_errno=True)
    with contextlib.ExitStack() as stack:
        own, target = (stack.enter_context(open(f"/proc/{which}/ns/net", "rb")) for which in ("thread-self", pid))
        if libc.setns(target.fileno(), _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"cannot enter the network namespace of process {pid}")
        try:
            return framework.hub.listen(address)
        finally:
            libc.setns(own.fileno(), _CLONE_NEWNET)


def _accept(listener, complaints):
    while True:
        connection, address = listener.accept()
        framework.hub.spawn(_welcome, connection, address, complaints)


def _welcome(connection, address, complaints):
    """Hand a connection over to the framework, if it begins as that of an OpenFlow 1.3 switch."""
    name = f"the peer at {address[0]}:{address[1]}"
    connection.settimeout(_HELLO_TIMEOUT_S)
    head, deadline_s = b"", time.monotonic() + _HELLO_TIMEOUT_S
    try:
        while len(head) < _HEADER.size and time.monotonic() < deadline_s:
            head = connection.recv(_HEADER.size, socket.MSG_PEEK)
            if not head:
                break
            if len(head) < _HEADER.size:
                framework.hub.sleep(0.02)
    except OSError:
        head = b""
    if len(head) < _HEADER.size:
        complaints.append(f"{name} sent no whole OpenFlow hello")
        return connection.close()
    version, kind, length, _ = _HEADER.unpack(head)
    if kind != framework.ofproto_v1_3.OFPT_HELLO or length < _HEADER.size:
        complaints.append(f"{name} sent {head.hex()}, which is no OpenFlow hello")
        return connection.close()
    if version < framework.ofproto_v1_3.OFP_VERSION:
        complaints.append(f"{name} speaks OpenFlow of wire version {version}, and 1.3 (wire version 4) is needed")
        return connection.close()
    return framework.datapath_connection_factory(connection, address)


_said = threading.Lock()


def _say(value):
    with _said:
        sys.stdout.write(json.dumps(value) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
