"""An OpenFlow 1.3 switch in memory: takes flow-mods, and says where a packet goes (specification, sections 5 and 6.4).

Only what the controller uses is there; anything else fails, so that it cannot pass unnoticed.
"""

import struct

_HEADER = struct.Struct("!BBHI")


class FlowTable:
    """Flow tables of one switch, empty at first."""

    def __init__(self, protocol):
        self._protocol = protocol
        self._rules = {}  # (table, priority, in_port or None) -> instructions

    def apply(self, message):
        """Carry out one OFPFlowMod."""
        ofproto = self._protocol.ofproto
        assert message.idle_timeout == message.hard_timeout == 0
        assert message.buffer_id == ofproto.OFP_NO_BUFFER
        assert message.flags == message.cookie == message.cookie_mask == 0
        in_port = _in_port(message.match)
        if message.command == ofproto.OFPFC_ADD:
            assert message.table_id != ofproto.OFPTT_ALL
            self._rules[message.table_id, message.priority, in_port] = list(message.instructions)
        elif message.command == ofproto.OFPFC_DELETE:
            assert message.out_group == ofproto.OFPG_ANY  # any other group would spare every rule
            self._rules = {key: instructions for key, instructions in self._rules.items()
                           if not self._deletes(message, key, instructions)}
        else:
            raise NotImplementedError(f"flow-mod command {message.command}")

    def apply_all(self, messages):
        """Carry out several OFPFlowMod in order."""
        for message in messages:
            self.apply(message)

    def apply_bytes(self, data):
        """Carry out what stands in the bytes that would be written to the switch."""
        self.apply_all(parse_flow_mods(self._protocol, data))

    def output(self, in_port):
        """The ports that a packet from a port leaves by; a table miss drops it."""
        ports, table = [], 0
        while table is not None:
            instructions = self._best_rule(table, in_port)
            table, before = None, table
            for instruction in instructions:
                if instruction.type == self._protocol.ofproto.OFPIT_GOTO_TABLE:
                    assert instruction.table_id > before
                    table = instruction.table_id
                else:
                    assert instruction.type == self._protocol.ofproto.OFPIT_APPLY_ACTIONS
                    ports += [self._output_port(action, in_port) for action in instruction.actions]
        return [port for port in ports if port is not None]

    def forwarding(self, inputs):
        """The permutation that inputs 0 … inputs - 1 see: the output of each, -1 where it is dark."""
        outputs = [self.output(i + 1) for i in range(inputs)]
        assert all(len(ports) <= 1 for ports in outputs)
        return tuple(ports[0] - 1 if ports else -1 for ports in outputs)

    def stats(self):
        """All rules, as a flow statistics reply holds them."""
        parser = self._protocol.ofproto_parser
        return [parser.OFPFlowStats(table_id=table, priority=priority, instructions=instructions,
                                    match=parser.OFPMatch(**({} if in_port is None else {"in_port": in_port})))
                for (table, priority, in_port), instructions in self._rules.items()]

    def _best_rule(self, table, in_port):
        matching = [(priority, instructions) for (where, priority, port), instructions in self._rules.items()
                    if where == table and port in (None, in_port)]
        return max(matching, key=lambda rule: rule[0], default=(0, []))[1]

    def _output_port(self, action, in_port):
        ofproto = self._protocol.ofproto
        assert action.type == ofproto.OFPAT_OUTPUT
        assert 1 <= action.port <= ofproto.OFPP_MAX
        return None if action.port == in_port else action.port  # the way back needs OFPP_IN_PORT

    def _deletes(self, message, key, instructions):
        ofproto = self._protocol.ofproto
        table, _, in_port = key
        ports = [action.port for instruction in instructions for action in getattr(instruction, "actions", ())]
        return (message.table_id in (table, ofproto.OFPTT_ALL)
                and _in_port(message.match) in (None, in_port)
                and (message.out_port == ofproto.OFPP_ANY or message.out_port in ports))


def parse_flow_mods(protocol, data):
    """The OFPFlowMod messages in bytes, back to back."""
    messages = []
    while data:
        version, kind, length, xid = _HEADER.unpack_from(data)
        assert (version, kind) == (protocol.ofproto.OFP_VERSION, protocol.ofproto.OFPT_FLOW_MOD)
        assert _HEADER.size <= length <= len(data)
        messages.append(protocol.ofproto_parser.OFPFlowMod.parser(protocol, version, kind, length, xid, data[:length]))
        data = data[length:]
    return messages


def _in_port(match):
    fields = dict(match.items())
    assert set(fields) <= {"in_port"}
    return fields.get("in_port")
