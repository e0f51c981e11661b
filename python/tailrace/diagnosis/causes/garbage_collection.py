"""Garbage collection stopped the server.

What it looks for
    The detector looks for pauses of the collector (events of kind `gc`, or `gc_share` of the sampling interval) during
    the stall. It also looks for threads that waited for memory that the collector had not yet freed
    (`allocation_stall`, of ZGC).
    The server answers nothing meanwhile. If CPU is sampled, the samples show high use (`lightning` 3.1, figure 6).
Evidence needed
    The detector needs a GC log of the origin's JVM with wall clock or uptime (`-Xlog:gc*,safepoint`), or
    `gc_share` samples. A log that does not name its server is matched by time alone, and the sentence reports this.
What it is confused with
    Short young collections run at any time: they cover a few per cent of a stall. The backlog after a stall may cause a
    collection: it begins late. Concurrent phases do not stop the server: readers leave them out of `gc`. A neighbour's
    burst may happen at the same time: both are reported.
Thresholds and where they come from
    A sampling interval counts if at least half of it is spent in collection: less does not stop a server for long. The
    common thresholds are in `case`. A pause in which the server answered nothing is evidence, even if there are many
    pauses outside of stalls (it may collect every other second, while replicas serve its part).
"""

from __future__ import annotations

import numpy as np

from tailrace.diagnosis import settle
from tailrace.diagnosis.causes.case import Case, Sign
from tailrace.diagnosis.finding import CauseEvidence
from tailrace.diagnosis.spans import length, overlap, union
from tailrace.diagnosis.waiting import SILENT
from tailrace.diagnosis.words import clock, duration
from tailrace.units import MILLISECOND, SECOND

CAUSE = "garbage-collection"


def detect(case: Case) -> CauseEvidence:
    events = case.view.events_of("gc", "allocation_stall")
    own = [table for place, table in events if case.view.means(place, case.origin)]
    stray = [table for place, table in events if not case.view.is_known(place)]
    pauses = union(own or stray)
    resolution = MILLISECOND
    for series in case.view.series(case.origin, "gc_share") if len(pauses) == 0 else ():
        pauses, resolution = series.above(0.5), series.interval_ns
    if len(pauses) == 0:
        if case.view.series(case.origin, "gc_share"):
            return case.nothing(CAUSE, f"No collection of {case.origin} is recorded.")
        return case.unknown(CAUSE, settle.collections(case.view, case.origin), "its garbage collections, if it has any")
    stall = case.stall
    inside = overlap(pauses, stall.begin, stall.end)
    longest = max(pauses.tolist(), key=lambda p: min(p[1], stall.end) - max(p[0], stall.begin))
    if int(inside[0]) == 0:
        return case.nothing(CAUSE, f"No collection ran in the stall of {case.origin}.", {"gc_pauses": len(pauses)})
    what = f"The collector stopped {case.origin} from {clock(case.view, longest[0])} for "
    what += duration(longest[1] - longest[0])
    if stray and not own:
        what += " (the log does not name its server: matched by time)"
    numbers = {"gc_pause_ns": longest[1] - longest[0], "gc_pauses": len(pauses), "gc_total_ns": length(pauses)}
    enough = bool(own) and _answers_nobody(case, longest)
    return case.weigh(CAUSE, Sign(pauses, resolution, what, numbers=numbers, enough=enough))


def _answers_nobody(case: Case, pause: list[int]) -> bool:
    """Return whether hardly any of the usual answers came during the part of the pause that lies in the stall."""
    within = np.clip(pause, case.stall.begin, case.stall.end)
    usual = case.stall.throughput_calm * int(within[1] - within[0]) / SECOND
    return int(case.view.stays[case.origin].departed(within)[0]) <= SILENT * usual
