"""Every scheduler is played end to end, and a sweep measures."""

import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest
from pyarrow import parquet

from controller.scheduling.registry import SCHEDULERS

ROOT = pathlib.Path(__file__).resolve().parents[2]
SWEEP = [sys.executable, str(ROOT / "testbed" / "sweep.py"), "--demands", "gpt", "--hosts", "4", "--switches", "2", "--seeds",
         "1", "--period", "2s"]


@pytest.mark.parametrize("scheduler", [name for name in SCHEDULERS if name != "spectra"])
def test_schedule_is_played_and_all_arrives(run, scheduler):
    finished = run("--scheduler", scheduler, "--hosts", "4", "--demand", "gpt", "--period", "1.2s")
    result = finished.result
    assert finished.status in (0, 3), finished.stderr
    assert result["scheduler"] == scheduler
    assert result["undelivered_bytes"] == result["corrupt_bytes"] == 0
    assert 0.98 < result["measured_over_predicted"] < 1.1
    # Dark slots of the rotor, in which no pair has anything to send, are not taken for late ones.
    assert not any("not lit in time" in reason for reason in result["reasons"])


def test_sweep_measures_each_case_and_goes_on_after_an_interruption(tmp_path):
    command = [*SWEEP, "--schedulers", "spectra", "rotor", "--deltas", "0.02", "--measure", "--out", str(tmp_path / "out")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    for line in process.stderr:
        if line.startswith("measured 1 of 2"):
            break
    os.killpg(process.pid, signal.SIGINT)  # as ctrl-C does, to all of them
    assert process.wait(timeout=30) == 130
    table = parquet.read_table(tmp_path / "out" / "table.parquet").to_pylist()
    assert [row["measured_makespan_periods"] is None for row in table] == [False, True]
    first = (tmp_path / "out" / "runs" / "gpt-4-spectra-2-0.02-0" / "result.json").stat().st_mtime
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode in (0, 3), done.stderr
    table = parquet.read_table(tmp_path / "out" / "table.parquet").to_pylist()
    for row in table:
        assert 0.9 < row["measured_over_computed"] < 1.1
        assert row["measured_makespan_periods"] == pytest.approx(row["makespan_periods"], rel=0.1)
        assert row["period_s"] == 2.0
        assert row["measured_makespan_periods"] / row["played_makespan_periods"] == pytest.approx(row["measured_over_computed"])
    assert (tmp_path / "out" / "runs" / "gpt-4-spectra-2-0.02-0" / "result.json").stat().st_mtime == first
    result = json.loads((tmp_path / "out" / "runs" / "gpt-4-rotor-2-0.02-0" / "result.json").read_text())
    assert result["measured_makespan_s"] / 2.0 == table[1]["measured_makespan_periods"]


def test_sweep_tells_what_cannot_be_played(tmp_path):
    done = subprocess.run([*SWEEP, "--period", "10000s", "--schedulers", "spectra", "--deltas", "0.01", "--measure", "--out",
                           str(tmp_path / "out")], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    row = parquet.read_table(tmp_path / "out" / "table.parquet").to_pylist()[0]
    assert row["exit_status"] == 2 and "minutes" in row["reasons"]
