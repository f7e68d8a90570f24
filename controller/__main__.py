"""Launcher of the controller, as the testbed uses it and for use alone.

Alone, it plays one schedule on switches that connect to it, and prints what it did as JSON lines:

    python -m controller --switches 2 --schedule schedule.json

With `--commands` it reads JSON lines from standard input instead: `{"do": "arm", "schedule": {…}}`,
`{"do": "play", "epoch_s": …}` (on CLOCK_MONOTONIC), `{"do": "rehearse"}`, until the input ends.
"""

import argparse
import contextlib
import ctypes
import gc
import json
import os
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


def main(arguments=None):
    """Run until the schedule is played or the commands end; the exit status is 0, or 1 with a line on stderr."""
    parser = argparse.ArgumentParser(prog="python -m controller", description=__doc__.splitlines()[0])
    parser.add_argument("--switches", type=int, required=True, help="how many switches will connect (ids 1, 2, …)")
    parser.add_argument("--listen", default="127.0.0.1:6653", metavar="HOST:PORT", help="default: %(default)s")
    parser.add_argument("--netns-of", type=int, nargs="+", metavar="PID", default=[],
                        help="listen in the network namespace of each of these processes instead of the own one")
    parser.add_argument("--timeout", type=float, default=15.0, metavar="S", help="wait this long for the switches")
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
        framework.hub.spawn(_accept, listener)
    _say({"event": "listening", "framework": framework.NAME, "version": framework.VERSION})

    outcome = []
    protocol = framework.ProtocolDesc(version=framework.ofproto_v1_3.OFP_VERSION)
    session = Session(app, protocol, options.switches, MonotonicClock)
    thread = threading.Thread(target=_guarded, args=(outcome, _run, session, options.timeout, schedule), daemon=True)
    thread.start()
    while thread.is_alive():
        framework.hub.sleep(0.05)  # lets Ryu's green threads run; with os-ken there is nothing to do here
    sys.stdout.flush()
    os._exit(outcome[0] if outcome else 1)  # the framework's threads never end by themselves


def _run(session, timeout_s, schedule):
    """What the session's thread does: connect, then one schedule or commands."""
    session.await_switches(timeout_s)
    _say({"event": "ready"})
    gc.freeze()
    gc.disable()
    if schedule is not None:
        actions = session.arm(schedule)
        epoch_s = time.monotonic() + _EPOCH_AHEAD_S
        _say({"event": "played", "epoch_s": epoch_s, "actions": session.play(actions, epoch_s),
              "errors": session.errors()})
        return
    actions = []
    for line in sys.stdin:
        command = json.loads(line)
        if command["do"] == "arm":
            schedule = Schedule.from_json(json.dumps(command["schedule"]))
            timing = {name: command.get(name, 0.0) for name in ("lead_dark_s", "lead_lit_s")}
            late_s = {int(h): seconds for h, seconds in command.get("late_s", {}).items()}
            actions = session.arm(schedule, **timing, late_s=late_s)
            _say({"event": "armed"})
        elif command["do"] == "rehearse":
            session.rehearse()
            _say({"event": "rehearsed"})
        elif command["do"] == "play":
            played = session.play(actions, command["epoch_s"])
            _say({"event": "played", "actions": played, "errors": session.errors()})


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


def _accept(listener):
    while True:
        connection, address = listener.accept()
        framework.hub.spawn(framework.datapath_connection_factory, connection, address)


def _say(value):
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
