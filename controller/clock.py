"""The one clock of the machine, CLOCK_MONOTONIC, as a value that players and agents are given."""

import time


class MonotonicClock:
    """Real time: absolute seconds on CLOCK_MONOTONIC, the same in every process of the machine."""

    @staticmethod
    def now():
        """Seconds."""
        return time.monotonic()

    @staticmethod
    def sleep_until(deadline_s):
        """Sleep to an absolute time; returns at once where it is past."""
        while (rest_s := deadline_s - time.monotonic()) > 0:
            time.sleep(rest_s)
