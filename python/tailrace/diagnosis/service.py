"""Who is being served: whether they take longer than requests of their interaction usually take there.

A server that stands still stretches the visits of all whom it serves; slow statements that hold its workers, or the
connections to it, do not. Both use no CPU and answer hardly anybody.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from tailrace.diagnosis.view import View

MOSTLY = 0.5
"""Of those being served, who must take as long as usual. One at a time may be late by chance, and a server that stands
still makes all of them late."""
LOOKS = 100
"""At so many moments of a stall it is seen whether calls are open."""


def as_usual(view: View, server: str, begin: int, end: int) -> bool:
    """Whether those served in the middle of that time took less than half of it more than their interaction usually
    does (its median); False where it is not known when they were served, or what they are."""
    served, middle = view.served(server), (begin + end) // 2
    now = served.filter(pl.col("start") <= middle, pl.col("start") + pl.col("served_ns") > middle)
    late = now.filter(pl.col("served_ns") - pl.col("usual_ns") >= (end - begin) / 2)
    return len(now) > 0 and len(late) < (1.0 - MOSTLY) * len(now)


def held_by_calls(view: View, server: str, begin: int, end: int) -> bool:
    """Whether it had calls open for most of that time, all of them served as usual, and others waited for a connection.
    Those of a server that stands still itself are answered meanwhile."""
    if not any((series.median(begin, end) or 0.0) >= 1.0 for series in view.series(server, "pool_waiting")):
        return False
    times = np.linspace(begin, end, LOOKS).astype(np.int64)
    called = [c for c in view.callees_of(server) if np.median(view.calls[server][c].queue(times)) >= 1]
    return bool(called) and all(as_usual(view, callee, begin, end) for callee in called)
