"""The CPU ran below its highest clock rate: `cpu_hz` was below `cpu_hz_max`, or below the highest rate that was
seen."""

from __future__ import annotations

import numpy as np

from tailrace.diagnosis.causes.capacity import clock_rate, full_rate
from tailrace.diagnosis.causes.frequency_step import CAUSE
from tailrace.diagnosis.ledger.losses.loss import Loss, Seen, blur

__all__ = ["CAUSE", "EVENTS", "METRICS", "PLAIN", "SAYS", "find"]

SAYS = "the low clock rate of {server}"
PLAIN = "the CPU of {origin} was still at a low clock rate when the work came"
METRICS, EVENTS = ("cpu_hz",), ("frequency_step",)


def find(seen: Seen, server: str) -> Loss | None:
    hz = clock_rate(seen.view, server, int(seen.steps.begins[0]), int(seen.steps.begins[-1]))
    if hz is None:
        return None
    highest = full_rate(seen.view, server, hz)
    return Loss(np.clip(1.0 - seen.at(hz) / max(highest, 1.0), 0.0, 1.0), blur(hz), hz.place)
