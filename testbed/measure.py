"""From what was seen to what it means: the result, its events, and whether to believe it. Pure."""

import platform
from importlib import metadata

import numpy as np

# Limits of a run that can be trusted; the README says where they come from.
CPU_BUSY_MAX = 0.85
SENDER_LATE_P99_MAX_S = 0.005
SWITCHING_LATE_P95_MAX_S = 0.005
HEAD_TAIL_S = 0.010
JUDGED_SLOT_S = 0.010


def tolerance_s(delta_s):
    """How far from a planned change a packet in the dark counts as switching latency, not as a violation."""
    return min(SWITCHING_LATE_P95_MAX_S, delta_s / 4)


def measure(plan, seen):
    """Result and events of a run.

    Parameters
    ----------
    plan : Plan
    seen : Observation

    Returns
    -------
    result : dict
        As result.json holds it.
    events : list of dict
        As events.jsonl holds them: `t_s` seconds from the epoch, sorted.
    """
    epoch_s = seen.rounds[0].epoch_s
    changes = _changes(plan, seen, epoch_s)
    result = planned(plan)
    arrived = seen.arrived_s > 0
    delivered = int(plan.datagrams.size_bytes[arrived].sum())
    complete = bool(arrived.all())
    measured_s = float(seen.arrived_s.max() - epoch_s) if complete else None
    result.update({
        "datagrams": len(plan.datagrams),
        "delivered_bytes": delivered,
        "undelivered_bytes": result["demand_bytes"] - delivered,
        "corrupt_bytes": seen.counters["corrupt_bytes"],
        "retransmitted_bytes": seen.counters["resent_bytes"],
        "duplicate_bytes": seen.counters["duplicate_bytes"],
        "misdelivered_packets": seen.counters["misdelivered_packets"] + seen.stray_packets,
        "measured_makespan_s": measured_s,
        "measured_over_computed": measured_s / plan.schedule.makespan_s if complete else None,
        "measured_over_predicted": measured_s / plan.predicted_makespan_s if complete else None,
        "epoch_monotonic_s": epoch_s,
        "rounds": len(seen.rounds),
        "losses": _losses(plan, seen, epoch_s),
        "dark_violations": _dark_violations(plan, seen, epoch_s),
        "dark_interval_s": _distribution([change["dark_seen_s"] for change in changes]),
        "down_late_s": _distribution([change["down_late_s"] for change in changes]),
        "up_late_s": _distribution([change["up_late_s"] for change in changes]),
        "sender_late_s": _distribution(seen.rounds[0].lateness_s),
        "bytes_by_switch": [int(plan.datagrams.size_bytes[arrived & (seen.arrived_switch == h)].sum())
                            for h in range(plan.settings.switches)],
        "cpu": seen.cpu,
        "stages_s": seen.stages_s,
        "difference_s": _difference(plan, seen, epoch_s) if complete else None,
        "versions": {**result["versions"], **seen.versions},
    })
    result["reasons"] = _reasons(result, changes, seen)
    result["trustworthy"] = not result["reasons"]
    return result, _events(plan, seen, epoch_s, changes)


def planned(plan):
    """The part of the result that is known before the run; what is measured is None."""
    settings = plan.settings
    values = {
        "scheduler": settings.scheduler,
        "demand": plan.demand,
        "hosts": plan.hosts,
        "switches": settings.switches,
        "delta_s": settings.delta,
        "rate_bps": settings.rate,
        "period_s": settings.period,
        "seed": settings.seed,
        "datagram_payload_bytes": plan.link.payload_bytes,
        "demand_bytes": int(plan.demand_bytes.sum()),
        "lower_bound_s": plan.lower_bound_s,
        "computed_makespan_s": plan.schedule.makespan_s,
        "predicted_makespan_s": plan.predicted_makespan_s,
    }
    values.update(dict.fromkeys((
        "delivered_bytes", "undelivered_bytes", "corrupt_bytes", "retransmitted_bytes", "measured_makespan_s",
        "measured_over_computed", "measured_over_predicted", "dark_violations", "trustworthy", "reasons")))
    values["versions"] = versions()
    return values


def versions():
    """What the figures were made with."""
    names = ("spectra-testbed", "numpy", "scipy")
    return {"python": platform.python_version(), "kernel": platform.release(),
            **{name: metadata.version(name) for name in names}}


def _changes(plan, seen, epoch_s):
    """For each slot of each switch, when the data plane saw it lit and dark again, by the probes on its circuit.

    `seen_lit_s` is half way from the last probe that was lost to the first that got through, `seen_dark_s` the other
    way round; `dark_seen_s` is from the slot before going dark to this one being lit. None where no probe tells.
    """
    probes, changes = seen.probes, []
    sent_s = np.where(seen.probe_sent_s > 0, seen.probe_sent_s - epoch_s, np.nan)
    through = seen.probe_arrived_s > 0
    for h in range(plan.settings.switches):
        before_s = None
        for k, window in enumerate(plan.schedule.windows(h)):
            mine = (probes.switch == h) & (probes.slot == k) & ~np.isnan(sent_s)
            lit_s = _edge(sent_s[mine & ~probes.after], through[mine & ~probes.after])
            dark_s = _edge(sent_s[mine & probes.after], ~through[mine & probes.after])
            changes.append({
                "switch": h, "slot": k, "lit_s": window.lit_s, "end_s": window.end_s,
                "seen_lit_s": lit_s, "seen_dark_s": dark_s,
                "up_late_s": None if lit_s is None else lit_s - window.lit_s,
                "down_late_s": None if dark_s is None else dark_s - window.end_s,
                "dark_seen_s": None if None in (lit_s, before_s) else lit_s - before_s,
            })
            before_s = dark_s
    return changes


def _edge(sent_s, changed):
    """The instant from which all probes tell of a change: midway between the two sends around it, or None."""
    still = np.flatnonzero(~changed)
    first = int(still[-1]) + 1 if len(still) else 0
    if first == len(sent_s):
        return None
    return float(sent_s[first - 1] + sent_s[first]) / 2 if first else float(sent_s[0])


def _judged(changes):
    """The changes of slots that are long enough for Open vSwitch, which takes up to 5 ms to change twice."""
    return [change for change in changes if change["end_s"] - change["lit_s"] >= JUDGED_SLOT_S]


def _dark_violations(plan, seen, epoch_s):
    """Packets that a switch forwarded while it had to be dark, further from a planned change than the tolerance."""
    margin_s = tolerance_s(plan.settings.delta)
    first = _first_places(plan)
    data_s = np.where(seen.first_sent_s > 0, seen.first_sent_s - epoch_s, np.nan)
    # A datagram that was sent again may have arrived by its second sending, which is not the one judged here.
    once = (seen.arrived_s > 0) & (seen.first_sent_s == seen.last_sent_s)
    violations = 0
    for h in range(plan.settings.switches):
        windows = plan.schedule.windows(h)
        if not windows:
            continue
        dark = [(window.dark_s + (margin_s if k else 0.0), window.lit_s - margin_s) for k, window in enumerate(windows)]
        dark.append((windows[-1].end_s + margin_s, np.inf))
        instants_s = np.concatenate([
            (seen.probe_sent_s - epoch_s)[(seen.probes.switch == h) & (seen.probe_arrived_s > 0)],
            data_s[once & (first.switch == h)]])
        violations += sum(int(((instants_s > start_s) & (instants_s < end_s)).sum()) for start_s, end_s in dark)
    return violations


class _first_places:
    """Switch and slot of each datagram in the first round, by sequence number."""

    def __init__(self, plan):
        releases, real = plan.releases, plan.releases.sequence >= 0
        self.switch = np.zeros(len(plan.datagrams), dtype=np.int64)
        self.slot = np.zeros(len(plan.datagrams), dtype=np.int64)
        self.release_s = np.zeros(len(plan.datagrams))
        sequence = releases.sequence[real]
        self.switch[sequence], self.slot[sequence] = releases.switch[real], releases.slot[real]
        self.release_s[sequence] = releases.release_s[real]


def _losses(plan, seen, epoch_s):
    """Datagrams lost at their first sending, by where in their slot they were sent."""
    lost = (seen.arrived_s == 0) | (seen.first_sent_s != seen.last_sent_s)
    first = _first_places(plan)
    counts = {"datagrams": int(lost.sum()), "head_of_slot": 0, "tail_of_slot": 0, "elsewhere": 0}
    windows = [plan.schedule.windows(h) for h in range(plan.settings.switches)]
    for sequence in np.flatnonzero(lost):
        window = windows[first.switch[sequence]][first.slot[sequence]]
        sent_s = seen.first_sent_s[sequence] - epoch_s
        if sent_s - window.lit_s < HEAD_TAIL_S and sent_s - window.lit_s <= window.end_s - sent_s:
            counts["head_of_slot"] += 1
        elif window.end_s - sent_s < HEAD_TAIL_S:
            counts["tail_of_slot"] += 1
        else:
            counts["elsewhere"] += 1
    return counts


def _difference(plan, seen, epoch_s):
    """Measured minus computed makespan, in parts that add up to it exactly."""
    computed_s, measured_s = plan.schedule.makespan_s, float(seen.arrived_s.max()) - epoch_s
    first = _first_places(plan)
    prompt = seen.first_sent_s == seen.last_sent_s
    last = int(np.argmax(np.where(prompt, seen.arrived_s, 0.0)))
    last_arrived_s = float(seen.arrived_s[last]) - epoch_s
    last_sent_s = float(seen.first_sent_s[last]) - epoch_s
    start_up_s = float(seen.rounds[0].lateness_s[0])
    rounding_s = first.release_s[last] - computed_s
    switching_s = last_arrived_s - last_sent_s
    repair_s = measured_s - last_arrived_s
    total_s = measured_s - computed_s
    return {
        "start_up": start_up_s, "packet_rounding": float(rounding_s), "switching_latency": switching_s,
        "repair": repair_s, "rest": total_s - start_up_s - float(rounding_s) - switching_s - repair_s,
        "total": total_s,
    }


def _distribution(values):
    """Median, 95th and 99th percentile and extremes of what was seen; None where nothing was."""
    values = np.array([value for value in values if value is not None], dtype=float)
    if not len(values):
        return None
    p50, p95, p99 = np.percentile(values, [50, 95, 99])
    return {"count": len(values), "min": float(values.min()), "p50": float(p50), "p95": float(p95), "p99": float(p99),
            "max": float(values.max())}


def _reasons(result, changes, seen):
    """Why the run cannot be trusted, a line each; empty where it can."""
    reasons = []
    if result["corrupt_bytes"] or seen.counters["corrupt_packets"]:
        reasons.append(f"{seen.counters['corrupt_packets']} datagrams arrived corrupt")
    if result["misdelivered_packets"]:
        reasons.append(f"{result['misdelivered_packets']} packets reached a host that they were not for")
    if result["dark_violations"]:
        reasons.append(f"{result['dark_violations']} packets were forwarded by a switch that had to be dark")
    if seen.cpu["busy"] > CPU_BUSY_MAX:
        reasons.append(f"the CPU was {seen.cpu['busy']:.0%} busy, above {CPU_BUSY_MAX:.0%}: "
                       "stop other programs, or use a lower rate")
    late = result["sender_late_s"]
    if late and late["p99"] > SENDER_LATE_P99_MAX_S:
        reasons.append(f"one datagram in a hundred was sent over {late['p99'] * 1e3:.1f} ms late, above "
                       f"{SENDER_LATE_P99_MAX_S * 1e3:g} ms: stop other programs, or use a lower rate")
    reasons += _late_switches(changes)
    reasons += seen.errors
    return reasons


def _late_switches(changes):
    reasons, changes = [], _judged(changes)
    for h in sorted({change["switch"] for change in changes}):
        late = _distribution(value for change in changes if change["switch"] == h
                             for value in (change["up_late_s"], change["down_late_s"]))
        if late and late["p95"] > SWITCHING_LATE_P95_MAX_S:
            reasons.append(f"switch o{h + 1} changed up to {late['p95'] * 1e3:.1f} ms late, above "
                           f"{SWITCHING_LATE_P95_MAX_S * 1e3:g} ms")
        unseen = sum(change["seen_lit_s"] is None for change in changes if change["switch"] == h)
        if unseen:
            reasons.append(f"switch o{h + 1} was not seen lit in {unseen} of its slots")
    return reasons


def _events(plan, seen, epoch_s, changes):
    events = [{"t_s": 0.0, "event": "epoch", "monotonic_s": epoch_s}]
    seen_lit = {(change["switch"], change["slot"]): change["seen_lit_s"] for change in changes}
    seen_dark = {(change["switch"], change["slot"] + 1): change["seen_dark_s"] for change in changes}
    for number, this in enumerate(seen.rounds):
        shift_s = this.epoch_s - epoch_s
        if number:
            events.append({"t_s": shift_s, "event": "repair", "round": number, "datagrams": this.datagrams,
                           "makespan_s": this.makespan_s})
        for action in this.actions:
            by_data = {"dark": seen_dark, "lit": seen_lit}.get(action["kind"], {}) if number == 0 else {}
            events.append({
                "t_s": action["sent_s"] + shift_s, "event": action["kind"], "round": number,
                "switch": action["switch"], "slot": action["slot"], "planned_s": action["planned_s"] + shift_s,
                "sent_s": action["sent_s"] + shift_s, "seen_s": by_data.get((action["switch"], action["slot"]))})
    events += _circuit_events(plan, seen, epoch_s)
    if (seen.arrived_s > 0).all():
        events.append({"t_s": float(seen.arrived_s.max()) - epoch_s, "event": "delivered",
                       "bytes": int(plan.demand_bytes.sum())})
    return sorted(events, key=lambda event: event["t_s"])


def _circuit_events(plan, seen, epoch_s):
    """One event for each circuit of the schedule that carried data: planned instants, packets seen, bytes."""
    first = _first_places(plan)
    source, destination = plan.datagrams.source, plan.datagrams.destination
    keys = np.stack([first.switch, first.slot, source, destination])
    order = np.lexsort(keys[::-1])
    if not len(order):
        return []
    sorted_keys = keys[:, order]
    starts = np.flatnonzero(np.concatenate([[True], (np.diff(sorted_keys) != 0).any(axis=0)]))
    windows = [plan.schedule.windows(h) for h in range(plan.settings.switches)]
    prompt = (seen.arrived_s > 0) & (seen.first_sent_s == seen.last_sent_s)
    events = []
    for members in np.split(order, starts[1:]):
        h, k, i, j = (int(value) for value in keys[:, members[0]])
        good = members[prompt[members]]
        sent_s = seen.first_sent_s[good] - epoch_s
        events.append({
            "t_s": float(windows[h][k].lit_s), "event": "circuit", "switch": h, "slot": k, "input": i, "output": j,
            "planned_lit_s": windows[h][k].lit_s, "planned_dark_s": windows[h][k].end_s,
            "first_packet_s": float(sent_s.min()) if len(good) else None,
            "last_packet_s": float(sent_s.max()) if len(good) else None,
            "bytes": int(plan.datagrams.size_bytes[good].sum()), "lost_datagrams": len(members) - len(good)})
    return events
