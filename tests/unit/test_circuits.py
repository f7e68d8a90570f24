"""Permutations as flow-mods, proven on an in-memory flow table."""

import pytest
from hypothesis import given, strategies as st

from controller import circuits
from controller.framework import ProtocolDesc, ofproto_v1_3
from tests.unit.flowtable import FlowTable, parse_flow_mods
from tests.unit.strategies import permutations

PROTOCOL = ProtocolDesc(version=ofproto_v1_3.OFP_VERSION)
ONE, TWO = circuits.PERMUTATION_TABLES
ROTATION, SWAP = (1, 2, 3, 0), (1, 0, -1, -1)
DARK = (-1, -1, -1, -1)


def switch(*messages):
    """A switch after reset and some messages."""
    table = FlowTable(PROTOCOL)
    table.apply_all(circuits.reset(PROTOCOL))
    table.apply_all(messages)
    return table


def test_switch_is_dark_after_reset():
    assert switch().forwarding(4) == DARK


def test_reset_removes_what_was_there():
    table = switch(*circuits.load(PROTOCOL, ONE, ROTATION), *circuits.load(PROTOCOL, TWO, SWAP),
                   circuits.select(PROTOCOL, TWO))
    table.apply_all(circuits.reset(PROTOCOL))
    assert circuits.rules_of(table.stats()) == {(0, None, None, None)}


def test_loading_alone_leaves_a_switch_dark():
    assert switch(*circuits.load(PROTOCOL, ONE, ROTATION)).forwarding(4) == DARK


@pytest.mark.parametrize("table", circuits.PERMUTATION_TABLES)
def test_selected_table_is_in_force(table):
    assert switch(*circuits.load(PROTOCOL, table, ROTATION), circuits.select(PROTOCOL, table)).forwarding(4) == ROTATION


@given(permutations(8), st.sampled_from(circuits.PERMUTATION_TABLES))
def test_input_i_reaches_output_pi_of_i_and_nothing_else(permutation, table):
    lit = switch(*circuits.load(PROTOCOL, table, permutation), circuits.select(PROTOCOL, table))
    assert [lit.output(i + 1) for i in range(8)] == [[j + 1] if j >= 0 else [] for j in permutation]


def test_ports_outside_the_permutation_are_dark():
    lit = switch(*circuits.load(PROTOCOL, ONE, ROTATION), circuits.select(PROTOCOL, ONE))
    assert lit.output(5) == []


@given(permutations(6), st.sampled_from(circuits.PERMUTATION_TABLES))
def test_dark_drops_all(permutation, table):
    lit = switch(*circuits.load(PROTOCOL, table, permutation), circuits.select(PROTOCOL, table))
    lit.apply(circuits.select(PROTOCOL, None))
    assert lit.forwarding(6) == (-1,) * 6


@given(permutations(6), permutations(6), permutations(6))
def test_loading_the_idle_table_never_changes_what_is_forwarded(lit, old, new):
    table = switch(*circuits.load(PROTOCOL, ONE, lit), *circuits.load(PROTOCOL, TWO, old),
                   circuits.select(PROTOCOL, ONE))
    for message in circuits.load(PROTOCOL, TWO, new):
        table.apply(message)
        assert table.forwarding(6) == lit


@given(permutations(6), permutations(6), permutations(6))
def test_other_table_is_in_force_once_selected(lit, old, new):
    """Nothing is left of what that table held before."""
    table = switch(*circuits.load(PROTOCOL, ONE, lit), *circuits.load(PROTOCOL, TWO, old),
                   circuits.select(PROTOCOL, ONE), *circuits.load(PROTOCOL, TWO, new), circuits.select(PROTOCOL, TWO))
    assert table.forwarding(6) == new


@given(permutations(6), st.sampled_from(circuits.PERMUTATION_TABLES))
def test_rules_read_back_are_the_expected_ones(permutation, table):
    loaded = switch(*circuits.load(PROTOCOL, table, permutation))
    assert circuits.rules_of(loaded.stats()) == circuits.expected_rules(table, permutation)


def test_expected_rules_of_a_small_permutation():
    assert circuits.expected_rules(2, (2, -1, 0)) == {(0, None, None, None), (2, 1, 3, None), (2, 3, 1, None)}


def test_selector_is_read_back():
    lit = switch(circuits.select(PROTOCOL, TWO))
    assert circuits.rules_of(lit.stats()) == {(0, None, None, TWO)}


@pytest.mark.parametrize("change", [
    lambda protocol: circuits.load(protocol, ONE, (1, 2, 0, 3)),
    lambda protocol: circuits.load(protocol, ONE, SWAP),
    lambda protocol: circuits.load(protocol, TWO, ROTATION),
    lambda protocol: [circuits.select(protocol, ONE)],
])
def test_any_difference_shows_in_the_rules_read_back(change):
    table = switch(*circuits.load(PROTOCOL, ONE, ROTATION))
    table.apply_all(change(PROTOCOL))
    assert circuits.rules_of(table.stats()) != circuits.expected_rules(ONE, ROTATION)


@pytest.mark.parametrize("table", [None, *circuits.PERMUTATION_TABLES])
def test_change_is_one_message_of_under_100_bytes(table):
    data = circuits.to_bytes([circuits.select(PROTOCOL, table)])
    assert len(parse_flow_mods(PROTOCOL, data)) == 1
    assert len(data) < 100


def test_messages_are_serialised_in_order_with_rising_transaction_ids():
    messages = parse_flow_mods(PROTOCOL, circuits.to_bytes(circuits.load(PROTOCOL, ONE, ROTATION), 41))
    assert [message.xid for message in messages] == [41, 42, 43, 44, 45]
    assert messages[0].command == PROTOCOL.ofproto.OFPFC_DELETE


@given(permutations(5))
def test_bytes_do_what_the_messages_do(permutation):
    table = FlowTable(PROTOCOL)
    table.apply_bytes(circuits.to_bytes(
        circuits.reset(PROTOCOL) + circuits.load(PROTOCOL, ONE, permutation) + [circuits.select(PROTOCOL, ONE)]))
    assert table.forwarding(5) == permutation
