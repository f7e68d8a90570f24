"""Times, rates and sizes, read and written."""

import pytest

from testbed.units import format_bytes, format_rate, format_time, parse_rate_bps, parse_time_s


@pytest.mark.parametrize("text, seconds", [
    ("20ms", 0.020), ("20 ms", 0.020), (" 1.5s ", 1.5), ("250us", 250e-6), ("250µs", 250e-6), ("10ns", 10e-9),
    ("2min", 120.0), ("1e-3s", 0.001), (".5s", 0.5), ("5.s", 5.0), ("3", 3.0), (3, 3.0), (0.25, 0.25),
    ("20MS", 0.020), ("-1ms", -0.001), ("0", 0.0),
])
def test_time(text, seconds):
    assert parse_time_s(text) == pytest.approx(seconds, rel=1e-15)


@pytest.mark.parametrize("text, bps", [
    ("20Mbit", 20e6), ("20 Mbit", 20e6), ("20Mbit/s", 20e6), ("20Mbps", 20e6), ("20mbit", 20e6), ("1.5Gbit", 1.5e9),
    ("64kbit", 64e3), ("1Tbit", 1e12), ("800bit", 800.0), ("800bps", 800.0), ("1e6", 1e6), (1000000, 1e6),
])
def test_rate(text, bps):
    assert parse_rate_bps(text) == pytest.approx(bps, rel=1e-15)


@pytest.mark.parametrize("parse", [parse_time_s, parse_rate_bps])
@pytest.mark.parametrize("text", [
    "", " ", "fast", "nan", "inf", "ms", "--5", "1 2", "1,5", "0x10", "1e400", None, True, [1], {},
    float("nan"), float("inf"), pytest.param(10**400, id="10**400"),
])
def test_what_is_no_quantity_is_refused_in_one_line_that_gives_an_example(parse, text):
    with pytest.raises(ValueError) as caught:
        parse(text)
    assert "write " in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unknown_unit_of_time_lists_the_units():
    with pytest.raises(ValueError, match="'20fortnights' has the unit 'fortnights', .* ns, us, µs, ms, s, min$"):
        parse_time_s("20fortnights")


def test_unknown_unit_of_rate_lists_the_units():
    with pytest.raises(ValueError, match="'20MB' has the unit 'MB', .* bit, kbit, Mbit, Gbit, Tbit$"):
        parse_rate_bps("20MB")


@pytest.mark.parametrize("text", ["20ps", "20MB/s"])
def test_unknown_unit_of_rate_is_quoted_as_it_was_written(text):
    with pytest.raises(ValueError) as caught:
        parse_rate_bps(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("seconds, text", [
    (None, "-"), (0, "0 s"), (1, "1 s"), (12.3456, "12.35 s"), (0.02, "20 ms"), (0.0012345, "1.234 ms"),
    (5e-6, "5 µs"), (2e-9, "2 ns"), (-0.003, "-3 ms"),
])
def test_format_time(seconds, text):
    assert format_time(seconds) == text


@pytest.mark.parametrize("bps, text", [
    (10e6, "10 Mbit/s"), (1.5e9, "1.5 Gbit/s"), (64e3, "64 kbit/s"), (2e12, "2 Tbit/s"), (800, "800 bit/s")])
def test_format_rate(bps, text):
    assert format_rate(bps) == text


@pytest.mark.parametrize("size_bytes, text", [(0, "0 B"), (999, "999 B"), (1234567, "1,234,567 B")])
def test_format_bytes_shows_all_digits(size_bytes, text):
    assert format_bytes(size_bytes) == text
