"""The CPU quota of the server's group was used up: `cpu_throttled` is the share of time in which it was held back.

The kernel renews the quota once a period and records the time of throttling when the period ends. So every other sample
of 50 ms shows no throttling. If the quota ran out in a period, the quota explains all CPU that the server lacked in it:
the server used all that it was allowed to use, whatever other process had the CPU.
"""

from __future__ import annotations

import numpy as np

from tailrace.diagnosis import settle
from tailrace.diagnosis.constants import MOSTLY, STEP_NS
from tailrace.diagnosis.ledger.losses.loss import Loss, Seen, blur, most
from tailrace.diagnosis.series import TAKEN, Series
from tailrace.diagnosis.spans import Spans, spans
from tailrace.diagnosis.view import View
from tailrace.units import MILLISECOND

CAUSE = "cpu-quota"
SAYS = "the CPU quota of {server}"
PLAIN = "the CPU quota of {origin} was used up"
METRICS, EVENTS = ("cpu_throttled",), ()
COMPUTES = False
PERIOD_NS = 100 * MILLISECOND
"""`cpu.cfs_period_us` and the second number of `cpu.max` are 100,000 unless they are set (Linux, sched-bwc)."""


def find(seen: Seen, server: str) -> Loss | None:
    return most(*(_throttled(seen, server, series) for series in seen.view.series(server, "cpu_throttled")))


def _throttled(seen: Seen, server: str, series: Series) -> Loss:
    share = np.clip(np.nan_to_num(seen.at(series)), 0.0, 1.0)
    used = next(iter(seen.view.series(server, "cpu_busy")), None)
    if used is not None and series.interval_ns <= PERIOD_NS:
        ran_out = seen.covered([_ran_out(series, used)])
        share = np.maximum(share, ran_out * np.clip(np.nan_to_num(1.0 - seen.at(used) / used.capacity), 0.0, 1.0))
    return Loss(seen.beyond_usual(share), blur(series))


def _ran_out(series: Series, used: Series) -> Spans:
    """Return the periods of which at least a tenth was withheld, and whose use was as usual for such a period."""
    ends = series.end[series.value * series.interval_ns >= TAKEN * PERIOD_NS]
    if not len(ends):
        return spans([])
    inside = np.arange(STEP_NS // 2, PERIOD_NS, STEP_NS)
    allowed = np.nan_to_num(used.at((ends[:, None] - inside).ravel())).reshape(len(ends), -1).mean(axis=1)
    # The use is the same in each such period, but a sample that spans the end of a period may show half of it.
    ends = ends[allowed >= MOSTLY * np.median(allowed)]
    return spans(np.column_stack((ends - PERIOD_NS, ends)))


def missing(view: View, server: str) -> str | None:
    if view.series(server, "cpu_throttled") or settle.has_no_quota(view, server):
        return None
    return f"cpu_throttled of {server}"
