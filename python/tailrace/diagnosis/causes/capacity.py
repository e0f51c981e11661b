"""What the origin of a stall can do at its best, which several detectors compare with what was asked of it."""

from __future__ import annotations

import numpy as np

from tailrace.diagnosis.causes.case import Case
from tailrace.units import MILLISECOND, SECOND

BUSY_LEAST = 0.02
"""A CPU that is used less tells nothing of its capacity: sampling errors are as large."""


def capacity(case: Case) -> float:
    """Visits per second that the origin can answer."""
    for busy in case.view.series(case.origin, "cpu_busy"):
        used = case.usual(busy) / busy.capacity
        if used >= BUSY_LEAST:
            return case.stall.throughput_calm / min(used, 1.0)
    return best_throughput(case)


def best_throughput(case: Case) -> float:
    """The most the origin answered per second over 200 ms anywhere: what it can do for longer than chance allows."""
    span = 200 * MILLISECOND
    edges = np.arange(case.view.begin, case.view.end + span, span // 4, dtype=np.int64)
    answers = np.convolve(case.view.stays[case.origin].departed(edges), np.ones(4), mode="valid")
    return float(answers.max(initial=0)) * SECOND / span
