"""This module shows which visits are in service and which wait for a connection.

This distinguishes slow statements from a server that is slowed down. Slow statements that hold all workers of a server,
or all connections to it, use no CPU, and hardly any request is answered. A server that stands still looks the same, but
it stretches all visits in service. Slow statements take as long as usual.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from tailrace.diagnosis.view import View

MOSTLY = 0.5
"""This share of the visits in service is late where the server stands still. One visit at a time may be late by
chance."""
SLOWER = 3.6
"""A visit that is in service at a given moment takes longer than others (length-biased sampling). The median of
exponential service times is then 2.4 times as long (1.68 of x·e^-x over ln 2). Half more than that is slower."""
LOOKS = 100
"""The open calls are counted at this many moments of a stall."""


def holds_nobody(view: View, server: str, begin: int, end: int) -> bool:
    """Return whether most visits in service in the middle of that time exceed the usual time of their interaction by
    less than half of that time. Return False where their interaction is not known."""
    now = _served_at(view, server, (begin + end) // 2)
    late = now.filter(pl.col("served_ns") - pl.col("usual_ns") >= (end - begin) / 2)
    return len(now) > 0 and len(late) < (1.0 - MOSTLY) * len(now)


def as_usual(view: View, server: str, begin: int, end: int) -> bool:
    """Return whether the visits in service in the middle of that time are served as fast as their interaction usually
    is. Return False where their interaction is not known."""
    now = _served_at(view, server, (begin + end) // 2)
    times = (now["served_ns"] / now["usual_ns"].clip(1)).median()
    return isinstance(times, float) and times <= SLOWER


def _served_at(view: View, server: str, time: int) -> pl.DataFrame:
    served = view.served(server)
    return served.filter(pl.col("start") <= time, pl.col("start") + pl.col("served_ns") > time)


def held_by_calls(view: View, server: str, begin: int, end: int) -> bool:
    """Return whether the server had calls open for most of that time, all of them served as usual, and other requests
    waited for a connection. The calls of a server that stands still itself are answered meanwhile."""
    if not waits_for_connections(view, server, begin, end):
        return False
    times = np.linspace(begin, end, LOOKS).astype(np.int64)
    called = [c for c in view.callees_of(server) if np.median(view.calls[server][c].queue(times)) >= 1]
    return bool(called) and all(as_usual(view, callee, begin, end) for callee in called)


def waits_for_connections(view: View, server: str, begin: int, end: int) -> bool:
    """Return whether a request in it waited for a connection of a pool for most of that time."""
    return any((series.median(begin, end) or 0.0) >= 1.0 for series in view.series(server, "pool_waiting"))
