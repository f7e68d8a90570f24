"""Quality of Spectra+ over the time it has to plan, beside Spectra and the lower bound, on one core.

    .venv/bin/python tests/bench/plus.py --seeds 700 701 702 --plot quality.png
"""

import argparse
import statistics
import time

from controller.scheduling.bounds import lower_bound_s
from controller.scheduling.packing import spectra_pack
from controller.scheduling.spectra import spectra
from controller.scheduling.spectra_plus import STEPS, search
from controller.scheduling.tight_bound import tight_lower_bound_s
from testbed.sweep import PAPER_HOSTS
from testbed.workloads import generate

DELTAS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.1)
TIMES_MS = (5, 20, 50, 100, 300, 1000)


def main():
    """Print a row for each workload, s and δ, then the share of the gap closed; plot if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workloads", nargs="+", default=["benchmark", "gpt", "moe"], help="such as benchmark:flows=8")
    parser.add_argument("--hosts", type=int, help="instead of 100, 32 and 64")
    parser.add_argument("--switches", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--deltas", type=float, nargs="+", default=DELTAS, help="δ in periods")
    parser.add_argument("--times-ms", type=float, nargs="+", default=TIMES_MS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--without", nargs="+", default=(), choices=STEPS)
    parser.add_argument("--plot", metavar="FILE", help="mean quality over plan time, as an image")
    options = parser.parse_args()
    names = ["Spectra", "pack", *(f"{time_ms:g} ms" for time_ms in options.times_ms)]
    print(f"mean makespan / the paper's lower bound, {len(options.seeds)} seeds")
    print(f"workload, s, δ | {' | '.join(names)} | tight bound")
    latest_s, shares = 0.0, {}
    for workload in options.workloads:
        for switches in options.switches:
            for delta in options.deltas:
                rows = [row(workload, seed, switches, delta, options) for seed in options.seeds]
                latest_s = max(latest_s, *(late_s for *_, late_s in rows))
                means = [statistics.mean(column) for column in zip(*(ratios for ratios, *_ in rows))]
                bound = statistics.mean(bound for _, bound, _ in rows)
                figures = [f"{figure:.4f}" for figure in [*means, bound]]
                print(" | ".join([f"{workload}, {switches}, {delta:g}", *figures]), flush=True)
                shares.setdefault((workload, switches), []).append([closed(mean, means[0], bound) for mean in means[1:]])
        print_shares(workload, names[1:], shares)
    print(f"latest return: {latest_s * 1e3:.1f} ms after the time to plan")
    if options.plot:
        plot(options.plot, options.times_ms, shares)


def row(workload, seed, switches, delta, options):
    """(makespans over the paper's bound, tight bound over the paper's, latest return after the time to plan)."""
    demand = generate(workload, options.hosts or PAPER_HOSTS[workload.partition(":")[0]], seed)
    base_s = lower_bound_s(demand, switches, delta)
    lengths_s = [spectra(demand, switches, delta).makespan_s, spectra_pack(demand, switches, delta).makespan_s]
    late_s = 0.0
    for time_ms in options.times_ms:
        start_s = time.perf_counter()
        found = search(demand, switches, delta, plan_time_s=time_ms / 1e3, without=options.without)
        if found.stopped != "too short":
            late_s = max(late_s, time.perf_counter() - start_s - time_ms / 1e3)
        lengths_s.append(found.schedule.makespan_s)
    tight_s = tight_lower_bound_s(demand, switches, delta)
    return [length_s / base_s for length_s in lengths_s], tight_s / base_s, late_s


def closed(mean, spectra_mean, bound):
    """Share of the gap between Spectra and the tight bound that is closed; all of none."""
    return (spectra_mean - mean) / (spectra_mean - bound) if spectra_mean > bound * (1 + 1e-9) else 1.0


def print_shares(workload, names, shares):
    """Share of the gap closed: a line for each s, averaged over δ, then over all."""
    mine = {switches: cells for (name, switches), cells in shares.items() if name == workload}
    for label, cells in [*((f"s = {switches}", cells) for switches, cells in mine.items()), ("all", sum(mine.values(), []))]:
        means = [statistics.mean(column) for column in zip(*cells)]
        print(f"{workload}, {label}: gap to the tight bound closed: "
              + ", ".join(f"{name} {mean:.0%}" for name, mean in zip(names, means)), flush=True)


def plot(path, times_ms, shares):
    """Share of the gap closed over plan time, averaged over δ: a panel for each workload, a line for each s."""
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    workloads = list(dict.fromkeys(workload for workload, _ in shares))
    figure, panels = plt.subplots(1, len(workloads), figsize=(4 * len(workloads), 3.4), sharey=True, squeeze=False)
    for panel, workload in zip(panels[0], workloads):
        for (name, switches), cells in shares.items():
            if name == workload:
                means = [100 * statistics.mean(column) for column in zip(*cells)]
                (line,) = panel.plot(times_ms, means[1:], marker="o", label=f"s = {switches}")
                panel.axhline(means[0], color=line.get_color(), linestyle=":", linewidth=1)
        panel.set(title=workload, xscale="log", xlabel="time to plan (ms)", ylim=(0, 102))
        panel.set_xticks(times_ms, [f"{time_ms:g}" for time_ms in times_ms])
        panel.minorticks_off()
        panel.grid(alpha=0.3)
    panels[0][0].set_ylabel("gap from Spectra to the bound closed (%)")
    panels[0][0].legend(title="dotted: packing only", frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
