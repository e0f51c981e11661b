"""This module holds one metric of one place over time, and reads it inside and outside an interval."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.constants import APART, HARDLY_ANY, MOSTLY, NEARLY, RARE, REPEATED_NS
from tailrace.diagnosis.queues import Times
from tailrace.diagnosis.spans import Spans, overlap
from tailrace.units import SECOND

AT_WORK = NEARLY
"""From this utilisation on, a CPU works as fast as it can: samples jitter by up to a tenth."""

TAKEN = HARDLY_ANY
"""If a tenth of the time is taken away, a server at 70 % of its CPU has too little left for an additional burst. Less
than that is taken with every small write, and the service demands of the few visits that share a step vary by as
much."""


LIMITS: dict[str, float] = {
    "cpu_iowait": MOSTLY,
    "cpu_steal": TAKEN,
    "cpu_throttled": TAKEN,
    "disk_busy": NEARLY,
    "psi_io": MOSTLY,
    "psi_cpu": MOSTLY,
    "psi_memory": MOSTLY,
}
"""A resource is saturated from these shares on. Waiting for I/O and pressure must last for most of the time (the
flushes in the papers read 100 %), a disk must be busy nearly always, and a tenth of the CPU time must be taken away.
Each value must also be three times the usual."""


def within_cores(begin: Times, end: Times, value: NDArray[np.float64], cores: int) -> NDArray[np.float64]:
    """Return samples of the CPU use of a server of which none exceeds the number of cores by more than samples jitter.
    A recorder finds new processes of a server some time after they began, and counts what they have used in one sample.
    This belongs to the second before, which is how often `tailrace record` looks for processes. If many samples exceed
    the number of cores, that number is wrong, and the samples are returned as they are."""
    late = np.flatnonzero((value > cores * APART) & (end > begin))
    if not len(late) or len(late) > RARE * len(value):
        return value
    lasted, found = end - begin, value.copy()
    first = np.searchsorted(end, end[late] - SECOND, "right")
    first[1:] = np.maximum(first[1:], late[:-1] + 1)  # The time before the last one belongs to that.
    for its in map(slice, first.tolist(), (late + 1).tolist()):
        found[its] = min(float(value[its] @ lasted[its]) / float(lasted[its].sum()), float(cores))
    return found


@dataclass(frozen=True)
class Series:
    """Each value covers [begin, end). The values are in the order of time."""

    place: str
    metric: str
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    value: NDArray[np.float64]

    @property
    def interval_ns(self) -> int:
        """Return the sampling interval (median)."""
        return int(np.median(self.end - self.begin)) if len(self.end) else 0

    @cached_property
    def capacity(self) -> float:
        """Return the most that the place can use, for a CPU metric. It is one core, unless samples show more use. Then
        it is the use in the busiest moments. Samples jitter: one core reads up to 1.06."""
        most = float(np.percentile(self.value, 99.9)) if len(self.value) else 1.0
        return most if most > 1.2 else 1.0

    def at_work(self, begin: int, end: int) -> bool:
        """Return whether the CPU was fully used, for a CPU metric."""
        return (self.median(begin, end) or 0.0) >= AT_WORK * self.capacity

    def within(self, begin: int, end: int) -> NDArray[np.bool_]:
        """Return the samples within [begin, end). If none fits completely, return those that share a half with it."""
        wholly = (self.begin >= begin) & (self.end <= end)
        if wholly.any():
            return wholly
        common = np.minimum(self.end, end) - np.maximum(self.begin, begin)
        half: NDArray[np.bool_] = common * 2 >= np.minimum(self.end - self.begin, end - begin)
        return half

    def around(self, begin: int, end: int) -> NDArray[np.bool_]:
        """Return the samples in which a kernel counts drops of packets that were sent from `begin` to `end`."""
        margin = max(self.interval_ns, REPEATED_NS)
        return self.within(begin - margin, end + margin)

    def during(self, begin: int, end: int) -> NDArray[np.float64]:
        return self.value[self.within(begin, end)]

    def mean(self, begin: int, end: int) -> float | None:
        values = self.during(begin, end)
        return float(values.mean()) if len(values) else None

    def median(self, begin: int, end: int) -> float | None:
        values = self.during(begin, end)
        return float(np.median(values)) if len(values) else None

    def calm(self, calm: Spans) -> float:
        """Return the mean of the samples that lie in calm time to at least a half. If there are no such samples, return
        the mean of all; without samples, return 0. A sample that covers more time has more weight."""
        share = overlap(calm, self.begin, self.end) * 2 >= self.end - self.begin
        rows = share if share.any() else np.ones(len(self.value), dtype=bool)
        lasted = (self.end - self.begin)[rows]
        return float(np.average(self.value[rows], weights=lasted)) if lasted.sum() > 0 else 0.0

    def at(self, times: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the values of the samples in which these times lie, and NaN where nothing was sampled. Samples are
        taken a little early or late, so a time up to a sampling interval before a sample, or after the last one, still
        belongs to it."""
        if not len(self.end):
            return np.full(len(times), np.nan)
        which = self.which(times)
        apart = np.maximum(self.begin[which] - times, times - self.end[which])
        return np.where(apart <= self.interval_ns, self.value[which], np.nan)

    def extended(self, times: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the same, but where nothing was sampled the value of the next sample: a model needs a value
        everywhere."""
        return self.value[self.which(times)]

    def which(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of the sample that ends next after each time, or of the last one."""
        return np.clip(np.searchsorted(self.end, times), 0, len(self.end) - 1)

    def resolves(self, begin: int, end: int) -> bool:
        """Return whether a sample shows this interval alone. This is so if two sampling intervals fit into it, because
        then one lies within it at any offset. It is also so if a sample happens to lie within it."""
        if self.interval_ns * 2 <= end - begin:
            return len(self.during(begin, end)) > 0
        return bool(((self.begin >= begin) & (self.end <= end)).any())
