"""What each step of spectra-plus is worth: its makespans without that step, on one core, one after the other."""

import csv
import os
import sys

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from controller.scheduling.bounds import lower_bound_s
from controller.scheduling.spectra import spectra
from controller.scheduling.spectra_plus import STEPS, spectra_plus
from testbed import workloads
from testbed.files import whole

SWITCHES, DELTAS = (2, 4, 8), (0.001, 0.01, 0.04, 0.1)
FIRST_SEED = 900


def ablate(hosts, seeds, plan_time_s, quiet):
    """Mean makespan over the lower bound, of Spectra, of spectra-plus, and of spectra-plus without each step.

    Parameters
    ----------
    hosts : dict of str to int
        Workloads, and for how many hosts each.
    seeds : int
        Matrices a cell.
    plan_time_s : float
    quiet : bool

    Returns
    -------
    list of dict
        A row for each workload, number of switches and δ (in periods); a column for each variant.
    """
    cells = [(name, switches, delta) for name in hosts for switches in SWITCHES for delta in DELTAS]
    rows = []
    for name, switches, delta in track(cells, "ablation", console=Console(stderr=True), disable=quiet or not sys.stderr.isatty()):
        ratios = {}
        for seed in range(FIRST_SEED, FIRST_SEED + seeds):
            matrix = workloads.generate(name, hosts[name], seed)
            bound = lower_bound_s(matrix, switches, delta)
            variants = {"spectra": spectra(matrix, switches, delta)}
            for step in (None, *STEPS):
                label = f"no {step}" if step else "spectra-plus"
                variants[label] = spectra_plus(matrix, switches, delta, plan_time_s=plan_time_s, without=(step,) if step else ())
            for label, schedule in variants.items():
                ratios.setdefault(label, []).append(schedule.makespan_s / bound)
        rows.append({"workload": name, "switches": switches, "delta_periods": delta,
                     **{label: float(np.mean(values)) for label, values in ratios.items()}})
    return rows


def write(rows, folder):
    """Write the table as ablation.csv; returns its path."""
    path = os.path.join(folder, "ablation.csv")
    with whole(path) as part, open(part, "w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def show(rows):
    """Print the table: makespans over the lower bound, and means over all cells in the last row."""
    variants = list(rows[0])[3:]
    table = Table("workload", "s", "δ", *variants, box=None)
    for row in rows:
        table.add_row(row["workload"], str(row["switches"]), f"{row['delta_periods']:g}", *(f"{row[name]:.4f}" for name in variants))
    table.add_row("mean", "", "", *(f"{np.mean([row[name] for row in rows]):.4f}" for name in variants))
    Console(highlight=False, width=None if sys.stdout.isatty() else 140).print(table)
