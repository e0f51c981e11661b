"""One metric of one place over time, and how to read it inside and outside an interval."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.spans import Spans, overlap, where

AT_WORK = 0.9
"""A CPU from this use on is at work as fast as it can: sampling jitters by up to a tenth."""

TAKEN = 0.1
"""A tenth of the time taken away, which a server at 70 % of its CPU no longer has to spare with a burst on top."""


@dataclass(frozen=True)
class Series:
    """Values over [begin, end) each, in the order of time."""

    place: str
    metric: str
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    value: NDArray[np.float64]

    @property
    def interval_ns(self) -> int:
        """The sampling interval (median)."""
        return int(np.median(self.end - self.begin)) if len(self.end) else 0

    @cached_property
    def capacity(self) -> float:
        """Of a CPU metric: what the place can use at most. One core, unless it was seen to use more (then what it used
        in its busiest moments). Sampling jitters: one core reads up to 1.06."""
        most = float(np.percentile(self.value, 99.9)) if len(self.value) else 1.0
        return most if most > 1.2 else 1.0

    def at_work(self, begin: int, end: int) -> bool:
        """Of a CPU metric: whether it was fully used."""
        return (self.median(begin, end) or 0.0) >= AT_WORK * self.capacity

    def _inside(self, begin: int, end: int) -> NDArray[np.bool_]:
        """Samples within [begin, end); where none fits wholly, those that it covers to the half."""
        wholly = (self.begin >= begin) & (self.end <= end)
        if wholly.any():
            return wholly
        common = np.minimum(self.end, end) - np.maximum(self.begin, begin)
        half: NDArray[np.bool_] = common * 2 >= np.minimum(self.end - self.begin, end - begin)
        return half

    def during(self, begin: int, end: int) -> NDArray[np.float64]:
        return self.value[self._inside(begin, end)]

    def mean(self, begin: int, end: int) -> float | None:
        values = self.during(begin, end)
        return float(values.mean()) if len(values) else None

    def median(self, begin: int, end: int) -> float | None:
        values = self.during(begin, end)
        return float(np.median(values)) if len(values) else None

    def calm(self, calm: Spans) -> float:
        """The mean over calm time: of samples that lie in it to at least the half; of all, where there is no calm time;
        0 without samples. A sample that covers more time counts for more."""
        share = overlap(calm, self.begin, self.end) * 2 >= self.end - self.begin
        rows = share if share.any() else np.ones(len(self.value), dtype=bool)
        lasted = (self.end - self.begin)[rows]
        return float(np.average(self.value[rows], weights=lasted)) if lasted.sum() > 0 else 0.0

    def at(self, times: NDArray[np.int64]) -> NDArray[np.float64]:
        """The values of the samples that these times lie in; of the next, where there is none."""
        return self.value[np.clip(np.searchsorted(self.end, times), 0, len(self.end) - 1)]

    def above(self, limit: float) -> Spans:
        return where(self.begin, self.end, self.value >= limit, gap=self.interval_ns // 2)

    def below(self, limit: float) -> Spans:
        return where(self.begin, self.end, self.value <= limit, gap=self.interval_ns // 2)

    def resolves(self, begin: int, end: int) -> bool:
        """Whether a sample tells of this interval alone: two fit into it, so that one lies within wherever it begins,
        or one happens to lie within."""
        if self.interval_ns * 2 <= end - begin:
            return len(self.during(begin, end)) > 0
        return bool(((self.begin >= begin) & (self.end <= end)).any())
