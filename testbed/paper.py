"""Reproduce the evaluation of arXiv 2603.07373: its figures, and a table of mean ratios beside the published ones.

    .venv/bin/python testbed/paper.py
"""

import csv
import os
import sys

import numpy as np
from rich.console import Console
from rich.table import Table

from controller.scheduling.spectra_plus import PLAN_TIME_S
from testbed import ablation, charts
from testbed.errors import DELIVERED, Parser, exit_status
from testbed.files import whole
from testbed.sweep import PAPER_HOSTS, Grid, add_options, complete

SPARSITY_FLOWS = (4, 8, 12, 16, 24, 32, 48, 64)
SPARSITY_DELTA = 0.04
NOISES = {"0.3 %": "", "1 %": ":noise=0.01"}
# Mean makespan over that of Spectra, as published (v1; the abstract of a later version says 2.7 for MoE).
PUBLISHED = {("gpt", "less"): "1.4", ("moe", "less"): "1.9 (2.7)", ("benchmark", "less"): "2.4",
             ("gpt", "spectra-eclipse"): "1.1", ("moe", "spectra-eclipse"): "1.8", ("benchmark", "spectra-eclipse"): "1.2"}
COMPARED = ("spectra", "spectra-eclipse", "less", "less-even")
OTHERS = ("spectra-lp", "solstice", "tms", "rotor")
PLUS = ("spectra-pack", "spectra-plus")
MEASURED = {"schedulers": ("spectra", "spectra-plus", "less"), "deltas": (0.01, 0.04), "seeds": 1}


def grids(quick):
    """The grids of the evaluation: workloads over δ, noise, sparsity.

    Parameters
    ----------
    quick : bool
        Few matrices and few δ.

    Returns
    -------
    list of Grid
    """
    seeds = 5 if quick else 50
    deltas = (0.001, 0.01, 0.04, 0.1) if quick else (0.001, 0.002, 0.005, 0.01, 0.02, 0.04, 0.07, 0.1)
    return [
        Grid(schedulers=(*COMPARED, "spectra-no-equalize", *OTHERS, *PLUS), deltas=deltas, seeds=seeds),
        Grid(demands=("gpt:noise=0.01", "benchmark:noise=0.01"), schedulers=COMPARED, deltas=deltas, seeds=seeds),
        Grid(demands=tuple(f"benchmark:flows={flows}" for flows in SPARSITY_FLOWS), schedulers=COMPARED,
             deltas=(SPARSITY_DELTA,), seeds=seeds),
    ]


def main(arguments=None):
    """Run the command line; returns the exit status."""
    return exit_status("paper.py", lambda: _command(arguments))


def _command(arguments):
    parser = Parser("testbed/paper.py", __doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="5 matrices a point and 4 δ, instead of 50 and 8")
    parser.add_argument("--ablation", action="store_true", help="instead: what each step of spectra-plus is worth (one core, "
                        "100 ms a schedule)")
    add_options(parser.add_argument)
    options = parser.parse_args(arguments)
    out = options.out or os.path.join("runs", "paper-quick" if options.quick else "paper")
    if options.ablation:
        return _ablation(out, 2 if options.quick else 10, options.quiet)
    found, cases = {}, []
    for grid in grids(options.quick):
        some, more = grid.cases()
        found.update(some)
        cases += more
    measured = Grid(**MEASURED).cases()[1] if options.measure else ()
    table, status = complete(out, found, list(dict.fromkeys(cases)), measured, options.dask, options.quiet)
    rows = table.to_pylist()
    _draw(out, rows, found)
    ratios = list(_ratios(rows))
    _write_ratios(os.path.join(out, "ratios.csv"), ratios)
    _print(ratios)
    print(f"{len(rows)} rows in {out}/table.csv and .parquet, ratios in ratios.csv, figures beside them as .png and .svg")
    return status


def _ablation(out, seeds, quiet):
    rows = ablation.ablate(PAPER_HOSTS, seeds, PLAN_TIME_S, quiet)
    os.makedirs(out, exist_ok=True)
    ablation.show(rows)
    print(ablation.write(rows, out))
    return DELIVERED


def _draw(out, rows, found):
    """All figures, into the folder."""
    def save(name, figure):
        charts.save(figure, os.path.join(out, name))

    over_delta = [{**row, "x": row["delta_periods"]} for row in rows]

    def panels(texts):
        return [[(f"{name}, s = {switches}", [row for row in over_delta if row["demand"] == text
                                              and row["switches"] == switches]) for name, text in texts]
                for switches in (2, 4)]

    def title(name):
        return f"{name}, n = {PAPER_HOSTS[name]}"

    plain = [(title(name), name) for name in PAPER_HOSTS]
    axes = "reconfiguration delay δ / period", "makespan / period"
    save("makespan", charts.lines(panels(plain), COMPARED, *axes))
    save("equalize", charts.lines(panels(plain), ("spectra", "spectra-no-equalize"), *axes))
    save("plus", charts.lines(panels(plain), ("spectra", *PLUS), *axes))
    save("others", charts.lines(panels(plain), ("spectra", *OTHERS), *axes, log_y=True))
    noisy = [(f"{name}, noise {noise}", name + suffix) for name in ("gpt", "benchmark") for noise, suffix in NOISES.items()]
    save("noise", charts.lines(panels(noisy), COMPARED, *axes))
    by_flows = [{**row, "x": row["flows"]} for row in rows if row["demand"].startswith("benchmark:flows=")]
    save("sparsity", charts.lines(
        [[(f"{title('benchmark')}, s = {switches}, δ = {SPARSITY_DELTA:g}",
           [row for row in by_flows if row["switches"] == switches]) for switches in (2, 4)]],
        COMPARED, "flows a port", "makespan / period", log_x=False))
    save("demands", charts.heatmaps([(title(name), found[name, PAPER_HOSTS[name]].generate(0)) for name in PAPER_HOSTS]))


def _ratios(rows):
    """(workload, scheduler, switches or 'all', mean makespan over that of Spectra, mean over the bound, published)."""
    for name in PAPER_HOSTS:
        mine = [row for row in rows if row["demand"] == name]
        of_spectra = {_matrix(row): row["makespan_periods"] for row in mine if row["scheduler"] == "spectra"}
        for scheduler in dict.fromkeys(row["scheduler"] for row in mine):
            for switches in (2, 4, None):
                some = [row for row in mine if row["scheduler"] == scheduler and switches in (None, row["switches"])]
                yield (name, scheduler, switches or "all",
                       float(np.mean([row["makespan_periods"] / of_spectra[_matrix(row)] for row in some])),
                       float(np.mean([row["makespan_over_bound"] for row in some])),
                       PUBLISHED.get((name, scheduler.removesuffix("-even")), "") if switches is None else "")


def _matrix(row):
    """What two rows have in common that schedule the same matrix on the same switches."""
    return row["seed"], row["switches"], row["delta_periods"]


_COLUMNS = ("workload", "scheduler", "switches", "makespan_over_spectra", "makespan_over_bound", "published_over_spectra")


def _write_ratios(path, ratios):
    with whole(path) as part, open(part, "w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(_COLUMNS)
        writer.writerows(ratios)


def _print(ratios):
    table = Table("workload", "scheduler", "/ spectra", "s = 2", "s = 4", "published", "/ lower bound", box=None)
    shown = {(name, scheduler, switches): (over, bound, published)
             for name, scheduler, switches, over, bound, published in ratios}
    for name, scheduler in dict.fromkeys(key[:2] for key in shown):
        over, bound, published = shown[name, scheduler, "all"]
        table.add_row(name, scheduler, f"{over:.3f}", *(f"{shown[name, scheduler, s][0]:.3f}" for s in (2, 4)), published,
                      f"{bound:.3f}")
    Console(highlight=False, width=None if sys.stdout.isatty() else 110).print(table)


if __name__ == "__main__":
    sys.exit(main())
