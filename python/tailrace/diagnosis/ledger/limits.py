"""What servers, pools and balancers allow, by the topology, or by a recording that shows them at a limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.ledger.recorded import NONE, Flags, Numbers, Recorded
from tailrace.diagnosis.ledger.workers import lost_at
from tailrace.diagnosis.queues import LEAST_LIMIT, Times
from tailrace.diagnosis.view import View


@dataclass(frozen=True)
class Pools:
    """`size` of each; by visit, by which it was called."""

    size: tuple[int, ...]
    pool: Numbers
    of: Mapping[tuple[str, str], int]
    """Caller and callee → number."""


@dataclass(frozen=True)
class Choices:
    """By visit, among whom its caller chose; of each choice, who chooses, and the number and pool of the candidates."""

    choice: Numbers
    by: tuple[str, ...]
    candidates: tuple[tuple[tuple[int, int], ...], ...]

    @cached_property
    def alike(self) -> tuple[str, ...]:
        """Of each choice the first who chooses among the same servers: balancers of one tier do the same."""
        first: dict[frozenset[int], str] = {}
        servers = (frozenset(server for server, _ in each) for each in self.candidates)
        return tuple(first.setdefault(each, by) for each, by in zip(servers, self.by, strict=True))


def of_servers(view: View, recorded: Recorded, workers: Numbers) -> dict[str, NDArray[np.float64] | Numbers | Flags]:
    """`cores`; how many waiting connections and visits inside there may be (0: any number); and whether it may
    be an event loop, which serves in turn: a server whose workers are known is none, unless it says so."""
    size = len(recorded.servers)
    cores, may_turn = np.ones(size), np.ones(size, dtype=np.uint8)
    accept, inside = (np.zeros(size, dtype=np.uint32) for _ in range(2))
    for i, name in enumerate(recorded.servers):
        known = view.topology.server(name)
        cores[i] = cores_of(view, name)
        may_turn[i] = not workers[i]
        if known is not None:
            # A backlog of N holds N + 1 connections (the kernel tests `>`).
            accept[i] = 0 if known.backlog is None else known.backlog + 1
            inside[i] = known.queue_max or 0
            may_turn[i] = known.kind == "async" or (may_turn[i] and known.kind is None)
        if not (accept[i] or inside[i]):
            inside[i] = held_at(view, name)
    return {"cores": cores, "workers": workers, "accept": accept, "inside": inside, "may_turn": may_turn}


def cores_of(view: View, server: str) -> int:
    node = view.topology.node_of(server)
    return node.cores if node is not None and node.cores else 1


def held_at(view: View, server: str) -> int:
    """How many were inside when attempts were lost, or 0 where too few were lost to tell. A quarter of them found
    fewer: those that came right after one had left."""
    lost = lost_at(view, server)
    if len(lost) < LEAST_LIMIT:
        return 0
    return max(int(np.percentile(view.stays[server].queue(lost), 25)), 1)


def pools(view: View, recorded: Recorded) -> Pools:
    """Several pools of one server for calls to another, such as one for each process, are one."""
    pool = np.full(len(recorded.server), NONE, dtype=np.uint32)
    sizes: dict[tuple[str, str], int] = {}
    for known in view.topology.pools:
        way = known.caller, known.callee
        called = _calls(recorded, known.caller, (known.callee,))
        if len(called):
            sizes[way] = sizes.get(way, 0) + known.size
            pool[called] = list(sizes).index(way)
    return Pools(tuple(sizes.values()), pool, {way: number for number, way in enumerate(sizes)})


def choices(view: View, recorded: Recorded, known: Pools) -> Choices:
    choice = np.full(len(recorded.server), NONE, dtype=np.uint32)
    by: list[str] = []
    candidates: list[tuple[tuple[int, int], ...]] = []
    number = recorded.number
    for balancer in view.topology.balancers:
        names = tuple(name for name in balancer.candidates if name in number)
        called = _calls(recorded, balancer.server, names)
        if len(names) < 2 or not len(called):
            continue
        choice[called] = len(by)
        by.append(balancer.server)
        candidates.append(tuple((number[name], known.of.get((balancer.server, name), NONE)) for name in names))
    return Choices(choice, tuple(by), tuple(candidates))


def _calls(recorded: Recorded, caller: str, callees: tuple[str, ...]) -> Times:
    """Which visits are calls of the one to the others."""
    number = recorded.number
    if caller not in number:
        return np.empty(0, dtype=np.int64)
    called = np.isin(recorded.server, [number[name] for name in callees if name in number])
    return np.flatnonzero((recorded.caller == number[caller]) & called)
