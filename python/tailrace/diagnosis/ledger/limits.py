"""What servers, pools and balancers allow, by the topology, or by a recording that shows them at a limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.ledger.recorded import NONE, Flags, Numbers, Recorded
from tailrace.diagnosis.ledger.workers import lost_at
from tailrace.diagnosis.queues import LEAST_LIMIT, Times
from tailrace.diagnosis.view import View


@dataclass(frozen=True)
class Pools:
    """`size` of each; by visit, by which it was called, and since when its caller waited for a connection."""

    size: tuple[int, ...]
    pool: Numbers
    ready: Times
    of: Mapping[tuple[str, str], int]
    """Caller and callee → number."""


@dataclass(frozen=True)
class Choices:
    """By visit, among whom its caller chose; of each choice, who chooses, and the number and pool of the candidates."""

    choice: Numbers
    by: tuple[str, ...]
    candidates: tuple[tuple[tuple[int, int], ...], ...]


def of_servers(view: View, recorded: Recorded, workers: Numbers) -> dict[str, NDArray[np.float64] | Numbers | Flags]:
    """`cores`; how many waiting connections and visits inside there may be (0: any number); and whether it may
    be an event loop, which serves in turn: a server whose workers are held through calls is none."""
    size = len(recorded.servers)
    cores, may_turn = np.ones(size), np.ones(size, dtype=np.uint8)
    accept, inside = (np.zeros(size, dtype=np.uint32) for _ in range(2))
    for i, name in enumerate(recorded.servers):
        node, known = view.topology.node_of(name), view.topology.server(name)
        cores[i] = node.cores if node is not None and node.cores else 1
        if known is not None:
            # A backlog of N holds N + 1 connections (the kernel tests `>`).
            accept[i] = 0 if known.backlog is None else known.backlog + 1
            inside[i] = known.queue_max or 0
            may_turn[i] = known.kind != "sync"
        if not (accept[i] or inside[i]):
            inside[i] = _held_at(view, name)
    return {"cores": cores, "workers": workers, "accept": accept, "inside": inside, "may_turn": may_turn}


def _held_at(view: View, server: str) -> int:
    """How many were inside when attempts were lost, or 0 where too few were lost to tell. A quarter of them found
    fewer: those that came right after one had left."""
    lost = lost_at(view, server)
    if len(lost) < LEAST_LIMIT:
        return 0
    return max(int(np.percentile(view.stays[server].queue(lost), 25)), 1)


def pools(view: View, recorded: Recorded) -> Pools:
    pool, ready = np.full(len(recorded.server), NONE, dtype=np.uint32), recorded.sent.copy()
    size: list[int] = []
    of: dict[tuple[str, str], int] = {}
    for known in view.topology.pools:
        called = _calls(recorded, known.caller, (known.callee,))
        if not len(called):
            continue
        of[known.caller, known.callee] = len(size)
        pool[called] = len(size)
        size.append(known.size)
        ready[called] = _ready(recorded.sent[called], recorded.departure[called], known.size)
    return Pools(tuple(size), pool, ready, of)


def _ready(sent: Times, departure: Times, size: int) -> Times:
    """Since when all connections were in use, of calls that were sent as soon as one was free."""
    times = np.concatenate((sent, departure))
    order = np.lexsort((np.repeat((1, 0), len(sent)), times))  # who leaves makes room for who comes at the same time
    times = times[order]
    used = np.cumsum(np.repeat((1, -1), len(sent))[order])
    free = (used[:-1] < size) & (times[1:] > times[:-1])
    last_free = np.maximum.accumulate(np.concatenate(([-1], np.where(free, times[1:], -1))))
    at = np.searchsorted(times, sent)
    waited = (at > 0) & (used[np.maximum(at - 1, 0)] >= size)
    return np.where(waited, np.maximum(last_free[np.minimum(at, len(times) - 1)], 0), sent)


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
