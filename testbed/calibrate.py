"""Measure what this machine can emulate honestly, and keep it for the runs to come.

    sudo .venv/bin/python testbed/calibrate.py
"""

import sys

from rich.console import Console
from rich.table import Table

from testbed import calibration
from testbed.errors import DELIVERED, Parser, UserError, exit_status
from testbed.lock import alone
from testbed.run import check_machine, isolated_run
from testbed.settings import Settings


def main(arguments=None):
    """Measure, keep, and print; returns the exit status."""
    return exit_status("calibrate.py", lambda: _calibrate(arguments))


def _calibrate(arguments):
    parser = Parser("testbed/calibrate.py", __doc__.splitlines()[0])
    parser.add_argument("--show", action="store_true", help="print what is kept, and measure nothing")
    parser.add_argument("--if-missing", action="store_true", help="measure only where nothing is kept")
    parser.add_argument("--datapath", metavar="NAME", choices=("kernel", "user"), help="only kernel or user (default: all there are)")
    options = parser.parse_args(arguments)
    settings = Settings(datapath=options.datapath)

    def say(text):
        print(text, file=sys.stderr, flush=True)

    kept = calibration.load(options.datapath) if options.show or options.if_missing else None
    if options.show and kept is None:
        raise UserError("nothing is kept for this machine and these versions; run it without --show")
    if kept is None:
        check_machine(settings)
        with alone(False, say):
            kept = calibration.measure_machine(isolated_run, say, options.datapath, options.if_missing)
    for datapath in calibration.datapaths(options.datapath):
        show(calibration.load(datapath), kept.datapath)
    return DELIVERED


def show(kept, chosen):
    """Print a calibration, and whether a run chooses its datapath."""
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 110)
    console.print(f"{kept.datapath} datapath" + (" (a run chooses it)" if kept.datapath == chosen else ""))
    table = Table("hosts × switches", "dark after (p50/p99)", "lit after (p50/p99)", "dark interval ± (p95)",
                  "send late (p50/p99)", "packets/s without loss", box=None)
    for trial in kept.trials:
        table.add_row(
            f"{trial.hosts} × {trial.switches}", _ms(trial.down_p50_s, trial.down_p99_s),
            _ms(trial.up_p50_s, trial.up_p99_s), _ms(trial.dark_error_p95_s),
            _ms(trial.sender_late_p50_s, trial.sender_late_p99_s), f"{trial.packets_per_s:,.0f}")
    console.print(table)
    console.print("smallest honest δ " + ", ".join(f"{kept.smallest_delta_s(trial.hosts) * 1e3:.1f} ms at {trial.hosts}"
                                                   for trial in kept.trials)
                  + f" hosts; largest hosts × switches {kept.most_links}")
    console.print(f"[dim]for {kept.machine}, kept in {calibration.cache_path(kept.datapath)}[/dim]", soft_wrap=True)


def _ms(*values_s):
    return " / ".join(f"{value_s * 1e3:.2f}" for value_s in values_s) + " ms"


if __name__ == "__main__":
    sys.exit(main())
