"""The diagnosis' own clock, which hardly runs while nothing happens: work and memory follow what was recorded.

A ring buffer that was idle for a month has few requests and many million steps of 10 ms. So of every span in which no
request or visit is sent, accepted or answered only the ends are kept, and what happened later is moved forward. What is
reported is moved back (`restore`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.queues import Stays, Times
from tailrace.diagnosis.spans import Spans, spans, union
from tailrace.units import SECOND

IDLE_NS = 10 * SECOND
"""What is left of an idle span: twice the time around a cluster that is not calm (`vlrt`), and the time before it in
which a queue may have begun to rise (`overflow`), with some to spare."""
UNDER_WAY_NS = 3600 * SECOND
"""… and of one in which a request or a visit is under way: waits of seconds and minutes keep their length. Longer ones
are of connections that are kept open."""

PAUSES = 10
"""Of exponential pauses, one in 22,000 is longer than ten times the mean."""
MOMENTS = ("begin", "end", "rise", "full", "sent")
"""Fields of what is reported that hold a moment."""

T = TypeVar("T")


@dataclass(frozen=True)
class Clock:
    """`cuts`: begin of what is left out, in real time, in order; `taken`: how much was left out up to there; `left`: of
    each idle span, how much was kept, half of it before the cut and half of it behind."""

    cuts: Times
    taken: Times
    left: Times

    @property
    def runs(self) -> bool:
        """Whether it differs from real time at all."""
        return len(self.cuts) > 0

    def of(self, times: NDArray[np.int64]) -> Times:
        """Real times on this clock; what lies in a span that is left out is at its begin."""
        if not self.runs:
            return times
        before = np.searchsorted(self.cuts, times, "right")
        total = np.concatenate(([0], self.taken))
        inside = np.concatenate(([0], np.diff(total)))[before]
        since = times - np.concatenate(([0], self.cuts))[before]
        moved: Times = times - total[np.maximum(before - 1, 0)] - np.where(before > 0, np.minimum(since, inside), 0)
        return moved

    def real(self, time: int) -> int:
        """The real time of a moment on this clock; of one at which a span was left out, the one before it."""
        here = self.cuts - np.concatenate(([0], self.taken[:-1])) if self.runs else self.cuts
        passed = int(np.searchsorted(here, time, "left"))
        return time + (int(self.taken[passed - 1]) if passed else 0)

    def idle(self, usual: int) -> Spans:
        """What is left of the idle spans, on this clock, but for `PAUSES` times as long as requests are `usual`ly
        apart: where one comes every second, a pause of some seconds is part of the load."""
        spare = min(PAUSES * usual, IDLE_NS)
        middle, half = self.of(self.cuts), np.maximum(self.left - spare, 0) // 2
        return spans(np.column_stack((middle - half, middle + half)))

    def restore(self, value: T) -> T:
        """A finding, an episode, a diagnosis with real moments."""
        return value if not self.runs else _restored(self, value)


NONE = np.empty(0, dtype=np.int64)
REAL = Clock(NONE, NONE, NONE)


def clock_of(stays: Sequence[Stays]) -> Clock:
    """Of all stays of requests and visits: what happens is that one begins or ends."""
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
    """From each moment to the next, unless that is an idle span later; `times` are sorted."""
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
