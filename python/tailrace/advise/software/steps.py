"""What a remedy changes, in the terms of server software: `backlog` of web from 60 to 256."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from tailrace.experiment import Experiment, places
from tailrace.experiment.kernels import schedule
from tailrace.experiment.machines import Node
from tailrace.experiment.tiers import Call, Tier

What = Literal[
    "backlog",
    "workers",
    "kind",
    "pool",
    "policy",
    "skip",
    "poll",
    "kept",
    "quota",
    "weight",
    "heap",
    "log",
    "governor",
    "disk",
    "cores",
    "count",
    "retransmission",
]
"""Keys of the experiment, except: skip, try another candidate or fail when no connection is free; poll, how long one is
waited for; kind, synchronous or asynchronous."""
LOSSES: dict[str, What] = {
    "frequency-step": "governor",
    "garbage-collection": "heap",
    "cpu-quota": "quota",
    "writeback": "disk",
    "log-flush": "log",
}
"""What must change so that a recorded loss of capacity does not happen, by its cause."""


@dataclass(frozen=True)
class Step:
    what: What
    tier: str
    now: Any
    then: Any
    callee: str = ""
    """The called tier, for keys of a call."""


@dataclass(frozen=True)
class Line:
    """A line of a configuration. `now` is the line of today, empty where there is none."""

    software: str
    tier: str
    file: str
    now: str
    then: str
    note: str = ""


def steps(before: Experiment, after: Experiment) -> Iterator[Step]:
    """All that differs between two experiments and can be configured."""
    for name, tier in after.tiers.items():
        old = before.tiers.get(name)
        if old is not None:
            yield from _of_tier(name, old, tier)
            yield from _of_node(name, _node(before, name), _node(after, name))
    gone = [loss for loss in before.losses if loss not in after.losses]
    for what, place in dict.fromkeys((LOSSES[loss.cause], loss.place) for loss in gone if loss.cause in LOSSES):
        server = next(server for server in places.servers(after) if server.name == place)
        yield Step(what, server.tier, None, None)
    if schedule(before) != schedule(after):
        yield Step("retransmission", _entry(after), before.kernel, after.kernel)
    for name, load in after.workloads.items():
        known = before.workloads.get(name)
        if known is not None and load.kept and not known.kept:
            yield Step("kept", load.entry or _entry(after), False, True)


def _of_tier(name: str, old: Tier, new: Tier) -> Iterator[Step]:
    if old.kind != new.kind:
        yield Step("kind", name, old.kind, new.kind)
        return
    keys: tuple[What, ...] = ("backlog", "workers", "quota", "weight", "heap", "log", "count")
    for what in keys:
        now, then = getattr(old, what), getattr(new, what)
        if now != then:
            yield Step(what, name, now, then)
    for callee, call in new.calls.items():
        if callee in old.calls:
            yield from _of_call(name, callee, old.calls[callee], call)


def _of_call(name: str, callee: str, old: Call, new: Call) -> Iterator[Step]:
    keys: tuple[tuple[What, str], ...] = (("pool", "pool"), ("policy", "policy"), ("kept", "kept"))
    for what, key in (*keys, ("poll", "endpoint_timeout")):
        if getattr(old, key) != getattr(new, key):
            yield Step(what, name, getattr(old, key), getattr(new, key), callee)
    if new.endpoint == "modified" and old.endpoint != "modified":
        yield Step("skip", name, old.pool, new.pool, callee)


def _of_node(name: str, old: Node, new: Node) -> Iterator[Step]:
    keys: tuple[What, ...] = ("governor", "disk", "cores")
    for what in keys:
        now, then = getattr(old, what), getattr(new, what)
        if now != then:
            yield Step(what, name, now, then)


def _node(experiment: Experiment, tier: str) -> Node:
    nodes = places.nodes(experiment)
    return next(nodes[server.node] for server in places.servers(experiment) if server.tier == tier)


def _entry(experiment: Experiment) -> str:
    return places.entries(experiment)[0]
