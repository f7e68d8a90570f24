"""The report of a run: what it says is what the files say, and nothing comes from elsewhere."""

import html.parser
import json
import pathlib
import re
import shutil
import xml.etree.ElementTree as tree

import pytest

from controller.scheduling.registry import SCHEDULERS
from testbed import machine, report, run
from testbed.errors import BAD_INPUT, DELIVERED
from testbed.charts import look
from testbed.folder import read
from testbed.page import page
from testbed.units import format_bytes, format_time
from testbed.workloads import WORKLOADS

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A run folder with measurements made up from its plan: every change is 1 ms late, every byte arrives on time."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPECTRA_CACHE", str(tmp_path / "no-cache"))
    assert run.main(["--dry-run", "--out", "run", "--hosts", "4", "--demand", "moe", "--period", "2s"]) == DELIVERED
    planned = read("run")
    makespan_s, demand = planned.result["computed_makespan_s"], planned.demand_bytes
    events = [{"t_s": 0.0, "event": "epoch", "monotonic_s": 5.0}]
    for h, slots in enumerate(planned.schedule.switches):
        windows = planned.schedule.windows(h)
        for k, window in enumerate(windows):
            for kind, t_s in (("dark", window.dark_s), ("lit", window.lit_s)):
                events.append({"t_s": t_s, "event": kind, "round": 0, "switch": h, "slot": k, "planned_s": t_s, "sent_s": t_s,
                               "seen_s": t_s + 0.001})
            for i, j in slots[k].circuits():
                events.append({"t_s": window.lit_s, "event": "circuit", "switch": h, "slot": k, "input": i, "output": j,
                               "bytes": int(demand[i, j]), "lost_datagrams": 0})
        events.append({"t_s": windows[-1].end_s, "event": "dark", "round": 0, "switch": h, "slot": len(windows),
                       "planned_s": windows[-1].end_s, "sent_s": windows[-1].end_s, "seen_s": None})
    events += [{"t_s": 0.1 * (i + j), "event": "pair", "input": i, "output": j, "bytes": int(demand[i, j])}
               for i in range(4) for j in range(4) if i != j]
    events += [{"t_s": makespan_s * share, "event": "progress", "delivered_bytes": int(demand.sum() * share),
                "ideal_bytes": int(demand.sum() * share)} for share in (0, 0.5, 1)]
    some = {"count": 3, "min": 0.02, "p50": 0.02, "p95": 0.021, "p99": 0.021, "max": 0.021}
    result = {**planned.result, "delivered_bytes": int(demand.sum()), "undelivered_bytes": 0,
              "measured_makespan_s": makespan_s + 0.001, "measured_over_computed": 1.0005, "measured_over_predicted": 1.0005,
              "trustworthy": False, "reasons": ["<b>someone</b> watched"], "datagrams": 7, "rounds": 1, "dark_violations": 0,
              "losses": {"datagrams": 0, "head_of_slot": 0, "tail_of_slot": 0, "elsewhere": 0}, "dark_interval_s": some,
              "cpu": {"busy": 0.1, "cores": 2, "steal": 0.0, "of_core": {"switches": 0.1}},
              "difference_s": {"packet_rounding": -0.001, "start_up": 0.0, "sender_lateness": 0.001,
                               "switching_latency": 0.001, "repair": 0.0, "rest": 0.0, "total": 0.001}}
    report.write_result("run", result, sorted(events, key=lambda event: event["t_s"]))
    return pathlib.Path("run")


def svgs(text):
    """The charts of a page, parsed."""
    return [tree.fromstring(found) for found in re.findall(r"<svg.*?</svg>", text, re.S)]


def tables(text):
    """Rows of cells of each section's table, by the id of the section."""
    found = {}
    for name, body in re.findall(r'<section id="(\w+)"[^>]*>(.*?)</section>', text, re.S):
        rows = re.findall(r"<tr>(.*?)</tr>", re.sub(r"<svg.*?</svg>", "", body, flags=re.S), re.S)
        found[name] = [[html.unescape(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.S)] for row in rows]
    return found


def test_all_sections_are_there_each_chart_with_its_table(folder):
    text = page(read("run"))
    assert list(tables(text)) == ["switches", "demand", "delivered", "completion", "budget", "links", "figures", "again"]
    assert len(svgs(text)) == 6
    assert all(len(rows) > 1 for name, rows in tables(text).items() if name != "again")


def test_figures_are_those_of_the_files(folder):
    run_ = read("run")
    text, found = page(run_), tables(page(run_))
    for name in ("computed_makespan_s", "predicted_makespan_s", "measured_makespan_s", "lower_bound_s"):
        assert format_time(run_.result[name]) in text
    assert found["demand"][1:] == [[f"h{i + 1}", f"h{j + 1}", f"{run_.demand_bytes[i, j]:,}"]
                                   for i in range(4) for j in range(4) if i != j]
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    assert found["completion"][1:] == [
        [f"h{event['input'] + 1}", f"h{event['output'] + 1}", f"{event['bytes']:,}", f"{event['t_s']:.4f} s"]
        for event in events if event["event"] == "pair"]
    assert [row[1] for row in found["delivered"][1:]] == [format_bytes(event["delivered_bytes"]) for event in events
                                                          if event["event"] == "progress"]
    assert found["budget"][-1] == ["in all", "+1.000"]
    assert run_.result["command"] in html.unescape(text)


def test_every_slot_tells_what_it_is_to_pointer_and_keyboard(folder):
    run_ = read("run")
    slots = sum(map(len, run_.schedule.switches))
    pointed = [element for svg in svgs(page(run_)) for element in svg.iter() if element.get("data-fact")]
    assert len(pointed) == 2 * slots
    assert [element.get("tabindex") for element in pointed].count("0") == 1
    assert all(element.get("aria-label") == element.get("data-fact") for element in pointed)
    measured = next(element for element in pointed if element.get("id") == "switches-measured-0-0").get("data-fact")
    window = run_.schedule.windows(0)[0]
    i, j = run_.schedule.switches[0][0].circuits()[0]
    assert f"lit from {format_time(window.lit_s + 0.001)}" in measured
    assert f"h{i + 1}→h{j + 1} {run_.demand_bytes[i, j]:,} B" in measured
    assert [[fact] for fact in (element.get("data-fact") for element in pointed)] == sorted(
        tables(page(run_))["switches"][1:], key=lambda row: [e.get("data-fact") for e in pointed].index(row[0]))


def test_nothing_comes_from_elsewhere_and_nothing_is_taken_for_markup(folder):
    text = page(read("run"))
    urls = set(re.findall(r"https?://[^\s\"'<>]+", text))
    assert all(url.startswith("http://www.w3.org/") for url in urls)  # names of namespaces
    assert "default-src 'none'" in text
    assert "<b>someone</b>" not in text and "&lt;b&gt;someone&lt;/b&gt;" in text
    assert "not trustworthy" in text


def test_ids_are_unique_and_all_references_lead_somewhere(folder):
    text = page(read("run"))
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r"url\(#([^)]+)\)", text)) | set(re.findall(r'href="#([^"]+)"', text)) <= set(ids)


def test_charts_take_the_ink_of_the_page(folder):
    for svg in svgs(page(read("run"))):
        assert "#000000" not in tree.tostring(svg, encoding="unicode")
        assert "currentColor" in tree.tostring(svg, encoding="unicode")


def test_page_is_well_formed(folder):
    class Checker(html.parser.HTMLParser):
        open_tags = []

        def handle_starttag(self, tag, attributes):
            if tag not in ("meta", "link", "br"):
                self.open_tags.append(tag)

        def handle_endtag(self, tag):
            assert self.open_tags.pop() == tag

    checker = Checker()
    checker.feed(page(read("run")))
    assert checker.open_tags == []


def test_report_of_a_run_is_built_again(folder, capsys):
    assert report.main(["run", "--plots"]) == DELIVERED
    assert "report.html" in capsys.readouterr().out
    names = {f"{name}{ending}" for name in ("demand", "switches", "delivered", "completion", "budget", "links")
             for ending in (".png", ".svg")}
    assert names | {"report.html"} <= {path.name for path in folder.iterdir()}
    assert (folder / "report.html").read_text() == page(read("run"))


def test_a_plan_or_an_interrupted_run_is_shown_as_far_as_it_went(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run.main(["--dry-run", "--out", "run", "--hosts", "4", "--period", "2s"]) == DELIVERED
    text = page(read("run"))
    assert list(tables(text)) == ["switches", "demand", "figures", "again"]
    assert "not played" in text


@pytest.mark.parametrize("prepare, words", [
    (lambda folder: None, "this is no run folder (result.json: No such file or directory)"),
    (lambda folder: (folder / "result.json").write_text("{}"), "this is no run folder (demand.csv"),
])
def test_folder_that_is_no_run_is_refused(tmp_path, monkeypatch, capsys, prepare, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    prepare(tmp_path / "here")
    assert report.main(["here"]) == BAD_INPUT
    assert words in capsys.readouterr().err


def test_damaged_run_is_refused(folder, capsys):
    (folder / "schedule.json").write_text("{}")
    assert report.main(["run"]) == BAD_INPUT
    assert "this run folder is damaged" in capsys.readouterr().err


def test_command_of_a_run_gives_the_same_demand_and_schedule_again(folder, monkeypatch):
    words = read("run").result["command"].split()
    assert words[:3] == ["sudo", machine.PYTHON, "testbed/run.py"]
    assert run.main([*words[3:], "--dry-run", "--out", "again"]) == DELIVERED
    for name in ("demand.csv", "schedule.json"):
        assert pathlib.Path("run", name).read_text() == pathlib.Path("again", name).read_text()


@pytest.fixture
def planned(tmp_path, monkeypatch):
    """planned(name, *arguments) plans a run into a folder of that name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPECTRA_CACHE", str(tmp_path / "no-cache"))

    def plan(name, *arguments):
        assert run.main(["--dry-run", "--out", name, "--hosts", "6", "--demand", "moe", "--period", "2s", *arguments]) == DELIVERED
        return name

    return plan


def test_runs_of_one_demand_are_compared_the_best_first(planned, capsys):
    folders = [planned("less", "--scheduler", "less-even"), planned("spectra"), planned("again"), planned("slow", "--delta", "50ms")]
    capsys.readouterr()
    assert report.main(folders) == DELIVERED
    assert capsys.readouterr().out.splitlines()[-1] == "comparison.html"
    text = pathlib.Path("comparison.html").read_text()
    found = tables(text)["runs"]
    assert [row[0] for row in found[1:]] == ["spectra", "spectra", "less-even", "spectra"]
    assert [row[7] for row in found[1:3]] == ["best", "best"]
    assert all(re.fullmatch(r"\+\d+\.\d%", row[7]) for row in found[3:])
    results = {name: read(name).result for name in folders}
    assert {row[-1]: row[5] for row in found[1:]} == {name: format_time(result["computed_makespan_s"])
                                                     for name, result in results.items()}
    assert len(svgs(text)) == 2 + 4  # makespans, over δ, and a Gantt chart each
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))


def test_a_difference_within_noise_is_said_to_be_none(folder):
    shutil.copytree("run", "other")
    result = json.loads(pathlib.Path("other/result.json").read_text())
    result["measured_makespan_s"] *= 1.0005
    pathlib.Path("other/result.json").write_text(json.dumps(result))
    assert report.main(["run", "other"]) == DELIVERED
    found = tables(pathlib.Path("comparison.html").read_text())["runs"]
    assert [row[7] for row in found[1:]] == ["best", "equal to the best, within noise"]


@pytest.mark.parametrize("arguments, words", [(["--seed", "1"], "its demand is another one than that of a"),
                                              (["--rate", "30Mbit", "--period", "1.0s"], "its demand is another one")])
def test_runs_of_different_demands_are_not_compared(planned, capsys, arguments, words):
    folders = [planned("a"), planned("b", *arguments)]
    assert report.main(folders) == BAD_INPUT
    assert words in capsys.readouterr().err
    assert not pathlib.Path("comparison.html").exists()


def test_every_scheduler_has_a_look_of_its_own():
    assert len({look(name) for name in SCHEDULERS}) == len(SCHEDULERS)


def test_list_names_all_there_is_to_choose_from(capsys):
    assert run.main(["--list"]) == DELIVERED
    lines = [line.split(None, 2) for line in capsys.readouterr().out.splitlines()]
    assert [name for kind, name, _ in lines if kind == "scheduler"] == list(SCHEDULERS)
    assert [name for kind, name, _ in lines if kind == "workload"] == list(WORKLOADS)
    assert all(text for _, _, text in lines)
