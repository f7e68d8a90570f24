"""A rotor: a fixed cycle of permutations, blind to the demand.

W. M. Mellette, R. McGuinness, A. Roy, A. Forencich, G. Papen, A. C. Snoeren, G. Porter, "RotorNet: A Scalable,
Low-complexity, Optical Datacenter Network", SIGCOMM 2017.
"""

import math

import numpy as np

from controller.scheduling.schedule import Schedule, Slot

# A rotor is held nine times as long as it takes to turn: RotorNet's duty cycle of 90 %.
_HELD = 9
_MOST_CYCLES = 1000


def rotor(demand_s, switches, delta_s):
    """A blind round robin: all shifts by 1 … n−1, dealt out to the switches, in as many cycles as the demand needs.

    Parameters
    ----------
    demand_s : array_like, shape (n, n)
        Seconds of link time; only the number of cycles depends on it.
    switches : int
    delta_s : float

    Returns
    -------
    Schedule
        Every slot is 9 δ long, or so long that a thousand cycles are enough.

    Notes
    -----
    Departs from RotorNet, which also sends by way of third hosts (Valiant's load balancing): here all traffic takes
    its own circuit. What a host sends to itself, if anything, takes a shift by 0.
    """
    demand_s = np.asarray(demand_s, dtype=float)
    n = len(demand_s)
    largest_s = demand_s.max(initial=0)
    slot_s = max(_HELD * delta_s, largest_s / _MOST_CYCLES)
    cycles = min(_MOST_CYCLES, math.ceil(largest_s / slot_s)) if largest_s else 0
    first = 0 if demand_s.diagonal().any() else 1
    slots = [Slot(tuple((np.arange(n) + shift) % n), slot_s) for shift in range(first, n)] if cycles else []
    return Schedule(float(delta_s), tuple(tuple(slots[switch::switches]) * cycles for switch in range(switches)))
