"""What the machine does meanwhile: CPU time, by the whole and by process."""

import os
import time
from dataclasses import dataclass

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class CpuTimes:
    """CPU time since boot, in seconds: of all cores, and of each watched group of processes."""

    total_s: float
    idle_s: float
    steal_s: float
    groups_s: dict


def read_cpu_times(groups):
    """Read the counters.

    Parameters
    ----------
    groups : dict of str to iterable of int
        Process ids by name of a group.

    Returns
    -------
    CpuTimes
    """
    with open("/proc/stat", encoding="ascii") as stream:
        ticks = [int(field) for field in stream.readline().split()[1:9]]
    return CpuTimes(sum(ticks) / _TICKS_PER_S, (ticks[3] + ticks[4]) / _TICKS_PER_S, ticks[7] / _TICKS_PER_S,
                    {name: sum(_process_s(pid) for pid in pids) for name, pids in groups.items()})


def _process_s(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stream:
            fields = stream.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def cpu_load(before, after):
    """Load between two readings.

    Returns
    -------
    dict
        `cores`; `busy` and `steal` as fractions of all cores; `of_core`: by group, in cores.
    """
    elapsed_s = max(after.total_s - before.total_s, 1e-9)
    cores = os.cpu_count() or 1
    return {
        "cores": cores,
        "busy": 1 - (after.idle_s - before.idle_s) / elapsed_s,
        "steal": (after.steal_s - before.steal_s) / elapsed_s,
        "of_core": {name: (after.groups_s[name] - value_s) / elapsed_s * cores
                    for name, value_s in before.groups_s.items()},
    }


def clock_distance_s():
    """CLOCK_BOOTTIME less CLOCK_MONOTONIC: it grows while the machine is suspended, and at no other time."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()
