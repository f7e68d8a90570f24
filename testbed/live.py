"""What a terminal shows while a schedule is played: each switch's slot, and what has been delivered. Cheap on purpose."""

import contextlib
import threading
import time

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from testbed.units import format_bytes, format_time

EVERY_S = 0.25


@contextlib.contextmanager
def watch(plan, ledger, epoch_s, console=None):
    """Inside the block, a thread draws the view a few times a second.

    Parameters
    ----------
    plan : Plan
    ledger : Ledger
    epoch_s : float
        On CLOCK_MONOTONIC.
    console : rich.console.Console, optional
        By default standard error.
    """
    windows = [plan.schedule.windows(h) for h in range(len(plan.schedule.switches))]
    done = threading.Event()
    live = Live(console=console or Console(stderr=True), auto_refresh=False, transient=True)

    def draw():
        while not done.wait(EVERY_S):
            live.update(view(plan, windows, ledger, time.monotonic() - epoch_s), refresh=True)

    thread = threading.Thread(target=draw, daemon=True)
    with live:
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


def view(plan, windows, ledger, now_s):
    """The view at an instant.

    Parameters
    ----------
    plan : Plan
    windows : list of list of Window
        Of each switch.
    ledger : Ledger
    now_s : float
        Seconds from the epoch.

    Returns
    -------
    rich.table.Table
    """
    delivered = int(plan.datagrams.size_bytes[ledger.arrived_s > 0].sum())
    demanded = int(plan.demand_bytes.sum())
    left_s = plan.schedule.makespan_s - now_s
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for h, mine in enumerate(windows):
        table.add_row(f"o{h + 1}", *_slot(mine, now_s))
    table.add_row("delivered", f"{format_bytes(delivered)} of {format_bytes(demanded)}", _bar(delivered / demanded),
                  f"{delivered / demanded:.0%}")
    table.add_row("computed makespan", f"in {left_s:.1f} s" if left_s > 0 else f"over by {format_time(-left_s)}")
    return table


def _slot(windows, now_s):
    """What a switch does at an instant: text, bar, what is left of the slot."""
    for k, window in enumerate(windows):
        if now_s < window.end_s:
            dark = now_s < window.lit_s
            share = max(0.0, now_s - window.dark_s) / (window.end_s - window.dark_s)
            return (f"slot {k + 1} of {len(windows)}{', dark' if dark else ''}", _bar(share),
                    f"{window.end_s - max(now_s, 0.0):.1f} s left")
    return f"{len(windows)} slots played", _bar(1.0), ""


def _bar(share):
    return ProgressBar(total=1.0, completed=min(1.0, share), width=30)
