"""Servers and pools have limits. They come from the topology, or from a recording that shows servers at a limit."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.constants import LEAST_LIMIT
from tailrace.diagnosis.ledger.recorded import NONE, Flags, Numbers, Recorded
from tailrace.diagnosis.ledger.workers import lost_at
from tailrace.diagnosis.queues import Stays, Times
from tailrace.diagnosis.view import View
from tailrace.topology import Server

Way = tuple[str, str]
"""It names a caller and its callee."""
Kind = tuple[Way, frozenset[str]]
"""It names the calls of one way that visits for these interactions make, or all calls of the way."""


@dataclass(frozen=True)
class Pools:
    """`size` is the size of each pool. `pool` is, for each visit, the pool through which it was called."""

    size: tuple[int, ...]
    pool: Numbers
    of: Mapping[Way, int]
    """This maps caller and callee to the number of the pool, if all calls between them use the same one."""


def of_servers(view: View, recorded: Recorded, workers: Numbers) -> dict[str, NDArray[np.float64] | Numbers | Flags]:
    """Return the limits of each server. `cores` is its number of cores. `accept` and `inside` are how many connections
    may wait and how many visits may be inside (0: any number). `may_turn` shows whether it may be an event loop, which
    serves in turn. A server with known workers is none, unless the topology says so. `loops` shows whether it says
    so."""
    size = len(recorded.servers)
    cores, may_turn = np.ones(size), np.ones(size, dtype=np.uint8)
    accept, inside = (np.zeros(size, dtype=np.uint32) for _ in range(2))
    loops = np.array([is_event_loop(view, name) for name in recorded.servers], dtype=np.uint8)
    for i, name in enumerate(recorded.servers):
        known = view.topology.server(name)
        cores[i] = cores_of(view, name)
        may_turn[i] = not workers[i]
        if known is not None:
            accept[i] = _may_wait(known)
            inside[i] = known.queue_max or 0
            may_turn[i] = known.kind == "async" or (may_turn[i] and known.kind is None)
        if not (accept[i] or inside[i]):
            inside[i] = _held_at(view, name)
    held = {"workers": workers, "accept": accept, "inside": inside}
    return {"cores": cores, **held, "may_turn": may_turn, "loops": loops}


OWN_THREAD = ("mysql", "postgres")
"""A database of one of these protocols has a thread or a process for each connection."""
PROXIES = ("pgbouncer", "pgpool", "odyssey", "proxysql", "maxscale")
"""These programs speak the protocols, too."""


def taken_at_once(view: View, server: str) -> bool:
    """Return whether a server takes each visit when it arrives: it is an event loop, or has a thread for each."""
    return is_event_loop(view, server) or has_own_threads(view, server)


def has_own_threads(view: View, server: str) -> bool:
    """Return whether a server is a database with a thread for each connection, so that no visit waits for a worker. The
    visits of a proxy may wait for a connection, and those of a pool of threads for a thread."""
    known = view.topology.server(server)
    if known is None or known.kind == "async" or known.workers or known.protocol not in OWN_THREAD:
        return False
    return not view.topology.downstream_of(server) and known.software not in PROXIES


def is_event_loop(view: View, server: str) -> bool:
    """Return whether a server is known to be an event loop. It can be held by one visit, but visits that wait for their
    calls do not hold it."""
    known = view.topology.server(server)
    return known is not None and known.kind == "async"


def _may_wait(known: Server) -> int:
    """Return how many visits may wait for a worker, or 0 for any number. A backlog of N holds N + 1 connections (the
    kernel tests `>`). A server that holds more than these and its workers has a line of its own behind its accept
    queue."""
    if known.backlog is None:
        return 0
    waiting = known.queue_max - known.workers if known.queue_max and known.workers else 0
    return max(known.backlog + 1, waiting)


def cores_of(view: View, server: str) -> int:
    node = view.topology.node_of(server)
    return node.cores if node is not None and node.cores else 1


def _held_at(view: View, server: str) -> int:
    """Return how many visits were inside when attempts were lost. It is 0 where too few were lost to infer it. A
    quarter of the lost attempts found fewer: they came right after a visit had left."""
    lost = lost_at(view, server)
    if len(lost) < LEAST_LIMIT:
        return 0
    return max(int(np.percentile(view.stays[server].queue(lost), 25)), 1)


def pools(view: View, recorded: Recorded, balancers: Collection[str]) -> Pools:
    """Return the pools. Several pools of one server for the same calls to another, such as one for each process, count
    as one. One pool may serve all candidates of one of these balancers."""
    called: dict[Kind, Times] = {}
    sizes: dict[Kind, int] = {}
    for way in recorded.ways:
        for known in view.topology.pools_of(way[0]):
            if known.callee not in view.topology.names_of(way[1]):
                continue
            kind = way, frozenset(known.interactions or ())
            its = _of_kind(recorded, kind)
            if len(its):
                called[kind] = its
                sizes[kind] = sizes.get(kind, 0) + known.size
    groups = _shared(view, recorded, balancers, called, sizes)
    pool = np.full(len(recorded.server), NONE, dtype=np.uint32)
    for number, group in enumerate(groups):
        pool[np.concatenate([called[kind] for kind in group])] = number
    of = {way: number for number, group in enumerate(groups) for way, asked in group if not asked}
    return Pools(tuple(sizes[group[0]] for group in groups), pool, of)


def _of_kind(recorded: Recorded, kind: Kind) -> Times:
    way, asked = kind
    its = recorded.ways[way]
    if not asked:
        return its
    its = its[recorded.parent[its] >= 0]
    return its[np.isin(recorded.names[recorded.parent[its]], list(asked))]


def _shared(
    view: View,
    recorded: Recorded,
    balancers: Collection[str],
    called: Mapping[Kind, Times],
    sizes: Mapping[Kind, int],
) -> list[list[Kind]]:
    """Return which calls share a pool. The candidates of a balancer share one of N connections if the calls to all of
    them together reached N and never exceeded it. Recorded choices that followed a stall would fill a common pool
    without the stall, too, so the replay must be able to choose as these balancers do."""
    groups, alone = [], []
    of_caller: dict[tuple[str, frozenset[str]], list[Kind]] = {}
    for kind in called:
        of_caller.setdefault((kind[0][0], kind[1]), []).append(kind)
    for (caller, _), left in of_caller.items():
        for balancer in view.topology.balancers_of(caller):
            kinds = [kind for kind in left if kind[0][1] in balancer.candidates]
            if balancer.name not in balancers or len(kinds) < 2 or len({sizes[kind] for kind in kinds}) > 1:
                continue
            rows = np.concatenate([called[kind] for kind in kinds])
            if Stays.of(recorded.sent[rows], recorded.back[rows]).longest == sizes[kinds[0]]:
                groups.append(kinds)
                left = [kind for kind in left if kind not in kinds]
        alone += [[kind] for kind in left]
    return [*groups, *alone]


def calls(recorded: Recorded, caller: str, callees: tuple[str, ...]) -> Times:
    """Return which visits are calls of the caller to the callees."""
    number = recorded.number
    if caller not in number:
        return np.empty(0, dtype=np.int64)
    its = recorded.called_by.get(number[caller], np.empty(0, dtype=np.int64))
    return its[np.isin(recorded.server[its], [number[name] for name in callees if name in number])]


def at_once(recorded: Recorded, pools: Pools) -> Numbers:
    """Return how many visits each server can serve at once: its workers, or the connections to it if these are fewer.
    It is 0 where neither is known."""
    found = recorded.workers.copy()
    for number in range(len(found)):
        used = np.unique(pools.pool[recorded.server == number])
        if len(used) and NONE not in used:
            connections = sum(pools.size[pool] for pool in used.tolist())
            found[number] = min(connections, int(found[number]) or connections)
    return found
