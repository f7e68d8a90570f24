"""Which bytes go in which slot: a demand in bytes and a schedule become datagrams with release times.

Link model: a datagram occupies its circuit for wire bytes / rate. Each slot of a pair carries a share of the pair's
bytes in proportion to its time, cut into equal datagrams. Datagrams are sent in units of about `UNIT_S` of link time: a
unit is released `GUARD_S` before the end of its own place on the link (but not before its middle), so that bytes per slot
are exact, the link rate is kept over each unit, and both ends of a slot, where switches change, have a margin.
"""

from dataclasses import dataclass

import numpy as np

from testbed.wire import HEADER_BYTES

OVERHEAD_BYTES = 14 + 20 + 8 + HEADER_BYTES  # Ethernet, IPv4, UDP, ours
MAX_PAYLOAD_BYTES = 9000 - 20 - 8 - HEADER_BYTES
# The number of datagrams in a slot is rounded, so that one can be half as large again as nominal.
NOMINAL_PAYLOAD_MAX_BYTES = int(MAX_PAYLOAD_BYTES / 1.5)
NOMINAL_PAYLOAD_MIN_BYTES = 64
DATAGRAM_S = 0.002  # link time of a nominal datagram, where the rate and the machine allow it
UNIT_S = 0.010  # link time that is sent at one go
GUARD_S = 0.003
# Sends into one switch keep a common beat: a packet that comes alone costs Open vSwitch a whole round of its main loop,
# more than ten times what another one in the same round costs.
BEAT_S = 0.002
_GOLDEN = 0.618033988749895  # puts the beats of the switches between each other
REPAIR_SLOT_S = 0.020
SHORT_SLOT_S = 0.005
OVERLOAD_MAX = 0.01
_SPARES_MAX = 8  # places for repairs that a slot's circuit offers after its share


@dataclass(frozen=True)
class LinkModel:
    """How bytes become link time.

    Parameters
    ----------
    rate_bps : float
        Rate of each link in bit/s.
    payload_bytes : int
        Payload of a nominal datagram.
    """

    rate_bps: float
    payload_bytes: int

    @classmethod
    def choose(cls, rate_bps, links, packets_per_s):
        """The model for a rate: datagrams of about 2 ms of link time, longer where all links together would send more.

        Parameters
        ----------
        rate_bps : float
        links : int
            Number n × s of links.
        packets_per_s : float
            What the machine can carry with headroom, over all links.
        """
        payload_bytes = int(rate_bps * max(DATAGRAM_S, links / packets_per_s) / 8) - OVERHEAD_BYTES
        return cls(rate_bps, min(max(payload_bytes, NOMINAL_PAYLOAD_MIN_BYTES), NOMINAL_PAYLOAD_MAX_BYTES))

    @property
    def datagram_s(self):
        """Link time of a nominal datagram."""
        return self.wire_s(self.payload_bytes, 1)

    def wire_s(self, payload_bytes, datagrams):
        """Link time of payload bytes in a number of datagrams, headers counted."""
        return (payload_bytes + datagrams * OVERHEAD_BYTES) * 8 / self.rate_bps

    def demand_s(self, demand_bytes):
        """Seconds of link time of each pair, in whole datagrams, headers counted.

        Parameters
        ----------
        demand_bytes : ndarray of int, shape (n, n)

        Returns
        -------
        ndarray, shape (n, n)
        """
        datagrams = -(-demand_bytes // self.payload_bytes)
        return self.wire_s(demand_bytes.astype(float), datagrams)

    def demand_bytes(self, demand_s):
        """Payload bytes whose link time is closest to the given; the inverse of `demand_s` but for rounding.

        Parameters
        ----------
        demand_s : ndarray, shape (n, n)

        Returns
        -------
        ndarray of int, shape (n, n)
            At least one byte where demand_s is positive.
        """
        wire_bytes = demand_s * self.rate_bps / 8
        datagrams = np.ceil(wire_bytes / (self.payload_bytes + OVERHEAD_BYTES) - 1e-9)
        payload = np.rint(wire_bytes - datagrams * OVERHEAD_BYTES).astype(np.int64)
        return np.where(demand_s > 0, np.maximum(payload, 1), 0)


def rate_for(links, packets_per_s):
    """The rate at which the largest nominal datagrams on all links make up a number of packets a second, two digits."""
    rate_bps = (NOMINAL_PAYLOAD_MAX_BYTES + OVERHEAD_BYTES) * 8 / max(DATAGRAM_S, links / packets_per_s)
    unit = 10.0 ** (np.floor(np.log10(rate_bps)) - 1)
    return float(np.floor(rate_bps / unit) * unit)


@dataclass(frozen=True)
class Datagrams:
    """All datagrams of a run; index = sequence number. `source`, `destination`: hosts; `offset`: into the pair's bytes.

    All are arrays of the same length. They are never cut again: a repair sends the same datagram once more.
    """

    source: np.ndarray
    destination: np.ndarray
    offset: np.ndarray
    size_bytes: np.ndarray

    def __len__(self):
        return len(self.source)

    def bytes_by_pair(self, hosts, chosen=slice(None)):
        """Sum of the sizes by pair.

        Returns
        -------
        ndarray of int, shape (hosts, hosts)
        """
        total = np.zeros((hosts, hosts), dtype=np.int64)
        np.add.at(total, (self.source[chosen], self.destination[chosen]), self.size_bytes[chosen])
        return total


@dataclass(frozen=True)
class Releases:
    """Sends of one round, sorted by time: `sequence[k]` leaves over `switch[k]` in `slot[k]` at `release_s[k]`.

    `end_s` is when its place on the link ends. A sequence of -1 is a spare place of the pair (`source`,
    `destination`), to be used where one of its datagrams was lost.
    """

    sequence: np.ndarray
    source: np.ndarray
    destination: np.ndarray
    switch: np.ndarray
    slot: np.ndarray
    release_s: np.ndarray
    end_s: np.ndarray

    def __len__(self):
        return len(self.sequence)


@dataclass(frozen=True)
class Share:
    """What one circuit of a slot carries of its pair: `share_s` of link time from `start_s`, and room after it."""

    switch: int
    slot: int
    start_s: float
    share_s: float
    end_s: float

    @property
    def length_s(self):
        """How long it takes: a share that was made larger by a short slot's keeps to its slot, and goes faster."""
        return min(self.share_s, self.end_s - self.start_s)


def plan(schedule, demand_bytes, link):
    """Cut a demand into datagrams and give each its place in the schedule.

    Parameters
    ----------
    schedule : Schedule
        It covers `link.demand_s(demand_bytes)`.
    demand_bytes : ndarray of int, shape (n, n)
    link : LinkModel

    Returns
    -------
    datagrams : Datagrams
    releases : Releases
    """
    return cut(share_out(schedule, link.demand_s(demand_bytes)), demand_bytes, link)


def cut(shares, demand_bytes, link):
    """Cut what each circuit carries into datagrams; see `plan`.

    Parameters
    ----------
    shares : dict of (int, int) to list of Share
        As `share_out` returns it.
    demand_bytes : ndarray of int, shape (n, n)
    link : LinkModel

    Returns
    -------
    datagrams : Datagrams
    releases : Releases
    """
    rows, places = _Rows(), _Places()
    for (i, j), parts in shares.items():
        total_s, total_bytes = sum(part.share_s for part in parts), int(demand_bytes[i, j])
        done_s, done_bytes = 0.0, 0
        for part in parts:
            if part.share_s > 0:
                done_s += part.share_s
                # Cumulative rounding: the shares of a pair add up to its bytes, exactly.
                upto = min(round(total_bytes * done_s / total_s), total_bytes)
                sizes = _equal_parts(upto - done_bytes, max(1, round(part.share_s / link.datagram_s)))
                first = rows.add(i, j, done_bytes + np.cumsum(sizes) - sizes, sizes)
                done_bytes = upto
                places.add(range(first, first + len(sizes)), i, j, part.switch, part.slot, part.start_s, part.length_s)
            spare_start_s = part.start_s + part.length_s
            spares = min(_SPARES_MAX, int((part.end_s - spare_start_s) / UNIT_S))
            places.add([-1] * spares, i, j, part.switch, part.slot, spare_start_s, spares * UNIT_S)
    return rows.datagrams(), places.releases()


def rounding(shares, demand_bytes, link):
    """The largest part of a slot by which whole datagrams miss the share of link time they stand for.

    Bytes are cut exactly; only the headers of a share come out a little more or less than in the demand. Slots that are
    too short to be judged are left out.

    Returns
    -------
    float
        A fraction: 0.001 is a thousandth of a slot.
    """
    worst = 0.0
    for (i, j), parts in shares.items():
        total_s = sum(part.share_s for part in parts)
        for part in parts:
            if part.share_s > 0 and part.end_s - part.start_s >= UNIT_S:
                datagrams = max(1, round(part.share_s / link.datagram_s))
                wire_s = link.wire_s(float(demand_bytes[i, j]) * part.share_s / total_s, datagrams)
                worst = max(worst, abs(wire_s - part.share_s) / (part.end_s - part.start_s))
    return worst


def last_byte_s(shares):
    """When the last byte arrives if all goes ideally, in seconds from the epoch."""
    return max((part.start_s + part.length_s for parts in shares.values() for part in parts if part.share_s > 0),
               default=0.0)


def share_out(schedule, demand_s):
    """What each circuit carries of its pair's demand, earliest circuits first.

    A slot shorter than `SHORT_SLOT_S` cannot be emulated faithfully: Open vSwitch takes up to 5 ms to change twice.
    Its share goes to the pair's largest share, where that then exceeds the link rate by `OVERLOAD_MAX` at most.

    Parameters
    ----------
    schedule : Schedule
    demand_s : ndarray, shape (n, n)

    Returns
    -------
    dict of (int, int) to list of Share
        By pair, in the order of time.
    """
    rest_s = demand_s.copy()
    places = {}
    for switch, slot, window, (i, j) in _circuits_in_time(schedule):
        share_s = min(rest_s[i, j], window.end_s - window.lit_s)
        rest_s[i, j] -= share_s
        if 0 < rest_s[i, j] < 1e-9:
            share_s, rest_s[i, j] = share_s + rest_s[i, j], 0.0
        places.setdefault((i, j), []).append([switch, slot, window, float(share_s)])
    for parts in places.values():
        _empty_short_slots(parts)
    return {pair: [_place(*part) for part in parts] for pair, parts in places.items()}


def _empty_short_slots(parts):
    """Move the shares of a pair's short slots into its largest share, in place."""
    largest = max(parts, key=lambda part: part[3])
    room_s = (1 + OVERLOAD_MAX) * (largest[2].end_s - largest[2].lit_s)
    for part in parts:
        window, share_s = part[2:]
        if part is not largest and window.end_s - window.lit_s < SHORT_SLOT_S and largest[3] + share_s <= room_s:
            largest[3], part[3] = largest[3] + share_s, 0.0


def _place(switch, slot, window, share_s):
    """A share that leaves room keeps away from the change at the head of its slot."""
    spare_s = max(window.end_s - window.lit_s - share_s, 0.0)
    return Share(switch, slot, window.lit_s + min(spare_s, UNIT_S) / 2, share_s, window.end_s)


def plan_repair(schedule, datagrams, missing, link):
    """Give each missing datagram a place in a schedule made for them.

    Parameters
    ----------
    schedule : Schedule
        It covers `repair_demand_s(datagrams, missing, …)`.
    datagrams : Datagrams
    missing : ndarray of int
        Sequence numbers.
    link : LinkModel

    Returns
    -------
    Releases
    """
    queues = {}
    for sequence in missing:
        queues.setdefault((int(datagrams.source[sequence]), int(datagrams.destination[sequence])), []).append(
            int(sequence))
    circuits = list(_circuits_in_time(schedule))
    last_use = {pair: index for index, (_, _, _, pair) in enumerate(circuits)}
    places = _Places()
    for index, (switch, slot, window, pair) in enumerate(circuits):
        queue = queues.get(pair, [])
        taken, used_s, room_s = [], 0.0, window.end_s - window.lit_s
        while queue:
            datagram_s = link.wire_s(float(datagrams.size_bytes[queue[0]]), 1)
            # Half a datagram too much is pushed together; what is left at a pair's last circuit all goes there.
            if used_s + datagram_s / 2 > room_s and index != last_use[pair]:
                break
            taken.append(queue.pop(0))
            used_s += datagram_s
        if taken:
            used_s = min(used_s, room_s)
            places.add(taken, *pair, switch, slot, window.lit_s + (room_s - used_s) / 2, used_s)
    return places.releases()


def repair_demand_s(datagrams, missing, hosts, link, least_s=REPAIR_SLOT_S):
    """Link time of the missing datagrams by pair, but enough for a slot in which none is lost again.

    Returns
    -------
    ndarray, shape (hosts, hosts)
    """
    demand_s = np.zeros((hosts, hosts))
    np.add.at(demand_s, (datagrams.source[missing], datagrams.destination[missing]),
              link.wire_s(datagrams.size_bytes[missing].astype(float), 1))
    return np.where(demand_s > 0, np.maximum(demand_s, least_s), 0.0)


def _circuits_in_time(schedule):
    """(switch, slot, window, (input, output)) of each lit circuit, by the time it is lit."""
    entries = [(window.lit_s, switch, slot, window)
               for switch in range(len(schedule.switches)) for slot, window in enumerate(schedule.windows(switch))]
    for _, switch, slot, window in sorted(entries, key=lambda entry: entry[:3]):
        for pair in schedule.switches[switch][slot].circuits():
            yield switch, slot, window, pair


def _equal_parts(total, parts):
    """`total` cut into at most `parts` whole, positive parts that differ by at most one."""
    parts = min(parts, max(int(total), 1))
    bounds = np.arange(parts + 1) * int(total) // parts
    return np.diff(bounds)[np.diff(bounds) > 0] if total > 0 else np.zeros(0, dtype=np.int64)


class _Rows:
    """Datagrams while they are cut."""

    def __init__(self):
        self._rows, self._count = [], 0

    def add(self, source, destination, offsets, sizes):
        """Add the datagrams of one share; returns the sequence number of the first."""
        first = self._count
        self._count += len(sizes)
        self._rows.append((np.full(len(sizes), source), np.full(len(sizes), destination), offsets, sizes))
        return first

    def datagrams(self):
        columns = zip(*self._rows) if self._rows else [[np.zeros(0, dtype=np.int64)]] * 4
        return Datagrams(*(np.concatenate(column).astype(np.int64) for column in columns))


class _Places:
    """Places on the links while they are given out."""

    def __init__(self):
        self._rows = []

    def add(self, sequences, source, destination, switch, slot, start_s, length_s):
        """Spread sends evenly over a stretch of link time, in units of about UNIT_S."""
        count = len(sequences)
        if not count:
            return
        units = min(count, max(1, round(length_s / UNIT_S)))
        unit = np.arange(count) * units // count
        place_s = length_s / units
        release_s = start_s + (unit + 1) * place_s - min(GUARD_S, place_s / 2)
        if place_s >= 4 * BEAT_S:
            release_s = (np.floor(release_s / BEAT_S - switch * _GOLDEN) + switch * _GOLDEN) * BEAT_S
        self._rows.append((
            np.asarray(sequences), np.full(count, source), np.full(count, destination), np.full(count, switch),
            np.full(count, slot), release_s, start_s + (np.arange(count) + 1) * (length_s / count)))

    def releases(self):
        if not self._rows:
            nothing = np.zeros(0, dtype=np.int64)
            return Releases(*[nothing] * 5, np.zeros(0), np.zeros(0))
        columns = [np.concatenate(column) for column in zip(*self._rows)]
        order = np.argsort(columns[5], kind="stable")
        return Releases(*(column[order] for column in columns))
