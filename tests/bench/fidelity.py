"""How close measured makespans come to computed ones: a table over workloads, sizes and seeds.

    sudo .venv/bin/python tests/bench/fidelity.py --cells gpt:8:2 moe:8:4 --runs 10
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def main():
    """Run every cell, and print a line for each run and one for each cell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", nargs="+", default=[
        f"{demand}:8:{switches}" for demand in ("gpt", "moe", "benchmark") for switches in (2, 4)],
        metavar="DEMAND:HOSTS:SWITCHES")
    parser.add_argument("--runs", type=int, default=10, help="runs a cell, each with its own seed")
    parser.add_argument("--keep", metavar="DIR", help="keep the run folders here")
    options, passed_on = parser.parse_known_args()
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for cell in options.cells:
            demand, hosts, switches = cell.split(":")
            rows.append((cell, [
                run(options.keep or scratch, demand, hosts, switches, seed, passed_on)
                for seed in range(options.runs)]))
    print("\ncell, runs | delivered | measured/computed median, worst | measured/predicted median, least, worst | "
          "lost at first | dark ms, medians of p50 and of p95 | CPU, switches + agents + controller in cores | trustworthy")
    for cell, results in rows:
        print(summary(cell, results))


def run(folder, demand, hosts, switches, seed, passed_on):
    """One run; returns its result, or None where it printed none."""
    out = os.path.join(folder, f"{demand}-{hosts}-{switches}-{seed}")
    done = subprocess.run(
        [sys.executable, os.path.join(ROOT, "testbed/run.py"), "--demand", demand, "--hosts", hosts, "--switches",
         switches, "--seed", str(seed), "--json", "--quiet", "--out", out, *passed_on],
        stdout=subprocess.PIPE, text=True)
    result = json.loads(done.stdout) if done.stdout.strip() else None
    if result:
        print(f"{demand}:{hosts}:{switches} seed {seed}: exit {done.returncode}, "
              f"m/c {result['measured_over_computed'] or 0:.4f}, m/p {result['measured_over_predicted'] or 0:.4f}, "
              f"lost {result['losses']['datagrams']} of {result['datagrams']}, "
              f"down p95 {ms(result['down_late_s'], 'p95')}, up p95 {ms(result['up_late_s'], 'p95')}, "
              f"sender p99 {ms(result['sender_late_s'], 'p99')}, CPU {result['cpu']['busy']:.0%}, "
              f"{'; '.join(result['reasons'])}", flush=True)
    return result


def summary(cell, results):
    """One line of the table."""
    results = [result for result in results if result]
    complete = [result for result in results if result["measured_makespan_s"] is not None]
    computed = [result["measured_over_computed"] for result in complete]
    predicted = [result["measured_over_predicted"] for result in complete]
    lost = sum(result["losses"]["datagrams"] for result in results)
    sent = sum(result["datagrams"] for result in results)
    dark = [result["dark_interval_s"] for result in results if result["dark_interval_s"]]
    p50, p95 = (statistics.median(each[key] for each in dark) * 1e3 if dark else float("nan") for key in ("p50", "p95"))
    busy = statistics.median(result["cpu"]["busy"] for result in results)
    cores = [statistics.median(result["cpu"]["of_core"][name] for result in results)
             for name in ("switches", "agents", "controller")]
    return (f"{cell}, {len(results)} | {len(complete)} | {statistics.median(computed):.4f}, {max(computed):.4f} | "
            f"{statistics.median(predicted):.4f}, {min(predicted):.4f}, {max(predicted):.4f} | "
            f"{lost} of {sent} | {p50:.2f}, {p95:.2f} | {busy:.0%}, {' + '.join(f'{share:.2f}' for share in cores)} | "
            f"{sum(result['trustworthy'] for result in results)} of {len(results)}" if complete else f"{cell} | none")


def ms(distribution, key):
    """A figure of a distribution in ms."""
    return f"{distribution[key] * 1e3:.2f} ms" if distribution else "-"


if __name__ == "__main__":
    main()
