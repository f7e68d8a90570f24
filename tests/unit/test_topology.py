"""The description of n hosts on s parallel switches."""

from ipaddress import ip_address, ip_interface, ip_network

import pytest

from topologies.parallel_ocs import (
    INTERFACE_NAME_MAX, ParallelOCS, host_interface, host_ip, host_mac, host_name, switch_interface, switch_name, topos)


def links(topology):
    return [link for _, _, link in topology.links(withInfo=True)]


def test_names():
    assert (host_name(0), switch_name(1)) == ("h1", "o2")
    assert (host_interface(2, 0), switch_interface(2, 0)) == ("h3-o1", "o1-h3")


def test_every_host_is_attached_to_every_switch():
    topology = ParallelOCS(hosts=3, switches=2)
    assert sorted(topology.hosts()) == ["h1", "h2", "h3"]
    assert sorted(topology.switches()) == ["o1", "o2"]
    assert sorted((link["node1"], link["node2"]) for link in links(topology)) == [
        (f"h{i}", f"o{h}") for i in (1, 2, 3) for h in (1, 2)]


def test_host_i_is_on_port_i_plus_one_of_every_switch():
    for link in links(ParallelOCS(hosts=5, switches=3)):
        assert f"h{link['port2']}" == link["node1"]
        assert f"o{link['port1'] + 1}" == link["node2"]


def test_datapath_ids_count_from_one():
    topology = ParallelOCS(hosts=2, switches=11)
    assert [int(topology.nodeInfo(f"o{h}")["dpid"], 16) for h in range(1, 12)] == list(range(1, 12))
    assert len(topology.nodeInfo("o11")["dpid"]) == 16


def test_each_switch_has_a_subnet_of_its_own():
    for link in links(ParallelOCS(hosts=300, switches=2)):
        switch = int(link["node2"][1:])
        assert ip_interface(link["params1"]["ip"]).network == ip_network(f"10.{switch}.0.0/16")


@pytest.mark.parametrize("host, switch, address", [
    (0, 0, "10.1.0.1"), (254, 0, "10.1.0.255"), (255, 0, "10.1.1.0"), (4095, 31, "10.32.16.0")])
def test_host_ip(host, switch, address):
    assert host_ip(host, switch) == address


def test_addresses_are_unique():
    keys = [(i, h) for i in range(600) for h in range(4)]
    assert len({host_ip(*key) for key in keys}) == len(keys)
    assert len({host_mac(*key) for key in keys}) == len(keys)


def test_no_host_has_the_address_of_its_network_or_its_broadcast():
    network = ip_network("10.32.0.0/16")
    for host in (0, 64999):
        assert network.network_address < ip_address(host_ip(host, 31)) < network.broadcast_address


def test_link_layer_addresses_are_local_and_unicast():
    assert host_mac(258, 31) == "02:00:20:00:01:03"


def test_interfaces_have_their_names_and_link_layer_addresses():
    link = links(ParallelOCS(hosts=2, switches=1))[1]
    assert (link["intfName1"], link["intfName2"], link["addr1"]) == ("h2-o1", "o1-h2", host_mac(1, 0))


def test_longest_interface_name_is_allowed():
    assert len(switch_interface(64999, 31)) <= INTERFACE_NAME_MAX


def test_to_networkx():
    graph = ParallelOCS(hosts=3, switches=2).to_networkx()
    assert {node: kind for node, kind in graph.nodes(data="kind")} == {
        "h1": "host", "h2": "host", "h3": "host", "o1": "switch", "o2": "switch"}
    assert graph.number_of_edges() == 6
    assert graph.edges["h3", "o2"] == {"port": 3, "host_interface": "h3-o2", "switch_interface": "o2-h3"}


@pytest.mark.parametrize("hosts, switches, problem", [
    (1, 2, "hosts is 1"), (0, 2, "hosts is 0"), (65001, 1, "hosts is 65001"),
    (2, 0, "switches is 0"), (2, 33, "switches is 33")])
def test_bad_sizes_are_refused(hosts, switches, problem):
    with pytest.raises(ValueError, match=problem):
        ParallelOCS(hosts=hosts, switches=switches)


def test_mn_finds_it_by_name_with_positional_sizes():
    topology = topos["parallel_ocs"](4, 3)
    assert (len(topology.hosts()), len(topology.switches())) == (4, 3)
