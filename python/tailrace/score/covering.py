"""The judge of recordings, whose stalls cannot be removed: which stall covers the time in which a request was held up?

    stall       ├──────┤
    reach       ├────────────────────┤    the stall and twice its length more: in that time, a server that uses two
                                          thirds of its capacity serves its backlog
    held up        t                      a packet was lost: the time at which it was sent
                 ├───────────┤            nothing was lost: from the first packet to the answer; a stall must cover
                                          at least half of this time

A cause may be reported for the requests that a stall of that kind covers, and `unknown` for those that no stall covers.
The judge cannot determine which of two simultaneous stalls made a request slow, so either cause is right.
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
"""A stall covers a request that lost nothing if it covers at least this share of its time."""
Held = tuple[int, tuple[int, ...], int]
"""The time at which the request was sent, the time of each lost packet, and the end of the request."""


def held(run: Dataset, threshold_ns: int) -> tuple[Held, ...]:
    """Each very slow request, in the order of sending."""
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
    """Cause → the number of these requests that a stall of this cause covers."""
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
