"""A neighbour that is a system of its own: finds when its servers took the CPU that another system's server needed.

It samples the groups on a node that several systems share every 10 ms:

    the node is full    all groups together used at least 95 % of its CPUs
    taken from a server    servers that do not work for its clients used at least a quarter of them
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping

from tailrace.experiment import Experiment, places, truth
from tailrace.experiment.losses import NEIGHBOUR
from tailrace.testbed.stalls.injection import Mechanism, joined
from tailrace.testbed.system import System
from tailrace.units import MILLISECOND, SECOND

LOOK_NS = 10 * MILLISECOND
FULL, TAKEN = 0.95, 0.25
"""A server that uses its CPU by 70 % is affected when a quarter is gone."""
JOIN_NS, SHORTEST_NS = 30 * MILLISECOND, 50 * MILLISECOND
"""The kernel schedules in turns of some ms; the simulator does not report stalls shorter than 50 ms either."""


def mechanisms(system: System) -> Iterator[Mechanism]:
    experiment = system.experiment
    for node in places.nodes(experiment):
        there = {
            server.name: system_of(experiment, server.tier)
            for server in places.servers(experiment)
            if server.node == node
        }
        if len(set(there.values())) > 1:
            yield _Shared(system, there).watch


def system_of(experiment: Experiment, tier: str) -> frozenset[str]:
    """All tiers that calls connect with it."""
    found = {tier}
    while True:
        more = {
            name
            for caller, settings in experiment.tiers.items()
            for callee in settings.calls
            if caller in found or callee in found
            for name in (caller, callee)
        }
        if more <= found:
            return frozenset(found)
        found |= more


def starved(shares: Mapping[str, float], strangers: Mapping[str, list[str]]) -> list[str]:
    """The servers whose CPU was taken, from shares of the node's CPUs, and from the servers that work for other
    clients."""
    full = sum(shares.values()) >= FULL
    return [name for name, others in strangers.items() if full and sum(shares[other] for other in others) >= TAKEN]


class _Shared:
    def __init__(self, system: System, there: dict[str, frozenset[str]]) -> None:
        self.epoch = system.epoch
        self.groups = {name: system.nodes.groups()[name] for name in there}
        self.strangers = {name: [other for other in there if there[other] != mine] for name, mine in there.items()}

    def watch(self, origin: int, over: threading.Event) -> list[truth.Stall]:
        taken: dict[str, list[tuple[int, int]]] = {name: [] for name in self.groups}
        before, used = time.monotonic_ns(), self._used()
        while not over.wait(LOOK_NS / SECOND):
            now, uses = time.monotonic_ns(), self._used()
            cpus = next(iter(self.groups.values()))[1] * (now - before)
            shares = {name: (uses[name] - used[name]) / cpus for name in uses}
            for name in starved(shares, self.strangers):
                taken[name].append((before, now))
            before, used = now, uses
        return [
            truth.Stall(NEIGHBOUR, name, self.epoch.unix(begin), self.epoch.unix(end))
            for name, spans in taken.items()
            for begin, end in joined(spans, JOIN_NS)
            if end - begin >= SHORTEST_NS
        ]

    def _used(self) -> dict[str, int]:
        return {name: group.used_ns() for name, (group, _) in self.groups.items()}
