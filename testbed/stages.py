"""The stages of a run, told to the user with their time."""

import time


class Stages:
    """Tells the user each stage when it ends, and keeps how long it took.

    Parameters
    ----------
    say : callable
        `say(text)` tells the user.

    Attributes
    ----------
    seconds : dict of str to float
    """

    def __init__(self, say):
        self.say, self.seconds = say, {}
        self._name, self._start_s = None, 0.0

    def enter(self, name):
        """End the stage that goes on, and begin another; None begins none."""
        now_s = time.monotonic()
        if self._name:
            self.seconds[self._name] = now_s - self._start_s
            self.say(f"{self._name}: {now_s - self._start_s:.2f} s")
        self._name, self._start_s = name, now_s
