"""Packets that were lost on their way to a server: stalls of the twin that lose as many of the packets that its senders
send meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.ledger.account import Account
from tailrace.diagnosis.ledger.delays import Delays
from tailrace.diagnosis.ledger.losses.path import CAUSE, repeated_after
from tailrace.diagnosis.ledger.recorded import Recorded
from tailrace.diagnosis.queues import Times
from tailrace.twin.structure import Structure
from tailrace.units import MILLISECOND, exact_duration

APART_NS = 500 * MILLISECOND
"""A hole that shows no lost packet for so long has ended: shorter pauses are those between two repetitions of data."""
EDGE_NS = MILLISECOND
"""A stall lasts at least so much longer than to its last lost packet."""
RETRIES = 15
"""The default of Linux's `tcp_retries2`."""
OF_DATA = tuple(map(int, repeated_after(np.arange(1.0, RETRIES + 1))))
"""When Linux repeats data on a kept connection: after 0.2, 0.6, 1.4 s …"""


def holes(account: Account, found: Structure, start: int) -> list[dict[str, Any]]:
    """As tables of `stalls`, in the order of servers and of time, which counts from `start`."""
    lines = ((server, loss) for (cause, server), loss in account.losses.items() if cause == CAUSE)
    late = ((server, loss.delays) for server, loss in lines if loss.delays)
    return [hole for server, delays in late for hole in _of(account, found, server, delays, start)]


def _of(account: Account, found: Structure, server: str, delays: Delays, start: int) -> Iterator[dict[str, Any]]:
    """The servers of a tier send as one: each loses what it sends while the hole lasts."""
    recorded, late = account.recorded, delays.visits[delays.late]
    names = np.array([*(found.tier[name] for name in recorded.servers), ""])[recorded.caller]  # -1: a client
    for sender in np.unique(names[late]).tolist():
        own = late[names[late] == sender]
        sent = np.flatnonzero((recorded.server == recorded.number[server]) & (names == sender))
        lost = np.sort(np.concatenate([_lost(recorded, visit) for visit in own.tolist()]))
        refused = np.setdiff1d(sent[recorded.lost[sent] > 0], delays.visits)
        arrived = np.sort(np.concatenate((recorded.arrival[sent], recorded.sent[refused])))  # the queue refused them
        for stretch in np.split(lost, np.flatnonzero(np.diff(lost) > APART_NS) + 1):
            begin, end = _widened(stretch, arrived)
            if end <= begin:
                continue
            came = int(((arrived >= begin) & (arrived < end)).sum())
            yield {
                "kind": "packet-loss",
                "place": found.name[server],
                "at": exact_duration(int(recorded.steps.lengthened(np.array([begin]))[0]) - start),
                "for": exact_duration(end - begin),
                "share": round(len(stretch) / (len(stretch) + came), 4),
                **({"sender": sender} if sender else {}),
            }


def _widened(stretch: Times, arrived: Times) -> tuple[int, int]:
    """The hole began between its first lost packet and the one before, and ended in the same way: in the middle, on
    average. So a twin whose packets come a little earlier or later loses as many."""
    first, last = int(stretch[0]), int(stretch[-1])
    others = np.sort(np.concatenate((arrived, stretch)))
    before, after = int(np.searchsorted(others, first)), int(np.searchsorted(others, last, "right"))
    earlier = int(others[before - 1]) if before > 0 else first
    later = int(others[after]) if after < len(others) else last
    most = APART_NS // 2
    return max(first - min((first - earlier) // 2, most), 0), last + max(min((later - last) // 2, most), EDGE_NS)


def _lost(recorded: Recorded, visit: int) -> Times:
    """When the lost packets of a late visit were sent. It was repeated by the schedule of which a repetition came
    shortest before it arrived: that of connections, or that of data on a connection that was kept."""
    took = int(recorded.arrival[visit] - recorded.sent[visit])
    repeated = [_repeated(np.array(each, dtype=np.int64), took) for each in (recorded.schedule, OF_DATA)]
    again = min(repeated, key=lambda moments: took - int(moments[-1]))
    sent: Times = recorded.sent[visit] + (again[:-1] if len(again) > 1 else again)
    return sent


def _repeated(schedule: NDArray[np.int64], took: int) -> Times:
    """The moments at which a packet was sent until one came through, which is the last."""
    came = schedule <= took + EDGE_NS
    moments: Times = np.concatenate(([0], schedule[came])).astype(np.int64)
    return moments
