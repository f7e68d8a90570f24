"""The OpenFlow framework: os-ken, or its ancestor Ryu 4.34 in an environment where only that is installed.

Everything else imports the framework's parts from here, so that one source runs on both.
"""

try:
    import os_ken  # noqa: F401
    NAME = "os-ken"
    from importlib.metadata import version as _version
    from os_ken.base.app_manager import AppManager, OSKenApp as App
    from os_ken.controller import ofp_event
    from os_ken.controller.controller import datapath_connection_factory
    from os_ken.controller.handler import (
        CONFIG_DISPATCHER, DEAD_DISPATCHER, MAIN_DISPATCHER, set_ev_cls)
    from os_ken.controller.ofp_handler import OFPHandler
    from os_ken.lib import hub
    from os_ken.ofproto import ofproto_v1_3
    from os_ken.ofproto.ofproto_protocol import ProtocolDesc
except ImportError:
    NAME = "ryu"
    from importlib.metadata import version as _version
    import eventlet.wsgi
    # Ryu 4.34 imports a name that later versions of eventlet no longer have.
    if not hasattr(eventlet.wsgi, "ALREADY_HANDLED"):
        eventlet.wsgi.ALREADY_HANDLED = object()
    from ryu.base.app_manager import AppManager, RyuApp as App
    from ryu.controller import ofp_event
    from ryu.controller.controller import datapath_connection_factory
    from ryu.controller.handler import (
        CONFIG_DISPATCHER, DEAD_DISPATCHER, MAIN_DISPATCHER, set_ev_cls)
    from ryu.controller.ofp_handler import OFPHandler
    from ryu.lib import hub
    from ryu.ofproto import ofproto_v1_3
    from ryu.ofproto.ofproto_protocol import ProtocolDesc

VERSION = _version(NAME)

__all__ = [
    "App", "AppManager", "CONFIG_DISPATCHER", "DEAD_DISPATCHER", "MAIN_DISPATCHER", "NAME",
    "OFPHandler", "ProtocolDesc", "VERSION", "datapath_connection_factory", "hub", "ofp_event", "ofproto_v1_3",
    "set_ev_cls",
]
