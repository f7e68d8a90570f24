"""The controller against peers that are no switches of its: each is named, and the end comes within the timeout."""

import os
import socket
import struct
import subprocess
import sys
import threading
import time

import pytest

from testbed.control import ROOT
from testbed.namespaces import isolated
from testbed.network import run
from tests.e2e.test_switching import inside

HELLO, ECHO_REQUEST, ECHO_REPLY, FEATURES_REQUEST, FEATURES_REPLY, MULTIPART_REQUEST, MULTIPART_REPLY = 0, 2, 3, 5, 6, 18, 19
TIMEOUT_S = 2


def message(kind, xid=0, body=b"", version=4):
    return struct.pack("!BBHI", version, kind, 8 + len(body), xid) + body


def answering(datapath_id):
    """A peer that is a switch as far as the handshake goes, and then answers nothing more."""
    def behave(endpoint):
        endpoint.sendall(message(HELLO))
        data = b""
        while more := endpoint.recv(4096):
            data += more
            while len(data) >= 8 and len(data) >= (length := struct.unpack("!H", data[2:4])[0]):
                kind, xid, body, data = data[1], struct.unpack("!I", data[4:8])[0], data[8:length], data[length:]
                if kind == FEATURES_REQUEST:
                    endpoint.sendall(message(FEATURES_REPLY, xid, struct.pack("!QIBB2xII", datapath_id, 0, 3, 0, 0, 0)))
                elif kind == MULTIPART_REQUEST and struct.unpack("!H", body[:2])[0] == 13:  # port description
                    endpoint.sendall(message(MULTIPART_REPLY, xid, struct.pack("!HH4x", 13, 0)))
    return behave


def sending(data):
    """A peer that sends some bytes, and waits."""
    def behave(endpoint):
        endpoint.sendall(data)
        while endpoint.recv(4096):
            pass
    return behave


def controlled(peers):
    """Exit status, complaint, and time of a controller for two switches that these peers connect to."""
    run(["ip", "link", "set", "lo", "up"])
    start_s = time.monotonic()
    process = subprocess.Popen([sys.executable, "-m", "controller", "--switches", "2", "--commands", "--timeout", str(TIMEOUT_S)],
                               cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env={**os.environ, "PYTHONUNBUFFERED": "1"})
    process.stdout.readline()
    for behave in peers:
        endpoint = socket.create_connection(("127.0.0.1", 6653))
        threading.Thread(target=guarded, args=(behave, endpoint), daemon=True).start()
    _, complaint = process.communicate(timeout=60)
    return process.returncode, complaint.splitlines(), time.monotonic() - start_s


def guarded(behave, endpoint):
    try:
        behave(endpoint)
    except OSError:
        pass


@pytest.mark.parametrize("peers, words", [
    ([sending(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")], "sent 474554202f204854, which is no OpenFlow hello"),
    ([sending(os.urandom(3))], "sent no whole OpenFlow hello"),
    ([sending(message(HELLO) + b"\x04\x06\x00")], "2 of 2 switches did not connect within 2 s: o1 (datapath id 1), o2"),
    ([sending(message(HELLO, version=1))], "speaks OpenFlow of wire version 1, and 1.3 (wire version 4) is needed"),
    ([answering(1), answering(1)], "two switches have datapath id 1"),
    ([answering(1), answering(7)], "a switch with datapath id 7 did"),
    ([answering(1), answering(2)], "no answer within 5 s from switch o1, o2"),
], ids=["garbage", "three bytes", "half a message", "version 1.0", "twice one id", "another id", "never answers"])
def test_peer_is_named_and_the_end_comes_in_time(peers, words):
    status, complaint, elapsed_s = inside(controlled, peers)
    assert status == 1
    assert words in complaint[-1] and not any("Traceback" in line for line in complaint), complaint
    assert elapsed_s < TIMEOUT_S + 10


def listener_seen_from_outside():
    """Whether the switches' listener of a run can be reached from another namespace of the machine."""
    with socket.socket() as endpoint:
        endpoint.settimeout(1.0)
        return endpoint.connect_ex(("127.0.0.1", 6653)) == 0


def test_openflow_listener_is_reachable_only_inside(start):
    running = start()
    running.await_text("controller ready")
    other = isolated(listener_seen_from_outside)
    seen = other.result()
    other.kill()
    assert not seen and not listener_seen_from_outside()
    assert running.finish().status in (0, 3)
