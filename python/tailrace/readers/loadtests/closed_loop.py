"""Whether the clients of a load test wait for their answers before they send again, and what that hides.

In a closed loop, a server that stands still is not sent the requests that it would have received (coordinated
omission). The count of these follows HdrHistogram's correction: a request that took k times as long as the usual time
from one request of a client to its next hides k - 1 requests.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailrace.units import MILLISECOND

Times = NDArray[np.int64]
_REQUESTS_MIN = 20
"""Fewer requests show no loop."""
_ROUNDS_MIN = 3
"""Requests of a client, in the mean: with fewer, each client may be a new one."""
_OVERLAPS_MAX = 0.01
_TICK_NS = 2 * MILLISECOND
"""Stamps of whole milliseconds move a begin and an end by up to one each."""
_ANSWERED_MIN = 0.75
"""Of the ends, if clients send at once: halfway between all of them and the half that independent clients show."""
_PAUSE_SHARE = 0.1
"""Of the response time, from an end to the next begin: a paced generator, which also alternates, waits longer."""


@dataclass(frozen=True)
class ClosedLoop:
    clients: int
    pace_ns: int
    """The usual time from one request of a client to its next."""
    hidden: int
    """Requests that would have been sent at that pace."""
    requests: int
    """That were looked at."""


def closed_loop(begins: Times, ends: Times, clients: NDArray[np.int64] | None) -> ClosedLoop | None:
    """The loop that these requests form; None if they form none, or if that is unknown. `clients` numbers them."""
    if len(begins) < _REQUESTS_MIN:
        return None
    found = _by_clients(begins, ends, clients) if clients is not None else _by_shape(begins, ends)
    if found is None:
        return None
    count, pace = found
    hidden = np.maximum((ends - begins) // max(pace, 1) - 1, 0)
    return ClosedLoop(count, pace, int(hidden.sum()), len(begins))


def _by_clients(begins: Times, ends: Times, clients: NDArray[np.int64]) -> tuple[int, int] | None:
    """No client has two requests at once."""
    count = len(np.unique(clients))
    if len(begins) < _ROUNDS_MIN * count:
        return None
    order = np.lexsort((begins, clients))
    same = clients[order][1:] == clients[order][:-1]
    overlaps = (begins[order][1:] < ends[order][:-1] - _TICK_NS) & same
    if overlaps.sum() > _OVERLAPS_MAX * same.sum():
        return None
    return count, int(np.median(np.diff(begins[order])[same]))


def _by_shape(begins: Times, ends: Times) -> tuple[int, int] | None:
    """After nearly every end, the next thing that happens is a begin, and it happens at once."""
    times = np.concatenate([ends, begins])
    is_begin = np.concatenate([np.zeros(len(ends), np.bool_), np.ones(len(begins), np.bool_)])
    order = np.argsort(times, kind="stable")
    times, is_begin = times[order], is_begin[order]
    under_way = np.cumsum(np.where(is_begin, 1, -1))
    clients = int(np.quantile(under_way[is_begin], 0.95))
    last = int(np.flatnonzero(is_begin)[-1])
    ended = np.flatnonzero(~is_begin[:last])
    if len(begins) < _ROUNDS_MIN * clients or not len(ended):
        return None
    answered = is_begin[ended + 1]
    pauses = (times[ended + 1] - times[ended])[answered]
    if answered.mean() < _ANSWERED_MIN or np.median(pauses) > _PAUSE_SHARE * np.median(ends - begins):
        return None
    sent = np.sort(begins)
    return clients, int(np.median(sent[clients:] - sent[:-clients]))
