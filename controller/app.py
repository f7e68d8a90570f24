"""The app: knows which switches are connected, and puts what they say into a queue. All decisions are elsewhere."""

import queue

from controller.framework import (
    App, CONFIG_DISPATCHER, DEAD_DISPATCHER, MAIN_DISPATCHER, OFPHandler, ofp_event, ofproto_v1_3, set_ev_cls)


class Handshake(OFPHandler):
    """The framework's own handshake, without the listener it would open: the launcher opens listeners itself."""

    def start(self):
        """Start without listening."""
        App.start(self)


class CircuitApp(App):
    """Connections and replies of the switches.

    `datapaths` maps datapath ids to connections; `complaints` are lines about peers that cannot be used; `replies` receives (datapath id, message). `notice(datapath id, kind,
    message)` is called, in whatever thread hears it, for a connection that is `gone`, a port's `port` status, an `echo`.
    """

    OFP_VERSIONS = [ofproto_v1_3.OFP_VERSION]

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.datapaths = {}
        self.replies = queue.Queue()
        self.notice = lambda dpid, kind, message: None
        self.complaints = []

    @set_ev_cls(ofp_event.EventOFPStateChange, [MAIN_DISPATCHER, DEAD_DISPATCHER])
    def on_state(self, event):
        """A switch has finished its handshake, or is gone."""
        datapath = event.datapath
        if event.state == MAIN_DISPATCHER:
            if datapath.id in self.datapaths:
                self.complaints.append(f"two switches have datapath id {datapath.id}")
                datapath.close()
                return
            self.datapaths[datapath.id] = datapath
        elif self.datapaths.get(datapath.id) is datapath:
            del self.datapaths[datapath.id]
            self.notice(datapath.id, "gone", None)

    @set_ev_cls(ofp_event.EventOFPPortStatus, MAIN_DISPATCHER)
    def on_port(self, event):
        """A link has gone down, or come up."""
        self.notice(event.msg.datapath.id, "port", event.msg)

    @set_ev_cls(ofp_event.EventOFPEchoReply, [CONFIG_DISPATCHER, MAIN_DISPATCHER])
    def on_echo(self, event):
        """A switch is there."""
        self.notice(event.msg.datapath.id, "echo", event.msg)

    @set_ev_cls([ofp_event.EventOFPFlowStatsReply, ofp_event.EventOFPBarrierReply, ofp_event.EventOFPErrorMsg],
                [CONFIG_DISPATCHER, MAIN_DISPATCHER])
    def on_reply(self, event):
        """Anything that answers us, errors included."""
        self.replies.put((event.msg.datapath.id, event.msg))
