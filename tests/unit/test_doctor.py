"""The doctor names what is lacking, and what to do about it."""

import os
import subprocess
import sys

import pytest

from testbed import doctor
from testbed.errors import DELIVERED, UNDELIVERED
from tests.unit.test_provision import ROOT


def test_it_runs_without_any_package_and_says_what_to_do(tmp_path):
    done = subprocess.run([sys.executable, "-I", "-S", os.path.join(ROOT, "testbed", "doctor.py")], capture_output=True, text=True,
                          check=False, cwd=tmp_path, timeout=60)
    assert done.returncode == UNDELIVERED and done.stderr == ""
    lines = done.stdout.splitlines()
    packages = next(line for line in lines if "Python packages" in line)
    assert packages.startswith("LACKING") and "missing (pinned: " in packages and "sudo vagrant/provision.sh" in packages
    assert lines[-1].endswith("of these are lacking")


def test_each_line_has_a_state_and_what_is_not_ok_has_advice(capsys):
    status = doctor.main([])
    *lines, last = capsys.readouterr().out.splitlines()
    assert len(lines) >= 15
    for line in lines:
        state = line.split()[0]
        assert state in (doctor.OK, doctor.WEAK, doctor.LACKING)
        assert state == doctor.OK or "; " in line, line
    lacking = sum(line.startswith(doctor.LACKING) for line in lines)
    assert status == (UNDELIVERED if lacking else DELIVERED) and (last == "everything that is needed is there") == (not lacking)


@pytest.mark.parametrize("name, line", [
    ("ovs-vswitchd", "LACKING  tools"),
    ("tcpdump", "weak     tcpdump            missing; --pcap needs it: sudo vagrant/provision.sh"),
])
def test_a_missing_program_is_named(monkeypatch, capsys, name, line):
    there = doctor.machine.find_tool
    monkeypatch.setattr(doctor.machine, "find_tool", lambda tool: None if tool == name else there(tool) or f"/bin/{tool}")
    monkeypatch.setattr(doctor.subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, 0, "version 9.9\n", ""))
    for finding in doctor._tools():
        print(doctor.line(finding))
    assert line in capsys.readouterr().out


def test_an_old_open_vswitch_is_not_enough(monkeypatch):
    monkeypatch.setattr(doctor.machine, "find_tool", lambda tool: f"/bin/{tool}")
    monkeypatch.setattr(doctor.subprocess, "run",
                        lambda command, **_: subprocess.CompletedProcess(command, 0, "ovs-vswitchd (Open vSwitch) 2.9.8\n", ""))
    finding = next(finding for finding in doctor._tools() if finding.name == "ovs-vswitchd")
    assert finding.state == doctor.LACKING and "2.17" in finding.advice


def test_a_reader_that_has_enough_is_no_traceback():
    command = f"{sys.executable} {os.path.join(ROOT, 'testbed', 'doctor.py')} | head -n 1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, timeout=60)
    assert len(done.stdout.splitlines()) == 1 and done.stderr == ""
