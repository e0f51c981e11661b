"""A machine of its own, away from neighbours, or precedence over them."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.advise.remedies.remedy import Option, Remedy, relieved
from tailrace.experiment import Experiment, places, to_table
from tailrace.experiment.model import Burn
from tailrace.experiment.tiers import Tier

WEIGHTS = (2.0, 4.0, 10.0, 100.0)
"""Times the present weight; the range of `cpu.weight` is 1 to 10000, and 100 is its default."""


def _options(experiment: Experiment) -> Iterator[Option]:
    shared = places.servers(experiment)
    burning = {node for node, _ in places.neighbours(experiment)}
    if burning:
        yield _apart(experiment)
    for name, tier in experiment.tiers.items():
        nodes = {server.node for server in shared if server.tier == name}
        beside = any(server.tier != name and server.node in nodes for server in shared)
        if beside and tier.node:
            yield _own(name)
        if beside or nodes & burning:
            yield _weigh(name, tier)
    yield from relieved(experiment, ("neighbour",), "move the neighbours of {} to another machine")


def _apart(experiment: Experiment) -> Option:
    rest = [stall for stall in experiment.stalls if not isinstance(stall, Burn)]
    table = to_table(experiment.model_copy(update={"stalls": tuple(rest)}))
    at = ", ".join(dict.fromkeys(stall.place for stall in experiment.stalls if isinstance(stall, Burn)))
    return Option(
        at,
        (None,),
        lambda size: {("stalls",): table["stalls"]},
        lambda size: f"move the neighbours of {at} to another machine",
    )


def _own(name: str) -> Option:
    return Option(
        name,
        (None,),
        lambda size: {("tiers", name, "node"): []},
        lambda size: f"run {name} on a machine of its own",
    )


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
