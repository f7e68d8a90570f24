"""Sweeps and the paper's evaluation, computed: tables, going on, clusters, and what is refused."""

import contextlib
import csv
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from pyarrow import parquet

from controller.scheduling.registry import SCHEDULERS
from controller.scheduling.spectra_plus import STEPS
from testbed import ablation, charts, cluster, paper, sweep
from testbed.cases import Case, Demand, evaluate
from testbed.errors import BAD_INPUT, DELIVERED
from testbed.results import SCHEMA, Store
from testbed.workloads import generate

ROOT = pathlib.Path(__file__).resolve().parents[2]
EVALUATOR = cluster.evaluator
SMALL = ["--demands", "gpt", "benchmark:flows=4", "--hosts", "8", "--schedulers", "spectra", "less", "--deltas", "0.01", "0.1",
         "--seeds", "2", "--quiet"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """The current directory is an empty one."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def in_process(monkeypatch):
    """Rows are computed in this process, without a cluster; returns the list of tasks that were."""
    done = []

    @contextlib.contextmanager
    def evaluator(address=None):
        def each(tasks):
            for task in tasks:
                done.append(task)
                yield evaluate(*task)

        yield each

    monkeypatch.setattr("testbed.cluster.evaluator", evaluator)
    return done


def complaint(capsys, program="sweep.py"):
    """The last line on standard error."""
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith(f"{program}: ")
    return line.removeprefix(f"{program}: ")


def test_a_row_for_each_combination_in_order(in_process, capsys):
    assert sweep.main([*SMALL, "--out", "out"]) == DELIVERED
    rows = parquet.read_table("out/table.parquet").to_pylist()
    assert [(row["demand"], row["seed"], row["switches"], row["delta_periods"], row["scheduler"]) for row in rows] == [
        (demand, seed, switches, delta, scheduler) for demand in ("gpt", "benchmark:flows=4") for seed in (0, 1)
        for switches in (2, 4) for delta in (0.01, 0.1) for scheduler in ("spectra", "less")]
    assert "32 rows in out/table.csv" in capsys.readouterr().out


def test_row_holds_the_parameters_and_the_makespan(in_process):
    sweep.main([*SMALL, "--out", "out"])
    row = parquet.read_table("out/table.parquet").to_pylist()[-2]
    schedule = SCHEDULERS["spectra"](generate("benchmark:flows=4", 8, 1), 4, 0.1)
    assert row["makespan_periods"] == schedule.makespan_s
    assert row["makespan_over_bound"] == row["makespan_periods"] / row["lower_bound_periods"] >= 1
    assert row["lower_bound_periods"] <= row["tight_lower_bound_periods"] <= row["makespan_periods"]
    assert (row["flows"], row["large"], row["noise"], row["tensor"], row["hosts"]) == (4, 1, 0.003, None, 8)
    assert row["measured_makespan_periods"] is None


def test_both_tables_hold_the_same(in_process):
    sweep.main([*SMALL, "--out", "out"])
    with open("out/table.csv", newline="") as stream:
        found = list(csv.DictReader(stream))
    table = parquet.read_table("out/table.parquet")
    assert table.schema.names == SCHEMA.names == list(found[0])
    assert [float(row["makespan_periods"]) for row in found] == table["makespan_periods"].to_pylist()


def test_nothing_is_computed_twice_and_a_larger_sweep_goes_on_from_a_smaller(in_process):
    sweep.main([*SMALL, "--out", "out"])
    first = len(in_process)
    sweep.main([*SMALL, "--out", "out"])
    assert len(in_process) == first
    sweep.main([*SMALL, "--out", "out", "--schedulers", "spectra", "less", "rotor"])
    assert {case.scheduler for task in in_process[first:] for case in task[2]} == {"rotor"}
    assert parquet.read_table("out/table.parquet").num_rows == 48


def test_rows_of_other_code_do_not_count(in_process, monkeypatch):
    sweep.main([*SMALL, "--out", "out"])
    first = len(in_process)
    monkeypatch.setattr(sweep, "code_version", lambda: "another")
    sweep.main([*SMALL, "--out", "out"])
    assert len(in_process) == 2 * first


def test_a_line_that_was_cut_off_is_computed_again(in_process):
    sweep.main([*SMALL, "--out", "out"])
    whole = pathlib.Path("out/table.csv").read_bytes()
    lines = pathlib.Path("out/rows.jsonl").read_bytes()
    pathlib.Path("out/rows.jsonl").write_bytes(lines[:-100])
    sweep.main([*SMALL, "--out", "out"])
    assert pathlib.Path("out/table.csv").read_bytes() == whole
    assert all(json.loads(line) for line in pathlib.Path("out/rows.jsonl").read_text().splitlines())


def test_a_file_is_scaled_to_its_largest_line(in_process):
    pathlib.Path("mine.csv").write_text("0,30,10\n5,0,5\n0,8,0\n")
    sweep.main(["--demands", "mine.csv", "--schedulers", "spectra", "--switches", "1", "--deltas", "0.5", "--out", "out"])
    rows = parquet.read_table("out/table.parquet").to_pylist()
    assert len(rows) == 1  # a file has no seeds
    assert (rows[0]["demand"], rows[0]["hosts"], rows[0]["degree"]) == ("mine", 3, 2)
    assert rows[0]["lower_bound_periods"] == pytest.approx(1 + 2 * 0.5)
    pathlib.Path("mine.csv").write_text("0,30,10\n5,0,5\n0,9,0\n")
    sweep.main(["--demands", "mine.csv", "--schedulers", "spectra", "--switches", "1", "--deltas", "0.5", "--out", "out"])
    assert len(in_process) == 2


@pytest.mark.parametrize("arguments, words", [
    (["--schedulers", "spectre"], "unknown scheduler 'spectre'; did you mean 'spectra'?"),
    (["--demands", "gtp"], "did you mean 'gpt'?"),
    (["--demands", "moe:skw=1"], "did you mean 'skew'?"),
    (["--demands", "gpt", "--hosts", "8", "--schedulers", "optimal"], "at most 4 hosts and 2 switches"),
    (["--demands", "gpt:tensor=3"], "does not make 32 hosts"),
    (["--demands", "nothere.csv"], "No such file"),
    (["--deltas", "fast"], "--deltas: 'fast' is not a number"),
    (["--deltas", "-1"], "--deltas: '-1' must be at least 0"),
    (["--seeds", "0"], "--seeds: '0' must be at least 1"),
    (["--switches", "two"], "--switches: 'two' is not a whole number"),
    (["--hosts", "1"], "must be at least 2"),
    (["--period", "0s", "--demands", "gpt"], "--period"),
    (["--sedes", "3"], "unknown option --sedes; did you mean '--seeds'?"),
    (["--demands", "gpt", "--dask", "localhost"], "write it like tcp://HOST:PORT"),
])
def test_bad_input_is_one_line(capsys, arguments, words, tmp_path):
    assert sweep.main([*arguments, "--out", "out"]) == BAD_INPUT
    assert words in complaint(capsys)


def test_measuring_needs_root(in_process, capsys, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 65534)
    assert sweep.main([*SMALL, "--measure", "--out", "out"]) == BAD_INPUT
    assert "root is needed" in complaint(capsys)
    assert not os.path.exists("out")


def test_folder_of_something_else_is_left_alone(in_process, capsys):
    pathlib.Path("out").mkdir()
    pathlib.Path("out/thesis.txt").write_text("mine")
    assert sweep.main([*SMALL, "--out", "out"]) == BAD_INPUT
    assert "holds no sweep" in complaint(capsys)
    assert os.listdir("out") == ["thesis.txt"]


def test_two_sweeps_into_one_folder_are_refused(in_process, capsys):
    with Store("out", "code").open():
        assert sweep.main([*SMALL, "--out", "out"]) == BAD_INPUT
    assert "another sweep writes there" in complaint(capsys)


def test_full_disk_is_told_and_what_is_done_is_kept(in_process, capsys, monkeypatch):
    def full(_table, path):
        raise OSError(28, "No space left on device", path)

    monkeypatch.setattr("pyarrow.csv.write_csv", full)
    assert sweep.main([*SMALL, "--out", "out"]) == 1
    assert "No space left on device" in complaint(capsys)
    assert len(pathlib.Path("out/rows.jsonl").read_text().splitlines()) == 32


def command(*arguments):
    return [sys.executable, str(ROOT / "testbed" / "sweep.py"), "--demands", "benchmark", "--hosts", "40", "--schedulers",
            "spectra", "spectra-eclipse", "--seeds", "6", "--deltas", "0.001", "0.01", "0.1", *arguments]


@pytest.mark.parametrize("number, status", [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_stopped_half_way_and_started_again_it_ends_with_the_same_table(number, status, tmp_path):
    """On the cores of this machine; the workers end with it."""
    whole = command("--out", "whole")
    assert subprocess.run(whole, capture_output=True).returncode == 0
    process = subprocess.Popen(command("--out", "out"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               start_new_session=True)
    await_rows(tmp_path / "out" / "rows.jsonl", process)
    os.kill(process.pid, number)
    stderr = process.communicate(timeout=30)[1]
    assert process.returncode == status
    if status == 130:
        assert "the same command goes on from there" in stderr
        assert "Traceback" not in stderr
        assert 0 < parquet.read_table("out/table.parquet").num_rows < 72
    await_group_gone(process.pid)
    assert subprocess.run(command("--out", "out"), capture_output=True).returncode == 0
    for name in ("table.csv", "table.parquet"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def await_rows(path, process):
    """Wait for the first rows."""
    deadline_s = time.monotonic() + 60
    while not (path.exists() and path.stat().st_size):
        assert process.poll() is None and time.monotonic() < deadline_s
        time.sleep(0.02)


def await_group_gone(group):
    """Wait until no process of the group is left."""
    deadline_s = time.monotonic() + 20
    while time.monotonic() < deadline_s:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    raise AssertionError("processes were left over")


@pytest.fixture
def dask_cluster(tmp_path):
    """A Dask scheduler and a worker, each a process of its own, started somewhere else; gives the address."""
    dask = os.path.join(os.path.dirname(sys.executable), "dask")
    file = tmp_path / "scheduler.json"
    common = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": "/"}
    processes = [subprocess.Popen([dask, "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard",
                                   "--scheduler-file", str(file)], **common)]
    try:
        deadline_s = time.monotonic() + 30
        while not file.exists():
            assert time.monotonic() < deadline_s
            time.sleep(0.05)
        processes.append(subprocess.Popen(
            [dask, "worker", "--scheduler-file", str(file), "--host", "127.0.0.1", "--nthreads", "1", "--no-dashboard",
             "--no-nanny", "--local-directory", str(tmp_path / "scratch")], **common))
        yield json.loads(file.read_text())["address"]
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait()


def test_a_dask_cluster_gives_the_same_table(dask_cluster, in_process):
    sweep.main([*SMALL, "--out", "here"])
    done = subprocess.run([sys.executable, str(ROOT / "testbed" / "sweep.py"), *SMALL, "--out", "there", "--dask",
                           dask_cluster], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    for name in ("table.csv", "table.parquet"):
        assert pathlib.Path("there", name).read_bytes() == pathlib.Path("here", name).read_bytes()


def test_cluster_that_does_not_answer_is_bad_input_and_keeps_what_is_done(in_process, capsys, monkeypatch):
    sweep.main([*SMALL, "--out", "out"])
    monkeypatch.setattr("testbed.cluster.evaluator", EVALUATOR)
    monkeypatch.setattr("testbed.cluster.ANSWER_S", 1)
    assert sweep.main([*SMALL, "--seeds", "3", "--out", "out", "--dask", "tcp://127.0.0.1:1"]) == BAD_INPUT
    assert "no Dask cluster with workers answers" in complaint(capsys)
    assert parquet.read_table("out/table.parquet").num_rows == 32


def test_paper_writes_figures_table_and_ratios(in_process, monkeypatch, capsys):
    small = sweep.Grid(demands=("gpt", "moe:tokens=64", "benchmark"), seeds=1)
    monkeypatch.setattr(paper, "grids", lambda quick: [
        small.model_copy(update={"schedulers": (*paper.COMPARED, "spectra-no-equalize", "rotor", "spectra-pack"),
                                 "demands": ("gpt", "moe", "benchmark"), "hosts": (8,)}),
        small.model_copy(update={"demands": ("gpt:noise=0.01", "benchmark:noise=0.01"), "hosts": (8,)}),
        small.model_copy(update={"demands": ("benchmark:flows=4", "benchmark:flows=8"), "hosts": (8,)})])
    monkeypatch.setattr(paper, "PAPER_HOSTS", {"gpt": 8, "moe": 8, "benchmark": 8})
    assert paper.main(["--out", "out", "--quiet"]) == DELIVERED
    names = {f"{name}{ending}" for name in ("makespan", "equalize", "plus", "others", "noise", "sparsity", "demands")
             for ending in (".png", ".svg")}
    assert set(os.listdir("out")) == names | {"rows.jsonl", "table.csv", "table.parquet", "ratios.csv"}
    with open("out/ratios.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    mine = next(row for row in rows if (row["workload"], row["scheduler"], row["switches"]) == ("moe", "less", "all"))
    table = [row for row in parquet.read_table("out/table.parquet").to_pylist() if row["demand"] == "moe"]
    spectra, less = ([row["makespan_periods"] for row in table if row["scheduler"] == name] for name in ("spectra", "less"))
    assert float(mine["makespan_over_spectra"]) == pytest.approx(np.mean(np.array(less) / np.array(spectra)))
    assert mine["published_over_spectra"] == "1.9 (2.7)"
    assert "less-even" in capsys.readouterr().out


def test_ablation_tells_what_each_step_is_worth(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(paper, "PAPER_HOSTS", {"gpt": 8, "benchmark": 8})
    monkeypatch.setattr(paper, "PLAN_TIME_S", 0.01)
    monkeypatch.setattr(ablation, "DELTAS", (0.01,))
    assert paper.main(["--ablation", "--quick", "--out", "out", "--quiet"]) == DELIVERED
    with open("out/ablation.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [(row["workload"], row["switches"]) for row in rows] == [(name, s) for name in ("gpt", "benchmark") for s in "248"]
    assert list(rows[0])[3:] == ["spectra", "spectra-plus", *(f"no {step}" for step in STEPS)]
    for row in rows:
        assert all(1 <= float(row[name]) <= float(row["spectra"]) + 1e-9 for name in list(row)[4:])
    assert "no exchange" in capsys.readouterr().out


def test_paper_covers_what_the_paper_does():
    main, noise, sparsity = paper.grids(quick=False)
    assert main.seeds == noise.seeds == sparsity.seeds == 50
    assert set(main.switches) == {2, 4} and {0.001, 0.1} <= set(main.deltas)
    assert {"less", "less-even", "spectra-eclipse", "spectra-no-equalize"} <= set(main.schedulers)
    assert sparsity.deltas == (0.04,)
    assert sum(len(grid.cases()[1]) for grid in paper.grids(quick=True)) < 0.1 * sum(
        len(grid.cases()[1]) for grid in paper.grids(quick=False))


def test_same_figure_same_bytes(tmp_path):
    row = {"x": 0.01, "scheduler": "spectra", "makespan_periods": 1.0, "lower_bound_periods": 0.9, "tight_lower_bound_periods": 0.95,
           "measured_makespan_periods": 1.001, "trustworthy": False}
    rows = [row, {**row, "x": 0.1, "makespan_periods": 2.0}]
    for name in ("a", "b"):
        charts.save(charts.lines([[("title", rows)]], ("spectra",), "x", "y"), str(tmp_path / name))
    for ending in (".png", ".svg"):
        assert (tmp_path / f"a{ending}").read_bytes() == (tmp_path / f"b{ending}").read_bytes()
    assert "measured (not trustworthy)" in (tmp_path / "a.svg").read_text()


def test_demand_of_a_workload_knows_its_parameters():
    assert Demand("gpt", 32).parameters["tensor"] == 4
    assert Demand("gpt", 32).sha256 == ""
    assert Demand("mine", 2, np.array([[0, 1.0], [0, 0]])).parameters == {}


def test_evaluate_gives_a_row_a_case():
    cases = [Case("gpt", 8, "", 0, name, 2, 0.01) for name in ("spectra", "tms")]
    assert [row["scheduler"] for row in evaluate(Demand("gpt", 8), 0, cases)] == ["spectra", "tms"]
