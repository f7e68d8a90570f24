"""tcpdump on hosts of the network, for those who want to see the packets themselves."""

import os
import re
import select
import subprocess
import time

from testbed.errors import TestbedError
from testbed.namespaces import network_namespace

SNAP_BYTES = 128  # Ethernet, IP and UDP headers, that of testbed/wire.py, and a little payload
_START_TIMEOUT_S = 10.0


class Capture:
    """One tcpdump on an interface of a host, into a file of the run folder.

    Parameters
    ----------
    interface : mininet.link.Intf
    folder : str

    Raises
    ------
    TestbedError
        tcpdump did not start; OSError where the file cannot be written.
    """

    def __init__(self, interface, folder):
        self.name = interface.name
        path = os.path.join(folder, f"{self.name}.pcap")
        # It writes to a file that is open already: so it can give up root, and needs no right to the folder.
        with network_namespace(interface.node.pid), open(path, "xb") as stream:
            self._process = subprocess.Popen(
                ["tcpdump", "-n", "-i", self.name, "-B", "8192", "-s", str(SNAP_BYTES), "-w", "-", "udp"], stdin=subprocess.DEVNULL,
                stdout=stream, stderr=subprocess.PIPE, start_new_session=True)
        self.pid = self._process.pid
        said, deadline_s = b"", time.monotonic() + _START_TIMEOUT_S
        while b"listening on" not in said:
            ready, _, _ = select.select([self._process.stderr], [], [], max(0.0, deadline_s - time.monotonic()))
            data = os.read(self._process.stderr.fileno(), 1 << 12) if ready else b""
            if not data:
                raise TestbedError(f"--pcap, {self.name}: tcpdump did not start ({said.decode(errors='replace').strip()})")
            said += data

    def stop(self):
        """End it, with all packets written; returns what it said of packets captured and dropped.

        Returns
        -------
        dict
            `captured` and `dropped` packets.
        """
        self._process.terminate()
        _, said = self._process.communicate(timeout=30)
        counts = {name: int(count) for count, name in re.findall(rb"(\d+) packets? (captured|dropped by kernel)", said)}
        return {"captured": counts.get(b"captured", 0), "dropped": counts.get(b"dropped by kernel", 0)}
