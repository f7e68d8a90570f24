"""Quality and speed of the schedulers on the benchmark workload, n = 100, on one core.

    .venv/bin/python tests/bench/schedulers.py
"""

import argparse
import statistics
import time

from controller.scheduling.bounds import lower_bound_s
from controller.scheduling.registry import SCHEDULERS
from testbed.workloads import generate

CASES = ((2, 0.001), (2, 0.01), (2, 0.04), (4, 0.01), (4, 0.04))


def main():
    """Print a line for each scheduler, number of switches and δ (in periods)."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=20)
    options = parser.parse_args()
    demands = [generate("benchmark", options.hosts, seed) for seed in range(options.seeds)]
    print("scheduler, switches, δ | makespan / lower bound: mean, worst | ms a schedule: median, worst")
    for name, schedule in SCHEDULERS.items():
        for switches, delta_s in CASES:
            ratios, times_s = [], []
            for demand_s in demands:
                start_s = time.perf_counter()
                made = schedule(demand_s, switches, delta_s)
                times_s.append(time.perf_counter() - start_s)
                ratios.append(made.makespan_s / lower_bound_s(demand_s, switches, delta_s))
            print(f"{name}, {switches}, {delta_s:g} | {statistics.mean(ratios):.4f}, {max(ratios):.4f} | "
                  f"{statistics.median(times_s) * 1e3:.2f}, {max(times_s) * 1e3:.2f}")


if __name__ == "__main__":
    main()
