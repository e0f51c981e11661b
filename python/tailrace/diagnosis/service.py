"""Who is being served, and who waits for a connection: what tells slow statements from a server that is slowed down.

Slow statements that hold all workers of a server, or all connections to it, use no CPU and answer hardly anybody, as a
server does that stands still. But that one stretches the visits of all whom it serves; they take as long as usual.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from tailrace.diagnosis.view import View

MOSTLY = 0.5
"""Of those being served, who are late where it stands still: one at a time may be late by chance."""
SLOWER = 3.6
"""Who is met in service at a moment is served for longer than others: 2.4 times as long, in the median, of exponential
ones (1.68 of x·e^-x over ln 2). Half more than that is slower."""
LOOKS = 100
"""At so many moments of a stall it is seen whether calls are open."""


def holds_nobody(view: View, server: str, begin: int, end: int) -> bool:
    """Whether those served in the middle of that time took less than half of it more than their interaction usually
    does; False where it is not known what they are."""
    now = _served_at(view, server, (begin + end) // 2)
    late = now.filter(pl.col("served_ns") - pl.col("usual_ns") >= (end - begin) / 2)
    return len(now) > 0 and len(late) < (1.0 - MOSTLY) * len(now)


def as_usual(view: View, server: str, begin: int, end: int) -> bool:
    """Whether those served in the middle of that time are served as fast as their interaction usually is; False where
    it is not known what they are."""
    now = _served_at(view, server, (begin + end) // 2)
    times = (now["served_ns"] / now["usual_ns"].clip(1)).median()
    return isinstance(times, float) and times <= SLOWER


def _served_at(view: View, server: str, time: int) -> pl.DataFrame:
    served = view.served(server)
    return served.filter(pl.col("start") <= time, pl.col("start") + pl.col("served_ns") > time)


def held_by_calls(view: View, server: str, begin: int, end: int) -> bool:
    """Whether it had calls open for most of that time, all of them served as usual, and others waited for a connection.
    Those of a server that stands still itself are answered meanwhile."""
    if not waits_for_connections(view, server, begin, end):
        return False
    times = np.linspace(begin, end, LOOKS).astype(np.int64)
    called = [c for c in view.callees_of(server) if np.median(view.calls[server][c].queue(times)) >= 1]
    return bool(called) and all(as_usual(view, callee, begin, end) for callee in called)


def waits_for_connections(view: View, server: str, begin: int, end: int) -> bool:
    """Whether most of that time a request in it waited for a connection of a pool."""
    return any((series.median(begin, end) or 0.0) >= 1.0 for series in view.series(server, "pool_waiting"))
