"""Tables for people, and the files of the run folder."""

import json
import os

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from testbed.units import format_bytes, format_rate, format_time

_DIFFERENCE = (
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
    with open(path + ".part", "w", encoding="utf-8") as stream:
        stream.write(text)
    os.replace(path + ".part", path)


def print_result(plan, result, folder, stream):
    """Print the table of a run, or of a plan that was not run.

    Parameters
    ----------
    plan : Plan
    result : dict
    folder : str or None
        Where the run folder is.
    stream : file
    """
    console = Console(file=stream, highlight=False, markup=False, width=None if stream.isatty() else 110)
    table = Table(show_header=False, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in _rows(plan, result):
        table.add_row(name, value)
    console.print(table)
    if folder:
        console.print(Text.assemble(("run folder  ", "dim"), folder), soft_wrap=True)


def _rows(plan, result):
    settings = plan.settings
    yield "demand", (f"{plan.demand}, {plan.hosts} hosts, {format_bytes(result['demand_bytes'])}, "
                     f"seed {settings.seed}")
    yield "network", (f"{settings.switches} switches, δ {format_time(result['delta_s'])}, "
                      f"{format_rate(result['rate_bps'])} a link")
    if plan.why:
        yield "time scale", plan.why
    yield from _schedule_rows(plan)
    yield "lower bound", format_time(result["lower_bound_s"])
    yield "computed makespan", (f"{format_time(result['computed_makespan_s'])}  "
                                f"({result['computed_makespan_s'] / result['lower_bound_s']:.3f} × lower bound)")
    yield "predicted makespan", format_time(result["predicted_makespan_s"])
    if plan.dilation is not None:
        yield "physical makespan", (f"{format_time(result['computed_makespan_physical_s'])} computed, "
                                    f"{format_time(result['measured_makespan_physical_s'])} measured")
    if result["delivered_bytes"] is None:
        yield "measured makespan", "- (dry run)"
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


def _schedule_rows(plan):
    for h, slots in enumerate(plan.schedule.switches):
        durations = ", ".join(format_time(slot.duration_s) for slot in slots[:8]) + (", …" if len(slots) > 8 else "")
        yield f"switch o{h + 1}", (f"{len(slots)} slot{'s' * (len(slots) != 1)}, load {format_time(plan.schedule.loads_s[h])}"
                                   + (f": {durations}" if slots else ""))


def _observation_rows(result):
    if result["difference_s"]:
        parts = [f"{label} {result['difference_s'][key] * 1e3:+.2f} ms" for key, label in _DIFFERENCE]
        yield "measured − computed", f"{result['difference_s']['total'] * 1e3:+.2f} ms: {', '.join(parts)}"
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
    cpu = result["cpu"]
    shares = ", ".join(f"{name} {share:.2f}" for name, share in cpu["of_core"].items())
    yield "CPU", f"{cpu['busy']:.0%} of {cpu['cores']} cores busy, {cpu['steal']:.1%} stolen (cores used: {shares})"


def _verdict(result):
    if result["trustworthy"]:
        return Text("trustworthy", "green")
    return Text.assemble(("not trustworthy", "red"), ": ", "; ".join(result["reasons"]))
