"""n hosts, each attached to all of s parallel optical circuit switches.

Also for Mininet's own command line:  mn --custom topologies/parallel_ocs.py --topo parallel_ocs,8,2 …
"""

from mininet.topo import Topo

MAX_SWITCHES = 32
INTERFACE_NAME_MAX = 15  # IFNAMSIZ - 1


def host_name(host):
    """Name of a host by its index: `h1` is host 0."""
    return f"h{host + 1}"


def switch_name(switch):
    """Name of a switch by its index: `o1` is switch 0."""
    return f"o{switch + 1}"


def host_interface(host, switch):
    """Name of the host's interface to a switch, for example `h3-o1`."""
    return f"{host_name(host)}-{switch_name(switch)}"


def switch_interface(host, switch):
    """Name of the switch's interface to a host, for example `o1-h3`."""
    return f"{switch_name(switch)}-{host_name(host)}"


def host_ip(host, switch):
    """Address of a host in the subnet of a switch: 10.(switch + 1).0.0/16."""
    return f"10.{switch + 1}.{(host + 1) >> 8}.{(host + 1) & 255}"


def host_mac(host, switch):
    """Link-layer address of a host's interface to a switch."""
    return f"02:00:{switch + 1:02x}:00:{(host + 1) >> 8:02x}:{(host + 1) & 255:02x}"


class ParallelOCS(Topo):
    """A description of n hosts and s switches; host i is on port i + 1 of each switch, one IP subnet per switch.

    Parameters
    ----------
    hosts : int
        Number n of hosts, 2 to 65000.
    switches : int
        Number s of switches, 1 to 32.

    Raises
    ------
    ValueError
        Numbers outside those ranges, or interface names that would be longer than Linux allows.
    """

    def build(self, hosts=8, switches=2):
        """Called by Topo.__init__ with the parameters above."""
        if not 2 <= hosts <= 65000:
            raise ValueError(f"hosts is {hosts}: use 2 to 65000")
        if not 1 <= switches <= MAX_SWITCHES:
            raise ValueError(f"switches is {switches}: use 1 to {MAX_SWITCHES}")
        longest = switch_interface(hosts - 1, switches - 1)
        if len(longest) > INTERFACE_NAME_MAX:
            raise ValueError(f"the interface name {longest} is longer than {INTERFACE_NAME_MAX} characters")
        for i in range(hosts):
            self.addHost(host_name(i), ip=f"{host_ip(i, 0)}/16")
        for h in range(switches):
            self.addSwitch(switch_name(h), dpid=f"{h + 1:016x}")
            for i in range(hosts):
                self.addLink(host_name(i), switch_name(h), port1=h, port2=i + 1,
                             intfName1=host_interface(i, h), intfName2=switch_interface(i, h),
                             addr1=host_mac(i, h), params1={"ip": f"{host_ip(i, h)}/16"})

    def to_networkx(self):
        """The graph: nodes are hosts and switches, each edge has `port` (on the switch) and both interface names.

        Returns
        -------
        networkx.Graph
        """
        import networkx  # here, so that Mininet's own `mn` can load this file without it
        graph = networkx.Graph()
        graph.add_nodes_from(self.hosts(), kind="host")
        graph.add_nodes_from(self.switches(), kind="switch")
        for _, _, link in self.links(withInfo=True):
            graph.add_edge(link["node1"], link["node2"], port=link["port2"],
                           host_interface=link["intfName1"], switch_interface=link["intfName2"])
        return graph


topos = {"parallel_ocs": ParallelOCS}
