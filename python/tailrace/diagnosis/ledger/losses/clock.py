"""The CPU ran below its highest clock rate: `cpu_hz` was below `cpu_hz_max`, or below the highest rate that was
seen."""

from __future__ import annotations

import numpy as np

from tailrace.diagnosis.ledger.losses.loss import Loss, Seen, blur
from tailrace.diagnosis.series import Series
from tailrace.diagnosis.view import View

CAUSE = "frequency-step"
SAYS = "the low clock rate of {server}"
PLAIN = "the CPU of {origin} was still at a low clock rate when the work came"
METRICS, EVENTS = ("cpu_hz",), ("frequency_step",)
COMPUTES = True


def find(seen: Seen, server: str) -> Loss | None:
    hz = clock_rate(seen.view, server, int(seen.steps.begins[0]), int(seen.steps.begins[-1]))
    if hz is None:
        return None
    highest = full_rate(seen.view, server, hz)
    return Loss(np.clip(np.nan_to_num(1.0 - seen.at(hz) / max(highest, 1.0)), 0.0, 1.0), blur(hz), hz.place)


def clock_rate(view: View, server: str, begin: int, end: int) -> Series | None:
    """Return the clock rate of a server, its node or its host. If cores are assigned to no server, return the rate of
    the core that was fastest in that time, because others may idle."""
    known = view.series(server, "cpu_hz") or view.around(server, "cpu_hz")
    rates = (hz for hz in known if hz.value.any())
    return max(rates, key=lambda hz: hz.mean(begin, end) or 0.0, default=None)


def full_rate(view: View, server: str, hz: Series) -> float:
    """Return the highest clock rate that was sampled, or the one that is documented as possible. A load may end before
    a governor reaches that rate."""
    said = view.series(server, "cpu_hz_max") or view.around(server, "cpu_hz_max")
    return max(float(each.value.max()) for each in (hz, *said))


def missing(view: View, server: str) -> str | None:
    known = view.series(server, "cpu_hz") or view.around(server, "cpu_hz")
    return None if known else f"cpu_hz of {server} or its node"
