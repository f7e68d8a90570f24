"""One measured run at a time on a machine: two would spoil each other's figures."""

import contextlib
import fcntl
import os
import time

from testbed.errors import UserError

PATH = "/run/lock/spectra-testbed.lock"


@contextlib.contextmanager
def alone(no_wait, say):
    """Inside the block, no other measured run goes on.

    Parameters
    ----------
    no_wait : bool
        Refuse instead of waiting.
    say : callable
        `say(text)` tells the user that it waits.

    Raises
    ------
    UserError
        Another run goes on, and `no_wait`.
    """
    os.makedirs(os.path.dirname(PATH), exist_ok=True)
    # The kernel gives the lock back when its holder ends, however it ends: a lock cannot be stale.
    with open(PATH, "a+", encoding="ascii") as stream:
        if not _locked(stream):
            stream.seek(0)
            holder = f"process {stream.read().strip() or 'unknown'}"
            if no_wait:
                raise UserError(f"--no-wait: another measured run is going on ({holder}); wait for it, since two would "
                                "spoil each other's figures")
            say(f"waiting for another measured run to end ({holder})")
            while not _locked(stream):
                time.sleep(0.1)
        stream.seek(0)
        stream.truncate()
        stream.write(str(os.getpid()))
        stream.flush()
        yield


def _locked(stream):
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
