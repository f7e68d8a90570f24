"""Probes: small datagrams on one circuit of a switch around each change, by which the data plane itself tells when it
went dark and when it was lit. Beside the data, they are the only packets that are sent while a switch must be dark.
"""

from dataclasses import dataclass

import numpy as np

# Each packet that arrives alone costs Open vSwitch a whole round of its main loop, 0.1 to 0.2 ms: denser probes on four
# switches that change at one instant would make them late.
STEP_S = 0.001
BEFORE_S = 0.001  # from this long before a planned change …
AFTER_S = 0.006  # … to this long after it
SPARSE_STEP_S = 0.004  # in the rest of the dark interval
_GOLDEN = 0.618033988749895


@dataclass(frozen=True)
class Probes:
    """Probes of one schedule, sorted by time; arrays of the same length, index = sequence number.

    `slot` and `after` tell the change that a probe watches: the end of the slot (`after` True: sent on its circuit, to
    see it go dark) or its beginning (`after` False: to see it lit).
    """

    switch: np.ndarray
    slot: np.ndarray
    after: np.ndarray
    source: np.ndarray
    destination: np.ndarray
    release_s: np.ndarray

    def __len__(self):
        return len(self.switch)


def plan_probes(schedule):
    """Probes for each change of each switch: one circuit a change, another input each time.

    Parameters
    ----------
    schedule : Schedule

    Returns
    -------
    Probes
    """
    rows = []
    for h, slots in enumerate(schedule.switches):
        windows = schedule.windows(h)
        for k, (slot, window) in enumerate(zip(slots, windows)):
            circuits = slot.circuits()
            if not circuits:
                continue
            i, j = circuits[(k + h) % len(circuits)]
            length_s = window.end_s - window.lit_s
            dark_s = schedule.delta_s if k + 1 < len(slots) else 2 * AFTER_S
            # Another phase each time, so that over many changes the step averages out.
            phase_s = (2 * k + 7 * h) * _GOLDEN % 1.0 * STEP_S
            rising = np.arange(window.lit_s - min(BEFORE_S, schedule.delta_s / 2) + phase_s,
                               window.lit_s + min(AFTER_S, length_s / 2), STEP_S)
            falling = np.concatenate([
                np.arange(window.end_s - min(BEFORE_S, length_s / 2) + phase_s,
                          window.end_s + min(AFTER_S, dark_s / 2), STEP_S),
                np.arange(window.end_s + AFTER_S, window.end_s + dark_s - 2 * BEFORE_S, SPARSE_STEP_S)])
            for after, times in ((False, rising), (True, falling)):
                rows.append((np.full(len(times), h), np.full(len(times), k), np.full(len(times), after),
                             np.full(len(times), i), np.full(len(times), j), times))
    if not rows:
        nothing = np.zeros(0, dtype=np.int64)
        return Probes(nothing, nothing, nothing.astype(bool), nothing, nothing, np.zeros(0))
    columns = [np.concatenate(column) for column in zip(*rows)]
    order = np.argsort(columns[5], kind="stable")
    return Probes(*(column[order] for column in columns))
