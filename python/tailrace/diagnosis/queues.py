"""Queue lengths, exact at any moment: the arrivals and departures of a server, each sorted.

A server's *own* queue is what it holds without waiting for a server behind it: N(server) less N(its calls downstream).
In a chain whose servers block, every queue contains the queues behind it, so all of them rise at once; the own queues
rise one after the other, which is the push-back wave (`lightning` 3.1, figure 6; `rpc-vs-async` figure 4).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.spans import Spans
from tailrace.units import MILLISECOND

Times = NDArray[np.int64]
Lengths = NDArray[np.int64] | NDArray[np.float64]
"""Of a queue, counted, or as arithmetic has it."""

STEPS_MOST = 4_000_000
"""Steps of one array (32 MB): eleven hours at 10 ms. Beyond that steps are wider."""
LEAST_LIMIT = 5
"""Of fewer than five, one less says nothing about a limit."""


class Moves(Protocol):
    """A clock that keeps the order of moments."""

    def of(self, times: Times) -> Times: ...


@dataclass(frozen=True)
class Stays:
    arrivals: Times
    departures: Times

    @classmethod
    def of(cls, arrivals: Times, departures: Times) -> Stays:
        return cls(np.sort(arrivals), np.sort(departures))

    def on(self, clock: Moves) -> Stays:
        """The same on another clock."""
        return Stays(clock.of(self.arrivals), clock.of(self.departures))

    def queue(self, times: Times) -> Times:
        """How many are inside at each time."""
        return np.searchsorted(self.arrivals, times, "right") - np.searchsorted(self.departures, times, "right")

    @cached_property
    def longest(self) -> int:
        """The most that were ever inside."""
        return int(self.queue(self.arrivals).max(initial=0))

    @cached_property
    def met(self) -> Times:
        """How many were inside when each came, in order of size."""
        return np.sort(self.queue(self.arrivals - 1))

    def arrived(self, edges: Times) -> Times:
        return np.diff(np.searchsorted(self.arrivals, edges))

    def departed(self, edges: Times) -> Times:
        return np.diff(np.searchsorted(self.departures, edges))


NOBODY = Stays(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


def together(parts: Collection[Stays]) -> Stays:
    """Who is inside any of them."""
    if not parts:
        return NOBODY
    arrivals, departures = (
        np.concatenate(each) for each in zip(*((p.arrivals, p.departures) for p in parts), strict=True)
    )
    return Stays.of(arrivals, departures)


@dataclass(frozen=True)
class Crowds:
    """When two or more are inside a server: nobody delays a request that is alone."""

    servers: tuple[str, ...]
    of_server: NDArray[np.int64]
    """The index in `servers` of each stretch."""
    begin: Times
    end: Times

    @classmethod
    def of(cls, stays: Mapping[str, Stays]) -> Crowds:
        found = [_crowded(one) for one in stays.values()]
        indexes = np.repeat(np.arange(len(found)), [len(begin) for begin, _ in found])
        begins, ends = ([np.empty(0, np.int64), *each] for each in (zip(*found, strict=True) if found else ((), ())))
        return cls(tuple(stays), indexes, np.concatenate(begins), np.concatenate(ends))

    def during(self, begin: int, end: int) -> list[str]:
        """The servers that are crowded at any time of a span, those that are it for longest first."""
        inside = np.minimum(self.end, end) - np.maximum(self.begin, begin)
        seen = inside >= 0
        lasted = np.bincount(self.of_server[seen], inside[seen] + 1, len(self.servers))
        longest = np.argsort(-lasted, kind="stable")[: np.count_nonzero(lasted)]
        return [self.servers[i] for i in longest.tolist()]


def _crowded(stays: Stays) -> tuple[Times, Times]:
    """From the arrival at which a second is inside until all but one have left."""
    begin, end = stays.arrivals[1:], stays.departures[:-1]
    crowded = end > begin
    begin, end = begin[crowded], end[crowded]
    first = np.append(True, begin[1:] > end[:-1])[: len(begin)]
    return begin[first], end[np.append(first[1:], True)[: len(end)]]


@dataclass(frozen=True)
class Rise:
    """An elevated stretch of a queue."""

    begin: int
    """The last moment at which the queue was still as usual."""
    end: int
    peak: int
    peak_at: int


EARLIER_NS = 50 * MILLISECOND
"""A queue that is about to rise leaves its typical length at most this long before it passes its high one; what it did
earlier was ordinary noise."""


def rises(
    times: Times, queue: Lengths, typical: float, high: float, gap: int, lost: int | None = None
) -> tuple[Rise, ...]:
    """Stretches above `high`, those closer than `gap` joined, each begun where the queue left `typical`. What is up
    when a packet is `lost` began before, however much higher it rises later."""
    above = queue > high
    if not above.any():
        return ()
    edges = np.flatnonzero(np.diff(np.concatenate(([0], above.astype(np.int8), [0]))))
    starts, stops = edges[::2], edges[1::2] - 1
    keep = np.concatenate(([True], times[starts[1:]] - times[stops[:-1]] > gap))
    starts, stops = starts[keep], stops[np.append(np.flatnonzero(keep)[1:] - 1, len(stops) - 1)]
    quiet = np.flatnonzero(queue <= typical)
    found = []
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        before = np.searchsorted(quiet, start)
        first = int(quiet[before - 1]) if before else 0
        first = max(first, int(np.searchsorted(times, times[start] - EARLIER_NS)))
        peak = start + int(np.argmax(queue[start : stop + 1]))
        until = peak if lost is None or lost < times[start] else int(np.searchsorted(times, lost))
        top = start + int(np.argmax(queue[start : min(until, stop) + 1]))
        # A wiggle before is not the rise: that begins where the queue was last as usual before its peak.
        low = np.flatnonzero(queue[first:top] <= typical)
        first += int(low[-1]) if len(low) else 0
        found.append(Rise(int(times[first]), int(times[stop]), int(queue[peak]), int(times[peak])))
    return tuple(found)


MORE = 1.5
DEVIATIONS = 4


def is_more(came: int, expected: float, part: float = 0.0, least: float = MORE) -> bool:
    """Whether so many are no chance: `least` times as many as expected, and four standard deviations of a Poisson
    stream (1 in 30,000); `part` is the time in which they came, in that in which those were counted from which they are
    expected (var(came - expected) = expected · (1 + part))."""
    chance = DEVIATIONS * (max(expected, 1.0) * (1.0 + part)) ** 0.5
    return bool(came > max(least * expected, expected + chance))


def held_from(limit: float) -> float:
    """How many are inside, at least, while a limit is reached: 3 % and one less than it, for so many places may be free
    for a moment after each departure."""
    return limit * 0.97 - 1


def plateau(queue: Times) -> int | None:
    """The limit a queue was held at: its peak, where it stayed within 3 % of it for a fifth of the stretch or more.

    A queue that grows and drains without a limit passes its peak (a triangle spends 6 % of its time in the top 3 %);
    one that is held there stays.
    """
    if len(queue) == 0:
        return None
    peak = int(queue.max())
    held = queue >= held_from(peak)
    return peak if peak >= LEAST_LIMIT and held.sum() >= 0.2 * len(queue) and held.sum() >= 10 else None


def levels(stays: Lengths) -> tuple[float, float]:
    """Typical and high level of a queue in calm time: what it exceeds in 10 % and in 1 % of the time.

    Stalls that made no request very slow lie in calm time, too, and move its last tenth. The tail of a queue without
    stalls is geometric (M/M/1: P(N ≥ n) = ρⁿ), so both follow from what it exceeds in a quarter of the time: they are
    log 10 / log 4 = 1.66 and log 100 / log 4 = 3.32 times as long.
    """
    if len(stays) == 0:
        return 0.0, 2.0
    quarter, typical, high = np.percentile(stays, (75, 90, 99)).tolist()
    return min(typical, 1.66 * quarter), max(min(high, 3.32 * quarter), 2.0)


def every(begin: int, end: int, step: int) -> Times:
    """Moments from `begin` to before `end`, a step apart; further apart where that were more than `STEPS_MOST`."""
    return np.arange(begin, end, max(step, (end - begin) // STEPS_MOST), dtype=np.int64)


def grid(calm: Spans, step: int, most: int = 200_000) -> Times:
    """Moments of calm time at regular steps, about so many at most."""
    total = int((calm[:, 1] - calm[:, 0]).sum()) // step if len(calm) else 0
    parts = [np.arange(begin, end, step * max(1, total // most), dtype=np.int64) for begin, end in calm.tolist()]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
