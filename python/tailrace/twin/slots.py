"""The workers of a server whose visits hold one while they wait: a process of gunicorn or PHP-FPM that waits for a
service that was not recorded.

While more requests wait than it has workers, all are at work, and Little's law gives their number: the rate of
departures times the time that a visit takes when nothing waits. If the CPU is busy then, it is the CPU that limits the
rate, and nothing follows about workers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from tailrace.diagnosis.constants import LEAST_LIMIT
from tailrace.diagnosis.view import View
from tailrace.twin.demands import Demands
from tailrace.units import MILLISECOND

LEAST_WINDOWS = 5
BUSY = 0.7
"""The share of the CPU from which it may be what limits the rate: threads wait for it more often than not."""
COMPUTES = 0.5
"""The share of its time alone that a visit computes at most. Beyond it, a lack of CPU time (a quota, a neighbour)
limits the rate whatever the number of workers."""
SPREAD = 0.5
"""Departures of windows may differ by half: those of a few workers do, and those of a stalled server differ by more."""
SHORTEST = 20 * MILLISECOND
"""A window is longer than a few samples of a kernel's clock tick."""


@dataclass(frozen=True)
class Slots:
    workers: int
    alone_ns: float
    """How long a visit takes when nothing waits."""


def find(view: View) -> dict[str, Slots]:
    """By server, those that no topology states and the recording shows."""
    found = {}
    for name in view.servers:
        known = view.topology.server(name)
        if known is None or not (known.workers or known.kind == "async"):
            slots = serving(view, name)
            if slots:
                found[name] = slots
    return found


def waiting(needs: Demands, alone: Mapping[str, float]) -> Demands:
    """The demands with waits that make a visit take so long alone in these tiers, on average. Visits that wait at the
    same time do not share the CPU, which other estimates of waits take them to do."""
    of_kind = dict(needs.of_kind)
    for tier, whole in alone.items():
        mine = {number: need for number, need in of_kind.items() if need.tier == tier}
        visits = sum(need.visits for need in mine.values())
        compute, wait = (
            sum(getattr(need, key) * need.visits for need in mine.values()) / visits
            for key in ("compute_ns", "wait_ns")
        )
        lacks = max(whole - compute - wait, 0.0)
        for number, need in mine.items():
            more = lacks * need.wait_ns / wait if wait else lacks
            of_kind[number] = replace(need, wait_ns=need.wait_ns + more)
    return replace(needs, of_kind=of_kind)


def serving(view: View, server: str) -> Slots | None:
    """None if the recording does not show it."""
    if any(callee != server for callee in view.calls.get(server, {})):
        return None
    stays = view.stays[server]
    if stays.longest < 2 * LEAST_LIMIT:
        return None
    visits = (
        view.visits.filter(pl.col("server").cast(pl.String) == server, pl.col("departure") >= pl.col("arrival"))
        .select("arrival", "departure")
        .collect()
    )
    arrival, departure = visits["arrival"].to_numpy(), visits["departure"].to_numpy()
    inside = stays.queue(arrival)
    alone = (departure - arrival)[inside <= np.percentile(inside, 25)]
    takes = float(np.median(alone)) if len(alone) else 0.0
    width = max(2 * int(takes), SHORTEST)
    starts = np.arange(view.begin, view.end - width, width)
    full = np.minimum(stays.queue(starts), stays.queue(starts + width)) >= stays.longest / 2
    left = np.searchsorted(stays.departures, starts + width) - np.searchsorted(stays.departures, starts)
    if full.sum() < LEAST_WINDOWS:
        return None
    low, middle, high = np.percentile(left[full], (25, 50, 75)).tolist()
    rate = float(left[full][(left[full] >= low) & (left[full] <= high)].mean()) / width
    busy = _cpu(view, server, starts[full], width)
    waits = busy < BUSY and busy <= COMPUTES * rate * takes
    count = round(rate * takes)
    steady = middle > 0 and high - low <= SPREAD * middle
    return Slots(count, takes) if waits and steady and 0 < count < stays.longest / 2 else None


def _cpu(view: View, server: str, starts: np.ndarray, width: int) -> float:
    """The median CPU use of the server in these windows; 1 if it was not sampled."""
    found = view.series(server, "cpu_busy")
    if not found:
        return 1.0
    one = found[0]
    return float(np.median(one.extended(starts + width // 2))) if len(one.value) else 1.0
