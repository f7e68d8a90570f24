"""The value `Schedule`: what each parallel optical circuit switch plays, and for how long."""

import json
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

# Coverage is compared to this, in seconds of link time: far below one byte, far above rounding of doubles.
COVER_TOLERANCE_S = 1e-9


@dataclass(frozen=True)
class Slot:
    """One permutation held for a time.

    Parameters
    ----------
    permutation : tuple of int, length n
        `permutation[i]` is the output that input i is connected to, -1 where input i is dark.
    duration_s : float
        How long it is held, the reconfiguration delay before it not included; α in the paper.
    """

    permutation: tuple[int, ...]
    duration_s: float

    def circuits(self):
        """The lit (input, output) pairs, by rising input."""
        return [(i, j) for i, j in enumerate(self.permutation) if j >= 0]


@dataclass(frozen=True)
class Window:
    """When a slot is played, in seconds from the epoch: dark from `dark_s` to `lit_s`, lit from there to `end_s`."""

    dark_s: float
    lit_s: float
    end_s: float


@dataclass(frozen=True)
class Schedule:
    """A sequence of slots for each switch, with the reconfiguration delay before every slot (paper, section II).

    Parameters
    ----------
    delta_s : float
        Reconfiguration delay δ in seconds, paid before each slot, the first one included.
    switches : tuple of tuple of Slot
        `switches[h]` is what switch h plays, in order; it may be empty.

    Raises
    ------
    ValueError
        A permutation that is none, a duration that is not positive, or slots of different sizes; the message
        names the switch and the slot.
    """

    delta_s: float
    switches: tuple[tuple[Slot, ...], ...]

    def __post_init__(self):
        if not (math.isfinite(self.delta_s) and self.delta_s >= 0):
            raise ValueError(f"delta_s is {self.delta_s}: it must be a finite number of seconds, zero or more")
        if not self.switches:
            raise ValueError("a schedule needs at least one switch")
        ports = self.ports
        for h, slots in enumerate(self.switches):
            for k, slot in enumerate(slots):
                _check_slot(slot, ports, f"switch {h}, slot {k}")

    @property
    def ports(self):
        """Number of ports n of each switch; 0 for a schedule without slots."""
        return next((len(slot.permutation) for slots in self.switches for slot in slots), 0)

    @cached_property
    def loads_s(self):
        """Load of each switch in seconds: the sum of δ + α over its slots (paper, eq. 4)."""
        return tuple(sum(self.delta_s + slot.duration_s for slot in slots) for slots in self.switches)

    @property
    def makespan_s(self):
        """The largest load, in seconds (paper, eq. 4)."""
        return max(self.loads_s)

    def windows(self, switch):
        """The `Window` of each slot of a switch, by absolute times from the epoch.

        Parameters
        ----------
        switch : int
            Index of the switch.

        Returns
        -------
        list of Window
        """
        windows, now_s = [], 0.0
        for slot in self.switches[switch]:
            lit_s = now_s + self.delta_s
            windows.append(Window(now_s, lit_s, lit_s + slot.duration_s))
            now_s = windows[-1].end_s
        return windows

    def coverage_s(self, ports=None):
        """Seconds of link time that the schedule gives to each pair: Σ_h Σ_i α·P (left side of eq. 3).

        Parameters
        ----------
        ports : int, optional
            Size of the result, for a schedule without slots; by default that of the schedule.

        Returns
        -------
        ndarray, shape (n, n)
        """
        n = self.ports or ports or 0
        coverage_s = np.zeros((n, n))
        for slots in self.switches:
            for slot in slots:
                outputs = np.asarray(slot.permutation)
                inputs = np.flatnonzero(outputs >= 0)
                coverage_s[inputs, outputs[inputs]] += slot.duration_s
        return coverage_s

    def covers(self, demand_s):
        """Whether the schedule carries all of the demand (paper, eq. 3), to a billionth of a second.

        Parameters
        ----------
        demand_s : array_like, shape (n, n)
            Seconds of link time from input i to output j.
        """
        demand_s = np.asarray(demand_s)
        coverage_s = self.coverage_s(len(demand_s))
        return coverage_s.shape == demand_s.shape and bool(np.all(coverage_s >= demand_s - COVER_TOLERANCE_S))

    def lit_only_where(self, wanted):
        """The same schedule with every circuit dark that carries no demand.

        Parameters
        ----------
        wanted : array_like of bool, shape (n, n)
            Where a circuit may be lit.
        """
        wanted = np.asarray(wanted)

        def masked(slot):
            return Slot(tuple(j if j >= 0 and wanted[i, j] else -1 for i, j in enumerate(slot.permutation)),
                        slot.duration_s)

        return Schedule(self.delta_s, tuple(tuple(masked(slot) for slot in slots) for slots in self.switches))

    def to_json(self):
        """The schedule as JSON text: `{"delta_s": …, "switches": [[{"permutation": […], "duration_s": …}]]}`."""
        switches = [[{"permutation": [int(j) for j in slot.permutation], "duration_s": float(slot.duration_s)}
                     for slot in slots]
                    for slots in self.switches]
        return json.dumps({"delta_s": float(self.delta_s), "switches": switches})

    @classmethod
    def from_json(cls, text):
        """Read what `to_json` wrote.

        Raises
        ------
        ValueError
            The text is no JSON, or no schedule.
        """
        value = json.loads(text)
        try:
            switches = tuple(
                tuple(Slot(tuple(slot["permutation"]), slot["duration_s"]) for slot in slots)
                for slots in value["switches"])
            return cls(value["delta_s"], switches)
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"this is no schedule ({type(error).__name__}: {error}); expected "
                             '{"delta_s": …, "switches": [[{"permutation": […], "duration_s": …}]]}') from None


def _check_slot(slot, ports, where):
    permutation = slot.permutation
    if len(permutation) != ports:
        raise ValueError(f"{where}: {len(permutation)} inputs, but the first slot has {ports}")
    for i, j in enumerate(permutation):
        if not isinstance(j, (int, np.integer)) or isinstance(j, bool) or not -1 <= j < ports:
            raise ValueError(f"{where}: input {i} goes to {j!r}, which is neither an output nor -1 (dark)")
    lit = [j for j in permutation if j >= 0]
    if len(set(lit)) != len(lit):
        twice = next(j for j in lit if lit.count(j) > 1)
        raise ValueError(f"{where}: output {twice} is connected to more than one input")
    if not (math.isfinite(slot.duration_s) and slot.duration_s > 0):
        raise ValueError(f"{where}: duration_s is {slot.duration_s}: it must be positive and finite")
