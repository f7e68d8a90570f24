"""The controller as a process of its own, spoken to by JSON lines."""

import json
import os
import select
import subprocess
import sys
import time
from collections import deque

from testbed.errors import TestbedError
from testbed.recovery import Notice

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RYU_PYTHON = os.path.join(os.path.dirname(sys.prefix), ".venv-ryu", "bin", "python")  # beside the environment of this one
READY_TIMEOUT_S = 30.0
_POKE_EVERY_S = 0.1
_STATE = "/run/openvswitch/controller-state.json"


class ControllerEnded(TestbedError):
    """The controller's process has ended."""


class ControllerProcess:
    """The controller in a process of its own, spoken to by JSON lines.

    Parameters
    ----------
    network : OpticalNetwork
    framework : {'os-ken', 'ryu'}
    log : file
        Receives its standard error.

    Attributes
    ----------
    notices : deque of Notice
        What it has seen fail, or come back.
    """

    def __init__(self, network, framework, log):
        self._command = [RYU_PYTHON if framework == "ryu" else sys.executable, "-m", "controller",
                         "--switches", str(len(network.switches)), "--commands", "--state", _STATE,
                         "--netns-of", *(str(switch.pid) for switch in network.switches)]
        self._log, self._switches, self.notices = log, network.switches, deque()
        self._start()

    def _start(self, *more):
        self._process = subprocess.Popen([*self._command, *more], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log,
                                         cwd=ROOT, start_new_session=True)
        self._buffer = b""
        self.pid = self._process.pid

    def restart(self):
        """Start it anew after its end: it goes on by its own state, once the switches have connected again.

        Returns
        -------
        bool
            Whether there was a state, so that it plays, and will say when it has played all.
        """
        self._process.kill()
        self._process.communicate()
        resumes = os.path.exists(_STATE)
        self._start(*(["--resume"] if resumes else []))
        self.expect("listening", READY_TIMEOUT_S)
        self.await_ready()
        return resumes

    def await_ready(self):
        """Wait until all switches have connected.

        Raises
        ------
        TestbedError
            One did not, or the controller failed.
        """
        deadline_s = time.monotonic() + READY_TIMEOUT_S
        while (message := self.take(_POKE_EVERY_S)) is None and time.monotonic() < deadline_s:
            for switch in self._switches:
                switch.poke()
        if message is None or message["event"] != "ready":
            raise TestbedError(f"the controller was not ready within {READY_TIMEOUT_S:g} s")

    def kill(self):
        """A fault: it ends, without a word."""
        self._process.kill()

    def fileno(self):
        """Can be waited for, until `take` has something to tell."""
        return self._process.stdout.fileno()

    def take(self, timeout_s):
        """What it says next, notices apart, or None.

        Raises
        ------
        ControllerEnded
            It has ended.
        TestbedError
            It says that it failed.
        """
        deadline_s = time.monotonic() + timeout_s
        while True:
            while b"\n" not in self._buffer:
                ready, _, _ = select.select([self], [], [], max(0.0, deadline_s - time.monotonic()))
                if not ready:
                    return None
                data = os.read(self.fileno(), 1 << 16)
                if not data:
                    raise ControllerEnded("the controller ended before its time (see log.txt)")
                self._buffer += data
            line, _, self._buffer = self._buffer.partition(b"\n")
            message = json.loads(line)
            if message["event"] == "failed":
                raise TestbedError(f"controller: {message['error']}")
            if message["event"] != "notice":
                return message
            self.notices.append(Notice(message["t_s"], message["what"], message["by"], message["switch"], message.get("host"),
                                       message.get("back", False)))

    def expect(self, event, timeout_s):
        """The next event, which must be of a kind.

        Raises
        ------
        TestbedError
            The controller failed, ended, or said nothing in time.
        """
        message = self.take(timeout_s)
        if message is None:
            raise TestbedError(f"the controller did not say {event!r} within {timeout_s:g} s")
        if message["event"] != event:
            raise TestbedError(f"the controller said {message['event']!r} where {event!r} was due")
        return message

    def tell(self, **command):
        """Send a command."""
        try:
            self._process.stdin.write(json.dumps(command).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise ControllerEnded("the controller ended before its time (see log.txt)") from None

    def arm(self, schedule, compensation_s=(0.0, 0.0), late_s=None, out=()):
        """Have a schedule loaded and checked.

        Parameters
        ----------
        schedule : Schedule
        compensation_s : (float, float)
            How far ahead of its instant each message is sent.
        late_s : dict of int to (float, float), optional
            Switches that light their circuits late: by how much, and from when on.
        out : iterable of int
            Switches that are not to be spoken to any more.
        """
        self.tell(do="arm", schedule=json.loads(schedule.to_json()), lead_dark_s=compensation_s[0],
                  lead_lit_s=compensation_s[1], late_s=late_s or {}, out=sorted(out))
        self.expect("armed", READY_TIMEOUT_S)
