"""Odd input at length: demand files, configurations, command lines and schedules, 25,000 of each.

    .venv/bin/python tests/bench/fuzz.py
"""

import argparse
import pathlib
import sys
import time
import warnings

from hypothesis import HealthCheck, given, settings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from tests.unit.test_fuzz import KINDS  # noqa: E402


def main():
    """Fails at the first input that is neither taken nor refused in one line, and shows it as small as it can be."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--each", type=int, default=25_000)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for kind, (strategy, attempt) in KINDS.items():
        slowest, count = [0.0], [0]

        def timed(case):
            start_s = time.monotonic()
            attempt(case)
            slowest[0], count[0] = max(slowest[0], time.monotonic() - start_s), count[0] + 1

        start_s = time.monotonic()
        settings(max_examples=options.each, deadline=None, database=None, suppress_health_check=list(HealthCheck))(
            given(strategy)(timed))()
        print(f"{kind}: {count[0]:,} inputs in {time.monotonic() - start_s:.0f} s, the slowest {slowest[0] * 1e3:.0f} ms", flush=True)


if __name__ == "__main__":
    main()
