"""The agents: one process sends for all hosts, one receives for all.

A socket stays in the network namespace it was opened in, so that a process can hold the sockets of many hosts; two
processes cost less than two for each host, and leave the cores to the switches. Both are asleep before the epoch, with
everything allocated. Acknowledgements travel out of band: arrival times stand in memory that both share.
"""

import ctypes
import gc
import mmap
import multiprocessing
import os
import select
import socket
import struct
import time
from collections import deque

import numpy as np

from controller.clock import be_punctual
from testbed import wire
from testbed.errors import TestbedError
from testbed.namespaces import network_namespace
from topologies.parallel_ocs import host_interface, host_ip

RECEIVE_BUFFER_BYTES = 4 << 20
LOSS_AFTER_S = 0.015  # a datagram that has not arrived by then is lost
_NAP_S = 0.0002  # shorter sleeps cost more than they order
_PORT = wire.UDP_PORT
_NOBODY = 65534
_SO_RCVBUFFORCE, _SO_SNDBUFFORCE, _SO_NO_CHECK, _SO_ATTACH_FILTER = 33, 32, 11, 26
_LONGEST_NAP_S = 0.02  # an abort is heard at least so soon


class Ledger:
    """What was sent and what arrived, in memory that all processes of a run share. Times are on CLOCK_MONOTONIC.

    Parameters
    ----------
    datagrams : int
        Number of datagrams.
    probes : int
        Number of probes.
    hosts : int
    """

    COUNTERS = ("corrupt_packets", "corrupt_bytes", "duplicate_packets", "duplicate_bytes", "misdelivered_packets",
                "resent_packets", "resent_bytes", "unsent_packets")

    def __init__(self, datagrams, probes, hosts):
        self.first_sent_s = _shared(datagrams, np.float64)
        self.last_sent_s = _shared(datagrams, np.float64)
        self.arrived_s = _shared(datagrams, np.float64)
        self.arrived_switch = _shared(datagrams, np.int64)
        self.probe_sent_s = _shared(probes, np.float64)
        self.probe_arrived_s = _shared(probes, np.float64)
        self.received_packets = _shared(hosts, np.int64)
        self.counters = _shared(len(self.COUNTERS), np.int64)
        self.abort = _shared(1, np.int64)
        self.dead_hosts = _shared(hosts, np.int64)

    def counter(self, name):
        """Value of a counter by its name."""
        return int(self.counters[self.COUNTERS.index(name)])

    def count(self, name, amount):
        """Add to a counter; each counter has one process that writes it."""
        self.counters[self.COUNTERS.index(name)] += amount

    def missing(self):
        """Sequence numbers of the datagrams that have not arrived."""
        return np.flatnonzero(self.arrived_s == 0)


def _shared(length, kind):
    """A zeroed array in memory that forked processes share."""
    buffer = mmap.mmap(-1, max(1, length) * np.dtype(kind).itemsize)
    return np.frombuffer(buffer, dtype=kind)[:length]


class AgentEnded(TestbedError):
    """An agent process has ended before its time: killed, or out of memory."""

    def __init__(self, name):
        super().__init__(f"the {name} ended before its time")


class Agents:
    """The two agent processes of a run.

    Parameters
    ----------
    pids : list of int
        A process in the network namespace of each host.
    switches : int
    datagrams : Datagrams
    probes : Probes
    seed : int
        Of the payload's random bytes.
    run : int
        Number of the run, 32 bits, so that nothing stray is taken for its own.
    """

    def __init__(self, pids, switches, datagrams, probes, seed, run):
        self.ledger = Ledger(len(datagrams), len(probes), len(pids))
        self._arguments = pids, switches, _Packets(datagrams, probes, seed, run), self.ledger
        self._processes, self._pipes, self._lossy = {}, {}, {}
        for name in _ROLES:
            self._start(name)
        for name in _ROLES:
            self._expect(name, "ready", 30.0)

    def _start(self, name):
        context = multiprocessing.get_context("fork")
        self._pipes[name], theirs = context.Pipe()
        self._processes[name] = context.Process(target=_serve, name=name, daemon=True,
                                                args=(_ROLES[name], theirs, *self._arguments))
        self._processes[name].start()
        theirs.close()

    def revive(self):
        """Start both processes anew where one has ended, or the agent of a host has died; the ledger stays.

        They have given up the right to open the sockets of a host again.
        """
        if all(process.is_alive() for process in self._processes.values()) and not self.ledger.dead_hosts.any():
            return
        for process in self._processes.values():
            process.kill()
            process.join()
        self.ledger.dead_hosts[:] = 0
        for name in _ROLES:
            self._pipes[name].close()
            self._start(name)
        for name in _ROLES:
            self._expect(name, "ready", 30.0)
        for (host, switch), share in self._lossy.items():
            self.lose(host, switch, share)

    def kill_host(self, host):
        """A fault: the sockets of a host are closed, in both processes."""
        if self.ledger.dead_hosts[host]:
            return
        self.ledger.dead_hosts[host] = 1
        self._pipes["receiver"].send(("bury", host))
        self._expect("receiver", "buried", 5.0)

    def lose(self, host, switch, share):
        """A fault: from now on, a share of the packets that arrive on one interface of a host is lost."""
        self._lossy[host, switch] = share
        if not self.ledger.dead_hosts[host]:
            self._pipes["receiver"].send(("lose", host, switch, share))
            self._expect("receiver", "losing", 5.0)

    @property
    def pids(self):
        """Process ids by name: `sender`, `receiver`."""
        return {name: process.pid for name, process in self._processes.items()}

    def greet(self):
        """Send an empty datagram from every host into every switch, so that each input is known before it matters."""
        self._pipes["sender"].send(("greet",))
        self._expect("sender", "greeted", 30.0)

    def arm(self, releases, with_probes):
        """Hand the sends of a round to the sender, which prepares them."""
        self._pipes["sender"].send(("arm", releases, with_probes))
        self._expect("sender", "armed", 60.0)

    def play(self, epoch_s):
        """Start a round that was armed; returns at once."""
        self.ledger.abort[0] = 0
        self._pipes["sender"].send(("play", epoch_s))

    def abort(self):
        """End the round that goes on: nothing more is sent of it; `finished` then tells."""
        self.ledger.abort[0] = 1

    def finished(self):
        """Whether the sender has sent all of a round, or was aborted; when stands in the ledger.

        Raises
        ------
        AgentEnded
            The sender has ended.
        """
        if not self._pipes["sender"].poll():
            return False
        self._expect("sender", "played", 0.0)
        return True

    @property
    def receiver_alive(self):
        """Whether the receiver is there."""
        return self._processes["receiver"].is_alive()

    @property
    def sender_pipe(self):
        """Can be waited for, beside other things, until `finished` has something to tell."""
        return self._pipes["sender"]

    def stop(self):
        """End both processes."""
        for pipe in self._pipes.values():
            try:
                pipe.send(("stop",))
            except OSError:
                pass
        for process in self._processes.values():
            process.join(2.0)
            if process.is_alive():
                process.kill()
                process.join()

    def _expect(self, name, answer, timeout_s):
        try:
            if not self._pipes[name].poll(timeout_s):
                raise TestbedError(f"the {name} did not answer within {timeout_s:g} s")
            kind, value = self._pipes[name].recv()
        except (EOFError, ConnectionError):
            raise AgentEnded(name) from None
        if kind != answer:
            raise TestbedError(f"the {name} failed: {value}")
        return value


class _Packets:
    """Headers and payloads of all datagrams, made before the fork so that both processes have them."""

    def __init__(self, datagrams, probes, seed, run):
        random_bytes = wire.pattern(seed)
        columns = zip(datagrams.source.tolist(), datagrams.destination.tolist(), datagrams.offset.tolist(),
                      datagrams.size_bytes.tolist())
        self.data, self.data_destination = [], datagrams.destination.tolist()
        for sequence, (source, destination, offset, size) in enumerate(columns):
            content = wire.payload(random_bytes, source, destination, offset, size)
            self.data.append((wire.header(wire.DATA, run, sequence, source, destination, offset, content), content))
        self.probes = [wire.header(wire.PROBE, run, sequence, source, destination, 0, b"")
                       for sequence, (source, destination)
                       in enumerate(zip(probes.source.tolist(), probes.destination.tolist()))]
        self.probe_table = probes


def _serve(target, pipe, pids, switches, packets, ledger):
    """Body of an agent process: whatever goes wrong is told to the conductor."""
    try:
        agent = target(pids, switches, packets, ledger)
        gc.collect()
        gc.freeze()
        gc.disable()
        be_punctual()
        _drop_privileges()
        pipe.send(("ready", None))
        agent.serve(pipe)
    except (EOFError, BrokenPipeError):
        pass
    except BaseException as error:  # noqa: BLE001
        pipe.send(("failed", f"{type(error).__name__}: {error}"))
    os._exit(0)


def _drop_privileges():
    """Nothing but the sockets is needed any more: become nobody, without a way back."""
    os.setgroups([])
    os.setresgid(_NOBODY, _NOBODY, _NOBODY)
    os.setresuid(_NOBODY, _NOBODY, _NOBODY)


def _open_socket(interface, address, port):
    """A UDP socket of one host on one of its interfaces; the caller is in the host's namespace."""
    endpoint = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    endpoint.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES)
    endpoint.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, RECEIVE_BUFFER_BYTES)
    endpoint.setsockopt(socket.SOL_SOCKET, _SO_NO_CHECK, 1)  # our own CRC covers header and payload
    endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode())
    endpoint.bind((address, port))
    return endpoint


def _open_sockets(pids, switches, port):
    """{(host, switch): socket}."""
    sockets = {}
    for i, pid in enumerate(pids):
        with network_namespace(pid):
            for h in range(switches):
                sockets[i, h] = _open_socket(host_interface(i, h), host_ip(i, h), port)
    return sockets


class _Sender:
    """Sends every datagram at its instant, and lost ones again where a circuit of their pair has a spare place."""

    def __init__(self, pids, switches, packets, ledger):
        self._switches, self._packets, self._ledger = switches, packets, ledger
        self._sockets = _open_sockets(pids, switches, 0)
        self._timeline = []

    def serve(self, pipe):
        while True:
            command, *arguments = pipe.recv()
            if command == "arm":
                self._arm(*arguments)
                pipe.send(("armed", None))
            elif command == "greet":
                for (i, h), endpoint in self._sockets.items():
                    endpoint.sendto(b"", (host_ip(0 if i else 1, h), _PORT))
                pipe.send(("greeted", None))
            elif command == "play":
                self._play(*arguments)
                pipe.send(("played", None))
            else:
                return

    def _arm(self, releases, with_probes):
        """The sends of a round in the order of time: (release, source, send, message, address, sequence, pair).

        A spare place has a sequence of -1, a probe no pair.
        """
        rows = []
        columns = (releases.release_s, releases.sequence, releases.source, releases.destination, releases.switch)
        for release_s, sequence, i, j, h in zip(*(column.tolist() for column in columns)):
            message = self._packets.data[sequence] if sequence >= 0 else None
            rows.append((release_s, i, self._sockets[i, h].sendmsg, message, (host_ip(j, h), _PORT), sequence, (i, j)))
        # Only pairs that have spare places need a queue of what may be lost.
        self._pending = {row[6]: deque() for row in rows if row[5] < 0}
        if with_probes:
            table = self._packets.probe_table
            columns = (table.release_s, table.source, table.destination, table.switch)
            for sequence, (release_s, i, j, h) in enumerate(zip(*(column.tolist() for column in columns))):
                rows.append((release_s, i, self._sockets[i, h].sendmsg, (self._packets.probes[sequence],),
                             (host_ip(j, h), _PORT), sequence, None))
        self._timeline = sorted(rows, key=lambda row: row[0])

    def _play(self, epoch_s):
        """Send all that was armed, and note in the ledger when."""
        now, sleep = time.monotonic, time.sleep
        ledger, pending = self._ledger, self._pending
        first_sent_s, last_sent_s = memoryview(ledger.first_sent_s), memoryview(ledger.last_sent_s)
        probe_sent_s = memoryview(ledger.probe_sent_s)
        abort, dead_hosts = memoryview(ledger.abort), memoryview(ledger.dead_hosts)
        for release_s, source, send, message, address, sequence, pair in self._timeline:
            rest_s = epoch_s + release_s - now()
            while rest_s > _LONGEST_NAP_S and not abort[0]:
                sleep(_LONGEST_NAP_S)
                rest_s = epoch_s + release_s - now()
            if abort[0]:
                return
            if rest_s > _NAP_S:
                sleep(rest_s)
            if dead_hosts[source]:
                self._bury(source)
                continue
            if sequence < 0:
                sequence = self._lost(pending[pair], now())
                if sequence < 0:
                    continue
                message = self._packets.data[sequence]
            instant_s = now()
            try:
                send(message, (), 0, address)
            except OSError:
                ledger.count("unsent_packets", 1)
                continue
            if pair is None:
                probe_sent_s[sequence] = instant_s
                continue
            last_sent_s[sequence] = instant_s
            if first_sent_s[sequence]:
                ledger.count("resent_packets", 1)
                ledger.count("resent_bytes", len(message[1]))
            else:
                first_sent_s[sequence] = instant_s
            if pair in pending:
                pending[pair].append(sequence)

    def _bury(self, host):
        """Close the sockets of a host."""
        for h in range(self._switches):
            self._sockets[host, h].close()

    def _lost(self, queue, instant_s):
        """The first datagram of a pair's queue that must be lost, or -1; those that arrived leave the queue."""
        arrived_s, last_sent_s = self._ledger.arrived_s, self._ledger.last_sent_s
        while queue and arrived_s[queue[0]]:
            queue.popleft()
        if queue and instant_s - last_sent_s[queue[0]] > LOSS_AFTER_S:
            return queue.popleft()
        return -1


class _Receiver:
    """Checks every datagram and notes its first arrival."""

    def __init__(self, pids, switches, packets, ledger):
        self._switches, self._packets, self._ledger = switches, packets, ledger
        self._sockets = _open_sockets(pids, switches, _PORT)
        self._poller, self._receivers = select.epoll(), {}
        for (host, switch), endpoint in self._sockets.items():
            endpoint.setblocking(False)
            self._receivers[endpoint.fileno()] = (host, switch, endpoint.recv_into)
            self._poller.register(endpoint.fileno(), select.EPOLLIN)

    def _obey(self, pipe):
        """Do what the conductor says; False to end."""
        command, *arguments = pipe.recv()
        if command == "bury":
            for h in range(self._switches):
                endpoint = self._sockets[arguments[0], h]
                del self._receivers[endpoint.fileno()]
                endpoint.close()
            pipe.send(("buried", None))
        elif command == "lose":
            host, switch, share = arguments
            _drop_at_random(self._sockets[host, switch], share)
            pipe.send(("losing", None))
        else:
            return False
        return True

    def serve(self, pipe):
        receivers, poller = self._receivers, self._poller
        poller.register(pipe.fileno(), select.EPOLLIN)
        buffer = bytearray(wire.HEADER_BYTES + 9000)
        view = memoryview(buffer)
        now, received = time.monotonic, self._ledger.received_packets
        while True:
            for file, _ in poller.poll():
                if file not in receivers:
                    if file == pipe.fileno() and not self._obey(pipe):
                        return
                    continue
                host, switch, receive = receivers[file]
                try:
                    size = receive(buffer)
                except BlockingIOError:
                    continue
                instant_s = now()
                received[host] += 1
                self._take(view[:size], host, switch, instant_s)

    def _take(self, datagram, host, switch, instant_s):
        ledger, packets = self._ledger, self._packets
        if not datagram:
            return  # a greeting
        fields = wire.parse(datagram)
        if fields is None:
            ledger.count("corrupt_packets", 1)
            ledger.count("corrupt_bytes", max(0, len(datagram) - wire.HEADER_BYTES))
            return
        magic, _, sequence, _, destination, _, size_bytes = fields
        known = packets.data if magic == wire.DATA else packets.probes
        # The whole header must be the one we made: run, pair, offset, size and checksum at once.
        expected = known[sequence] if sequence < len(known) else (b"",)
        if datagram[:wire.HEADER_BYTES] != (expected[0] if magic == wire.DATA else expected):
            ledger.count("corrupt_packets", 1)
            ledger.count("corrupt_bytes", size_bytes)
        elif destination != host:
            ledger.count("misdelivered_packets", 1)
        elif magic == wire.PROBE:
            ledger.probe_arrived_s[sequence] = instant_s
        elif ledger.arrived_s[sequence]:
            ledger.count("duplicate_packets", 1)
            ledger.count("duplicate_bytes", size_bytes)
        else:
            ledger.arrived_switch[sequence] = switch
            ledger.arrived_s[sequence] = instant_s


_ROLES = {"receiver": _Receiver, "sender": _Sender}


def _drop_at_random(endpoint, share):
    """Have the kernel drop a share of what arrives at a socket, by a filter of four instructions on a random number."""
    take, drop = (0x06, 0, 0, 0xFFFFFFFF), (0x06, 0, 0, 0)
    load_random, at_least = (0x20, 0, 0, 0xFFFFF000 + 56), (0x35, 0, 1, min(int(share * 2**32), 2**32 - 1))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in (load_random, at_least, take, drop)))
    endpoint.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HL", 4, ctypes.addressof(code)))
