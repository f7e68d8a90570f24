"""How long a search may go on: by the clock, or by a number of steps where the result has to be the same each time."""

import time

_MEMORY = 0.98  # how fast the longest step of a kind is forgotten, at each step


class Budget:
    """Time or steps left to a search.

    Parameters
    ----------
    start_s : float
        When it began, by `time.perf_counter`.
    plan_time_s : float
        When it has to be over, counted from then.
    steps : int, optional
        If given, this many steps are allowed, whatever the time.
    """

    def __init__(self, start_s, plan_time_s, steps=None):
        self._start_s, self._end_s, self._steps = start_s, start_s + plan_time_s, steps
        self._taken, self._spent = 0, False
        self._kind, self._since_s, self._longest_s = None, start_s, {}

    @property
    def taken(self):
        """Steps begun so far."""
        return self._taken

    @property
    def spent(self):
        """Whether a step was refused for want of time or steps to the very end."""
        return self._spent

    def share(self):
        """The part of the budget that is used up: 0 at the start, 1 at the end."""
        if self._steps is not None:
            return self._taken / self._steps if self._steps else 1.0
        whole_s = self._end_s - self._start_s
        return (time.perf_counter() - self._start_s) / whole_s if whole_s > 0 else 1.0

    def reserve(self, reserve_s):
        """Be over this much earlier."""
        self._end_s -= reserve_s

    def allows(self, kind, until=1.0):
        """Whether one more step may begin; it lasts until this is asked again.

        Parameters
        ----------
        kind : str
            A step is expected to take as long as others of its kind.
        until : float
            The share of the budget at which it has to end.
        """
        allowed = self._allows(kind, until)
        self._spent = self._spent or until >= 1 and not allowed
        return allowed

    def _allows(self, kind, until):
        if self._steps is not None:
            if self._taken >= until * self._steps:
                return False
            self._taken += 1
            return True
        now_s = time.perf_counter()
        if self._kind is not None:
            self._longest_s[self._kind] = max(now_s - self._since_s, _MEMORY * self._longest_s.get(self._kind, 0.0))
        # The first of a kind: as long as the longest of any.
        expected_s = self._longest_s.get(kind, max(self._longest_s.values(), default=0.0))
        if now_s + expected_s > self._start_s + until * (self._end_s - self._start_s):
            self._kind = None
            return False
        self._kind, self._since_s = kind, now_s
        self._taken += 1
        return True
