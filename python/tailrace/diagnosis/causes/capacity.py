"""What the origin of a stall can do at its best, which several detectors compare with what was asked of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tailrace.diagnosis.causes.case import Case
from tailrace.diagnosis.series import Series
from tailrace.units import MILLISECOND, SECOND

BUSY_LEAST = 0.02
"""A CPU that is used less tells nothing of its capacity: sampling errors are as large."""


def capacity(case: Case) -> float:
    """Visits per second that the origin can answer, at its highest clock rate where that is known."""
    for busy in case.view.series(case.origin, "cpu_busy"):
        used = case.usual(_in_cycles(case, busy)) / busy.capacity
        if used >= BUSY_LEAST:
            return case.stall.throughput_calm / min(used, 1.0)
    return best_throughput(case)


def clock_rate(case: Case) -> Series | None:
    """Of the origin, its node or its host; of cores that nobody assigned to a server the fastest: others may idle."""
    rates = case.view.series(case.origin, "cpu_hz") or case.view.around(case.origin, "cpu_hz")
    return max(rates, key=lambda hz: hz.mean(case.stall.begin, case.stall.end) or 0.0, default=None)


def _in_cycles(case: Case, busy: Series) -> Series:
    """What a CPU would have used at its highest clock rate for the same work."""
    hz = clock_rate(case)
    if hz is None:
        return busy
    middle = (busy.begin + busy.end) // 2
    at = np.clip(np.searchsorted(hz.end, middle), 0, len(hz.end) - 1)
    return replace(busy, metric="cpu_cycles", value=busy.value * hz.value[at] / hz.value.max())


def best_throughput(case: Case) -> float:
    """The most the origin answered per second over 200 ms anywhere: what it can do for longer than chance allows."""
    span = 200 * MILLISECOND
    edges = np.arange(case.view.begin, case.view.end + span, span // 4, dtype=np.int64)
    answers = np.convolve(case.view.stays[case.origin].departed(edges), np.ones(4), mode="valid")
    return float(answers.max(initial=0)) * SECOND / span
