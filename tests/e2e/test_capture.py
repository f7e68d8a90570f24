"""The figures are not only the program's own word: packets captured on the hosts' interfaces say the same.

Nothing of the testbed's own code reads the packets here; the format is the one that testbed/wire.py documents.
"""

import contextlib
import ctypes
import pathlib
import select
import socket
import struct
import threading
import time
import zlib

import numpy as np
import pytest

SO_TIMESTAMPNS = 35
PACKET_HOST = 0
HOSTS = 8


def test_capture_agrees_with_the_result(start):
    running = start("--switches", "2")
    sockets = {}
    deadline_s = time.monotonic() + 20
    while len(sockets) < HOSTS and time.monotonic() < deadline_s:
        for host, pid in host_processes(running.descendants()).items():
            if host not in sockets and has_interfaces(pid, 2):
                sockets[host] = open_capture(pid)
        time.sleep(0.02)
    assert len(sockets) == HOSTS
    capture = Capture(sockets)
    done = running.finish()
    arrivals = capture.stop()
    assert done.status in (0, 3), done.stderr

    demand = np.loadtxt(done.folder / "demand.csv", delimiter=",", dtype=int)
    captured = np.zeros_like(demand)
    for (_, source, destination, _, size), _ in arrivals.items():
        captured[source, destination] += size
    assert (captured == demand).all()
    assert captured.sum() == done.result["delivered_bytes"]
    makespan_s = max(arrivals.values()) - done.result["epoch_monotonic_s"]
    assert makespan_s == pytest.approx(done.result["measured_makespan_s"], abs=0.005)


def test_pcap_of_chosen_hosts_holds_what_they_sent_and_received(run):
    done = run("--hosts", "4", "--switches", "2", "--pcap", "h2", "h4")
    assert done.status in (0, 3), done.stderr
    demand = np.loadtxt(done.folder / "demand.csv", delimiter=",", dtype=int)
    files = sorted(path.name for path in done.folder.glob("*.pcap"))
    assert files == ["h2-o1.pcap", "h2-o2.pcap", "h4-o1.pcap", "h4-o2.pcap"]
    assert {f"{name}.pcap" for name in done.result["captured_packets"]} == set(files)
    for host in (1, 3):
        seen = {}
        for switch in (1, 2):
            packets = list(read_pcap(done.folder / f"h{host + 1}-o{switch}.pcap"))
            assert len(packets) == done.result["captured_packets"][f"h{host + 1}-o{switch}"]["captured"]
            for packet in packets:
                magic, _, sequence, source, destination, offset, size = struct.unpack("!4sIIHHQI", packet[42:70])
                if magic == b"SPXD":
                    seen[sequence] = source, destination, size
        for i, j in ((i, j) for i in range(4) for j in range(4) if host in (i, j)):
            assert sum(size for source, destination, size in seen.values() if (source, destination) == (i, j)) == demand[i, j]


def read_pcap(path):
    """The packets of a capture file, as far as they were captured."""
    data = path.read_bytes()
    assert struct.unpack("<I", data[:4]) == (0xA1B2C3D4,)
    place = 24
    while place < len(data):
        size = struct.unpack("<I", data[place + 8:place + 12])[0]
        yield data[place + 16:place + 16 + size]
        place += 16 + size


def host_processes(pids):
    """{host index: pid} of Mininet's host shells."""
    found = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            for word in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                if word.startswith(b"mininet:h"):
                    found[int(word[9:]) - 1] = pid
    return found


def has_interfaces(pid, count):
    """Whether a process's network namespace has its interfaces to all switches."""
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/net/dev").read_text().count("-o") == count
    return False


def open_capture(pid):
    """A packet socket in the network namespace of a process."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/thread-self/ns/net", "rb") as own, open(f"/proc/{pid}/ns/net", "rb") as other:
        assert libc.setns(other.fileno(), 0) == 0
        try:
            endpoint = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
        finally:
            assert libc.setns(own.fileno(), 0) == 0
    endpoint.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
    endpoint.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    endpoint.setblocking(False)
    return endpoint


class Capture:
    """Takes every data packet that arrives for a host, and keeps when each was first seen (CLOCK_MONOTONIC)."""

    def __init__(self, sockets):
        self._sockets = {endpoint.fileno(): (host, endpoint) for host, endpoint in sockets.items()}
        self._arrivals, self._stop = {}, threading.Event()
        self._monotonic_less_real_s = time.monotonic() - time.time()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self):
        """{(sequence, source, destination, offset, size): instant in seconds}."""
        self._stop.set()
        self._thread.join()
        return self._arrivals

    def _run(self):
        poller = select.epoll()
        for file in self._sockets:
            poller.register(file, select.EPOLLIN)
        while not self._stop.is_set():
            for file, _ in poller.poll(0.05):
                with contextlib.suppress(BlockingIOError, OSError):
                    self._take(*self._sockets[file])

    def _take(self, host, endpoint):
        packet, ancillary, _, (_, _, kind, *_) = endpoint.recvmsg(65536, 64)
        if kind != PACKET_HOST or packet[9] != socket.IPPROTO_UDP:
            return
        data = packet[(packet[0] & 15) * 4 + 8:]
        if data[:4] != b"SPXD":
            return
        _, _, sequence, source, destination, offset, size, checksum = struct.unpack("!4sIIHHQII", data[:32])
        assert destination == host and size == len(data) - 32
        assert zlib.crc32(data[:28] + data[32:]) == checksum
        seconds, nanoseconds = struct.unpack("qq", ancillary[0][2][:16])
        instant_s = seconds + nanoseconds * 1e-9 + self._monotonic_less_real_s
        self._arrivals.setdefault((sequence, source, destination, offset, size), instant_s)
