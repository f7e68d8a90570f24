"""A permutation as OpenFlow 1.3 messages. Pure: a protocol description in, unsent messages out.

Tables 1 and 2 hold permutations, one rule a circuit (input port to output port). Table 0 holds one match-all rule, the
selector: without instructions all traffic is dropped (dark), with `goto 1` or `goto 2` that table's circuits are lit.
The next permutation is loaded into the table that is not selected, so that an event is one small flow-mod whatever n is.
"""

SELECTOR_TABLE = 0
PERMUTATION_TABLES = (1, 2)
_CIRCUIT_PRIORITY = 1


def select(protocol, table):
    """The message that makes a switch dark, or lights the circuits of a table.

    Parameters
    ----------
    protocol : ProtocolDesc or Datapath
        Gives `ofproto` and `ofproto_parser` of OpenFlow 1.3.
    table : int or None
        A permutation table to light; None is dark.

    Returns
    -------
    OFPFlowMod
    """
    parser = protocol.ofproto_parser
    instructions = [] if table is None else [parser.OFPInstructionGotoTable(table)]
    return parser.OFPFlowMod(protocol, table_id=SELECTOR_TABLE, command=protocol.ofproto.OFPFC_ADD, priority=0,
                             match=parser.OFPMatch(), instructions=instructions)


def load(protocol, table, permutation):
    """The messages that replace the content of a permutation table.

    Parameters
    ----------
    protocol : ProtocolDesc or Datapath
    table : int
        One of `PERMUTATION_TABLES`, not the one that is selected.
    permutation : sequence of int
        `permutation[i]` is the output of input i, -1 where it is dark; input i is port i + 1.

    Returns
    -------
    list of OFPFlowMod
    """
    ofproto, parser = protocol.ofproto, protocol.ofproto_parser
    messages = [parser.OFPFlowMod(
        protocol, table_id=table, command=ofproto.OFPFC_DELETE, out_port=ofproto.OFPP_ANY,
        out_group=ofproto.OFPG_ANY, match=parser.OFPMatch(), instructions=[])]
    for i, j in enumerate(permutation):
        if j >= 0:
            forward = parser.OFPInstructionActions(
                ofproto.OFPIT_APPLY_ACTIONS, [parser.OFPActionOutput(j + 1, ofproto.OFPCML_NO_BUFFER)])
            messages.append(parser.OFPFlowMod(
                protocol, table_id=table, command=ofproto.OFPFC_ADD, priority=_CIRCUIT_PRIORITY,
                match=parser.OFPMatch(in_port=i + 1), instructions=[forward]))
    return messages


def reset(protocol):
    """The messages that bring a switch to the state before a schedule: no rule but the selector, which is dark."""
    ofproto, parser = protocol.ofproto, protocol.ofproto_parser
    everything = parser.OFPFlowMod(
        protocol, table_id=ofproto.OFPTT_ALL, command=ofproto.OFPFC_DELETE, out_port=ofproto.OFPP_ANY,
        out_group=ofproto.OFPG_ANY, match=parser.OFPMatch(), instructions=[])
    return [everything, select(protocol, None)]


def expected_rules(table, permutation):
    """What a switch must hold after `reset` and `load(table, permutation)`, as `rules_of` tells it.

    Returns
    -------
    set of tuple
        (table, input port or None, output port or None, table gone to or None)
    """
    circuits = {(table, i + 1, j + 1, None) for i, j in enumerate(permutation) if j >= 0}
    return circuits | {(SELECTOR_TABLE, None, None, None)}


def rules_of(stats):
    """The rules in a flow statistics reply, in the form of `expected_rules`.

    Parameters
    ----------
    stats : iterable of OFPFlowStats

    Returns
    -------
    set of tuple
    """
    return {(entry.table_id, entry.match.get("in_port"), *_targets(entry.instructions)) for entry in stats}


def _targets(instructions):
    """(output port or None, table or None) of a rule's instructions."""
    port = table = None
    for instruction in instructions:
        table = getattr(instruction, "table_id", table)
        for action in getattr(instruction, "actions", ()):
            port = getattr(action, "port", port)
    return port, table


def to_bytes(messages, first_xid=1):
    """Serialise messages back to back, with rising transaction ids."""
    data = bytearray()
    for xid, message in enumerate(messages, first_xid):
        message.set_xid(xid)
        message.serialize()
        data += message.buf
    return bytes(data)
