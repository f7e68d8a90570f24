"""Random faults over random small runs: nothing is lost wherever a path is left, and nothing is left behind.

    sudo .venv/bin/python tests/bench/soak.py --runs 200
"""

import argparse
import collections
import json
import pathlib
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.e2e.test_isolation import traces  # noqa: E402


def random_run(choose):
    """Arguments of a run with one to three faults, and whether a switch is sure to be left."""
    hosts, switches = choose.randint(3, 10), choose.randint(1, 4)
    arguments = ["--hosts", hosts, "--switches", switches, "--seed", choose.randint(0, 999), "--period", f"{choose.uniform(1, 2.5):.2f}s",
                 "--demand", choose.choice(["moe", "benchmark:flows=3"]), "--delta", choose.choice(["10ms", "20ms", "40ms"]),
                 "--scheduler", choose.choice(["spectra", "spectra", "less", "solstice", "rotor"])]
    out = set()
    for _ in range(choose.randint(1, 3)):
        h, i, at = choose.randrange(switches), choose.randint(1, hosts), f"at {choose.uniform(0, 1.2):.2f}s"
        fault = choose.choice([f"switch {h} dies {at}", f"switch {h} sticks {at}", f"switch {h} slow by {choose.randint(5, 60)}ms {at}",
                               f"link h{i}-o{h + 1} down for {choose.randint(20, 800)}ms {at}",
                               f"port h{i}-o{h + 1} loses {choose.randint(1, 30)}% {at}", f"controller restarts {at}",
                               f"agent h{i} dies {at}"])
        if "dies" in fault and "switch" in fault or "sticks" in fault:
            out.add(h)
        arguments += ["--fault", fault]
    return [str(argument) for argument in arguments], len(out) < switches


def _more(before, after):
    """What there is now and was not before, or the other way round."""
    return [sorted(set(was) ^ set(now)) for was, now in zip(before, after) if was != now]


def end(times, signals, choose):
    """Send signals to runs at random instants: 8 s later nothing of them is left, and a run that is started at once is as ever."""
    before, bad, longest_s = traces(), 0, 0.0
    for number in range(times):
        with tempfile.TemporaryDirectory() as folder:
            def start(name):
                return subprocess.Popen([sys.executable, str(ROOT / "testbed" / "run.py"), "--quiet", "--hosts", "8", "--switches", "4",
                                         "--period", "4s", "--out", f"{folder}/{name}"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

            # Python itself takes the first 50 ms, and the run 4 s.
            victim, instant_s = start("ended"), choose.uniform(0.05, 3.8)
            time.sleep(instant_s)
            for name in signals:
                victim.send_signal(getattr(signal, f"SIG{name}"))
                time.sleep(choose.choice([0, 0.001, 0.01]))
            instant_s, begin_s = round(instant_s, 3), time.monotonic()
            told = victim.communicate()[1]
            if "Traceback" in told or victim.returncode not in (130, *(-getattr(signal, f"SIG{name}") for name in signals)):
                bad += 1
                print(f"ended at {instant_s} s: exit status {victim.returncode}: {told[-300:]}", flush=True)
            longest_s = max(longest_s, time.monotonic() - begin_s)
            if number % 5 == 0:
                following = start("next")
                told = following.communicate()[1]
                if following.returncode not in (0, 3):
                    bad += 1
                    print(f"ended at {instant_s} s: a run started at once ended with {following.returncode}: {told}", flush=True)
            deadline_s = time.monotonic() + 8
            while (after := traces()) != before and time.monotonic() < deadline_s:
                time.sleep(0.1)
            if after != before:
                bad += 1
                print(f"ended at {instant_s} s: left behind {_more(before, after)}", flush=True)
                before = after
    print(f"{times} runs ended by {' '.join(signals)} at random instants, {bad} with something wrong; the longest took {longest_s:.2f} s")
    return 1 if bad else 0


def main():
    """Run them all; the exit status is 1 where something was lost or left behind."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ends", type=int, default=0, help="instead, end so many runs at random instants")
    parser.add_argument("--signals", nargs="+", default=["KILL"], help="with --ends: the signals (KILL, TERM, INT, or INT INT)")
    options = parser.parse_args()
    if options.ends:
        return end(options.ends, options.signals, random.Random(options.seed))
    before, bad, statuses, recoveries_s = traces(), 0, collections.Counter(), []
    for number in range(options.runs):
        arguments, left = random_run(random.Random(f"{options.seed} {number}"))
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, str(ROOT / "testbed" / "run.py"), "--quiet", "--out", f"{folder}/run", *arguments],
                                  capture_output=True, text=True, timeout=180, check=False)
            path = pathlib.Path(folder, "run", "result.json")
            result = json.loads(path.read_text()) if path.exists() else {}
        statuses[done.returncode] += 1
        wrong = []
        if done.returncode not in (0, 3) and left or done.returncode not in (0, 1, 3):
            wrong.append(f"exit status {done.returncode}: {done.stderr.strip()[-300:]}")
        if result.get("corrupt_bytes") or "Traceback" in done.stderr:
            wrong.append("corrupt bytes, or a traceback")
        if left and result.get("undelivered_bytes") != 0:
            wrong.append(f"{result.get('undelivered_bytes')} bytes were not delivered")
        unasked = [reason for reason in result.get("reasons") or () if "no fault was asked for" in reason]
        if unasked:
            wrong.append("; ".join(unasked))
        deadline_s = time.monotonic() + 8
        while (after := traces()) != before and time.monotonic() < deadline_s:
            time.sleep(0.2)
        if after != before:
            wrong.append(f"left behind: {_more(before, after)}")
            before = after
        recoveries_s += [fault["traffic_again_s"] - fault["noticed_s"] for fault in result.get("faults") or ()
                         if fault["traffic_again_s"] is not None and fault["fault"].startswith("switch")]
        if wrong:
            bad += 1
            print(f"run {number}: {shlex.join(arguments)}\n    " + "\n    ".join(wrong), flush=True)
    print(f"{options.runs} runs, {bad} with something wrong; exit statuses {dict(statuses)}")
    if recoveries_s:
        recoveries_s.sort()
        print(f"from noticing a failed switch to traffic again: {recoveries_s[len(recoveries_s) // 2] * 1e3:.0f} ms median, "
              f"{recoveries_s[-1] * 1e3:.0f} ms at most, of {len(recoveries_s)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
