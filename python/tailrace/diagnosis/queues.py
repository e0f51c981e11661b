"""This module computes queue lengths, which are exact at any moment. It sorts the arrivals and the departures of a
server.

A server's *own* queue contains the visits that do not wait for a server behind it: N(server) minus N(its calls
downstream). In a chain of servers that block, every queue contains the queues behind it, so all of them rise at once.
The own queues rise one after the other. This is the push-back wave (`lightning` 3.1, figure 6; `rpc-vs-async` figure
4).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.constants import ALIKE, FEW, LEAST_LIMIT, SIGMAS, WINDOW_NS
from tailrace.diagnosis.spans import Spans

Times = NDArray[np.int64]
Lengths = NDArray[np.int64] | NDArray[np.float64]
"""Queue lengths are integers if they are counted, and may be fractions if they are calculated."""

STEPS_MOST = 4_000_000
"""One array has at most this many steps (32 MB): eleven hours at 10 ms. For a longer time, the steps are wider."""


class Moves(Protocol):
    """This is a clock that keeps the order of moments."""

    def of(self, times: Times) -> Times: ...


@dataclass(frozen=True)
class Stays:
    arrivals: Times
    departures: Times

    @classmethod
    def of(cls, arrivals: Times, departures: Times) -> Stays:
        # Tables are nearly in order, and a stable sort needs a tenth of the time for that.
        return cls(np.sort(arrivals, kind="stable"), np.sort(departures, kind="stable"))

    def on(self, clock: Moves) -> Stays:
        """Return the same stays on another clock."""
        return Stays(clock.of(self.arrivals), clock.of(self.departures))

    def queue(self, times: Times) -> Times:
        """Return how many are inside at each time."""
        return np.searchsorted(self.arrivals, times, "right") - np.searchsorted(self.departures, times, "right")

    @cached_property
    def longest(self) -> int:
        """Return the largest number that was ever inside."""
        return int(self.queue(self.arrivals).max(initial=0))

    @cached_property
    def met(self) -> Times:
        """Return how many were inside when each visit came, sorted by this number."""
        return np.sort(self.queue(self.arrivals - 1))

    def arrived(self, edges: Times) -> Times:
        return np.diff(np.searchsorted(self.arrivals, edges))

    def departed(self, edges: Times) -> Times:
        return np.diff(np.searchsorted(self.departures, edges))


NOBODY = Stays(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


def together(parts: Collection[Stays]) -> Stays:
    """Return the visits that are inside any of the parts."""
    if not parts:
        return NOBODY
    arrivals, departures = (
        np.concatenate(each) for each in zip(*((p.arrivals, p.departures) for p in parts), strict=True)
    )
    return Stays.of(arrivals, departures)


@dataclass(frozen=True)
class Crowds:
    """These are the times when two or more visits are inside a server. Nothing else delays a request that is alone."""

    servers: tuple[str, ...]
    of_server: NDArray[np.int64]
    """This is the index in `servers` of each stretch."""
    begin: Times
    end: Times

    @classmethod
    def of(cls, stays: Mapping[str, Stays]) -> Crowds:
        found = [_crowded(one) for one in stays.values()]
        indexes = np.repeat(np.arange(len(found)), [len(begin) for begin, _ in found])
        begins, ends = ([np.empty(0, np.int64), *each] for each in (zip(*found, strict=True) if found else ((), ())))
        return cls(tuple(stays), indexes, np.concatenate(begins), np.concatenate(ends))

    def during(self, begin: int, end: int) -> list[str]:
        """Return the servers that are crowded at any time of a span. The server that is crowded for longest comes
        first."""
        inside = np.minimum(self.end, end) - np.maximum(self.begin, begin)
        seen = inside >= 0
        lasted = np.bincount(self.of_server[seen], inside[seen] + 1, len(self.servers))
        longest = np.argsort(-lasted, kind="stable")[: np.count_nonzero(lasted)]
        return [self.servers[i] for i in longest.tolist()]


def _crowded(stays: Stays) -> tuple[Times, Times]:
    """Return stretches that begin when a second visit arrives and end when all but one have left."""
    begin, end = stays.arrivals[1:], stays.departures[:-1]
    crowded = end > begin
    begin, end = begin[crowded], end[crowded]
    first = np.append(True, begin[1:] > end[:-1])[: len(begin)]
    return begin[first], end[np.append(first[1:], True)[: len(end)]]


@dataclass(frozen=True)
class Rise:
    """This is a stretch in which a queue is elevated."""

    begin: int
    """This is the last moment at which the queue was still as usual."""
    end: int
    peak: int
    peak_at: int


def rises(
    times: Times, queue: Lengths, typical: float, high: float, gap: int, lost: int | None = None
) -> tuple[Rise, ...]:
    """Return stretches above `high`. Stretches closer than `gap` are joined. Each begins where the queue left
    `typical`. A rise that is up when a packet is `lost` began before the loss, however much higher it rises later."""
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
        # Earlier changes than a window before were ordinary noise.
        first = max(first, int(np.searchsorted(times, times[start] - WINDOW_NS)))
        peak = start + int(np.argmax(queue[start : stop + 1]))
        until = peak if lost is None or lost < times[start] else int(np.searchsorted(times, lost))
        top = start + int(np.argmax(queue[start : min(until, stop) + 1]))
        # A small rise before it is not the rise, which begins where the queue was last as usual before its peak.
        low = np.flatnonzero(queue[first:top] <= typical)
        first += int(low[-1]) if len(low) else 0
        found.append(Rise(int(times[first]), int(times[stop]), int(queue[peak]), int(times[peak])))
    return tuple(found)


def is_more(came: int, expected: float) -> bool:
    """Return whether so many cannot be chance in a Poisson stream."""
    return bool(came > expected + SIGMAS * max(expected, 1.0) ** 0.5)


def held_from(limit: float) -> float:
    """Return how many are inside, at least, while a limit is reached. This is a twentieth and one less than the limit,
    because so many places may be free for a moment after each departure."""
    return limit * (1.0 - ALIKE) - 1


def plateau(queue: Times) -> int | None:
    """Return the limit that held a queue. It is the peak, if the queue stayed within a twentieth of it for a fifth of
    the stretch or more.

    A queue that grows and drains without a limit passes its peak (a triangle spends a twentieth of its time in the
    highest twentieth). A queue that is held at a limit stays there.
    """
    if len(queue) == 0:
        return None
    peak = int(queue.max())
    held = queue >= held_from(peak)
    return peak if peak >= LEAST_LIMIT and held.sum() >= 0.2 * len(queue) and held.sum() >= FEW else None


def levels(stays: Lengths) -> tuple[float, float]:
    """Return the typical and the high level of a queue in calm time. It exceeds them in 10 % and in 1 % of the time.

    Calm time also contains stalls that made no request very slow, and they move its last tenth. Without stalls, the
    tail of a queue is geometric (M/M/1: P(N ≥ n) = ρⁿ). So both levels follow from the length that the queue exceeds in
    a quarter of the time: they are log 10 / log 4 = 1.66 and log 100 / log 4 = 3.32 times as long.
    """
    if len(stays) == 0:
        return 0.0, 2.0
    quarter, typical, high = np.percentile(stays, (75, 90, 99)).tolist()
    return min(typical, 1.66 * quarter), max(min(high, 3.32 * quarter), 2.0)


def every(begin: int, end: int, step: int) -> Times:
    """Return moments from `begin` to before `end`, a step apart. They are further apart if there would be more than
    `STEPS_MOST`."""
    return np.arange(begin, end, max(step, (end - begin) // STEPS_MOST), dtype=np.int64)


def grid(calm: Spans, step: int, most: int = 200_000) -> Times:
    """Return moments of calm time at regular steps, at most about `most`."""
    total = int((calm[:, 1] - calm[:, 0]).sum()) // step if len(calm) else 0
    parts = [np.arange(begin, end, step * max(1, total // most), dtype=np.int64) for begin, end in calm.tolist()]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
