"""What the live view costs: pairs of runs, with a terminal and without, in turn.

    sudo .venv/bin/python tests/bench/view.py --pairs 10
"""

import argparse
import json
import os
import pty
import statistics
import subprocess
import sys
import tempfile
import threading

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def main():
    """Print each pair, and the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--hosts", default="8")
    parser.add_argument("--switches", default="4")
    options = parser.parse_args()
    changes, shares = [], []
    with tempfile.TemporaryDirectory() as scratch:
        for seed in range(options.pairs):
            without, with_view = (run(os.path.join(scratch, f"{seed}-{shown}"), options, seed, shown)
                                  for shown in (False, True))
            changes.append(with_view["measured_makespan_s"] / without["measured_makespan_s"] - 1)
            shares.append(with_view["cpu"]["of_core"]["testbed"])
            print(f"seed {seed}: {without['measured_makespan_s']:.4f} s without, {with_view['measured_makespan_s']:.4f} s with "
                  f"({changes[-1]:+.4%}), the testbed's own process {shares[-1]:.3f} of a core", flush=True)
    print(f"change of the measured makespan: median {statistics.median(changes):+.4%}, largest "
          f"{max(changes, key=abs):+.4%}; own process: median {statistics.median(shares):.3f} of a core")


def run(folder, options, seed, shown):
    """Result of a run whose standard error is a terminal, or nothing."""
    ours, theirs = pty.openpty()
    reader = threading.Thread(target=drain, args=(ours,), daemon=True)
    reader.start()
    done = subprocess.run([sys.executable, os.path.join(ROOT, "testbed/run.py"), "--hosts", options.hosts, "--switches",
                           options.switches, "--seed", str(seed), "--json", "--out", folder],
                          stdout=subprocess.PIPE, stderr=theirs if shown else subprocess.DEVNULL, text=True)
    os.close(theirs)
    return json.loads(done.stdout)


def drain(file):
    """Read a terminal to its end."""
    try:
        while os.read(file, 1 << 16):
            pass
    except OSError:
        pass


if __name__ == "__main__":
    main()
