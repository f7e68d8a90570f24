"""Times, rates and sizes as people write them: `20ms`, `20Mbit`, `1.5MB`."""

import math
import re

TIME_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0}
RATE_BPS = {"bit": 1.0, "kbit": 1e3, "Mbit": 1e6, "Gbit": 1e9, "Tbit": 1e12}
_QUANTITY = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([^\d\s]*)\s*")


def parse_time_s(text):
    """Seconds from a text such as `20ms`; a plain number is seconds."""
    return _parse(text, TIME_S, "a time", "20ms")


def parse_rate_bps(text):
    """Bit/s from a text such as `20Mbit` (`20Mbit/s` and `20Mbps` also do); a plain number is bit/s."""
    return _parse(text, RATE_BPS, "a rate", "20Mbit")


def _parse(text, units, kind, example):
    """The value in base units; ValueError in one line otherwise."""
    if isinstance(text, bool) or not isinstance(text, (str, int, float)):
        raise ValueError(f"{text!r} is not {kind}: write it like {example}")
    if isinstance(text, (int, float)):
        try:
            value = float(text)
        except OverflowError:
            raise ValueError(f"this number is too large for {kind}: write it like {example}") from None
    else:
        match = _QUANTITY.fullmatch(text)
        if not match:
            raise ValueError(f"{text!r} is not {kind}: write it like {example}")
        factor = 1.0 if not match[2] else _unit(match[2], units, text)
        value = float(match[1]) * factor
    if not math.isfinite(value):
        raise ValueError(f"{text!r} is not finite: write {kind} like {example}")
    return value


def _unit(name, units, text):
    name = re.sub(r"(?:bit/s|bps)$", "bit", name)
    exact = units.get(name)
    if exact is not None:
        return exact
    same = [factor for unit, factor in units.items() if unit.lower() == name.lower()]
    if len(same) == 1:
        return same[0]
    raise ValueError(f"{text!r} has the unit {name!r}, which is unknown here: use one of {', '.join(units)}")


def format_time(seconds):
    """A time with three or four figures and a fitting unit; `-` for None."""
    if seconds is None:
        return "-"
    if seconds == 0:
        return "0 s"
    for unit, factor in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if abs(seconds) >= factor:
            return f"{seconds / factor:.4g} {unit}"
    return f"{seconds / 1e-9:.4g} ns"


def format_rate(rate_bps):
    """A rate with a fitting unit."""
    for unit, factor in (("Tbit/s", 1e12), ("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3)):
        if rate_bps >= factor:
            return f"{rate_bps / factor:.4g} {unit}"
    return f"{rate_bps:.4g} bit/s"


def format_bytes(size_bytes):
    """A size with thousands grouped: counts of bytes are exact, so all digits are shown."""
    return f"{size_bytes:,} B"
