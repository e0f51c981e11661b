"""The part of the servers that a diagnosis may know: the experiment's topology, with addresses and the real limits."""

from __future__ import annotations

from tailrace.experiment import layout
from tailrace.testbed.system import System
from tailrace.topology import Node, Server, Topology


def topology(system: System) -> Topology:
    found = layout.topology(system.experiment)
    return found.model_copy(
        update={
            "nodes": tuple(_node(system, node) for node in found.nodes),
            "servers": tuple(_server(system, server) for server in found.servers),
        }
    )


def _node(system: System, node: Node) -> Node:
    cpus = system.nodes.cpus[node.name].count(",") + 1
    return node.model_copy(update={"address": system.nodes.addresses[node.name], "cores": cpus})


def _server(system: System, server: Server) -> Server:
    setting = system.settings[server.name]
    known: dict[str, object] = {"address": str(setting.at), "backlog": setting.backlog}
    if setting.tier.software == "mysql":  # a thread for each connection: nothing inside is limited
        known |= {"workers": None, "queue_max": None}
    if server.kind == "async" or setting.tier.kind == "bounded":
        known["queue_max"] = None
    if setting.tier.software in ("tomcat", "xtomcat"):
        known["protocol"] = "ajp" if any(caller.software == "apache" for caller in setting.callers) else "http"
    return server.model_copy(update=known)
