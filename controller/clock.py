"""The one clock of the machine, CLOCK_MONOTONIC, as a value that players and agents are given."""

import contextlib
import ctypes
import os
import threading
import time

_PR_SET_TIMERSLACK = 29
_EXACT_S = 0.002  # the end of a sleep is an ordinary one, which is more exact than waiting for an event


class MonotonicClock:
    """Real time: absolute seconds on CLOCK_MONOTONIC, the same in every process of the machine."""

    def __init__(self):
        self.interrupted = threading.Event()

    @staticmethod
    def now():
        """Seconds."""
        return time.monotonic()

    def sleep_until(self, deadline_s):
        """Sleep to an absolute time; returns at once where it is past. False where the sleep was interrupted."""
        while (rest_s := deadline_s - time.monotonic()) > 0:
            if rest_s < 2 * _EXACT_S:
                time.sleep(rest_s)
            elif self.interrupted.wait(rest_s - _EXACT_S):
                break
        return not self.interrupted.is_set()


def be_punctual(priority=1):
    """Have this thread woken as exactly as the kernel can: no timer slack, and ahead of ordinary threads.

    Only for threads that nearly always sleep: real-time priority would let a busy one starve the switches. Without the
    privilege for it, the thread stays an ordinary one. Of two such threads, the one of higher priority goes first.
    """
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(priority))
