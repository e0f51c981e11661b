"""More servers of a tier, or more cores for each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tailrace.advise.remedies.remedy import Option, Path, Remedy
from tailrace.experiment import Experiment, places, to_table


def _options(experiment: Experiment) -> Iterator[Option]:
    nodes = places.nodes(experiment)
    for name, tier in experiment.tiers.items():
        yield _more(experiment, name)
        own = places.own_nodes(experiment, name)
        if own and not tier.cores:
            yield _cores(experiment, name, nodes[own[0]].cores)


def _more(experiment: Experiment, name: str) -> Option:
    now = experiment.tiers[name].count
    return Option(
        name,
        (now + 1,),
        lambda size: replicated(experiment, name, size),
        lambda size: f"run {size} servers of {name} instead of {now}",
    )


def replicated(experiment: Experiment, name: str, count: int) -> dict[Path, Any]:
    """A stall of a single server stays one of the first."""
    changes: dict[Path, Any] = {("tiers", name, "count"): count}
    if experiment.tiers[name].count > 1:
        return changes
    stalls = to_table(experiment)["stalls"]
    first = {name: f"{name}1", f"{name}-node": f"{name}1-node"}
    for stall in stalls:
        of_node = stall["kind"] in ("iowait", "burn") and stall["place"] == name
        stall["place"] = f"{name}1-node" if of_node else first.get(stall["place"], stall["place"])
    return changes | ({("stalls",): stalls} if stalls else {})


def _cores(experiment: Experiment, name: str, now: float) -> Option:
    declared = [node for node in places.own_nodes(experiment, name) if node in experiment.nodes]
    return Option(
        name,
        tuple(now * factor for factor in (2, 4)),
        lambda size: {("nodes", node, "cores"): size for node in declared or [name]},
        lambda size: f"give {name} {size:g} cores instead of {now:g}",
    )


REMEDY = Remedy(
    "replica",
    _options,
    "machine",
    "It costs a machine, and the servers behind get more at once.",
    "lightning 4 (lower utilisation); average 5 (heuristic ii)",
)
