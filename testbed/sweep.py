"""Compare schedulers over workloads, numbers of switches, δ and seeds: computed, and with --measure also played.

    .venv/bin/python testbed/sweep.py --demands gpt moe --schedulers spectra less --deltas 0.01 0.04 --seeds 10
"""

import hashlib
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from typing import Annotated, Optional

import numpy as np
import pydantic
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from controller.scheduling.registry import SCHEDULERS, refusal
from controller.scheduling.spectra import largest_line
from testbed import demand as demands
from testbed import workloads
from testbed.cases import Case, Demand, code_version
from testbed.errors import (BAD_INPUT, DELIVERED, UNDELIVERED, UNTRUSTWORTHY, Parser, UserError, exit_status, explain,
                            nearest)
from testbed.plan import MAKESPAN_S
from testbed.results import Store, write_table
from testbed.settings import MAX_HOSTS, Settings
from testbed.units import parse_time_s
from topologies.parallel_ocs import MAX_SWITCHES

PAPER_HOSTS = {"gpt": 32, "moe": 64, "benchmark": 100}
SMALLEST_DELTA_S = 0.020  # of a measured run, where the period is ours to choose
_ENDS_WITHIN_S = 1.0  # a run that was interrupted
RUN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "run.py")

_Delta = Annotated[float, pydantic.Field(ge=0, le=100)]


class Grid(pydantic.BaseModel):
    """What a sweep covers: all combinations. δ is in fractions of the period (of a file: of its largest line)."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    demands: tuple[str, ...] = tuple(PAPER_HOSTS)
    hosts: Optional[tuple[Annotated[int, pydantic.Field(ge=2, le=MAX_HOSTS)], ...]] = None
    schedulers: tuple[str, ...] = ("spectra", "spectra-eclipse", "less", "less-even")
    switches: tuple[Annotated[int, pydantic.Field(ge=1, le=MAX_SWITCHES)], ...] = (2, 4)
    deltas: tuple[_Delta, ...] = (0.01, 0.04)
    seeds: Annotated[int, pydantic.Field(ge=1, le=100_000)] = 5

    @pydantic.field_validator("schedulers")
    @classmethod
    def _known(cls, names):
        for name in names:
            if name not in SCHEDULERS:
                raise ValueError(f"unknown scheduler {name!r}{nearest(name, SCHEDULERS)}")
        return names

    def cases(self):
        """The demands by name and hosts, and all cases in the order of the table.

        Returns
        -------
        dict of (str, int) to Demand
        list of Case

        Raises
        ------
        UserError
            A demand that is none, or a scheduler that cannot do its size.
        """
        found = {}
        for text in self.demands:
            for demand in self._demands(text):
                found[demand.name, demand.hosts] = demand
        cases = []
        for demand in found.values():
            for scheduler, switches in itertools.product(self.schedulers, self.switches):
                refused = refusal(scheduler, demand.hosts, switches)
                if refused:
                    raise UserError(f"--schedulers {scheduler}: {refused} ({demand.name})")
            # A file has no seed: it is one matrix.
            seeds = range(self.seeds) if demand.matrix is None else (0,)
            cases += [Case(demand.name, demand.hosts, demand.sha256, seed, scheduler, switches, delta)
                      for seed, switches, delta, scheduler in itertools.product(
                          seeds, self.switches, self.deltas, self.schedulers)]
        return found, list(dict.fromkeys(cases))

    def _demands(self, text):
        if demands.is_workload(text):
            try:
                name, _ = workloads.parse(text)
                for hosts in self.hosts or (PAPER_HOSTS[name],):
                    workloads.generate(text, hosts, 0)
                    yield Demand(text, hosts)
            except ValueError as error:
                raise UserError(f"--demands {text}: {error}") from None
            return
        try:
            settings = Settings(demand=text, normalised=True, hosts=max(self.hosts) if self.hosts else None)
            name, matrix = demands.demand_of(settings)
        except UserError as error:
            raise UserError(str(error).replace("--demand ", "--demands ", 1)) from None
        yield Demand(name, len(matrix), matrix / largest_line(matrix))


def add_options(add):
    """The options that a sweep and the evaluation of the paper have in common."""
    add("--out", metavar="DIR", help="folder of the results; the same command goes on with what is there")
    add("--dask", metavar="tcp://HOST:PORT", help="compute on this Dask cluster (default: all cores here)")
    add("--measure", action="store_true", help="also play each case on the testbed, one at a time; needs root")
    add("--quiet", action="store_true", help="no progress on standard error")


def main(arguments=None):
    """Run the command line; returns the exit status."""
    return exit_status("sweep.py", lambda: _command(arguments))


def _command(arguments):
    parser = Parser("testbed/sweep.py", __doc__.splitlines()[0],
                    epilog="Exit status: 0 done; 1 a measured run failed or delivered not everything; 2 bad input; 3 done, "
                           "but not every measured run can be trusted; 130 interrupted.")
    add = parser.add_argument
    add("--demands", nargs="+", metavar="NAME|FILE", help="workloads as run.py takes them (default gpt moe benchmark), or "
        "files, scaled so that the largest line is one period")
    add("--hosts", nargs="+", metavar="N", help="numbers of hosts of the workloads (default 32, 64 and 100, as in the paper)")
    add("--schedulers", nargs="+", metavar="NAME", help=f"of {', '.join(SCHEDULERS)} (default spectra spectra-eclipse less "
        "less-even)")
    add("--switches", nargs="+", metavar="S", help="numbers of switches (default 2 4)")
    add("--deltas", nargs="+", metavar="X", help="reconfiguration delays in periods (default 0.01 0.04)")
    add("--seeds", metavar="K", help="seeds 0 … K−1 of each workload (default 5)")
    add("--period", metavar="TIME", help="period of measured runs (default: 6 s of makespan, and δ at least 20 ms)")
    add_options(add)
    options = vars(parser.parse_args(arguments))
    common = {name: options.pop(name) for name in ("out", "dask", "measure", "quiet", "period")}
    grid = grid_of({name: value for name, value in options.items() if value is not None})
    found, cases = grid.cases()
    out = common.pop("out") or os.path.join("runs", f"sweep-{_digest([found[key].sha256 for key in found], grid)}")
    table, status = complete(out, found, cases, cases if common.pop("measure") else (), **common)
    _print(table)
    print(f"{table.num_rows} rows in {out}/table.csv and .parquet")
    return status


def grid_of(options):
    """The grid that options ask for.

    Raises
    ------
    UserError
    """
    try:
        return Grid.model_validate(options)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        raise UserError(f"--{first['loc'][0]}: {explain(first)}") from None


def _digest(*parts):
    return hashlib.sha256("|".join(map(str, parts)).encode()).hexdigest()[:8]


def complete(out, found, cases, measured_cases=(), dask=None, quiet=False, period=None):
    """Compute, and measure, what is not done yet, and write the table; what is done is kept, however it ends.

    Parameters
    ----------
    out : str
        Folder of the results.
    found : dict of (str, int) to Demand
        The demands of the cases, by name and hosts.
    cases : sequence of Case
    measured_cases : sequence of Case
        Those of them that are also played on the testbed.
    dask : str, optional
        Address of a Dask cluster.
    quiet : bool
    period : str, optional
        Of measured runs.

    Returns
    -------
    table : pyarrow.Table
        As written to table.csv and table.parquet.
    status : int
        Exit status by what was measured.

    Raises
    ------
    UserError, TestbedError, KeyboardInterrupt
        After the table of what is done was written.
    """
    period_s = _checked_period(period)
    if measured_cases:
        from testbed.run import check_machine
        check_machine(Settings())
    store = Store(out, code_version())
    with store.open():
        try:
            todo = [case for case in cases if not store.has("computed", case)]
            _compute(store, found, todo, dask, quiet)
            _measure(store, found, [case for case in measured_cases if not store.has("measured", case)], period_s, quiet)
        finally:
            table = store.table(cases)
            write_table(table, os.path.join(out, "table"))
            if sys.exc_info()[0]:
                print(f"kept {table.num_rows} of {len(cases)} rows in {out}; the same command goes on from there",
                      file=sys.stderr)
        return table, _status(store, measured_cases)


def _checked_period(period):
    if period is None:
        return None
    try:
        period_s = parse_time_s(period)
    except ValueError as error:
        raise UserError(f"--period: {error}") from None
    if period_s <= 0:
        raise UserError(f"--period: {period!r} must be greater than 0")
    return period_s


def _compute(store, found, cases, address, quiet):
    """Compute cases in tasks of one matrix and one δ: small enough to lose little, large enough to be worth sending."""
    if not cases:
        return
    from testbed.cluster import evaluator

    tasks = {}
    for case in cases:
        tasks.setdefault((case.demand, case.hosts, case.seed, case.delta_periods), []).append(case)
    # Seed by seed, so that the time left is told by tasks of all kinds.
    order = sorted(tasks, key=lambda key: key[2])
    with evaluator(address) as each, _Progress("computed", len(cases), quiet, every_s=10) as progress:
        for rows in each([(found[key[:2]], key[2], tasks[key]) for key in order]):
            store.add("computed", rows)
            progress.advance(len(rows))


class _Progress:
    """How far it is and how long it will take: a bar on a terminal, a line now and then elsewhere."""

    def __init__(self, what, total, quiet, every_s):
        console = Console(stderr=True, quiet=quiet)
        self._what, self._total, self._done, self._every_s, self._console = what, total, 0, every_s, console
        self._bar = Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
                             console=console, disable=quiet or not console.is_terminal)
        self._plain = not quiet and not console.is_terminal

    def __enter__(self):
        self._bar.start()
        self._task = self._bar.add_task(self._what, total=self._total)
        self._start_s = self._told_s = time.monotonic()
        return self

    def __exit__(self, *_):
        self._bar.stop()

    def advance(self, count):
        """So many more are done."""
        self._done += count
        self._bar.advance(self._task, count)
        now_s = time.monotonic()
        if self._plain and (now_s - self._told_s >= self._every_s or self._done == self._total):
            self._told_s = now_s
            left_s = (now_s - self._start_s) * (self._total - self._done) / self._done
            self._console.print(f"{self._what} {self._done:,} of {self._total:,}, about {left_s:.0f} s left")


def _measure(store, found, cases, period_s, quiet):
    """Play cases on the testbed, one at a time, each by run.py in a folder of its own."""
    if not cases:
        return
    with _Progress("measured", len(cases), quiet, every_s=0) as progress:
        for case in cases:
            row = _play(store, found[case.demand, case.hosts], case, period_s)
            if row:
                store.add("measured", [row])
            progress.advance(1)


def _play(store, demand, case, period_s):
    """One measured run; returns its row, or None where the testbed failed."""
    # All schedulers of a demand, s and δ get the same period, so that they play the same bytes.
    period_s = period_s or max(MAKESPAN_S * case.switches, SMALLEST_DELTA_S / (case.delta_periods or 1))
    name = re.sub("[^A-Za-z0-9.]+", "-", f"{case.demand}-{case.hosts}-{case.scheduler}-{case.switches}-"
                                         f"{case.delta_periods:g}-{case.seed}")
    folder = os.path.join(store.folder, "runs", name)
    shutil.rmtree(folder, ignore_errors=True)  # of a run that was killed
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    source = [demand.name, "--hosts", str(demand.hosts)]
    if demand.matrix is not None:
        path = os.path.join(store.folder, f"{demand.name}.npy")
        np.save(path, demand.matrix)
        source = [path, "--normalised"]
    done = _run([sys.executable, RUN, "--demand", *source, "--scheduler", case.scheduler, "--switches",
                 str(case.switches), "--seed", str(case.seed), "--period", f"{period_s!r}s",
                 "--delta", f"{case.delta_periods * period_s!r}s", "--out", folder, "--json", "--quiet"])
    row = {**vars(case), "period_s": period_s, "exit_status": done.returncode}
    if done.returncode == BAD_INPUT:
        return {**row, "reasons": done.stderr.strip()}
    if not done.stdout.strip():
        print(f"{name}: {done.stderr.strip() or f'run.py ended with {done.returncode}'}", file=sys.stderr)
        return None
    result = json.loads(done.stdout)
    makespan_s = result["measured_makespan_s"]
    return {**row, "rate_bps": result["rate_bps"], "trustworthy": result["trustworthy"],
            "reasons": "; ".join(result["reasons"]),
            "played_makespan_periods": result["computed_makespan_s"] / period_s,
            "measured_over_computed": result["measured_over_computed"],
            "measured_over_predicted": result["measured_over_predicted"],
            "measured_makespan_periods": makespan_s / period_s if makespan_s else None}


def _run(command):
    """Run a command to its end; where this is interrupted meanwhile, the command is too, and cleans up."""
    # In the same group, it hears of the terminal's ctrl-C itself, even where this process hears of it while it starts the other.
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        stdout, stderr = process.communicate()
    except KeyboardInterrupt:
        try:
            process.wait(_ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:  # only this process was interrupted
            process.send_signal(signal.SIGINT)
            process.wait()
        raise
    if process.returncode == 130:
        raise KeyboardInterrupt
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)


def _status(store, cases):
    """The exit status of what was measured."""
    rows = [store.row("measured", case) for case in cases]
    if any(row is None or row["exit_status"] in (UNDELIVERED, BAD_INPUT) for row in rows):
        return UNDELIVERED
    return DELIVERED if all(row["trustworthy"] for row in rows) else UNTRUSTWORTHY


def _print(table):
    """Mean over seeds and δ for each demand, number of switches and scheduler."""
    means = table.group_by(["demand", "hosts", "switches", "scheduler"], use_threads=False).aggregate([
        ("makespan_periods", "mean"), ("makespan_over_bound", "mean"), ("measured_over_computed", "mean")])
    shown = Table("demand", "hosts", "switches", "scheduler", "makespan / period", "/ lower bound", "measured / computed",
                  box=None)
    for row in means.to_pylist():
        measured = row["measured_over_computed_mean"]
        shown.add_row(row["demand"], str(row["hosts"]), str(row["switches"]), row["scheduler"],
                      f"{row['makespan_periods_mean']:.4f}", f"{row['makespan_over_bound_mean']:.4f}",
                      "-" if measured is None else f"{measured:.4f}")
    Console(highlight=False, width=None if sys.stdout.isatty() else 110).print(shown)


if __name__ == "__main__":
    sys.exit(main())
