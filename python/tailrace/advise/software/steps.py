"""What a remedy changes, in the terms of server software: `backlog` of web from 60 to 256."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from tailrace.experiment import Experiment, places
from tailrace.experiment.kernels import schedule
from tailrace.experiment.machines import Node
from tailrace.experiment.tiers import Tier
from tailrace.experiment.workloads import Workload

What = Literal[
    "backlog",
    "workers",
    "kind",
    "pool",
    "policy",
    "skip",
    "poll",
    "kept",
    "connect",
    "servlets",
    "quota",
    "weight",
    "heap",
    "log",
    "governor",
    "disk",
    "cores",
    "pin",
    "count",
    "retransmission",
    "limit",
    "hedge",
    "second",
    "retries",
    "timeout",
    "silence",
    "priority",
    "order",
]
"""Keys of the experiment, except: skip, try another candidate or fail when no connection is free; poll, how long one is
waited for; connect, how long a new one is waited for; servlets, whether each has a pool; kind, synchronous or
asynchronous; hedge, retries and timeout, of the clients of a tier (workloads); second, when a call is sent a second
time; pin, to fewer CPUs that nothing else uses; silence, how long a client may send nothing."""
OF_TIER: tuple[What, ...] = ("backlog", "workers", "quota", "weight", "heap", "log", "count", "limit", "order")
OF_CALL: tuple[What, ...] = ("pool", "policy", "kept", "poll", "second", "connect", "servlets", "priority")
OF_NODE: tuple[What, ...] = ("governor", "disk", "cores")
KEYS: dict[What, str] = {
    "poll": "endpoint_timeout",
    "second": "hedge",
    "connect": "connect_timeout",
    "servlets": "pool_per",
}
"""Where the key has another name."""
LOSSES: dict[str, What] = {
    "frequency-step": "governor",
    "garbage-collection": "heap",
    "cpu-quota": "quota",
    "writeback": "disk",
    "log-flush": "log",
    "log-flush or writeback": "disk",
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
    count: int = 1
    """Servers of the tier, and those of other tiers before it that get the same change: for spread periods."""
    before: int = 0

    @property
    def key(self) -> str:
        """The key of the experiment, as far as it is one of a tier or of its calls."""
        if self.what == "retransmission":
            return "kernel.syn"
        name = {**KEYS, "skip": "pool"}.get(self.what, self.what)
        return f"tiers.{self.tier}.calls.{self.callee}.{name}" if self.callee else f"tiers.{self.tier}.{name}"

    @property
    def spreads(self) -> bool:
        """Quota periods begin at different times then."""
        return self.what == "quota" and bool(self.now and self.then and self.now.phases != self.then.phases)

    def named(self, key: str, names: Mapping[str, str]) -> tuple[str, str]:
        """A key before the software's own names of both values; empty where it has none for today's value."""
        return key + names[self.now] if self.now in names else "", key + names[self.then]


@dataclass(frozen=True)
class Line:
    """A line of a configuration. `now` is the line of today, empty where there is none."""

    software: str
    tier: str
    file: str
    now: str
    then: str
    note: str = ""
    known: str = ""
    """Where the value of today comes from: seen, inferred or assumed; empty where there is no line of today."""


def steps(before: Experiment, after: Experiment) -> Iterator[Step]:
    """All that differs between two experiments and can be configured."""
    old_nodes, new_nodes = _nodes(before), _nodes(after)
    spread = 0
    for name, tier in after.tiers.items():
        if name in before.tiers:
            for step in _of_tier(name, before.tiers[name], tier):
                if step.spreads:
                    yield replace(step, count=tier.count, before=spread)
                    spread += tier.count
                else:
                    yield step
            yield from map(_pinned, _differing(OF_NODE, name, old_nodes[name], new_nodes[name]))
    gone = [loss for loss in before.losses if loss not in after.losses]
    tier_of = {server.name: server.tier for server in places.servers(after)}
    for what, place in dict.fromkeys((LOSSES[loss.cause], loss.place) for loss in gone if loss.cause in LOSSES):
        yield Step(what, tier_of[place], None, None)
    if schedule(before) != schedule(after):
        yield Step("retransmission", _entry(after), before.kernel, after.kernel)
    yield from _silences(before, after)
    for name, load in after.workloads.items():
        known = before.workloads.get(name)
        if known is not None:
            yield from _of_load(load.entry or _entry(after), known, load)


def _silences(before: Experiment, after: Experiment) -> Iterator[Step]:
    """How long the longest silent client of each tier stays."""
    old, new = _longest_silence(before), _longest_silence(after)
    for tier, now in old.items():
        if (then := new.get(tier, now)) < now and before.tiers[tier].kind == after.tiers[tier].kind:
            yield Step("silence", tier, now, then)


def _longest_silence(experiment: Experiment) -> dict[str, int]:
    found: dict[str, int] = {}
    for interaction in experiment.interactions.values():
        for tier, work in interaction.at.items() if interaction.silent else ():
            found[tier] = max(found.get(tier, 0), work.wait)
    return found


def _pinned(step: Step) -> Step:
    """Nothing gets fewer CPUs unless these are its own."""
    return replace(step, what="pin") if step.what == "cores" and step.then < step.now else step


def _of_load(tier: str, old: Workload, new: Workload) -> Iterator[Step]:
    if new.kept and not old.kept:
        yield Step("kept", tier, False, True)
    if new.hedge != old.hedge:
        yield Step("hedge", tier, old, new)
    if new.timeout != old.timeout and not new.retries:
        yield Step("timeout", tier, old.timeout, new.timeout)
    elif (new.retries, new.timeout, new.retry_budget) != (old.retries, old.timeout, old.retry_budget):
        yield Step("retries", tier, old, new)


def _of_tier(name: str, old: Tier, new: Tier) -> Iterator[Step]:
    if old.kind != new.kind:
        yield Step("kind", name, old.kind, new.kind)
        return
    yield from _differing(OF_TIER, name, old, new)
    for callee, call in new.calls.items():
        if callee in old.calls:
            before = old.calls[callee]
            yield from _differing(OF_CALL, name, before, call, callee)
            if call.endpoint == "modified" and before.endpoint != "modified":
                yield Step("skip", name, before.pool, call.pool, callee)


def _differing(all_of: tuple[What, ...], tier: str, old: object, new: object, callee: str = "") -> Iterator[Step]:
    for what in all_of:
        now, then = (getattr(one, KEYS.get(what, what)) for one in (old, new))
        if now != then:
            yield Step(what, tier, now, then, callee)


def _nodes(experiment: Experiment) -> dict[str, Node]:
    """The machine of the first server of each tier."""
    nodes = places.nodes(experiment)
    return {server.tier: nodes[server.node] for server in reversed(places.servers(experiment))}


def _entry(experiment: Experiment) -> str:
    return places.entries(experiment)[0]
