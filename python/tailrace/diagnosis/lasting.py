"""This module finds an overload that lasts for most of a recording. No queue rises in it, because no calm time shows
how long the queue usually is. Where packets were dropped, a queue is held at its limit (`find`). Elsewhere, visits take
longer if they meet a longer queue (`crowded`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from tailrace.diagnosis.constants import LEAST_LIMIT, MOMENTS, MOSTLY, NEARLY, RARE
from tailrace.diagnosis.queues import held_from, plateau
from tailrace.diagnosis.ranks import grow_together
from tailrace.diagnosis.view import View
from tailrace.diagnosis.words import share


@dataclass(frozen=True)
class Lasting:
    server: str
    length: int
    """The queue was held at this length, or was longer in one of twenty moments."""
    sentence: str


def find(view: View, dropper: str) -> Lasting | None:
    """Return the server whose queue was held at its peak for most of the time. It is the furthest from the clients of
    those that calls connect with the dropper, because a full server fills those that call it. Where a sampler kept a
    share of the visits, the peak is unknown."""
    if view.kept(dropper) < 1:
        return None
    times = np.linspace(view.begin, int(view.sent[-1]), MOMENTS).astype(np.int64)
    for server in sorted(view.chain_of(dropper) & view.stays.keys(), key=lambda name: (-view.depth[name], name)):
        queue = view.stays[server].queue(times)
        limit = plateau(queue)
        held = 0.0 if limit is None else float(np.mean(queue >= held_from(limit)))
        if limit is not None and held > MOSTLY:
            sentence = (
                f"The queue of {server} was held at {limit:,} for {share(held)} of the time in which requests were "
                "sent, so the recording does not show when the overload began."
            )
            return Lasting(server, limit, sentence)
    return None


def crowded(view: View, server: str) -> Lasting | None:
    """Return the server if its queue was long at all times, and the visits that met a longer one took longer. If each
    visit waited for something of its own, its time would not depend on the queue."""
    if view.kept(server) < 1:
        return None
    stays = view.visits.filter(pl.col("server") == server, pl.col("arrival").is_not_null())
    met = stays.select("arrival", took=pl.col("departure") - pl.col("arrival")).collect()
    queue = view.stays[server].queue(met["arrival"].to_numpy())
    took = met["took"].to_numpy().astype(np.float64)
    if not grow_together(took, queue.astype(np.float64)) or float(np.mean(queue >= LEAST_LIMIT)) < NEARLY:
        return None
    short, long = (round(float(np.percentile(queue, part))) for part in (100 * RARE, 100 * (1.0 - RARE)))
    sentence = (
        f"{server} had {short:,} to {long:,} requests whenever requests were sent, and those that met more of them "
        f"took longer: {server} was overloaded, and the recording does not show when that began."
    )
    return Lasting(server, long, sentence)
