"""The judge of recordings, whose stalls cannot be removed: which of them covers the time that held a request up?

    stall       ├──────┤
    reach       ├────────────────────┤    its length twice again: a server that uses two thirds of its capacity works
                                          its backlog off in that time
    held up        t                      a lost packet: when it was sent, or
                 ├───────────┤            nothing lost: from the first packet to the answer, at least half of it covered

A cause may be reported for the requests that a stall of that kind covers, and `unknown` for those that none covers. The
judge cannot tell which of two stalls at the same time made a request slow, so either is right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import polars as pl

from tailrace.dataset import Dataset
from tailrace.diagnosis.spans import clip, length, spans
from tailrace.score.stalls import NONE, Stall

BACKLOG = 2
HALF = 0.5
"""More of the time of a request that lost nothing is covered than not."""
Held = tuple[int, tuple[int, ...], int]
"""When the request was sent, when each of its packets was first lost, and when it ended."""


def held(run: Dataset, threshold_ns: int) -> tuple[Held, ...]:
    """Each very slow request, in the order in which they were sent."""
    lossy = (pl.col("drops") > 0) | (pl.col("data_drops") > 0)
    slow = run.requests().filter(pl.col("end") - pl.col("sent") >= threshold_ns).collect().sort("sent")
    deeper = run.visits().filter(lossy & pl.col("caller").is_not_null()).select("request", lost="sent").collect()
    found: dict[int, list[int]] = {request: [] for request in slow["request"].to_list()}
    for request, lost in slow.filter(lossy).select("request", "sent").iter_rows():
        found[request].append(lost)
    for request, lost in deeper.filter(pl.col("request").is_in(list(found))).iter_rows():
        found[request].append(lost)
    rows = slow.select("sent", "request", "end").iter_rows()
    return tuple((sent, tuple(found[request]), end) for sent, request, end in rows)


def credit(requests: Iterable[Held], stalls: Iterable[Stall]) -> Counter[str]:
    """Cause → how many of these requests a stall of it covers."""
    reach: dict[str, list[tuple[int, int]]] = {}
    for stall in stalls:
        for cause in stall.causes:
            reach.setdefault(cause, []).append((stall.begin, stall.end + BACKLOG * (stall.end - stall.begin)))
    found: Counter[str] = Counter()
    for sent, lost, end in requests:
        covering = [cause for cause, times in reach.items() if _covered(times, sent, lost, end)]
        found.update(covering or [NONE])
    return found


def _covered(times: list[tuple[int, int]], sent: int, lost: tuple[int, ...], end: int) -> bool:
    if lost:
        return any(begin <= moment <= last for moment in lost for begin, last in times)
    return length(clip(spans(times), sent, end)) >= HALF * (end - sent)
