"""Injects faults into the running network, each at its time: nothing is pretended, the part really fails."""

from testbed.namespaces import network_namespace
from testbed.network import run
from topologies.parallel_ocs import switch_interface


class Injector:
    """The faults of a run.

    Parameters
    ----------
    faults : sequence of Fault
    network : OpticalNetwork
    controller : ControllerProcess
    agents : Agents

    Attributes
    ----------
    injected : list of (Fault, float)
        What was injected, and when, in seconds from the epoch.
    """

    def __init__(self, faults, network, controller, agents):
        self._network, self._controller, self._agents = network, controller, agents
        self._pending = sorted(((fault.at_s, number, fault) for number, fault in enumerate(faults)))
        self._late = [fault for fault in faults if fault.kind == "slow"]
        self._ups = []
        self.injected = []

    def inject(self, now_s):
        """Do what is due at an instant, in seconds from the epoch."""
        while self._pending and self._pending[0][0] <= now_s:
            fault = self._pending.pop(0)[2]
            getattr(self, f"_{fault.kind}")(fault)
            self.injected.append((fault, now_s))
        for up in [up for up in self._ups if up[0] <= now_s]:
            self._ups.remove(up)
            self._set_link(up[1], "up")

    def next_s(self):
        """When there is something to do next, in seconds from the epoch, or infinity."""
        return min([*(at_s for at_s, _, _ in self._pending[:1]), *(at_s for at_s, _ in self._ups)], default=float("inf"))

    def late_s(self, shift_s):
        """For the controller: by how much each slow switch is late, and from when on in a play that begins at `shift_s`."""
        return {fault.switch: (fault.duration_s, fault.at_s - shift_s) for fault in self._late}

    def _dies(self, fault):
        for daemon in self._network.switches[fault.switch].daemons:
            daemon.kill()

    def _sticks(self, fault):
        # Its connection is over the loopback of its own namespace: no message reaches it, and it goes on as it is.
        with network_namespace(self._network.switches[fault.switch].pid):
            run(["ip", "link", "set", "lo", "down"])

    def _slow(self, fault):
        """Nothing is left to do: the controller knows."""

    def _down(self, fault):
        self._set_link(fault, "down")
        self._ups.append((fault.at_s + fault.duration_s, fault))

    def _set_link(self, fault, state):
        with network_namespace(self._network.switches[fault.switch].pid):
            run(["ip", "link", "set", switch_interface(fault.host, fault.switch), state])

    def _loses(self, fault):
        self._agents.lose(fault.host, fault.switch, fault.share)

    def _restarts(self, _fault):
        self._controller.kill()

    def _agent(self, fault):
        self._agents.kill_host(fault.host)
