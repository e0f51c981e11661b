"""A machine of its own, away from neighbours, or precedence over them."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.advise.remedies.remedy import Option, Remedy, relieved, sizeless
from tailrace.experiment import Experiment, places, to_table
from tailrace.experiment.tiers import Tier

WEIGHTS = (2.0, 4.0, 10.0, 100.0)
"""Times the present weight; the range of `cpu.weight` is 1 to 10000, and 100 is its default."""
APART = "move the neighbours of {} to another machine"


def _options(experiment: Experiment) -> Iterator[Option]:
    servers = places.servers(experiment)
    burning = {node for node, _ in places.neighbours(experiment)}
    if burning:
        yield _apart(experiment)
    for name, tier in experiment.tiers.items():
        nodes = {server.node for server in servers if server.tier == name}
        beside = any(server.tier != name and server.node in nodes for server in servers)
        if beside and tier.node:
            yield sizeless(name, {("tiers", name, "node"): []}, f"run {name} on a machine of its own")
        if beside or nodes & burning:
            yield _weigh(name, tier)
    yield from relieved(experiment, ("neighbour",), APART)


def _apart(experiment: Experiment) -> Option:
    stalls = to_table(experiment)["stalls"]
    at = ", ".join(dict.fromkeys(stall["place"] for stall in stalls if stall["kind"] == "burn"))
    return sizeless(at, {("stalls",): [stall for stall in stalls if stall["kind"] != "burn"]}, APART.format(at))


def _weigh(name: str, tier: Tier) -> Option:
    return Option(
        name,
        WEIGHTS,
        lambda size: {("tiers", name, "weight"): tier.weight * size},
        lambda size: f"raise the CPU weight of {name} {size:g} times",
    )


REMEDY = Remedy(
    "isolation",
    _options,
    "machine",
    "Consolidation saves machines; a neighbour that gets less CPU time becomes slower.",
    "lightning 3.3 and 4 (isolation); rpc-vs-async IV-A",
)
