"""The command line, planning only: files, output and exit statuses."""

import json

import numpy as np
import pytest

from controller.scheduling.registry import SCHEDULERS
from controller.scheduling.schedule import Schedule
from testbed import run
from testbed.errors import BAD_INPUT, DELIVERED

MEASURED = ("delivered_bytes", "undelivered_bytes", "corrupt_bytes", "retransmitted_bytes", "measured_makespan_s",
            "measured_over_computed", "measured_over_predicted", "dark_violations", "trustworthy", "reasons")
PLANNED = ("scheduler", "demand", "hosts", "switches", "delta_s", "rate_bps", "period_s", "seed", "demand_bytes",
           "lower_bound_s", "computed_makespan_s", "predicted_makespan_s", "versions")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """The current directory is an empty one, the user is nobody, and nothing can be started."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.geteuid", lambda: 65534)
    monkeypatch.setattr(run, "isolated_run", lambda *arguments, **options: pytest.fail("a run was started"))
    monkeypatch.setenv("SPECTRA_CACHE", str(tmp_path / "no-cache"))


def dry_run(*arguments):
    return run.main(["--dry-run", "--out", "out", "--hosts", "4", "--period", "1s", *arguments])


def result_in(folder):
    return json.loads((folder / "result.json").read_text())


def complaint(capsys):
    """The one line on standard error, with nothing on standard output."""
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("run.py: ")
    assert captured.err.endswith("\n")
    assert captured.err.count("\n") == 1
    return captured.err.removeprefix("run.py: ").rstrip()


def test_dry_run_writes_the_three_files_of_a_plan(tmp_path):
    assert dry_run() == DELIVERED
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["demand.csv", "result.json", "schedule.json"]


def test_dry_run_leaves_the_measured_results_null(tmp_path):
    dry_run()
    result = result_in(tmp_path / "out")
    assert {name: result[name] for name in MEASURED} == dict.fromkeys(MEASURED)


def test_dry_run_writes_the_planned_results(tmp_path):
    dry_run("--demand", "moe", "--switches", "3", "--delta", "5ms", "--rate", "20Mbit", "--seed", "9")
    result = result_in(tmp_path / "out")
    assert set(PLANNED) <= result.keys()
    assert [result[name] for name in PLANNED[:8]] == ["spectra", "moe", 4, 3, 0.005, 20e6, 1.0, 9]
    assert 0 < result["lower_bound_s"] <= result["computed_makespan_s"]
    assert 0 < result["predicted_makespan_s"] <= result["computed_makespan_s"]


def test_files_of_a_plan_agree(tmp_path):
    dry_run()
    result = result_in(tmp_path / "out")
    demand_bytes = np.loadtxt(tmp_path / "out" / "demand.csv", delimiter=",")
    schedule = Schedule.from_json((tmp_path / "out" / "schedule.json").read_text())
    assert (schedule.ports, len(schedule.switches), schedule.delta_s) == (4, 2, 0.02)
    assert schedule.makespan_s == pytest.approx(result["computed_makespan_s"])
    assert demand_bytes.sum() == result["demand_bytes"]
    assert schedule.covers(demand_bytes * 8 / result["rate_bps"])


def test_demand_of_a_run_folder_gives_the_same_schedule_again(tmp_path):
    dry_run()
    assert run.main(["--dry-run", "--out", "again", "--demand", "out/demand.csv"]) == DELIVERED
    schedules = [(tmp_path / folder / "schedule.json").read_text() for folder in ("out", "again")]
    assert schedules[0] == schedules[1]


def test_same_arguments_give_the_same_files(tmp_path):
    dry_run()
    run.main(["--dry-run", "--out", "again", "--hosts", "4", "--period", "1s"])
    for name in ("demand.csv", "schedule.json", "result.json"):
        assert (tmp_path / "out" / name).read_text() == (tmp_path / "again" / name).read_text()


def test_run_folder_is_named_after_scheduler_and_demand_by_default(tmp_path):
    assert run.main(["--dry-run", "--hosts", "4"]) == DELIVERED
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.endswith("-spectra-gpt")


def test_dry_run_prints_a_table_on_standard_output_only(capsys):
    dry_run()
    captured = capsys.readouterr()
    assert "(not played)" in captured.out
    assert "computed makespan" in captured.out
    assert captured.err == ""


def test_json_prints_the_result_alone(tmp_path, capsys):
    dry_run("--json")
    captured = capsys.readouterr()
    assert json.loads(captured.out) == result_in(tmp_path / "out")
    assert captured.err == ""


def test_demand_and_folder_are_printed_as_they_are_named(tmp_path, capsys):
    """Square brackets are markup to rich, and nothing special in file names."""
    (tmp_path / "mine[v2].csv").write_text("0,5000\n5000,0\n")
    assert run.main(["--dry-run", "--demand", "mine[v2].csv", "--out", "out[bold]"]) == DELIVERED
    printed = capsys.readouterr().out
    assert "mine[v2], 2 hosts" in printed
    assert "out[bold]" in printed


def test_closing_tag_in_the_name_of_the_folder_is_printed(capsys):
    assert dry_run("--out", "out[/bold]") == DELIVERED
    assert "out[/bold]" in capsys.readouterr().out


def test_config_file_is_taken_and_the_command_line_wins(tmp_path):
    (tmp_path / "run.yaml").write_text("demand: moe\nhosts: 16\nperiod: 1s\nseed: 5\n")
    assert dry_run("--config", "run.yaml") == DELIVERED
    result = result_in(tmp_path / "out")
    assert (result["demand"], result["hosts"], result["seed"]) == ("moe", 4, 5)


@pytest.mark.parametrize("arguments", [
    ["--rate", "10Gbit"], ["--rate", "100kbit", "--period", "600s"], ["--delta", "1us"], ["--switches", "32"],
    ["--demand", "benchmark", "--hosts", "64"]])
def test_dry_run_takes_any_rate_and_size(arguments):
    assert dry_run(*arguments) == DELIVERED


@pytest.mark.parametrize("arguments, problem", [
    (["--delta", "0"], "--delta: "),
    (["--delta", "nan"], "--delta: "),
    (["--rate", "20MB"], "--rate: "),
    (["--rate", "1bit"], "--rate 1 bit/s"),
    (["--switches", "33"], "--switches: "),
    (["--hosts", "1"], "--hosts: "),
    (["--seed", "-1"], "--seed: "),
    (["--scheduler", "spektra"], "did you mean 'spectra'?"),
    (["--scheduler", "optimal"], "it is exact, and does at most 4 hosts and 2 switches, not 8 and 2"),
    (["--scheduler", "optimal", "--hosts", "4", "--switches", "3"], "not 4 and 3"),
    (["--demand", "gpt:tenso=3"], "--demand gpt:tenso=3: gpt has no parameter 'tenso'; did you mean 'tensor'?"),
    (["--framework", "pox"], "--framework: "),
    (["--datapath", "dpdk"], "--datapath: 'dpdk' is not one of 'kernel' or 'user'"),
    (["--link-delay", "5ms"], "--link-delay: '5ms' must be at most 0.001"),
    (["--link-delay", "0"], "--link-delay: "),
    (["--plan-time", "1s"], "--plan-time is of --scheduler spectra-plus only, not of spectra"),
    (["--scheduler", "spectra-plus", "--plan-time", "1s", "--plan-steps", "5"], "--plan-time and --plan-steps exclude each other"),
    (["--scheduler", "spectra-plus", "--plan-steps", "-1"], "--plan-steps: "),
    (["--scheduler", "spectra-plus", "--plan-time", "0"], "--plan-time: "),
    (["--scheduler", "spectra-plus", "--min-slot", "soon"], "--min-slot: "),
    (["--demand", "gtp"], "did you mean 'gpt'?"),
    (["--demand", "missing.csv"], "--demand missing.csv: No such file or directory"),
    (["--demand", "text.csv"], "row 1, column 2: 'many' is not a number"),
    (["--demand", "negative.csv"], "row 2, column 1: -1 is negative"),
    (["--demand", "five.csv", "--hosts", "4"], "5 hosts, but --hosts is 4"),
    (["--config", "missing.yaml"], "--config missing.yaml: "),
    (["--config", "list.yaml"], "--config list.yaml: "),
    (["--config", "typo.yaml"], "unknown key 'delat'; did you mean 'delta'?"),
    (["--config", "bad.yaml"], "--config bad.yaml, key 'rate': "),
    (["--delat", "20ms"], "unknown option --delat; did you mean '--delta'?"),
    (["--delta"], "--delta"),
    (["--quiet=yes"], "--quiet"),
    (["stray"], "stray"),
])
@pytest.mark.parametrize("mode", [["--dry-run"], ["--dry-run", "--json"], []])
def test_bad_input_is_one_line_and_status_2_and_nothing_is_written(tmp_path, capsys, mode, arguments, problem):
    (tmp_path / "text.csv").write_text("0,many\n1,0\n")
    (tmp_path / "negative.csv").write_text("0,1\n-1,0\n")
    (tmp_path / "five.csv").write_text("\n".join(",".join("01"[i != j] for j in range(5)) for i in range(5)))
    (tmp_path / "list.yaml").write_text("- hosts\n")
    (tmp_path / "typo.yaml").write_text("delat: 20ms\n")
    (tmp_path / "bad.yaml").write_text("rate: fast\n")
    before = sorted(tmp_path.rglob("*"))
    assert run.main([*mode, *arguments]) == BAD_INPUT
    assert problem in complaint(capsys)
    assert sorted(tmp_path.rglob("*")) == before


def test_spectra_plus_is_never_longer_and_tells_how_it_ended(capsys, tmp_path):
    makespans_s = {}
    for name, more in (("spectra", []), ("spectra-plus", ["--plan-steps", "20"]), ("again", ["--plan-steps", "20"])):
        scheduler = "spectra" if name == "spectra" else "spectra-plus"
        assert run.main(["--dry-run", "--demand", "benchmark:flows=5", "--hosts", "12", "--period", "4s", "--scheduler", scheduler,
                         "--min-slot" if more else "--quiet", *(["0", *more] if more else []), "--out", name]) == DELIVERED
        makespans_s[name] = json.loads((tmp_path / name / "result.json").read_text())["computed_makespan_s"]
    assert makespans_s["spectra-plus"] < makespans_s["spectra"]
    assert (tmp_path / "spectra-plus" / "schedule.json").read_text() == (tmp_path / "again" / "schedule.json").read_text()
    told = " ".join(capsys.readouterr().out.split())
    assert "20 steps" in told and "until its steps were done" in told


def test_a_time_too_short_for_spectra_itself_is_told(capsys):
    assert dry_run("--scheduler", "spectra-plus", "--plan-time", "1us", "--demand", "benchmark", "--hosts", "32") == DELIVERED
    assert "allow more with --plan-time" in " ".join(capsys.readouterr().out.split())


def test_slots_are_as_long_as_asked_for(tmp_path):
    assert dry_run("--scheduler", "spectra-plus", "--plan-steps", "10", "--min-slot", "50ms", "--demand", "benchmark:flows=5",
                   "--hosts", "12", "--period", "4s") == DELIVERED
    schedule = json.loads((tmp_path / "out" / "schedule.json").read_text())
    assert min(slot["duration_s"] for slots in schedule["switches"] for slot in slots) >= 0.05 - 1e-9


@pytest.mark.parametrize("arguments, module", [(["--datapath", "kernel"], "openvswitch"), (["--link-delay", "50us"], "sch_netem")])
def test_what_the_kernel_lacks_is_refused_with_the_way_to_it(tmp_path, capsys, monkeypatch, arguments, module):
    monkeypatch.setattr(run.os, "geteuid", lambda: 0)
    monkeypatch.setattr(run.shutil, "which", lambda name, **_: name)
    monkeypatch.setattr(run.machine, "has_module", lambda name: name != module)
    assert run.main(["--hosts", "4", "--out", "out", *arguments]) == BAD_INPUT
    told = capsys.readouterr().err
    assert arguments[0] in told and module in told and "vagrant up" in told and "doctor.py" in told and told.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_folder_that_is_not_empty_is_refused_and_left_alone(tmp_path, capsys):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("precious")
    assert dry_run() == BAD_INPUT
    assert complaint(capsys) == "--out out: the folder is not empty; name a new one"
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("folder", ["file", "file/run"])
def test_folder_that_cannot_be_made_is_refused(tmp_path, capsys, folder):
    (tmp_path / "file").write_text("precious")
    assert dry_run("--out", folder) == BAD_INPUT
    assert complaint(capsys).startswith(f"--out {folder}: ")
    assert (tmp_path / "file").read_text() == "precious"


def test_empty_folder_is_taken(tmp_path):
    (tmp_path / "out").mkdir()
    assert dry_run() == DELIVERED


def test_folder_is_made_with_its_parents(tmp_path):
    assert dry_run("--out", "a/b/c") == DELIVERED
    assert (tmp_path / "a" / "b" / "c" / "result.json").exists()


def test_real_run_without_root_says_that_root_is_needed(tmp_path, capsys):
    assert run.main(["--hosts", "4", "--out", "out"]) == BAD_INPUT
    assert complaint(capsys).startswith("root is needed")
    assert list(tmp_path.iterdir()) == []


def test_real_run_without_the_tools_names_them(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run.main(["--hosts", "4", "--out", "out"]) == BAD_INPUT
    assert "ovs-vswitchd" in complaint(capsys)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [["--rate", "1kbit", "--period", "60min"], ["--rate", "1Tbit"]])
def test_real_run_that_would_not_end_is_refused(monkeypatch, capsys, tmp_path, arguments):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda tool, **_: tool)
    monkeypatch.setattr(run.machine, "has_module", lambda name: False)
    assert run.main(["--hosts", "4", "--out", "out", *arguments]) == BAD_INPUT
    assert "--dry-run" in complaint(capsys)
    assert list(tmp_path.iterdir()) == []


def test_help_lists_every_option(capsys):
    with pytest.raises(SystemExit) as caught:
        run.main(["--help"])
    assert caught.value.code == 0
    printed = capsys.readouterr().out
    for option in ("--config", "--demand", "--hosts", "--switches", "--delta", "--period", "--rate", "--scheduler",
                   "--seed", "--out", "--dry-run", "--json", "--quiet"):
        assert option in printed


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_every_scheduler_plans_the_same_demand(tmp_path, scheduler):
    arguments = ["--dry-run", "--hosts", "4", "--demand", "moe", "--seed", "3"]
    assert run.main([*arguments, "--scheduler", scheduler, "--out", "out"]) == DELIVERED
    assert run.main([*arguments, "--out", "with-spectra"]) == DELIVERED
    demands = [(tmp_path / folder / "demand.csv").read_text() for folder in ("out", "with-spectra")]
    assert demands[0] == demands[1]
    result = result_in(tmp_path / "out")
    assert result["scheduler"] == scheduler
    assert result["lower_bound_s"] <= result["computed_makespan_s"] * (1 + 1e-9)


@pytest.mark.parametrize("scheduler", ["solstice", "tms", "spectra-eclipse"])
def test_period_is_chosen_by_spectra_where_other_slots_are_shorter(tmp_path, scheduler):
    """By their own slots, these would take a longer period, and so another demand."""
    for name in ("spectra", scheduler):
        assert run.main(["--dry-run", "--demand", "benchmark", "--hosts", "16", "--seed", "3", "--scheduler", name,
                         "--out", name]) == DELIVERED
    assert (tmp_path / "spectra" / "demand.csv").read_text() == (tmp_path / scheduler / "demand.csv").read_text()


@pytest.mark.parametrize("arguments, words", [
    (["--scheduler", "optimal", "--hosts", "8"], "--scheduler optimal: it is exact, and does at most 4 hosts and 2 switches"),
    (["--scheduler", "eclipse"], "unknown scheduler 'eclipse'; did you mean 'spectra-eclipse'?"),
    (["--demand", "gpt:tenso=3"], "did you mean 'tensor'?"),
    (["--demand", "gpt:tensor=3"], "does not make 4 hosts"),
    (["--pcap", "h1", "h5"], "--pcap h5: no such host; the hosts are h1 to h4"),
    (["--demand", "mo"], "neither a workload nor a file; did you mean 'moe'?"),
])
def test_scheduler_or_workload_that_is_none_is_refused(tmp_path, capsys, arguments, words):
    assert dry_run(*arguments) == BAD_INPUT
    assert words in complaint(capsys)
    assert not (tmp_path / "out").exists()


def test_parameters_of_a_workload_are_in_the_result_and_the_folder_has_a_plain_name(tmp_path):
    assert run.main(["--dry-run", "--demand", "benchmark:flows=4,noise=0", "--hosts", "4"]) == DELIVERED
    folder = next((tmp_path / "runs").iterdir())
    assert folder.name.endswith("-spectra-benchmark-flows-4-noise-0")
    assert result_in(folder)["demand"] == "benchmark:flows=4,noise=0"
