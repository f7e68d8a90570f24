"""The datagram's format: what was packed is read back, and damage is noticed."""

import struct
import zlib

import pytest
from hypothesis import given, strategies as st

from testbed import wire

CONTENT = b"payload of a pair"
DATAGRAM = wire.header(wire.DATA, 0xDEADBEEF, 7, 3, 65000, 2**40, CONTENT) + CONTENT


def test_header_is_32_bytes():
    assert wire.HEADER_BYTES == 32
    assert len(DATAGRAM) == 32 + len(CONTENT)


@given(st.sampled_from([wire.DATA, wire.PROBE]), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1),
       st.integers(0, 2**16 - 1), st.integers(0, 2**16 - 1), st.integers(0, 2**64 - 1), st.binary(max_size=100))
def test_round_trip(magic, run, sequence, source, destination, offset, content):
    datagram = wire.header(magic, run, sequence, source, destination, offset, content) + content
    assert wire.parse(datagram) == (magic, run, sequence, source, destination, offset, len(content))


def test_memoryview_is_parsed_like_bytes():
    """The receiver reads into one buffer and parses a view of it."""
    assert wire.parse(memoryview(bytearray(DATAGRAM))) == wire.parse(DATAGRAM)


def test_probe_has_no_payload():
    assert wire.parse(wire.header(wire.PROBE, 1, 2, 3, 4, 0, b"")) == (wire.PROBE, 1, 2, 3, 4, 0, 0)


@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_any_damaged_byte_is_noticed(mask):
    for place in range(len(DATAGRAM)):
        damaged = bytearray(DATAGRAM)
        damaged[place] ^= mask
        assert wire.parse(damaged) is None


def test_truncated_is_noticed():
    assert all(wire.parse(DATAGRAM[:length]) is None for length in range(len(DATAGRAM)))


def test_extended_is_noticed():
    assert wire.parse(DATAGRAM + b"\0") is None


def test_wrong_size_is_refused_though_the_checksum_is_right():
    head = struct.pack("!4sIIHHQI", wire.DATA, 1, 2, 3, 4, 0, 5)
    datagrams = [head + struct.pack("!I", zlib.crc32(head + content)) + content for content in (b"five!", b"six...")]
    assert [wire.parse(datagram) is None for datagram in datagrams] == [False, True]


def test_foreign_magic_is_refused_though_its_checksum_is_right():
    assert wire.parse(wire.header(b"SPXQ", 1, 2, 3, 4, 0, b"")) is None


def test_payloads_of_a_pair_join_without_a_gap():
    random_bytes = wire.pattern(1)
    whole = wire.payload(random_bytes, 2, 3, 1000, 300)
    assert bytes(whole) == b"".join(wire.payload(random_bytes, 2, 3, 1000 + k, 100) for k in (0, 100, 200))


def test_payload_is_whole_wherever_its_offset_is():
    random_bytes = wire.pattern(1)
    for offset in (0, 2**20 - 1, 2**20, 2**40 + 12345):
        assert len(wire.payload(random_bytes, 4095, 4094, offset, 8940)) == 8940


def test_payloads_of_other_pairs_and_seeds_differ():
    one = wire.payload(wire.pattern(1), 0, 1, 0, 50)
    assert one != wire.payload(wire.pattern(1), 2, 1, 0, 50)
    assert one != wire.payload(wire.pattern(1), 0, 2, 0, 50)
    assert one != wire.payload(wire.pattern(2), 0, 1, 0, 50)
    assert one == wire.payload(wire.pattern(1), 0, 1, 0, 50)
