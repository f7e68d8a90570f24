"""The datagram on the wire: a header of 32 bytes, then payload bytes of the pair.

Header, big-endian: magic (4: `SPXD` data, `SPXP` probe), run (4), sequence number (4), source host (2), destination
host (2), offset into the pair's bytes (8), payload size (4), CRC-32 of the header before it and of the payload (4).
"""

import struct
import zlib

import numpy as np

DATA, PROBE = b"SPXD", b"SPXP"
_HEADER = struct.Struct("!4sIIHHQI")
_CRC = struct.Struct("!I")
HEADER_BYTES = _HEADER.size + _CRC.size
UDP_PORT = 5001
_PATTERN_BYTES = 1 << 20
_LARGEST_PAYLOAD_BYTES = 9000


def pattern(seed):
    """Random bytes that all payloads are slices of.

    Parameters
    ----------
    seed : int

    Returns
    -------
    memoryview
    """
    return memoryview(np.random.default_rng(seed).bytes(_PATTERN_BYTES + _LARGEST_PAYLOAD_BYTES))


def payload(pattern_bytes, source, destination, offset, size_bytes):
    """The bytes that pair (source, destination) has at an offset, as a slice of the pattern."""
    start = (offset + 7919 * source + 104729 * destination) % _PATTERN_BYTES
    return pattern_bytes[start:start + size_bytes]


def header(magic, run, sequence, source, destination, offset, content):
    """The header of a datagram, with the checksum over itself and its payload."""
    head = _HEADER.pack(magic, run, sequence, source, destination, offset, len(content))
    return head + _CRC.pack(zlib.crc32(content, zlib.crc32(head)))


def parse(datagram):
    """Take a datagram apart.

    Parameters
    ----------
    datagram : bytes-like

    Returns
    -------
    tuple or None
        (magic, run, sequence, source, destination, offset, size_bytes), or None where the checksum, the size or the
        magic is wrong.
    """
    if len(datagram) < HEADER_BYTES:
        return None
    fields = _HEADER.unpack_from(datagram)
    if fields[0] not in (DATA, PROBE) or fields[6] != len(datagram) - HEADER_BYTES:
        return None
    checksum = zlib.crc32(datagram[HEADER_BYTES:], zlib.crc32(datagram[:_HEADER.size]))
    return fields if _CRC.unpack_from(datagram, _HEADER.size)[0] == checksum else None
