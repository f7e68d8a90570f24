"""From what was seen to what it means: the result, its events, and whether to believe it. Pure."""

import platform
from importlib import metadata

import numpy as np

from testbed.units import format_time

# Limits of a run that can be trusted; the README says where they come from.
CPU_BUSY_MAX = 0.85
CPU_STEAL_MAX = 0.05
SENDER_LATE_P99_MAX_S = 0.003
SWITCHING_LATE_P50_MAX_S = 0.003
SWITCHING_LATE_P95_MAX_S = 0.006
DARK_ERROR_P50_MAX = 0.1  # of δ, or a millisecond
DARK_RESOLUTION_S = 0.001
LOSS_MAX = 0.001
CLOCK_JUMP_MAX_S = 0.001
HEAD_TAIL_S = 0.010
JUDGED_SLOT_S = 0.010
PROGRESS_EVENTS = 200


def tolerance_s(delta_s):
    """How far from a planned change a packet in the dark counts as switching latency, not as a violation."""
    return min(SWITCHING_LATE_P95_MAX_S, delta_s / 3)


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
    changes = [change for change in changes_seen(plan, seen) if epoch_s + change["end_s"] < _first_ended_s(seen)]
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
        "dark_interval_s": distribution([change["dark_seen_s"] for change in changes]),
        "down_late_s": distribution([change["down_late_s"] for change in changes]),
        "up_late_s": distribution([change["up_late_s"] for change in changes]),
        "sender_late_s": distribution(sender_late_s(plan, seen)),
        "bytes_by_switch": [int(plan.datagrams.size_bytes[arrived & (seen.arrived_switch == h)].sum())
                            for h in range(plan.settings.switches)],
        "cpu": seen.cpu,
        "clock_jump_s": seen.clock_jump_s,
        "stages_s": seen.stages_s,
        "captured_packets": seen.captured,
        "difference_s": _difference(plan, seen, epoch_s) if complete and seen.rounds[0].aborted_s is None else None,
        **_faults(plan, seen, epoch_s, changes, measured_s),
        **_physical(plan, measured_s),
        "versions": {**result["versions"], **seen.versions},
    })
    result["reasons"] = _reasons(plan, result, changes, seen)
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
        "delta_s": plan.schedule.delta_s,
        "rate_bps": plan.link.rate_bps,
        "datapath": plan.datapath,
        "link_delay_s": plan.link_delay_s,
        "period_s": plan.period_s,
        "seed": settings.seed,
        "datagram_payload_bytes": plan.link.payload_bytes,
        "demand_bytes": int(plan.demand_bytes.sum()),
        "lower_bound_s": plan.lower_bound_s,
        "tight_lower_bound_s": plan.tight_lower_bound_s,
        "computed_makespan_s": plan.schedule.makespan_s,
        "predicted_makespan_s": plan.predicted_makespan_s,
        "compensation_s": dict(zip(("dark", "lit"), plan.compensation_s)),
        "time_scale": plan.why,
        "planning": plan.planning,
        "command": settings.command(plan.period_s, plan.link.rate_bps),
        "dilation": plan.dilation,
        "physical_rate_bps": settings.physical_rate,
        "physical_delta_s": settings.physical_delta,
        **_physical(plan, None),
    }
    values.update(dict.fromkeys((
        "delivered_bytes", "undelivered_bytes", "corrupt_bytes", "retransmitted_bytes", "measured_makespan_s",
        "measured_over_computed", "measured_over_predicted", "dark_violations", "trustworthy", "reasons")))
    values["versions"] = versions()
    return values


def _physical(plan, measured_s):
    """The makespans in the time of the physical fabric, where the run is a dilated one."""
    if plan.dilation is None:
        return {}
    return {"lower_bound_physical_s": plan.lower_bound_s / plan.dilation,
            "computed_makespan_physical_s": plan.schedule.makespan_s / plan.dilation,
            "measured_makespan_physical_s": None if measured_s is None else measured_s / plan.dilation}


def sender_late_s(plan, seen):
    """How late each datagram was sent at first, by sequence number; nan where it was not."""
    due_s = seen.rounds[0].epoch_s + first_places(plan).release_s
    return np.where(_sent_at_first(seen), seen.first_sent_s - due_s, np.nan)


def _first_ended_s(seen):
    """When the first round was aborted or a repair began, on CLOCK_MONOTONIC, or infinity."""
    return min([seen.rounds[0].aborted_s or np.inf, *(this.epoch_s for this in seen.rounds[1:2])])


def _sent_at_first(seen):
    """Which datagrams were sent in the first round."""
    return (seen.first_sent_s > 0) & (seen.first_sent_s < _first_ended_s(seen))


def versions():
    """What the figures were made with."""
    names = ("spectra-testbed", "numpy", "scipy")
    return {"python": platform.python_version(), "kernel": platform.release(),
            **{name: metadata.version(name) for name in names}}


def changes_seen(plan, seen):
    """For each slot of each switch, when the data plane saw it lit and dark again, by the probes on its circuit.

    `seen_lit_s` is half way from the last probe that was lost to the first that got through, `seen_dark_s` the other
    way round; `dark_seen_s` is from the slot before going dark to this one being lit. None where no probe tells.
    """
    probes, changes, epoch_s = seen.probes, [], seen.rounds[0].epoch_s
    sent_s = np.where(seen.probe_sent_s > 0, seen.probe_sent_s - epoch_s + plan.link_delay_s, np.nan)  # at the switch
    through = seen.probe_arrived_s > 0
    for h in range(plan.settings.switches):
        before_s = None
        for k, (slot, window) in enumerate(zip(plan.schedule.switches[h], plan.schedule.windows(h))):
            mine = (probes.switch == h) & (probes.slot == k) & ~np.isnan(sent_s)
            lit_s = _edge(sent_s[mine & ~probes.after], through[mine & ~probes.after])
            dark_s = _edge(sent_s[mine & probes.after], ~through[mine & probes.after])
            changes.append({
                "switch": h, "slot": k, "lit_s": window.lit_s, "end_s": window.end_s, "circuits": len(slot.circuits()),
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
    """The changes of slots that light anything, and are long enough for Open vSwitch, which needs 5 ms to change twice."""
    return [change for change in changes
            if change["circuits"] and change["end_s"] - change["lit_s"] >= JUDGED_SLOT_S]


def _dark_violations(plan, seen, epoch_s):
    """Packets that a switch forwarded while it had to be dark, further from a planned change than the tolerance."""
    margin_s = tolerance_s(plan.schedule.delta_s)
    first = first_places(plan)
    data_s = np.where(_sent_at_first(seen), seen.first_sent_s - epoch_s, np.nan)
    # A datagram that was sent again may have arrived by its second sending, which is not the one judged here.
    once = (seen.arrived_s > 0) & (seen.first_sent_s == seen.last_sent_s)
    violations = 0
    for h in set(range(plan.settings.switches)) - _faulty_switches(plan, seen):
        windows = plan.schedule.windows(h)
        if not windows:
            continue
        dark = [(window.dark_s + (margin_s if k else 0.0), window.lit_s - margin_s) for k, window in enumerate(windows)]
        dark.append((windows[-1].end_s + margin_s, np.inf))
        instants_s = plan.link_delay_s + np.concatenate([
            (seen.probe_sent_s - epoch_s)[(seen.probes.switch == h) & (seen.probe_arrived_s > 0)],
            data_s[once & (first.switch == h)]])
        violations += sum(int(((instants_s > start_s) & (instants_s < end_s)).sum()) for start_s, end_s in dark)
    return violations


class first_places:
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
    lost = _sent_at_first(seen) & ((seen.arrived_s == 0) | (seen.first_sent_s != seen.last_sent_s))
    first = first_places(plan)
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
    prompt = _sent_at_first(seen) & (seen.first_sent_s == seen.last_sent_s)
    if not prompt.any():
        return None
    last = int(np.argmax(np.where(prompt, seen.arrived_s, 0.0)))  # the last that needed no repair
    first, late_s = int(np.argmin(seen.first_sent_s)), sender_late_s(plan, seen)
    last_sent_s, last_arrived_s = float(seen.first_sent_s[last]), float(seen.arrived_s[last])
    parts = {
        "packet_rounding": float(first_places(plan).release_s[last]) - computed_s,
        "start_up": float(late_s[first]),
        "sender_lateness": float(late_s[last] - late_s[first]),
        "switching_latency": last_arrived_s - last_sent_s,
        "repair": measured_s - (last_arrived_s - epoch_s),
    }
    total_s = measured_s - computed_s
    return {**parts, "rest": total_s - sum(parts.values()), "total": total_s}


def distribution(values):
    """Median, 95th and 99th percentile and extremes of what was seen; None where nothing was."""
    values = np.array([value for value in values if value is not None], dtype=float)
    values = values[~np.isnan(values)]
    if not len(values):
        return None
    p50, p95, p99 = np.percentile(values, [50, 95, 99])
    return {"count": len(values), "min": float(values.min()), "p50": float(p50), "p95": float(p95), "p99": float(p99),
            "max": float(values.max())}


def _reasons(plan, result, changes, seen):
    """Why the run cannot be trusted, a line each, with what would help; empty where it can."""
    faulty = _faulty_switches(plan, seen)
    return [*_packet_reasons(result, seen), *_machine_reasons(result, seen),
            *_late_switches([change for change in changes if change["switch"] not in faulty]),
            *([] if faulty else _dark_reasons(result)), *_unasked(seen), *seen.errors]


def _faulty_switches(plan, seen):
    """The switches whose changes are not as planned since a fault was injected; all, where the controller was away."""
    if any(fault.kind == "restarts" for fault, _ in seen.injected):
        return set(range(plan.settings.switches))
    return {fault.switch for fault, _ in seen.injected if fault.kind in ("dies", "sticks", "slow")}


def _unasked(seen):
    """What failed without a fault that was asked for."""
    asked = [fault for fault, _ in seen.injected]
    for text in dict.fromkeys(f"{notice.name} failed ({notice.by})" for notice in seen.notices
                              if not notice.back and not any(notice.explained_by(fault) for fault in asked)):
        yield f"{text}, and no fault was asked for: look into log.txt"


def _packet_reasons(result, seen):
    if seen.counters["corrupt_packets"]:
        yield f"{seen.counters['corrupt_packets']} datagrams arrived corrupt"
    if result["dark_violations"]:
        yield f"{result['dark_violations']} packets were forwarded by a switch that had to be dark"
    if seen.injected:
        return  # what is lost, stray or not sent is the faults' doing
    if result["misdelivered_packets"]:
        yield f"{result['misdelivered_packets']} packets reached a host that they were not for"
    if seen.counters["unsent_packets"]:
        yield f"{seen.counters['unsent_packets']} packets could not be sent"
    lost = result["losses"]["datagrams"] / result["datagrams"]
    if lost > LOSS_MAX:
        yield f"{lost:.2%} of the datagrams were lost at first, above {LOSS_MAX:.1%}: use a lower rate or a larger δ"


def _machine_reasons(result, seen):
    helps = "stop other programs, or use a lower rate"
    if seen.cpu["busy"] > CPU_BUSY_MAX:
        yield f"the CPU was {seen.cpu['busy']:.0%} busy, above {CPU_BUSY_MAX:.0%}: {helps}"
    if seen.cpu["steal"] > CPU_STEAL_MAX:
        yield (f"the hypervisor took {seen.cpu['steal']:.1%} of the CPU, above {CPU_STEAL_MAX:.0%}: "
               "stop other virtual machines")
    late = result["sender_late_s"]
    if late and late["p99"] > SENDER_LATE_P99_MAX_S:
        yield (f"one datagram in a hundred was sent over {late['p99'] * 1e3:.1f} ms late, above "
               f"{SENDER_LATE_P99_MAX_S * 1e3:g} ms: {helps}")
    if abs(seen.clock_jump_s) > CLOCK_JUMP_MAX_S:
        yield f"the machine's clocks came apart by {format_time(seen.clock_jump_s)}: it was suspended, or paused"


def _dark_reasons(result):
    dark, delta_s = result["dark_interval_s"], result["delta_s"]
    allowed_s = max(DARK_ERROR_P50_MAX * delta_s, DARK_RESOLUTION_S)
    if dark and abs(dark["p50"] - delta_s) > allowed_s:
        yield (f"half of the dark intervals were {format_time(dark['p50'])} or {'more' if dark['p50'] > delta_s else 'less'}, "
               f"further from δ than {format_time(allowed_s)}: use a larger δ")


def _late_switches(changes):
    judged = _judged(changes)
    for h in sorted({change["switch"] for change in judged}):
        mine = [change for change in judged if change["switch"] == h]
        late = distribution(value for change in mine for value in (change["up_late_s"], change["down_late_s"]))
        for key, limit_s in (("p50", SWITCHING_LATE_P50_MAX_S), ("p95", SWITCHING_LATE_P95_MAX_S)):
            if late and late[key] > limit_s:
                yield (f"switch o{h + 1} changed {format_time(late[key])} late ({key}), above {format_time(limit_s)}: "
                       "stop other programs, or use fewer hosts")
                break
        unseen = sum(change["seen_lit_s"] is None for change in mine)
        if unseen:
            yield f"switch o{h + 1} was not lit in time in {unseen} of its slots"


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
    for number, this in enumerate(seen.rounds):
        if this.aborted_s is not None:
            events.append({"t_s": this.aborted_s - epoch_s, "event": "aborted", "round": number})
    events += [{"t_s": t_s, "event": "fault", "fault": fault.text} for fault, t_s in seen.injected]
    events += [{"t_s": notice.t_s - epoch_s, "event": "notice", "of": notice.name, "by": notice.by, "back": notice.back}
               for notice in seen.notices]
    events += _circuit_events(plan, seen, epoch_s)
    events += _pair_events(plan, seen, epoch_s)
    events += _progress_events(plan, seen, epoch_s)
    if (seen.arrived_s > 0).all():
        events.append({"t_s": float(seen.arrived_s.max()) - epoch_s, "event": "delivered",
                       "bytes": int(plan.demand_bytes.sum())})
    return sorted(events, key=lambda event: event["t_s"])


def _faults(plan, seen, epoch_s, changes, measured_s):
    """What was injected, when it was noticed and traffic flowed again, and what it cost."""
    if not plan.faults and not seen.notices:
        return {"faults": []}
    told = [_fault(fault, t_s, plan, seen, epoch_s, changes) for fault, t_s in seen.injected]
    never = {fault.text for fault in plan.faults} - {fault.text for fault, _ in seen.injected}
    told += [{"fault": text, "injected_s": None, "noticed_s": None, "by": None, "traffic_again_s": None} for text in sorted(never)]
    best_s = seen.bounds_s[-1][0] - epoch_s + seen.bounds_s[-1][1] if seen.bounds_s else None
    return {"faults": told, "fault_free_makespan_s": plan.predicted_makespan_s, "survivors_lower_bound_s": best_s,
            "faults_cost_s": None if measured_s is None else measured_s - plan.predicted_makespan_s}


def _fault(fault, injected_s, plan, seen, epoch_s, changes):
    """One fault that was injected; instants in seconds from the epoch, None for what did not happen."""
    notice = next((notice for notice in seen.notices if notice.about(fault) and not notice.back
                   and notice.t_s - epoch_s >= injected_s), None)
    noticed_s, by, again_s = None, None, None
    if notice:
        noticed_s, by = notice.t_s - epoch_s, notice.by
        again = next((this for this in seen.rounds if this.epoch_s > notice.t_s), None)
        if notice.what == "controller":
            sent_s = [action["sent_s"] + this.epoch_s - epoch_s for this in seen.rounds for action in this.actions]
            again_s = min((t_s for t_s in sent_s if t_s > noticed_s), default=None)
        elif again:
            arrived_s = seen.arrived_s[seen.arrived_s > again.epoch_s]
            again_s = float(arrived_s.min()) - epoch_s if len(arrived_s) else None
    elif fault.kind == "slow":
        late = [change["seen_lit_s"] or change["lit_s"] + SWITCHING_LATE_P95_MAX_S for change in changes
                if change["switch"] == fault.switch and change["lit_s"] >= fault.at_s
                and (change["seen_lit_s"] is None or change["up_late_s"] > SWITCHING_LATE_P50_MAX_S)]
        noticed_s, by = (min(late), "lit late, as packets saw it") if late else (None, None)
    elif fault.kind == "loses":
        first = first_places(plan)
        at = (first.switch == fault.switch) & (plan.datagrams.destination == fault.host)
        lost = _sent_at_first(seen) & (seen.first_sent_s != seen.last_sent_s) & at
        noticed_s, by = (float(seen.first_sent_s[lost].min()) - epoch_s, "datagrams missing") if lost.any() else (None, None)
    return {"fault": fault.text, "injected_s": injected_s, "noticed_s": noticed_s, "by": by, "traffic_again_s": again_s}


def _circuit_events(plan, seen, epoch_s):
    """One event for each circuit of the schedule that carried data: planned instants, packets seen, bytes."""
    first = first_places(plan)
    source, destination = plan.datagrams.source, plan.datagrams.destination
    keys = np.stack([first.switch, first.slot, source, destination])
    order = np.lexsort(keys[::-1])
    if not len(order):
        return []
    sorted_keys = keys[:, order]
    starts = np.flatnonzero(np.concatenate([[True], (np.diff(sorted_keys) != 0).any(axis=0)]))
    windows = [plan.schedule.windows(h) for h in range(plan.settings.switches)]
    prompt = (seen.arrived_s > 0) & (seen.first_sent_s == seen.last_sent_s) & _sent_at_first(seen)
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


def _pair_events(plan, seen, epoch_s):
    """One event for each pair of hosts: when the last of its bytes arrived, where all did."""
    n = plan.hosts
    pair = plan.datagrams.source * n + plan.datagrams.destination
    last_s, arrived = np.full(n * n, -np.inf), np.zeros(n * n, dtype=np.int64)
    there = seen.arrived_s > 0
    np.maximum.at(last_s, pair[there], seen.arrived_s[there] - epoch_s)
    np.add.at(arrived, pair[there], plan.datagrams.size_bytes[there])
    complete = (arrived == plan.demand_bytes.ravel()) & (arrived > 0)
    return [{"t_s": float(last_s[k]), "event": "pair", "input": int(k // n), "output": int(k % n), "bytes": int(arrived[k])}
            for k in np.flatnonzero(complete)]


def _progress_events(plan, seen, epoch_s):
    """Bytes that had arrived, and that would have if all had gone ideally, at even steps to the last arrival."""
    size_bytes, there = plan.datagrams.size_bytes, seen.arrived_s > 0
    if not there.any():
        return []
    end_s = max(float(seen.arrived_s.max()) - epoch_s, plan.predicted_makespan_s)
    instants_s = np.linspace(0, end_s, PROGRESS_EVENTS + 1)

    def up_to(times_s, sizes_bytes):
        order = np.argsort(times_s, kind="stable")
        sums = np.concatenate([[0], np.cumsum(sizes_bytes[order])])
        return sums[np.searchsorted(times_s[order], instants_s, side="right")]

    delivered = up_to(seen.arrived_s[there] - epoch_s, size_bytes[there])
    ideal = up_to(first_places(plan).release_s, size_bytes)
    return [{"t_s": float(t_s), "event": "progress", "delivered_bytes": int(bytes_), "ideal_bytes": int(ideal_bytes)}
            for t_s, bytes_, ideal_bytes in zip(instants_s, delivered, ideal)]
