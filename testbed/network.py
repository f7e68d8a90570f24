"""The emulated network: Mininet hosts and Open vSwitch optical circuit switches, built in batches and checked.

Every switch is one bridge of an Open vSwitch of its own (ovsdb-server and ovs-vswitchd) in a network namespace of its
own. So each OCS has its own datapath thread, one switch's reconfiguration never waits for another's, and nothing of it
meets an Open vSwitch that runs on the machine. The userspace datapath needs no kernel module.
"""

import contextlib
import ctypes
import fcntl
import functools
import json
import os
import resource
import shutil
import socket
import struct
import subprocess
import time

import networkx
from mininet.link import Intf, Link
from mininet.net import Mininet
from mininet.node import Host, Switch

from testbed.errors import TestbedError
from testbed.namespaces import network_namespace
from topologies.parallel_ocs import host_mac

MTU_BYTES = 9000
OPENFLOW_PORT = 6653
_RUN_DIRECTORY = "/run/openvswitch"
_SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
_START_TIMEOUT_S = 20
_NEVER_MS = 1_000_000_000
_DATAPATH_TYPES = {"kernel": "system", "user": "netdev"}
_NETEM_PACKETS = 10_000
# At each flow-mod ovs-vswitchd builds a large structure and frees it again. With glibc's defaults each time goes to the
# kernel and back, page by page: 12 ms of CPU time a slot at 64 ports, and 2.4 ms with these.
_KEEP_MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(1 << 32), "MALLOC_TOP_PAD_": str(64 << 20),
                "MALLOC_MMAP_THRESHOLD_": str(1 << 30)}


class QuietIntf(Intf):
    """An interface whose addresses are noted here and set later, for all interfaces in one batch."""

    def config(self, ip=None, **_params):
        """Note the address; run nothing."""
        if ip:
            self.ip, self.prefixLen = ip.split("/")
        return {}


class Fibre(Link):
    """A veth pair that `OpticalNetwork` makes together with all others."""

    @classmethod
    def makeIntfPair(cls, *_args, **_kwargs):
        """Make nothing yet."""
        return None, None


class Rack(Host):
    """A host whose interfaces `OpticalNetwork` sets up."""

    def config(self, **_params):
        """Nothing is left to do here."""
        return {}


class OpticalSwitch(Switch):
    """One optical circuit switch: a bridge on an Open vSwitch of its own, in a network namespace of its own.

    Without a controller it forwards nothing (`fail_mode=secure`).
    """

    def __init__(self, name, dpid=None, datapath="user", **params):
        params["inNamespace"] = True
        super().__init__(name, dpid=dpid, **params)
        self.datapath_type = _DATAPATH_TYPES[datapath]
        self.controlIntf = None
        self.directory = f"{_RUN_DIRECTORY}/{name}"
        self.daemons = []

    def config(self, **_params):
        """Nothing is left to do here."""
        return {}

    def launch(self, database):
        """Start ovsdb-server; `configure` waits for it and goes on.

        Parameters
        ----------
        database : str
            Path of an empty Open vSwitch database, which is copied.
        """
        os.makedirs(self.directory)
        shutil.copy(database, f"{self.directory}/conf.db")
        self._daemon("ovsdb-server", f"{self.directory}/conf.db", f"--remote=punix:{self.directory}/db.sock")

    def _daemon(self, program, *arguments):
        command = [program, *arguments, f"--unixctl={self.directory}/{program}.ctl",
                   f"--log-file={self.directory}/{program}.log", "-vconsole:off", "-vsyslog:off"]
        with network_namespace(self.pid):
            self.daemons.append(subprocess.Popen(
                command, env={**self.ovs_environment(), **_KEEP_MEMORY}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, start_new_session=True))
        # Left alone, the kernel often stacks two busy switches on one core for milliseconds while another idles.
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(self.daemons[-1].pid, {cores[int(self.dpid, 16) % len(cores)]})

    def ovs_environment(self):
        """The environment in which Open vSwitch's programs speak to this switch."""
        return {**os.environ, "OVS_RUNDIR": self.directory, "OVS_LOGDIR": self.directory, "OVS_DBDIR": self.directory}

    def configure(self):
        """Start ovs-vswitchd, make the bridge and its ports in one transaction; return the process that waits for it."""
        self._await_database()
        self._daemon("ovs-vswitchd", f"unix:{self.directory}/db.sock")
        ports = [(intf.name, number) for number, intf in sorted(self.intfs.items()) if number > 0]
        command = self._vsctl(
            "init", "--", "set", "Open_vSwitch", ".",
            # The revalidator, which brings a flow-mod to the data plane, does not start again within 5 ms of its last
            # start: so let it start for flow-mods only, not every half second for statistics.
            f"other_config:max-revalidator={_NEVER_MS}", f"other_config:max-idle={_NEVER_MS}", "--", "add-br", self.name, "--", "set", "bridge", self.name,
            f"datapath_type={self.datapath_type}", "fail_mode=secure", "protocols=OpenFlow13", f"other-config:datapath-id={self.dpid}",
            # In-band control would add hidden rules that forward what no permutation allows.
            "other-config:disable-in-band=true")
        for name, number in ports:
            command += ["--", "add-port", self.name, name, "--", "set", "interface", name, f"ofport_request={number}"]
        return subprocess.Popen(command, env=self.ovs_environment(), stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def connect(self, port=OPENFLOW_PORT):
        """Have the switch connect to the controller that listens on a port of its own namespace's loopback."""
        run(self._vsctl("--no-wait", "--id=@c", "create", "controller", f'target="tcp:127.0.0.1:{port}"',
                        "max_backoff=1000", "inactivity_probe=5000", "connection_mode=out-of-band",
                        "--", "set", "bridge", self.name, "controller=@c"), env=self.ovs_environment())

    def poke(self):
        """Wake ovs-vswitchd: now and then it misses that its connection has come up, and sleeps until its next timer."""
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as endpoint:
            endpoint.setblocking(False)
            endpoint.connect(f"{self.directory}/ovs-vswitchd.ctl")

    def hush(self):
        """Stop the statistics that ovs-vswitchd writes to its database every 5 s: it forwards nothing meanwhile."""
        run(self._vsctl("--no-wait", "set", "Open_vSwitch", ".", f"other_config:stats-update-interval={_NEVER_MS}"),
            env=self.ovs_environment())

    def _vsctl(self, *arguments):
        return ["ovs-vsctl", f"--db=unix:{self.directory}/db.sock", f"--timeout={_START_TIMEOUT_S}", *arguments]

    def _await_database(self):
        """Wait for ovsdb-server's socket, since ovs-vsctl tries again only after a second."""
        deadline_s = time.monotonic() + _START_TIMEOUT_S
        while not os.path.exists(f"{self.directory}/db.sock"):
            if self.daemons[0].poll() is not None or time.monotonic() > deadline_s:
                raise TestbedError(f"switch {self.name}: ovsdb-server did not start "
                                   f"(its log: {_tail(self.directory + '/ovsdb-server.log')})")
            time.sleep(0.002)

    def ports_by_name(self):
        """OpenFlow port number of each interface, as the switch itself tells it.

        Returns
        -------
        dict of str to int
        """
        output = run(self._vsctl("--format=json", "--columns=name,ofport", "list", "interface"),
                     env=self.ovs_environment())
        return {name: port for name, port in json.loads(output)["data"]
                if name != self.name and isinstance(port, int)}

    def start(self, controllers):
        """Mininet's hook: nothing to do, `OpticalNetwork` starts all switches together."""

    def stop(self, deleteIntfs=False):
        """End the daemons and wait for them; the interfaces go with their namespaces."""
        for daemon in reversed(self.daemons):
            daemon.kill()
        for daemon in self.daemons:
            daemon.wait()
        self.daemons = []
        super().stop(deleteIntfs=False)
        self.terminate()


class OpticalNetwork(Mininet):
    """A Mininet of a `ParallelOCS` topology, up and compared with it when the constructor returns.

    Parameters
    ----------
    topo : ParallelOCS
    datapath : {'user', 'kernel'}
        Which of Open vSwitch's.
    link_delay_s : float
        Propagation delay of each link, in both directions.

    Raises
    ------
    TestbedError
        A switch or a link did not come up; the message names it.
    """

    def __init__(self, topo, datapath="user", link_delay_s=0.0):
        self._link_delay_s = link_delay_s
        # Mininet would set limits of the whole machine (sysctl) for kernels of its day; ours is the only one to raise.
        Mininet.inited = True
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        super().__init__(topo=topo, host=Rack, switch=functools.partial(OpticalSwitch, datapath=datapath),
                         link=Fibre, intf=QuietIntf, controller=None)

    def build(self):
        """Build hosts, switches and links, each kind in one batch, and check the wiring."""
        _forbid_ipv6()
        super().build()
        self._launch_switches()
        self._make_links()
        self._set_up_interfaces()
        self._configure_switches()
        self.check_wiring()

    def _launch_switches(self):
        database = f"{_RUN_DIRECTORY}/empty.db"
        run(["ovsdb-tool", "create", database, _SCHEMA])
        for switch in self.switches:
            with network_namespace(switch.pid):
                _forbid_ipv6()
                run(["ip", "link", "set", "lo", "up"])
            switch.launch(database)

    def _make_links(self):
        commands = [
            f"link add {link.intf1.name} mtu {MTU_BYTES} address {link.intf1.mac} netns {link.intf1.node.pid}"
            f" type veth peer name {link.intf2.name} mtu {MTU_BYTES} netns {link.intf2.node.pid}"
            for link in self.links]
        run(["ip", "-batch", "-"], input="\n".join(commands))

    def _set_up_interfaces(self):
        for host in self.hosts:
            with network_namespace(host.pid):
                _forbid_ipv6()
                run(["ip", "-batch", "-"], input="\n".join(self._host_commands(host)))
                self._delay(host.intfNames())
                _switch_offloads_off(host.intfNames())
        for switch in self.switches:
            with network_namespace(switch.pid):
                names = [name for name in switch.intfNames() if name != "lo"]
                run(["ip", "-batch", "-"], input="\n".join(f"link set {name} up" for name in names))
                self._delay(names)
                _switch_offloads_off(names)

    def _delay(self, names):
        """Delay what interfaces of this thread's namespace send; what the kernel took is read back."""
        if not self._link_delay_s:
            return
        run(["tc", "-batch", "-"], input="\n".join(
            f"qdisc add dev {name} root netem delay {self._link_delay_s * 1e6:g}us limit {_NETEM_PACKETS}" for name in names))
        held = {qdisc["dev"]: qdisc.get("options", {}).get("delay", {}).get("delay", 0.0)
                for qdisc in json.loads(run(["tc", "-json", "qdisc", "show"])) if qdisc["kind"] == "netem"}
        wrong = [name for name in names if abs(held.get(name, 0.0) - self._link_delay_s) > 1e-6]
        if wrong:
            raise TestbedError(f"the kernel does not hold the link delay of {wrong[0]}: {held.get(wrong[0], 0.0):g} s")

    def _host_commands(self, host):
        """Addresses of one host, and static neighbours, since nobody answers ARP across a dark switch."""
        commands = ["link set lo up"]
        for switch, intf in host.intfs.items():
            commands.append(f"addr add {intf.ip}/{intf.prefixLen} dev {intf.name}")
            commands.append(f"link set {intf.name} up")
            commands += [f"neigh add {other.intfs[switch].ip} lladdr {host_mac(j, switch)} dev {intf.name} nud permanent"
                         for j, other in enumerate(self.hosts) if other is not host]
        return commands

    def _configure_switches(self):
        for switch, process in [(switch, switch.configure()) for switch in self.switches]:
            _, complaint = process.communicate()
            if process.returncode != 0:
                raise TestbedError(f"switch {switch.name} did not come up: {complaint.strip() or 'ovs-vsctl failed'}"
                                   f" (its log: {_tail(switch.directory + '/ovs-vswitchd.log')})")

    def wiring(self):
        """The graph that really came up, read from the kernel and from each Open vSwitch, not from Mininet.

        Returns
        -------
        networkx.Graph
            As `ParallelOCS.to_networkx` gives it; an edge only where both ends of a veth pair name each other and
            the switch has the port.
        """
        graph = networkx.Graph()
        graph.add_nodes_from((host.name for host in self.hosts), kind="host")
        graph.add_nodes_from((switch.name for switch in self.switches), kind="switch")
        far_ends = {}
        for switch in self.switches:
            ports = switch.ports_by_name()
            for name, index, peer in _veths(switch.pid):
                far_ends[switch.name, index, peer] = (name, ports.get(name))
        for host in self.hosts:
            for name, index, peer in _veths(host.pid):
                for switch in self.switches:
                    switch_interface, port = far_ends.get((switch.name, peer, index), (None, None))
                    if port is not None and switch_interface == f"{switch.name}-{host.name}" and name.endswith(
                            f"-{switch.name}"):
                        graph.add_edge(host.name, switch.name, port=port, host_interface=name,
                                       switch_interface=switch_interface)
        return graph

    def check_wiring(self):
        """Compare what came up with the topology, port by port.

        Raises
        ------
        TestbedError
            It names the first link that is missing or elsewhere, and counts all of them.
        """
        planned, real = self.topo.to_networkx(), self.wiring()
        wrong = [f"{a} to {b}" for a, b, data in planned.edges(data=True)
                 if not real.has_edge(a, b) or real.edges[a, b] != data]
        if wrong or real.number_of_edges() != planned.number_of_edges():
            raise TestbedError(f"{len(wrong)} of {planned.number_of_edges()} links did not come up as planned, "
                               f"the first: {wrong[0] if wrong else 'an unplanned one'}")

    @staticmethod
    def received_packets(host):
        """Packets that arrived on all interfaces of a host but its loopback."""
        with open(f"/proc/{host.pid}/net/dev", encoding="ascii") as stream:
            lines = [line.split(":") for line in stream.read().splitlines()[2:]]
        return sum(int(counters.split()[1]) for name, counters in lines if name.strip() != "lo")


def run(command, **options):
    """Run a command to its end and return what it printed.

    Raises
    ------
    TestbedError
        It failed; with the first line of its complaint.
    """
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60, **options).stdout
    except subprocess.CalledProcessError as error:
        complaint = (error.stderr or error.stdout or "").strip().splitlines()
        raise TestbedError(f"{' '.join(command[:4])} failed: {complaint[0] if complaint else error}") from None
    except subprocess.TimeoutExpired:
        raise TestbedError(f"{' '.join(command[:4])} did not end within a minute") from None


def _forbid_ipv6():
    """No IPv6 in this thread's network namespace: its router solicitations would be stray packets."""
    for scope in ("all", "default"):
        try:
            with open(f"/proc/sys/net/ipv6/conf/{scope}/disable_ipv6", "w", encoding="ascii") as stream:
                stream.write("1")
        except FileNotFoundError:
            return  # a kernel without IPv6


_SIOCETHTOOL = 0x8946
# ETHTOOL_SRXCSUM, STXCSUM, SSG, STSO, SGSO, SGRO: with these on, TCP through a userspace datapath hangs.
_OFFLOADS = (0x15, 0x17, 0x19, 0x1F, 0x24, 0x2C)


def _switch_offloads_off(names):
    """What `ethtool -K NAME rx off tx off sg off tso off gso off gro off` does, without a process for each."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for name in names:
            for command in _OFFLOADS:
                value = bytearray(struct.pack("II", command, 0))
                address = ctypes.addressof(ctypes.c_char.from_buffer(value))
                fcntl.ioctl(control, _SIOCETHTOOL, struct.pack("16sP", name.encode(), address) + bytes(16))


def _veths(pid):
    """(name, index, index of the peer) of each interface of a process's network namespace that has a peer."""
    with network_namespace(pid):
        links = json.loads(run(["ip", "-json", "link", "show", "type", "veth"]) or "[]")
    return [(link["ifname"], link["ifindex"], link.get("link_index")) for link in links if link]


def _tail(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            lines = stream.read().splitlines()
        return lines[-1] if lines else "empty"
    except OSError:
        return "none"
