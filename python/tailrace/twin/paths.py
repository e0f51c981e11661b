"""Packets that were lost on their way to a server: stalls of the twin that lose as many of the packets that its senders
send meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.ledger.account import Account
from tailrace.diagnosis.ledger.losses.path import CAUSE, REPEATED_NS
from tailrace.diagnosis.ledger.recorded import Recorded
from tailrace.diagnosis.queues import Times
from tailrace.twin.structure import Structure
from tailrace.units import MILLISECOND, exact_duration

APART_NS = 500 * MILLISECOND
"""A hole that shows no lost packet for so long has ended: shorter pauses are those between two repetitions of data."""
LATE_NS = 50 * MILLISECOND
"""A repetition may come so much later than its schedule says: the kernel's timers are late under load."""
EDGE_NS = MILLISECOND
"""A stall lasts so much longer than from its first to its last lost packet."""
RETRIES = 15
"""The default of Linux's `tcp_retries2`."""
OF_DATA = tuple(REPEATED_NS * (2**power - 1) for power in range(1, RETRIES + 1))
"""When Linux repeats data on a kept connection: after 0.2, 0.6, 1.4 s …"""


def holes(account: Account, found: Structure) -> list[dict[str, Any]]:
    """As tables of `stalls`, in the order of servers and of time."""
    lines = ((server, loss) for (cause, server), loss in account.losses.items() if cause == CAUSE)
    return [hole for server, loss in lines if loss.delays for hole in _of(account, found, server, loss.delays.visits)]


def _of(account: Account, found: Structure, server: str, late: Times) -> Iterator[dict[str, Any]]:
    recorded = account.recorded
    for caller in np.unique(recorded.caller[late]).tolist():
        own = late[recorded.caller[late] == caller]
        sent = np.flatnonzero((recorded.server == recorded.number[server]) & (recorded.caller == caller))
        lost = np.sort(np.concatenate([_lost(recorded, visit) for visit in own.tolist()]))
        arrived = recorded.arrival[sent]
        for stretch in np.split(lost, np.flatnonzero(np.diff(lost) > APART_NS) + 1):
            begin, end = max(int(stretch[0]), 0), int(stretch[-1]) + EDGE_NS
            if end <= begin:
                continue
            came = int(((arrived >= begin) & (arrived < end)).sum())
            yield {
                "kind": "packet-loss",
                "place": found.name[server],
                "at": exact_duration(begin),
                "for": exact_duration(end - begin),
                "share": round(len(stretch) / (len(stretch) + came), 4),
                **({} if caller < 0 else {"sender": found.tier[recorded.servers[caller]]}),
            }


def _lost(recorded: Recorded, visit: int) -> Times:
    """When the lost packets of a late visit were sent."""
    took = int(recorded.arrival[visit] - recorded.sent[visit])
    again = np.array(recorded.schedule if took + LATE_NS >= recorded.schedule[0] else OF_DATA)
    moments: NDArray[np.int64] = np.concatenate(([0], again[again + LATE_NS < took])).astype(np.int64)
    sent: Times = recorded.sent[visit] + moments
    return sent
