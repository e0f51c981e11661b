"""A crowd shows how many requests a server held when packets to it were lost. A queue overflows only where it is
long."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tailrace.diagnosis.constants import FINE_NS, LEAST_LIMIT, LONG_NS, MANY, MOSTLY, RARE, SEVERAL
from tailrace.diagnosis.queues import Stays, held_from
from tailrace.diagnosis.tables import LOGIN
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
    full = (inside >= SEVERAL) & ((as_many <= RARE) | held) & ~_passed(view, server, lost)
    unseen = _filled_before(stays, lost) & ~full
    # A full queue loses all packets that arrive. A path that loses some loses them at any queue length.
    return Crowd(
        float((full | unseen).mean()) >= MOSTLY,
        bool(unseen[0]),
        int(np.median(inside)),
        int(inside.max()),
    )


def _passed(view: View, server: str, lost: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return for each packet whether the first request accepted soon after it left before most of those that were
    inside when it came. One that a full queue accepts waits for these. A request that lost packets itself shows
    nothing. If some visits open connections, only they wait in the accept queue."""
    here = view.visits.filter(pl.col("server").cast(pl.String) == server, pl.col("arrival").is_not_null())
    intact = here.filter(pl.all_horizontal(pl.col("drops", "data_drops").fill_null(0) == 0))
    opens = pl.col("interaction").cast(pl.String).str.starts_with(LOGIN).fill_null(False)
    table = intact.select("arrival", "departure", opens=opens).collect().sort("arrival")
    came, left = (table.filter("opens") if table["opens"].any() else table).select("arrival", "departure").to_numpy().T
    if not len(came):
        return np.zeros(len(lost), dtype=bool)
    following = np.searchsorted(came, lost, "right")
    at = np.minimum(following, len(came) - 1)
    soon = (following < len(came)) & (came[at] - lost <= LONG_NS)
    stays = view.stays[server]
    before, after = (np.searchsorted(stays.departures, times) for times in (came[at], left[at]))
    return np.asarray(soon & (after - before < MOSTLY * (stays.queue(came[at]) - 1)))


def _filled_before(stays: Stays, lost: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return for each packet whether the requests seen to arrive until then cannot have filled the server's queue. It
    holds for no packet, unless several were lost in a row and fewer were accepted meanwhile. Then the queue was full
    before the recording began."""
    came = np.searchsorted(stays.arrivals, lost + FINE_NS, "right")
    young: NDArray[np.bool_] = (came * 2 < stays.longest) & (stays.longest >= SEVERAL)
    number = int(young.sum())
    shut = number >= LEAST_LIMIT and int(came[young].max()) < number
    return young if shut else np.zeros_like(young)
