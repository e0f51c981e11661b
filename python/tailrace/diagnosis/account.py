"""The account shows where the time of a VLRT request went, and how much of it the episode's finding accounts for.

    lost          the request waited until a lost packet was sent again, or until it was given up if nobody sent it
    queued        a queue on the way through the origin (without one, through the dropper) was long meanwhile
    transferred   the first byte of its response was out, and the rest of the response was being sent
    unaccounted   none of these holds: a server worked for this request alone, or waited for something not recorded

A finding that accounts for less than half of the time of a request does not explain it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tailrace.diagnosis.cause import Explained
from tailrace.diagnosis.constants import FEW, FINE_NS, MATTERS, MOSTLY, NEARLY
from tailrace.diagnosis.drops import Drops
from tailrace.diagnosis.finding import UNKNOWN, Accounted, Slowest
from tailrace.diagnosis.losses import Losses
from tailrace.diagnosis.overflow import Overflow
from tailrace.diagnosis.queues import Times, every
from tailrace.diagnosis.spans import Spans, overlap, spans, union, where
from tailrace.diagnosis.view import View
from tailrace.diagnosis.vlrt import Cluster, Slow
from tailrace.diagnosis.words import duration, listing, share

SLOWEST_MAX = 20
"""At most this many requests of an episode are listed one by one. They have the most time that no finding accounts
for."""


@dataclass(frozen=True)
class Account:
    """It holds times in nanoseconds for the requests of one cluster, in their order."""

    response: NDArray[np.int64]
    lost: NDArray[np.int64]
    queued: NDArray[np.int64]
    transferred: NDArray[np.int64]

    @property
    def rest(self) -> NDArray[np.int64]:
        return self.response - self.lost - self.queued - self.transferred

    @property
    def explained(self) -> NDArray[np.bool_]:
        """Return for each request whether losses and queues account for half of its time or more."""
        enough: NDArray[np.bool_] = self.lost + self.queued >= MOSTLY * self.response
        return enough


def of_cluster(
    view: View,
    slow: Slow,
    cluster: Cluster,
    packets: Losses,
    lost: Drops,
    explained: Explained,
    timed: NDArray[np.bool_],
    first_byte: Times,
) -> Account:
    """`first_byte` is a moment for each VLRT request. `timed` shows for each of them whether it took as long as other
    requests, independently of when it was sent. A queue does not cause that, unless a known cause made all of them wait
    until their timer ran out."""
    overflow, stall, cause = explained
    rows = slow.requests[cluster.rows]
    sent, end = rows["sent"].to_numpy(), rows["end"].to_numpy()
    response = rows["response_ns"].to_numpy()
    repeated = np.minimum(packets.cost[cluster.rows], response)
    answered = first_byte[cluster.rows]
    first = packets.sent[cluster.rows]
    again = np.minimum(first + repeated, answered)
    long = _long(view, cluster, lost, overflow, int(end.max()))
    queued = overlap(long, sent, answered) - overlap(long, np.minimum(first, again), again)
    if stall is not None and cause.name != UNKNOWN:
        # A stall stretches the transfer of a response, too.
        queued += overlap(spans([(stall.begin, stall.end)]), answered, end)
    if cause.name == UNKNOWN:
        queued = np.where(timed[cluster.rows], 0, queued)
        centre = overflow.origin or lost.dropper
        if queued.any() and centre is not None and _overtaken(view, centre, int(sent.max()), int(end.min())):
            queued = np.zeros_like(queued)
    queued = np.clip(queued, 0, response - repeated)
    transferred = np.clip(end - answered, 0, response - repeated - queued)
    return Account(response, repeated, queued, transferred)


def _long(view: View, cluster: Cluster, lost: Drops, overflow: Overflow, end: int) -> Spans:
    """Return when the own queue of a server was longer than usual, or longer than half of its maximum, and held at
    least two requests. The servers are those on the way through the origin (without one, through the dropper)."""
    centre = overflow.origin or lost.dropper
    if centre not in view.stays:
        return spans([])
    servers = view.chain_of(centre)
    begin = min([cluster.begin, *(step.rise for step in overflow.wave if step.server in servers)])
    times = every(begin, end + FINE_NS, FINE_NS)
    step = int(times[1] - times[0]) if len(times) > 1 else FINE_NS
    found = []
    for server in sorted(servers):
        queue = view.own_queue(server, times)
        half = MOSTLY * float(queue.max(initial=0))
        usual = min(overflow.levels.get(server, half), half)
        found.append(where(times, times + step, queue > max(usual, 1.0)))  # No other request delays one alone.
    return union(found)


def _overtaken(view: View, server: str, last_sent: int, first_end: int) -> bool:
    """Return whether nearly all visits that came to a server after the last slow request had left it before the first
    slow request was answered. These visits would also have waited in a queue."""
    came = view.visits.filter(
        pl.col("server").cast(pl.String) == server, pl.col("arrival") > last_sent, pl.col("arrival") < first_end
    )
    number, left = came.select(pl.len(), (pl.col("departure") < first_end).sum()).collect().row(0)
    return bool(left >= max(FEW, NEARLY * number))


def first_bytes(view: View, rows: pl.DataFrame) -> Times:
    """Return the time at which the first byte of the response left the entry, or the end of the request where it was
    not recorded."""
    entry = (
        view.visits.filter(pl.col("request").is_in(rows["request"].implode()), pl.col("parent").is_null())
        .group_by("request")
        .agg(pl.col("first_byte").max())
        .collect()
    )
    joined = rows.select("request", "end").join(entry, on="request", how="left", maintain_order="left")
    return joined.select(pl.coalesce("first_byte", "end")).to_series().to_numpy()


def told(view: View, account: Account, rows: pl.DataFrame) -> Accounted:
    """Return the sums, and list the requests of which the finding accounts for the least."""
    rest, missed = account.rest, ~account.explained
    order = np.argsort(-(account.transferred + rest), kind="stable")[:SLOWEST_MAX]
    columns = (rows["request"].to_numpy(), rows["sent"].to_numpy(), account.response, account.lost, account.queued)
    each = [[int(column[i]) for column in (*columns, account.transferred, rest)] for i in order.tolist()]
    places = Counter(filter(None, view.longest_stays(rows.filter(missed)) if missed.any() else ()))
    return Accounted(
        int(account.response.sum()),
        int(account.lost.sum()),
        int(account.queued.sum()),
        int(account.transferred.sum()),
        int(rest.sum()),
        int(np.count_nonzero(missed)),
        max(sorted(places), key=lambda place: places[place], default=None),
        tuple(Slowest(*one) for one in each),
    )


def sentence(told: Accounted, vlrt: int, *, unheard: bool = False) -> str:
    """Describe in words where the time went. `unheard` shows whether nobody sent the lost packet of some request
    again."""
    parts = [
        (told.lost_ns, f"until a lost packet was sent again{' or the client gave up' if unheard else ''}"),
        (told.queued_ns, "while queues were long"),
        (told.transferred_ns, "after the first byte of the response"),
    ]
    whole, rest = told.response_ns, told.unaccounted_ns
    long = [(ns, what) for ns, what in parts if ns >= MATTERS * whole]

    def size(ns: int) -> str:
        return duration(ns) if vlrt == 1 else share(ns / whole)

    of = f"Of the {duration(whole)}" if vlrt == 1 else "Of their time"
    said = f"{of}, {listing([f'{size(ns)} passed {what}' for ns, what in long])}" if long else ""
    if rest < MATTERS * whole:
        return f"{said}."
    if not said:
        return f"Nothing recorded accounts for {size(rest)}{'' if vlrt == 1 else ' of their time'}."
    return f"{said}; nothing recorded accounts for {size(rest)}."
