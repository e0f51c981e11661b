"""A crowd shows how many requests a server held when packets to it were lost. A queue overflows only where it is
long."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tailrace.diagnosis.constants import FINE_NS, LEAST_LIMIT, MANY, MOSTLY, RARE, SEVERAL
from tailrace.diagnosis.queues import Stays, held_from
from tailrace.diagnosis.view import View


@dataclass(frozen=True)
class Crowd:
    """It describes one server at the times when packets to it were lost."""

    long: bool
    """It shows whether most packets were lost while the queue was so long that hardly any other request was
    accepted."""
    before: bool
    """It shows whether the queue can only have been filled before the recording began."""
    inside: int
    """It is the number of requests that the server held then (median)."""
    inside_most: int | None
    """It is the largest number of requests that the server held then, or None where no visit to it is recorded."""


NONE_SEEN = Crowd(False, False, 0, None)


def crowd(view: View, server: str, lost: NDArray[np.int64]) -> Crowd:
    """`lost` holds the times at which the packets were sent, in order."""
    stays = view.stays.get(server)
    if stays is None or not len(stays.arrivals):
        return NONE_SEEN
    # A request sent together with a lost packet takes up to a step to arrive.
    inside = np.maximum(stays.queue(lost), stays.queue(lost + FINE_NS))
    as_many = 1.0 - np.searchsorted(stays.met, inside) / len(stays.met)
    # A full queue accepts nothing, so hardly any accepted request found as many inside as there were at a loss. If
    # losses have nothing to do with the queue, one in two finds more inside than half of the accepted requests do. A
    # queue that was never longer than `MANY` comes within one of its longest by chance; a limit holds a longer one.
    held = (stays.longest >= MANY) & (inside >= held_from(stays.longest))
    # The smallest server holds three requests: it serves one, and the shortest accept queue (a backlog of 0 or 1) has
    # one or two places.
    full = (inside >= SEVERAL) & ((as_many <= RARE) | held)
    unseen = _filled_before(stays, lost) & ~full
    # A full queue loses all packets that arrive. A path that loses some loses them at any queue length.
    return Crowd(
        float((full | unseen).mean()) >= MOSTLY and not _is_astray(view, server, stays, lost, inside),
        bool(unseen[0]),
        int(np.median(inside)),
        int(inside.max()),
    )


def _is_astray(view: View, server: str, stays: Stays, lost: NDArray[np.int64], inside: NDArray[np.int64]) -> bool:
    """Return whether the packets were lost on a path that loses packets at any queue length. Two facts show it. Packets
    of open connections to the server were lost at the same time, which no accept queue drops. And requests accepted
    meanwhile found as many inside: about half of them do if losses have nothing to do with the queue, and hardly any
    if it was full."""
    begin, end = int(lost[0]), int(lost[-1])
    data = pl.col("data_drops").fill_null(0) > 0
    its = (pl.col("server").cast(pl.String) == server) & pl.col("sent").is_between(begin, end)
    opened = sum(len(table.filter(data, its)) for table in (view.lossy, view.requests))
    first, last = np.searchsorted(stays.arrivals, (begin, end))
    if opened < SEVERAL or last - first < SEVERAL:
        return False
    came = stays.arrivals[first:last]
    met = np.sort(stays.queue(came - 1))
    return float((1.0 - np.searchsorted(met, inside) / len(met)).mean()) >= MOSTLY / 2


def _filled_before(stays: Stays, lost: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return for each packet whether the requests seen to arrive until then cannot have filled the server's queue. It
    holds for no packet, unless several were lost in a row and fewer were accepted meanwhile. Then the queue was full
    before the recording began."""
    came = np.searchsorted(stays.arrivals, lost + FINE_NS, "right")
    young: NDArray[np.bool_] = (came * 2 < stays.longest) & (stays.longest >= SEVERAL)
    number = int(young.sum())
    shut = number >= LEAST_LIMIT and int(came[young].max()) < number
    return young if shut else np.zeros_like(young)
