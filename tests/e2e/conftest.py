"""End-to-end tests run the real thing: root, network namespaces, Mininet, Open vSwitch."""

import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUN = str(ROOT / "testbed" / "run.py")
TIMEOUT_S = 120
SHORT_PERIOD = "2s"


def pytest_collection_modifyitems(items):
    if os.geteuid() != 0:
        for item in items:
            if "e2e" in pathlib.Path(str(item.path)).parts:
                item.add_marker(pytest.mark.skip(reason="end-to-end tests need root: sudo .venv/bin/python -m pytest"))


@dataclasses.dataclass
class Finished:
    """A run that has ended."""

    status: int
    result: dict
    folder: pathlib.Path
    stdout: str
    stderr: str

    def events(self, kind=None):
        """The lines of events.jsonl, of one kind or all."""
        lines = (self.folder / "events.jsonl").read_text().splitlines()
        return [event for event in map(json.loads, lines) if kind in (None, event["event"])]


class Running:
    """A run in a process group of its own."""

    def __init__(self, folder, arguments, environment):
        self.folder = folder
        if "--period" not in arguments and "--physical-rate" not in arguments:
            arguments = ["--period", SHORT_PERIOD, *arguments]
        self.process = subprocess.Popen(
            [sys.executable, RUN, "--out", str(folder), *arguments], cwd=ROOT, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **environment})

    def finish(self):
        """Wait for it; a test never waits for ever."""
        try:
            stdout, stderr = self.process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            raise
        path = self.folder / "result.json"
        result = json.loads(path.read_text()) if path.exists() else None
        return Finished(self.process.returncode, result, self.folder, stdout, stderr)

    def descendants(self):
        """Process ids of all that it started."""
        return descendants(self.process.pid)

    def await_text(self, text):
        """Wait until a line of its progress contains a text."""
        for line in self.process.stderr:
            if text in line:
                return
        raise AssertionError(f"the run ended before it said {text!r}")


@pytest.fixture(scope="session", autouse=True)
def calibrated():
    """The first run on a machine calibrates it: here that is none of the tests'."""
    subprocess.run([sys.executable, str(ROOT / "testbed" / "calibrate.py"), "--if-missing"], check=True, cwd=ROOT,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=TIMEOUT_S)


@pytest.fixture
def start(tmp_path):
    """start(*arguments, environment={}) starts testbed/run.py."""
    yield from _starting(tmp_path)


@pytest.fixture(scope="module")
def start_runs(tmp_path_factory):
    """The same, for runs that several tests look at."""
    yield from _starting(tmp_path_factory.mktemp("runs"))


def _starting(folder):
    runs = []

    def start_run(*arguments, environment=None):
        runs.append(Running(folder / f"run{len(runs)}", arguments, environment or {}))
        return runs[-1]

    yield start_run
    for run in runs:
        if run.process.poll() is None:
            os.killpg(run.process.pid, signal.SIGKILL)
            run.process.wait()


@pytest.fixture
def run(start):
    """run(*arguments) runs testbed/run.py to its end."""
    return lambda *arguments, **options: start(*arguments, **options).finish()


def descendants(pid):
    """Process ids below a process, by /proc."""
    children = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found, queue = [], [pid]
    while queue:
        for child in children.get(queue.pop(), []):
            found.append(child)
            queue.append(child)
    return found


def await_gone(pids, timeout_s):
    """Wait until none of the processes is left; returns those that are."""
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s:
        left = [pid for pid in pids if os.path.exists(f"/proc/{pid}")]
        if not left:
            return []
        time.sleep(0.05)
    return left
