"""report.html: one run as a page of its own, without anything from elsewhere."""

import io
import os
import re
import xml.etree.ElementTree as tree

import jinja2
import matplotlib
import numpy as np

from testbed import run_charts
from testbed.charts import STYLE
from testbed.errors import UserError
from testbed.report import DIFFERENCE, NOISE_NOTE, compared, headline, rows_of
from testbed.units import format_bytes, format_rate, format_time

_SVG, _XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_INK = "#000000"
tree.register_namespace("", _SVG)
tree.register_namespace("xlink", _XLINK)


def page(run):
    """The report of a run as HTML.

    Parameters
    ----------
    run : folder.Run

    Returns
    -------
    str
    """
    return _template("report.html.j2").render(
        title=f"{run.result['scheduler']} on {run.result['demand']}", result=run.result, headline=headline(run.result),
        facts=list(rows_of(run.result, run.schedule)), sections=list(_sections(run)), versions=run.result["versions"],
        command=run.result["command"])


def _template(name):
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(os.path.dirname(os.path.abspath(__file__))),
                                     autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.get_template(name)


def comparison(runs):
    """Several runs of one demand as HTML: one table, the best marked, and their charts one below the other.

    Parameters
    ----------
    runs : list of folder.Run

    Returns
    -------
    str

    Raises
    ------
    UserError
        They are of different demands.
    """
    for run in runs[1:]:
        if not np.array_equal(run.demand_bytes, runs[0].demand_bytes):
            raise UserError(f"{run.path}: its demand is another one than that of {runs[0].path}, so that their makespans cannot "
                            "be compared; give --seed, --hosts and --period the same values in both")
        if run.result["rate_bps"] != runs[0].result["rate_bps"]:
            raise UserError(f"{run.path}: its links have another rate than those of {runs[0].path}, so that their makespans "
                            "cannot be compared; give --rate the same value in both")
    end_s = 1.02 * max(run.makespan_s for run in runs)
    sections = [_section("makespans", "Makespans", "Measured where the run was played, else computed; the lower bounds beside it.",
                         run_charts.makespans(runs), ("run", "computed", "measured", "lower bound", "tight lower bound"),
                         [(run.path, *(format_time(run.result[key]) for key in
                                       ("computed_makespan_s", "measured_makespan_s", "lower_bound_s", "tight_lower_bound_s")))
                          for run in runs])]
    if len({run.result["delta_s"] for run in runs}) > 1:
        sections.append(_section("deltas", "Makespan over δ", "Filled: measured; hollow: computed, not played; dotted: the lower bound; dashed: the tight one.",
                                 run_charts.over_delta(runs), ("scheduler", "switches", "δ", "makespan"),
                                 [(run.result["scheduler"], run.result["switches"], format_time(run.result["delta_s"]),
                                   format_time(run.makespan_s)) for run in sorted(runs, key=lambda run: run.result["delta_s"])]))
    for number, run in enumerate(runs):
        figure, facts = run_charts.gantt(run, end_s)
        sections.append(_section(f"switches{number}", f"{run.result['scheduler']}, δ {format_time(run.result['delta_s'])}",
                                 f"Planned above, measured below ({run.path}).", (figure, facts), ("slot",),
                                 [(fact,) for fact in facts.values()], half=True))
    heading, rows = compared(runs)
    first = runs[0].result
    return _template("comparison.html.j2").render(
        title=f"{len(runs)} runs on {first['demand']}", heading=heading, rows=rows, sections=sections, noise=NOISE_NOTE,
        about=f"{first['hosts']} hosts, {format_bytes(first['demand_bytes'])}, {format_rate(first['rate_bps'])} a link")


def charts_of(run):
    """The figures of a run by name, those that it has something for.

    Parameters
    ----------
    run : folder.Run

    Returns
    -------
    dict of str to matplotlib.figure.Figure
    """
    return {section["id"]: section["figure"] for section in _sections(run)}


def _sections(run):
    """(id, title, note, SVG, table heading, table rows) of every chart that the run has something for."""
    figure, facts = run_charts.gantt(run)
    yield _section("switches", "Switches", "What each switch plays: planned above, measured below. Point at a slot, or reach it "
                   "with Tab and the arrow keys, to see its permutation, instants and bytes.", (figure, facts),
                   ("slot",), [(fact,) for fact in facts.values()])
    yield _section("demand", "Demand", "Payload bytes from each host (row) to each host (column).",
                   run_charts.demand(run), ("from", "to", "bytes"),
                   [(f"h{i + 1}", f"h{j + 1}", f"{run.demand_bytes[i, j]:,}") for i, j in np.argwhere(run.demand_bytes)], half=True)
    if run.of("progress"):
        yield _section("delivered", "Delivered bytes", "Bytes that had arrived, beside what would have if all had gone ideally.",
                       run_charts.delivered(run), ("time", "delivered", "ideal"),
                       [(f"{event['t_s']:.3f} s", format_bytes(event["delivered_bytes"]), format_bytes(event["ideal_bytes"]))
                        for event in run.of("progress")], half=True)
        yield _section("completion", "Completion of pairs", "When the last byte of each pair of hosts arrived: the share of pairs "
                       "that were complete by then.", run_charts.completion(run), ("from", "to", "bytes", "complete at"),
                       [(f"h{event['input'] + 1}", f"h{event['output'] + 1}", f"{event['bytes']:,}", f"{event['t_s']:.4f} s")
                        for event in run.of("pair")], half=True)
    if run.measured and run.result["difference_s"]:
        yield _section("budget", "Error budget", "Measured less computed makespan, in parts that were each measured.",
                       run_charts.budget(run), ("part", "ms"),
                       [(label, f"{run.result['difference_s'][key] * 1e3:+.3f}") for key, label in DIFFERENCE]
                       + [("in all", f"{run.result['difference_s']['total'] * 1e3:+.3f}")], half=True)
    if run.of("circuit"):
        shares = run_charts.utilisation_of(run)
        yield _section("links", "Links", "Share of the makespan in which each link, into a switch and out of it, carried payload.",
                       run_charts.utilisation(run), ("link", *(f"h{i + 1}" for i in range(shares.shape[1]))),
                       [(f"o{k // 2 + 1} {'in' if k % 2 == 0 else 'out'}", *(f"{share:.3f}" for share in row))
                        for k, row in enumerate(shares)])


def _section(name, title, note, chart, heading, rows, half=False):
    figure, facts = chart
    return {"id": name, "title": title, "note": note, "figure": figure, "pointed": bool(facts), "half": half,
            "svg": jinja2.filters.Markup(inline(figure, name, title, facts)), "heading": heading, "rows": rows}


def inline(figure, name, title, facts):
    """A figure as SVG to stand in a page: it takes the page's ink, and what has facts can be pointed at and focused.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
    name : str
        Goes before all its ids, so that several figures can stand in one page.
    title : str
        What it is called to those who do not see it.
    facts : dict of str to str
        For elements by id.

    Returns
    -------
    str
    """
    stream = io.BytesIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(stream, format="svg", metadata={"Date": None}, transparent=True)
    root = tree.fromstring(stream.getvalue())
    for parent in root.iter():
        for child in [child for child in parent if child.tag.endswith("}metadata")]:
            parent.remove(child)
    for element in root.iter():
        for key, value in element.attrib.items():
            if key == "id":
                element.set(key, f"{name}-{value}")
            elif "#" in value:
                value = re.sub(r"url\(#", f"url(#{name}-", value)
                value = re.sub(r"^#", f"#{name}-", value) if key.endswith("href") else value
                element.set(key, value.replace(_INK, "currentColor"))
        if element.tag.endswith(("}text", "}tspan")) and "fill" not in element.get("style", ""):
            element.set("fill", "currentColor")
    first = True
    for element in root.iter():
        fact = facts.get(element.get("id", "").removeprefix(f"{name}-"))
        if fact:
            element.set("data-fact", fact)
            element.set("aria-label", fact)
            element.set("role", "img")
            element.set("tabindex", "0" if first else "-1")
            first = False
    root.set("role", "group" if facts else "img")
    root.set("aria-label", title)
    for size in ("width", "height"):
        root.attrib.pop(size, None)
    return tree.tostring(root, encoding="unicode")
