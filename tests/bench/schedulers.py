"""Quality, speed and growth of the schedulers, on one core.

    .venv/bin/python tests/bench/schedulers.py
"""

import argparse
import statistics
import time

from controller.scheduling.bounds import lower_bound_s
from controller.scheduling.registry import SCHEDULERS, refusal
from testbed.workloads import generate

CASES = ((2, 0.001), (2, 0.01), (2, 0.04), (4, 0.01), (4, 0.04))
SIZES = (32, 64, 100, 128, 256, 512)
GROWTH_LIMIT_S = 60.0  # a scheduler that took longer at one size is not tried at the next


def main():
    """Print a table of quality and speed at one size, then one of growth, then Spectra beside the optimum."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--schedulers", nargs="+", default=[name for name in SCHEDULERS if name != "optimal"])
    parser.add_argument("--no-growth", action="store_true")
    options = parser.parse_args()
    demands = [generate("benchmark", options.hosts, seed) for seed in range(options.seeds)]
    print(f"benchmark, {options.hosts} hosts, {options.seeds} seeds")
    print("scheduler, switches, δ | makespan / lower bound: mean, worst | ms a schedule: median, worst")
    for name in options.schedulers:
        for switches, delta in CASES:
            ratios, times_s = zip(*(timed(name, demand, switches, delta) for demand in demands))
            print(f"{name}, {switches}, {delta:g} | {statistics.mean(ratios):.4f}, {max(ratios):.4f} | "
                  f"{statistics.median(times_s) * 1e3:.2f}, {max(times_s) * 1e3:.2f}", flush=True)
    if not options.no_growth:
        growth(options.schedulers)
        beside_the_optimum()


def timed(name, demand, switches, delta):
    """(makespan over the lower bound, seconds it took)."""
    start_s = time.perf_counter()
    schedule = SCHEDULERS[name](demand, switches, delta)
    took_s = time.perf_counter() - start_s
    return schedule.makespan_s / lower_bound_s(demand, switches, delta), took_s


def growth(names):
    """Median seconds a schedule over n, for 32 flows a port, s = 4 and δ = 0.01; three runs each."""
    print(f"\nbenchmark with 32 flows a port, s = 4, δ = 0.01: seconds a schedule, median of 3, at n = {SIZES}")
    for name in names:
        medians_s = []
        for hosts in SIZES:
            demand = generate("benchmark:flows=32", hosts, 0)
            medians_s.append(statistics.median(timed(name, demand, 4, 0.01)[1] for _ in range(3)))
            if medians_s[-1] > GROWTH_LIMIT_S:
                break
        print(f"{name} | {', '.join(f'{median_s:.4f}' for median_s in medians_s)}", flush=True)


def beside_the_optimum():
    """Makespan over the optimum on small benchmarks, by scheduler."""
    print("\n4 hosts, benchmark with 4 flows a port, 25 seeds, s = 1 and 2, δ = 0.01, 0.1: makespan / optimum: mean, worst")
    ratios = {}
    for seed in range(25):
        demand = generate("benchmark:flows=4", 4, seed)
        for switches in (1, 2):
            for delta in (0.01, 0.1):
                assert not refusal("optimal", len(demand), switches)
                least_s = SCHEDULERS["optimal"](demand, switches, delta).makespan_s
                for name, scheduler in SCHEDULERS.items():
                    ratios.setdefault(name, []).append(scheduler(demand, switches, delta).makespan_s / least_s)
    for name, found in ratios.items():
        print(f"{name} | {statistics.mean(found):.4f}, {max(found):.4f}")


if __name__ == "__main__":
    main()
