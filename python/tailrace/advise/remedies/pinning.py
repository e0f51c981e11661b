"""CPUs of its own for a server, on the machine that it shares: its neighbours get the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tailrace.advise.remedies.remedy import Changes, Option, Path, Remedy
from tailrace.experiment import Experiment, places, to_table
from tailrace.experiment.losses import NEIGHBOUR


def _options(experiment: Experiment) -> Iterator[Option]:
    nodes, servers = places.nodes(experiment), places.servers(experiment)
    burnt = {node for node, _ in places.neighbours(experiment)}
    robbed = {loss.place for loss in experiment.losses if loss.cause == NEIGHBOUR}
    for name in experiment.tiers:
        own = [server for server in servers if server.tier == name]
        beside = [other for other in servers if other.node == own[0].node and other.tier != name]
        cores = nodes[own[0].node].cores
        disturbed = beside or own[0].node in burnt or own[0].name in robbed
        if len(own) == 1 and disturbed and cores >= 2 and cores.is_integer():  # CPUs are pinned as a whole
            yield _pin(experiment, own[0], bool(beside), int(cores))


def _pin(experiment: Experiment, server: places.Server, shares: bool, cores: int) -> Option:
    name = server.tier

    def changes(size: int) -> Changes:
        table = to_table(experiment)
        of_node: dict[str, Any] = table["nodes"].get(server.node, {})
        apart = _name(f"{name}-cpus", table["nodes"])
        on = apart if shares else server.node
        found: dict[Path, Any] = {("nodes", on): {**of_node, "cores": float(size)}}
        if shares:
            found |= {("nodes", server.node, "cores"): float(cores - size), ("tiers", name, "node"): [apart]}
        nodes_of = {server.node, name}
        burns = [stall for stall in table["stalls"] if stall["kind"] == "burn" and stall["place"] in nodes_of]
        if burns:
            found["stalls",] = [stall for stall in table["stalls"] if stall not in burns]
        lost = [one for one in table["losses"] if one["cause"] == NEIGHBOUR and one["place"] == server.name]
        if lost:
            found["losses",] = [one for one in table["losses"] if one not in lost]
        return found

    return Option(
        name,
        tuple(range(1, cores)),
        changes,
        lambda size: f"pin {name} to {size} of {cores} CPUs and everything else to the others",
    )


def _name(wanted: str, taken: Any) -> str:
    while wanted in taken:
        wanted += "-2"
    return wanted


REMEDY = Remedy(
    "pinning",
    _options,
    "setting",
    "The server cannot use the other CPUs when they are idle, and its neighbours cannot use its own.",
    "lightning 3.3 and 4 (isolation); cpusets of Linux (today's practice)",
)
