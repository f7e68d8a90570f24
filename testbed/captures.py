"""tcpdump on hosts of the network, for those who want to see the packets themselves."""

import os
import re
import select
import signal
import subprocess
import time

from testbed.errors import TestbedError
from testbed.namespaces import network_namespace

SNAP_BYTES = 128  # Ethernet, IP and UDP headers, that of testbed/wire.py, and a little payload
_TIMEOUT_S = 10.0


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
        try:
            self._await(rb"listening on")
        except TestbedError:
            self._process.kill()
            raise

    def _await(self, pattern):
        """What it says next, as soon as that matches a pattern."""
        said, deadline_s = b"", time.monotonic() + _TIMEOUT_S
        while not (match := re.search(pattern, said)):
            ready, _, _ = select.select([self._process.stderr], [], [], max(0.0, deadline_s - time.monotonic()))
            data = os.read(self._process.stderr.fileno(), 1 << 12) if ready else b""
            if not data:
                raise TestbedError(f"--pcap, {self.name}: tcpdump does not work ({said.decode(errors='replace').strip()})")
            said += data
        return match

    def _counts(self):
        self._process.send_signal(signal.SIGUSR1)
        match = self._await(rb"(\d+) packets? captured, (\d+) packets? received by filter, (\d+) packets? dropped")
        return (int(count) for count in match.groups())

    def stop(self):
        """End it, once it has written all that the kernel has for it.

        Returns
        -------
        dict
            `captured` and `dropped` packets.
        """
        deadline_s = time.monotonic() + _TIMEOUT_S
        # The kernel hands packets over in blocks, up to a second late; what it holds when tcpdump ends is lost.
        while True:
            captured, received, dropped = self._counts()
            if captured >= received - dropped or time.monotonic() > deadline_s:
                break
            time.sleep(0.05)
        self._process.terminate()
        self._process.communicate()
        return {"captured": captured, "dropped": received - captured}
