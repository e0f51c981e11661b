"""The diagnosis has its own clock, which hardly runs while nothing happens. Work and memory follow what was recorded.

A ring buffer that was idle for a month has few requests and many million steps of 10 ms. An idle span is one in which
no request or visit is sent, accepted or answered. Only the ends of such a span are kept, and later events are moved
forward. The times that are reported are moved back (`restore`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.constants import EXPECTED
from tailrace.diagnosis.queues import Stays, Times
from tailrace.diagnosis.spans import Spans, spans, union
from tailrace.units import SECOND

IDLE_NS = 10 * SECOND
"""This much of an idle span is kept. It is twice the time around a cluster that is not calm (`vlrt`), and the time
before it in which a queue may have begun to rise (`overflow`), with some to spare."""
UNDER_WAY_NS = 3600 * SECOND
"""This much is kept of an idle span in which a request or a visit is under way. So waits of seconds and minutes keep
their length. Longer waits are those of connections that are kept open."""

MOMENTS = ("begin", "end", "rise", "full", "sent")
"""Fields with these names hold a moment in what is reported."""

T = TypeVar("T")


@dataclass(frozen=True)
class Clock:
    """`cuts` holds where each part that is left out begins, in real time and in order. `taken` holds how much was left
    out up to the end of that part. `left` holds how much of each idle span was kept, half of it before the cut and half
    of it behind."""

    cuts: Times
    taken: Times
    left: Times

    @property
    def runs(self) -> bool:
        """Return whether it differs from real time at all."""
        return len(self.cuts) > 0

    def of(self, times: NDArray[np.int64]) -> Times:
        """Convert real times to this clock. A time in a part that is left out becomes the time at which that part
        begins."""
        if not self.runs:
            return times
        before = np.searchsorted(self.cuts, times, "right")
        total = np.concatenate(([0], self.taken))
        inside = np.concatenate(([0], np.diff(total)))[before]
        since = times - np.concatenate(([0], self.cuts))[before]
        moved: Times = times - total[np.maximum(before - 1, 0)] - np.where(before > 0, np.minimum(since, inside), 0)
        return moved

    def real(self, time: int) -> int:
        """Return the real time of a moment on this clock. If a part was left out at this moment, return the real time
        before that part."""
        here = self.cuts - np.concatenate(([0], self.taken[:-1])) if self.runs else self.cuts
        passed = int(np.searchsorted(here, time, "left"))
        return time + (int(self.taken[passed - 1]) if passed else 0)

    def idle(self, usual: int) -> Spans:
        """Return what is left of the idle spans on this clock, less `EXPECTED` times the `usual` time between requests.
        If a request arrives every second, a pause of some seconds is part of the load."""
        spare = min(int(EXPECTED) * usual, IDLE_NS)
        middle, half = self.of(self.cuts), np.maximum(self.left - spare, 0) // 2
        return spans(np.column_stack((middle - half, middle + half)))

    def restore(self, value: T) -> T:
        """Return a finding, an episode or a diagnosis with real moments."""
        return value if not self.runs else _restored(self, value)


NONE = np.empty(0, dtype=np.int64)
REAL = Clock(NONE, NONE, NONE)


def clock_of(stays: Sequence[Stays]) -> Clock:
    """Return the clock for all stays of requests and visits. An event is the begin or the end of a stay."""
    times = [side for each in stays for side in (each.arrivals, each.departures) if len(side)]
    busy = union(_busy(side) for side in times)
    if len(busy) < 2:
        return REAL
    first, gaps = busy[:-1, 1] - 1, busy[1:, 0] - busy[:-1, 1] + 1
    under_way = sum((each.queue(first) for each in stays), np.zeros_like(first))
    left = np.where(under_way > 0, UNDER_WAY_NS, IDLE_NS)
    cut = gaps > left
    if not cut.any():
        return REAL
    return Clock((first + left // 2)[cut], np.cumsum((gaps - left)[cut]), left[cut])


def _busy(times: Times) -> Spans:
    """Return the spans from each moment to the next, unless the next is an idle span later. `times` must be sorted."""
    breaks = np.flatnonzero(np.diff(times) > IDLE_NS)
    begins, ends = np.concatenate(([0], breaks + 1)), np.concatenate((breaks, [len(times) - 1]))
    return np.column_stack((times[begins], times[ends] + 1))


def _restored(clock: Clock, value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_restored(clock, item) for item in value)
    if not is_dataclass(value) or isinstance(value, type):
        return value
    changed = {}
    for field in fields(value):
        old = getattr(value, field.name)
        if field.name in MOMENTS and isinstance(old, int):
            changed[field.name] = clock.real(old)
        elif isinstance(old, tuple) or is_dataclass(old):
            changed[field.name] = _restored(clock, old)
    return replace(value, **changed)
