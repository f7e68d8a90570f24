"""Tables for people, and the files of the run folder; as a program, the report of a finished run, or of several.

    .venv/bin/python testbed/report.py runs/20261202-013500-spectra-gpt
"""

import json
import os
import sys

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from controller.scheduling.registry import SCHEDULERS
from testbed.errors import DELIVERED, Parser, UserError, exit_status
from testbed.files import whole
from testbed.units import format_bytes, format_rate, format_time
from testbed.workloads import WORKLOADS
from topologies.parallel_ocs import topos

DIFFERENCE = (
    ("packet_rounding", "packet rounding"),
    ("start_up", "start-up"),
    ("sender_lateness", "sender lateness"),
    ("switching_latency", "switching latency"),
    ("repair", "repair"),
    ("rest", "rest"),
)


def write_plan(folder, plan, result):
    """Write what is known before the run: demand.csv, schedule.json and result.json.

    Parameters
    ----------
    folder : str
        It exists.
    plan : Plan
    result : dict
    """
    np.savetxt(os.path.join(folder, "demand.csv"), plan.demand_bytes, fmt="%d", delimiter=",")
    _write(os.path.join(folder, "schedule.json"), plan.schedule.to_json() + "\n")
    write_result(folder, result)


def write_result(folder, result, events=None):
    """Write result.json, and events.jsonl where there are events; each file is whole or not there."""
    _write(os.path.join(folder, "result.json"), to_json(result) + "\n")
    if events is not None:
        _write(os.path.join(folder, "events.jsonl"), "".join(json.dumps(event) + "\n" for event in events))


def to_json(result):
    """result.json as text."""
    return json.dumps(result, indent=1, allow_nan=False)


def _write(path, text):
    with whole(path) as part, open(part, "w", encoding="utf-8") as stream:
        stream.write(text)


def print_result(result, schedule, folder, stream):
    """Print the table of a run, or of a plan that was not run.

    Parameters
    ----------
    result : dict
    schedule : Schedule
    folder : str or None
        Where the run folder is.
    stream : file
    """
    console = Console(file=stream, highlight=False, markup=False, width=None if stream.isatty() else 110)
    table = Table(show_header=False, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows_of(result, schedule):
        table.add_row(name, value)
    console.print(table)
    if folder:
        console.print(Text.assemble(("run folder  ", "dim"), folder), soft_wrap=True)


def headline(result):
    """(name, value, 'good' or 'bad' or '') of what a reader wants first.

    Parameters
    ----------
    result : dict

    Returns
    -------
    list of (str, str, str)
    """
    trusted = {True: ("trustworthy", "good"), False: ("not trustworthy", "bad"), None: ("not played", "")}
    return [("computed makespan", format_time(result["computed_makespan_s"]), ""),
            ("predicted makespan", format_time(result["predicted_makespan_s"]), ""),
            ("measured makespan", format_time(result["measured_makespan_s"]), ""),
            ("lower bound", format_time(result["lower_bound_s"]), ""),
            ("tight lower bound", format_time(result["tight_lower_bound_s"]), ""),
            ("verdict", *trusted[result["trustworthy"]])]


def rows_of(result, schedule):
    """(name, text) of all that is told of a run.

    Parameters
    ----------
    result : dict
    schedule : Schedule

    Yields
    ------
    (str, str or rich.text.Text)
    """
    yield "demand", (f"{result['demand']}, {result['hosts']} hosts, {format_bytes(result['demand_bytes'])}, "
                     f"seed {result['seed']}")
    yield "network", (f"{result['switches']} switches, δ {format_time(result['delta_s'])}, "
                      f"{format_rate(result['rate_bps'])} a link"
                      + (f" (delay {format_time(result['link_delay_s'])})" if result["link_delay_s"] else "")
                      + f", {result['datapath']} datapath")
    if result["time_scale"]:
        yield "time scale", result["time_scale"]
    if result["planning"]:
        yield "planning", result["planning"]
    yield from _schedule_rows(schedule)
    yield "lower bound", f"{format_time(result['lower_bound_s'])}; tight {format_time(result['tight_lower_bound_s'])}"
    over, over_tight = (result["computed_makespan_s"] / result[key] for key in ("lower_bound_s", "tight_lower_bound_s"))
    yield "computed makespan", f"{format_time(result['computed_makespan_s'])}  ({over:.3f} × lower bound, {over_tight:.3f} × tight)"
    yield "predicted makespan", format_time(result["predicted_makespan_s"])
    if result["dilation"] is not None:
        yield "physical makespan", (f"{format_time(result['computed_makespan_physical_s'])} computed, "
                                    f"{format_time(result['measured_makespan_physical_s'])} measured")
    if result["delivered_bytes"] is None:
        yield "measured makespan", "- (not played)"
        return
    if result["measured_makespan_s"] is None:
        yield "measured makespan", "- (not everything was delivered)"
    else:
        yield "measured makespan", format_time(result["measured_makespan_s"])
        yield "measured / computed", f"{result['measured_over_computed']:.4f}"
        yield "measured / predicted", f"{result['measured_over_predicted']:.4f}"
    yield "delivered", f"{format_bytes(result['delivered_bytes'])} of {format_bytes(result['demand_bytes'])}"
    yield from _observation_rows(result)
    yield "verdict", _verdict(result)


def _schedule_rows(schedule):
    for h, slots in enumerate(schedule.switches):
        durations = ", ".join(format_time(slot.duration_s) for slot in slots[:8]) + (", …" if len(slots) > 8 else "")
        yield f"switch o{h + 1}", (f"{len(slots)} slot{'s' * (len(slots) != 1)}, load {format_time(schedule.loads_s[h])}"
                                   + (f": {durations}" if slots else ""))


def _observation_rows(result):
    if result["difference_s"]:
        parts = [f"{label} {result['difference_s'][key] * 1e3:+.2f} ms" for key, label in DIFFERENCE]
        yield "measured − computed", f"{result['difference_s']['total'] * 1e3:+.2f} ms: {', '.join(parts)}"
    for fault in result.get("faults") or ():
        yield "fault", fault_story(fault)
    if result.get("faults_cost_s") is not None:
        bound_s = result["survivors_lower_bound_s"]
        yield "cost of the faults", (f"{result['faults_cost_s'] * 1e3:+.1f} ms against the {format_time(result['fault_free_makespan_s'])} "
                                     "of a run without" + (f"; {result['measured_makespan_s'] / bound_s:.3f} × the least possible "
                                                           f"after them, {format_time(bound_s)}" if bound_s else ""))
    losses = result["losses"]
    yield "lost and sent again", (
        f"{losses['datagrams']} of {result['datagrams']:,} datagrams ({losses['head_of_slot']} at the head, {losses['tail_of_slot']} at the tail "
        f"of a slot, {losses['elsewhere']} elsewhere); {result['rounds'] - 1} repair rounds")
    dark = result["dark_interval_s"]
    seen = (f"{format_time(dark['p50'])} median, {format_time(dark['min'])} to {format_time(dark['max'])} "
            f"({dark['count']} intervals)" if dark else "no switch had two slots")
    lead = result["compensation_s"]
    yield "dark as packets saw it", (
        f"{seen}; {result['dark_violations']} violations; messages sent ahead by {format_time(lead['dark'])} (dark) and "
        f"{format_time(lead['lit'])} (lit)")
    if result.get("captured_packets"):
        yield "captured", ", ".join(
            f"{name}.pcap {count['captured']:,} packets" + (f" ({count['dropped']:,} more were missed)" if count["dropped"] else "")
            for name, count in result["captured_packets"].items())
    cpu = result["cpu"]
    shares = ", ".join(f"{name} {share:.2f}" for name, share in cpu["of_core"].items())
    yield "CPU", f"{cpu['busy']:.0%} of {cpu['cores']} cores busy, {cpu['steal']:.1%} stolen (cores used: {shares})"


def fault_story(fault):
    """What became of an injected fault, in one line."""
    if fault["injected_s"] is None:
        return f"{fault['fault']}: not injected, all had arrived before"
    story = f"{fault['fault']}: injected at {format_time(fault['injected_s'])}"
    if fault["noticed_s"] is not None:
        story += f", noticed at {format_time(fault['noticed_s'])} ({fault['by']})"
    if fault["traffic_again_s"] is not None:
        story += (f", traffic again at {format_time(fault['traffic_again_s'])}, "
                  f"{format_time(fault['traffic_again_s'] - fault['noticed_s'])} after that")
    return story


def _verdict(result):
    if result["trustworthy"]:
        return Text("trustworthy", "green")
    return Text.assemble(("not trustworthy", "red"), ": ", "; ".join(result["reasons"]))


def print_choices(stream):
    """Print what there is to choose from: workloads, schedulers and topologies, a line each."""
    table = Table(show_header=False, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for kind, known in (("workload", WORKLOADS), ("scheduler", SCHEDULERS), ("topology", topos)):
        for name, value in known.items():
            table.add_row(kind, name, value.__doc__.strip().splitlines()[0])
    Console(file=stream, highlight=False, markup=False, width=None if stream.isatty() else 160).print(table)


NOISE = 1e-3
NOISE_NOTE = ("Makespans that differ by less than 0.1 % are called equal: that is the spread of repeated runs on a quiet machine "
              "(tests/bench/fidelity.py).")


def compared(runs):
    """A table of several runs of one demand, the shortest first.

    Parameters
    ----------
    runs : list of folder.Run

    Returns
    -------
    heading : tuple of str
    rows : list of tuple of str
    """
    best_s = min(run.makespan_s for run in runs)
    rows = []
    for run in sorted(runs, key=lambda run: run.makespan_s):
        result = run.result
        over = run.makespan_s / best_s - 1
        standing = "best" if over == 0 else "equal to the best, within noise" if over < NOISE else f"+{over:.1%}"
        played = {True: "trustworthy", False: "not trustworthy", None: "not played"}[result["trustworthy"]]
        rows.append((result["scheduler"], str(result["switches"]), format_time(result["delta_s"]),
                     format_time(result["lower_bound_s"]), format_time(result["tight_lower_bound_s"]),
                     format_time(result["computed_makespan_s"]),
                     format_time(result["measured_makespan_s"]), standing, played, run.path))
    return ("scheduler", "switches", "δ", "lower bound", "tight", "computed", "measured", "beside the best", "verdict", "run"), rows


def write_page(run, plots=False):
    """Write report.html into a run folder.

    Parameters
    ----------
    run : folder.Run
    plots : bool
        Write its charts as PNG and SVG too.

    Returns
    -------
    str
        Path of the page.
    """
    from testbed.charts import save
    from testbed.page import charts_of, page  # matplotlib: slow to import, and not needed for a plan

    path = os.path.join(run.path, "report.html")
    _write(path, page(run))
    if plots:
        for name, figure in charts_of(run).items():
            save(figure, os.path.join(run.path, name))
    return path


def main(arguments=None):
    """Run the command line; returns the exit status."""
    return exit_status("report.py", lambda: _command(arguments))


def _command(arguments):
    from testbed.folder import read

    parser = Parser("testbed/report.py", __doc__.splitlines()[0])
    parser.add_argument("runs", metavar="RUN", nargs="+", help="a run folder; several, of one demand, are compared")
    parser.add_argument("--out", metavar="FILE", default="comparison.html", help="page of a comparison (default "
                        "comparison.html)")
    parser.add_argument("--plots", action="store_true", help="write the charts as PNG and SVG too")
    options = parser.parse_args(arguments)
    runs = [read(path) for path in options.runs]
    if len(runs) > 1:
        return _compare(runs, options.out)
    try:
        print_result(runs[0].result, runs[0].schedule, None, sys.stdout)
        print(write_page(runs[0], options.plots))
    except (KeyError, TypeError) as error:
        raise UserError(f"{runs[0].path}: its result.json does not have what this version tells ({error})") from None
    return DELIVERED


def _compare(runs, path):
    from testbed.page import comparison

    text = comparison(runs)
    heading, rows = compared(runs)
    table = Table(*heading[:-1], box=None)
    for row in rows:
        table.add_row(*row[:-1])
    Console(highlight=False, width=None if sys.stdout.isatty() else 110).print(table)
    _write(path, text)
    print(path)
    return DELIVERED


if __name__ == "__main__":
    sys.exit(main())
