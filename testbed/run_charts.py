"""Charts of one run, by matplotlib: demand, Gantt chart, delivered bytes, completion, error budget, links.

Each function returns a figure and its facts: for elements that can be pointed at, by their id, what there is to tell.
"""

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from testbed.charts import STYLE, heatmaps, look
from testbed.report import DIFFERENCE
from testbed.units import format_bytes, format_time

WIDTH_IN = 6.0  # legible on a page as wide as this, and on a telephone
_PLANNED, _MEASURED, _DARK, _FAULT, _TIGHT = "#9ecae1", "#2171b5", "#808080", "#D55E00", "#CC3311"


def demand(run):
    """Heatmap of the demand in bytes."""
    return heatmaps([(f"{run.result['demand']}", run.demand_bytes)], "bytes"), {}


def gantt(run, end_s=None):
    """What each switch plays: planned above, measured below, dark times hatched; up to `end_s`, to be beside other runs."""
    switches = len(run.schedule.switches)
    facts = {}
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH_IN, 1.2 + 0.75 * switches), layout="constrained")
        axis = figure.subplots()
        circuits = {}
        for event in run.of("circuit"):
            circuits.setdefault((event["switch"], event["slot"]), []).append(event)
        for h in range(switches):
            seen = _seen(run, h)
            for k, (slot, window) in enumerate(zip(run.schedule.switches[h], run.schedule.windows(h))):
                _bar(axis, -h + 0.2, window.dark_s, window.lit_s, window.end_s, _PLANNED, f"planned-{h}-{k}")
                facts[f"planned-{h}-{k}"] = _planned_fact(h, k, slot, window)
                if k in seen:
                    _bar(axis, -h - 0.2, *seen[k], _MEASURED, f"measured-{h}-{k}")
                    facts[f"measured-{h}-{k}"] = _measured_fact(h, k, seen[k], circuits.get((h, k), []))
            for lit_s, dark_s in _later(run, h):
                axis.barh(-h - 0.2, dark_s - lit_s, 0.36, lit_s, color=_MEASURED, edgecolor="white", linewidth=0.5)
        axis.set_yticks([-h for h in range(switches)], [f"o{h + 1}" for h in range(switches)])
        axis.set_ylim(-switches + 0.45, 0.55)
        axis.set_xlim(0, end_s)
        axis.grid(axis="y", visible=False)
        axis.set_xlabel("seconds from the epoch")
        axis.axvline(run.result["computed_makespan_s"], color="black", linewidth=1, linestyle=":")
        for event in run.of("fault"):
            axis.axvline(event["t_s"], color=_FAULT, linewidth=1.5)
        patch = matplotlib.patches.Patch
        figure.legend(handles=[
            patch(facecolor=_PLANNED, label="planned"), patch(facecolor=_MEASURED, label="measured"),
            patch(facecolor="none", edgecolor=_DARK, hatch="////", label="dark (reconfiguring)"),
            matplotlib.lines.Line2D([], [], color="black", linewidth=1, linestyle=":", label="computed makespan"),
            *([matplotlib.lines.Line2D([], [], color=_FAULT, linewidth=1.5, label="fault")] if run.of("fault") else [])],
            loc="outside lower center", ncols=2)
    return figure, facts


def _bar(axis, y, dark_s, lit_s, end_s, colour, name):
    """One slot: hatched while dark, filled while lit."""
    axis.barh(y, lit_s - dark_s, 0.36, dark_s, facecolor="none", edgecolor=_DARK, hatch="////", linewidth=0)
    for patch in axis.barh(y, end_s - lit_s, 0.36, lit_s, facecolor=colour, edgecolor="white", linewidth=0.5):
        patch.set_gid(name)


def _seen(run, h):
    """(dark, lit, end) of each slot as the data plane saw it, or else as the messages were sent."""
    instants = {(event["event"], event["slot"]): event["sent_s"] if event["seen_s"] is None else event["seen_s"]
                for event in run.events if event["event"] in ("dark", "lit") and event["switch"] == h and not event["round"]}
    return {k: (instants["dark", k], instants["lit", k], instants["dark", k + 1])
            for k in range(len(run.schedule.switches[h]))
            if {("dark", k), ("lit", k), ("dark", k + 1)} <= instants.keys()}


def _later(run, h):
    """(lit, end) of what was lit in repairs, or was cut short by a fault, by the instants of the messages."""
    lit_s = {}
    ends_s = {event["round"]: event["t_s"] for event in run.of("aborted")}
    last_s = max((event["t_s"] for event in run.of("delivered") + run.of("pair")), default=0.0)
    whole = _seen(run, h)
    for event in run.events:
        if event["event"] == "lit" and event["switch"] == h and (event["round"] or event["slot"] not in whole):
            lit_s[event["round"], event["slot"]] = event["sent_s"]
    for event in run.events:
        if event["event"] == "dark" and event["switch"] == h and (event["round"], event["slot"] - 1) in lit_s:
            yield lit_s.pop((event["round"], event["slot"] - 1)), event["sent_s"]
    for (number, _), start_s in lit_s.items():
        yield start_s, max(start_s, min(ends_s.get(number, last_s), last_s))


def _planned_fact(h, k, slot, window):
    pairs = ", ".join(f"h{i + 1}→h{j + 1}" for i, j in slot.circuits())
    return (f"o{h + 1}, slot {k + 1}, planned: dark from {format_time(window.dark_s)}, lit from {format_time(window.lit_s)} to "
            f"{format_time(window.end_s)} ({format_time(slot.duration_s)}); {pairs or 'no circuit'}")


def _measured_fact(h, k, seen, circuits):
    pairs = ", ".join(f"h{event['input'] + 1}→h{event['output'] + 1} {format_bytes(event['bytes'])}" for event in circuits)
    total = sum(event["bytes"] for event in circuits)
    dark_s, lit_s, end_s = seen
    return (f"o{h + 1}, slot {k + 1}, measured: dark from {format_time(dark_s)}, lit from {format_time(lit_s)} to "
            f"{format_time(end_s)} ({format_time(end_s - lit_s)}); {format_bytes(total)}: {pairs or 'no circuit'}")


def makespans(runs):
    """Makespan of several runs beside each other."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH_IN, 1.2 + 0.45 * len(runs)), layout="constrained")
        axis = figure.subplots()
        for number, run in enumerate(runs):
            result = run.result
            bars = axis.barh(number, run.makespan_s, 0.6, edgecolor=_MEASURED,
                             color=_MEASURED if result["measured_makespan_s"] else "none")
            axis.bar_label(bars, [format_time(run.makespan_s)], padding=3)
            for key, colour in (("lower_bound_s", "black"), ("tight_lower_bound_s", _TIGHT)):
                axis.plot([result[key]] * 2, [number - 0.38, number + 0.38], color=colour, linewidth=1.5)
        axis.set_yticks(range(len(runs)), [f"{run.result['scheduler']}, s = {run.result['switches']}, "
                                           f"δ {format_time(run.result['delta_s'])}" for run in runs])
        axis.invert_yaxis()
        axis.margins(x=0.12)
        axis.grid(axis="y", visible=False)
        axis.set_xlabel("makespan (s); hollow: computed, not played\nblack: lower bound; red: the tight one")
    return figure, {}


def over_delta(runs):
    """Makespan of several runs over δ, a line for each scheduler and number of switches, with the lower bound."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH_IN, 3.2), layout="constrained")
        axis = figure.subplots()
        kinds = sorted({(run.result["scheduler"], run.result["switches"]) for run in runs})
        for number, (scheduler, switches) in enumerate(kinds):
            mine = sorted((run for run in runs if (run.result["scheduler"], run.result["switches"]) == (scheduler, switches)),
                          key=lambda run: run.result["delta_s"])
            colour, style, marker = look(scheduler)
            deltas_ms = [run.result["delta_s"] * 1e3 for run in mine]
            axis.plot(deltas_ms, [run.makespan_s for run in mine], color=colour, linestyle=style, linewidth=1.3,
                      label=f"{scheduler}, s = {switches}")
            for run, delta_ms in zip(mine, deltas_ms):
                axis.plot(delta_ms, run.makespan_s, marker, color=colour, markersize=5,
                          markerfacecolor=colour if run.result["measured_makespan_s"] else "none")
            if all(switches != before for _, before in kinds[:number]):
                for key, name, dots in (("lower_bound_s", "lower bound", (0, (1, 1))), ("tight_lower_bound_s", "tight", (0, (4, 2)))):
                    axis.plot(deltas_ms, [run.result[key] for run in mine], color="black", linewidth=1, linestyle=dots,
                              label=f"{name}, s = {switches}")
        axis.set(xlabel="δ (ms)", ylabel="makespan (s)", ylim=(0, 1.08 * max(run.makespan_s for run in runs)))
        figure.legend(loc="outside lower center", ncols=2)
    return figure, {}


def delivered(run):
    """Bytes that had arrived, over time, beside what would have if all had gone ideally."""
    events = run.of("progress")
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH_IN, 3.2), layout="constrained")
        axis = figure.subplots()
        t_s = [event["t_s"] for event in events]
        for key, label, colour, style in (("delivered_bytes", "measured", _MEASURED, "-"),
                                         ("ideal_bytes", "ideal", "#E69F00", (0, (2, 4)))):
            axis.plot(t_s, [event[key] / 1e6 for event in events], linestyle=style, color=colour, label=label, linewidth=1.6)
        axis.axvline(run.result["computed_makespan_s"], color="black", linewidth=1, linestyle=":", label="computed makespan")
        for event in run.of("fault") + [event for event in run.of("notice") if not event["back"]]:
            axis.axvline(event["t_s"], color=_FAULT, linewidth=1.2, linestyle="-" if event["event"] == "fault" else ":")
        axis.set(xlabel="seconds from the epoch", ylabel="delivered (MB)", xlim=(0, None), ylim=(0, None))
        figure.legend(loc="outside lower center", ncols=3)
    return figure, {}


def completion(run):
    """Empirical distribution of when the last byte of each pair arrived."""
    times_s = sorted(event["t_s"] for event in run.of("pair"))
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH_IN, 3.2), layout="constrained")
        axis = figure.subplots()
        pairs = np.count_nonzero(run.demand_bytes)
        axis.step([0, *times_s], np.arange(len(times_s) + 1) / pairs, where="post", color=_MEASURED, linewidth=1.6)
        axis.set(xlabel="seconds from the epoch", ylabel="share of pairs complete", xlim=(0, None), ylim=(0, 1.02))
    return figure, {}


def budget(run):
    """Measured less computed makespan, in its parts."""
    parts = [(label, run.result["difference_s"][key] * 1e3) for key, label in DIFFERENCE]
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH_IN, 2.6), layout="constrained")
        axis = figure.subplots()
        values = [value for _, value in parts]
        bars = axis.barh([label for label, _ in parts], values, color=[_MEASURED if value >= 0 else "#D55E00" for value in values])
        axis.bar_label(bars, [f"{value:+.2f} ms" for value in values], padding=3)
        axis.invert_yaxis()
        axis.margins(x=0.2)
        axis.axvline(0, color="black", linewidth=0.8)
        axis.set_xlabel(f"ms of measured − computed ({run.result['difference_s']['total'] * 1e3:+.2f} ms in all)")
        axis.grid(axis="y", visible=False)
    return figure, {}


def utilisation_of(run):
    """Share of the measured makespan in which each link carried payload at its rate.

    Returns
    -------
    ndarray, shape (2·switches, n)
        For each switch a row of links into it, by host, and one of links out of it.
    """
    switches, n = len(run.schedule.switches), len(run.demand_bytes)
    carried = np.zeros((2 * switches, n))
    for event in run.of("circuit"):
        carried[2 * event["switch"], event["input"]] += event["bytes"]
        carried[2 * event["switch"] + 1, event["output"]] += event["bytes"]
    return carried * 8 / run.result["rate_bps"] / run.makespan_s


def utilisation(run):
    """Heatmap of the links' utilisation."""
    shares = utilisation_of(run)
    with matplotlib.rc_context({**STYLE, "axes.grid": False}):
        figure = Figure(figsize=(WIDTH_IN, 1.4 + 0.24 * len(shares)), layout="constrained")
        axis = figure.subplots()
        image = axis.imshow(shares, cmap="viridis_r", vmin=0, vmax=1, aspect="auto", interpolation="nearest",
                            extent=(0.5, shares.shape[1] + 0.5, len(shares) - 0.5, -0.5))
        axis.set_yticks(range(len(shares)), [f"o{k // 2 + 1} {'in' if k % 2 == 0 else 'out'}" for k in range(len(shares))])
        axis.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(integer=True, nbins=16))
        axis.set_xlabel("host")
        figure.colorbar(image, ax=axis, label="share of makespan")
    return figure, {}
