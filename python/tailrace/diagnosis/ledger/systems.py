"""Servers that share no request are of different systems, such as two tenants of one machine."""

from __future__ import annotations

import numpy as np

from tailrace.diagnosis.ledger.recorded import Recorded
from tailrace.diagnosis.queues import Times


def of(recorded: Recorded) -> Times:
    """Return, for each visit, the system of its server: the lowest number of a server that a chain of calls joins with
    it."""
    number = recorded.number
    joined = list(range(len(recorded.servers)))
    for caller, callee in recorded.ways:
        first, second = sorted((_lowest(joined, number[caller]), _lowest(joined, number[callee])))
        joined[second] = first
    system = np.array([_lowest(joined, server) for server in range(len(joined))], dtype=np.int64)
    return np.asarray(system[recorded.server])


def _lowest(joined: list[int], server: int) -> int:
    """Return the lowest server of its system, and shorten the way to it (Tarjan 1975)."""
    while joined[server] != server:
        joined[server] = joined[joined[server]]
        server = joined[server]
    return server
