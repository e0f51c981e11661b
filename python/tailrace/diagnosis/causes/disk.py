"""`log_flush` and `writeback` share this module. It finds when the origin waited for its disk, and where the written
bytes came from.

log flush   bytes are handed over at once and forced out:      dirty ___|▔▔\\____   (fsync, sync, a logger)
writeback   dirty pages gather for seconds, then the kernel    dirty __/▔▔▔▔\\___   (dirty_ratio, flusher threads)
            writes them back
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.causes.case import COVERAGE, Case, Sign
from tailrace.diagnosis.evidence import coverage
from tailrace.diagnosis.finding import CauseEvidence
from tailrace.diagnosis.millibottleneck import LIMITS
from tailrace.diagnosis.series import Series
from tailrace.diagnosis.spans import Spans, spans, union
from tailrace.diagnosis.words import share
from tailrace.units import MILLISECOND, SECOND, format_bytes

WAITS = ("psi_io", "cpu_iowait", "disk_busy")
LEAST_BYTES = 1_000_000
"""Smaller movements of dirty memory go on all the time, and a disk needs only milliseconds for them."""
SUDDEN_NS = 300 * MILLISECOND
"""Bytes that appeared within this time before the stall were handed over at once. Gathered bytes took longer."""

Origin = Literal["sudden", "gathered", "none", "unknown"]


@dataclass(frozen=True)
class Wait:
    """This shows when I/O was waited for, and what was written meanwhile."""

    evidence: Spans
    resolution: int
    place: str
    what: str
    """This states in words what waited. It is empty if nothing did."""
    came: Origin
    bytes_written: float


def told(case: Case, cause: str, kind: str) -> CauseEvidence | None:
    """Weigh events that name the cause themselves, at the origin or at a place that is not in the topology."""
    view = case.view
    events = [(p, t) for p, t in view.events_of(kind) if view.means(p, case.origin) or not view.is_known(p)]
    if not events:
        return None
    place = events[0][0]
    what = f"Recorded events say {kind.replace('_', ' ')} at {place}"
    return case.weigh(cause, Sign(union([table for _, table in events]), MILLISECOND, what, place=place))


def said_otherwise(case: Case, kind: str) -> bool:
    """Return whether recorded events of another `kind` cover most of the stall. Then they show what was written, and
    waiting for I/O, which looks alike, is no evidence of this cause."""
    tables = [table for place, table in case.view.events_of(kind) if case.view.means(place, case.origin)]
    return bool(tables) and coverage(union(tables), case.stall.begin, case.until) >= COVERAGE


def wait(case: Case) -> Wait | None:
    """Return the strongest sign of waiting for I/O in the stall. It is None where nothing was sampled that would show
    it."""
    signs = [s for metric in WAITS for s in case.view.series(case.origin, metric) + case.view.elsewhere(metric)]
    writing = _series(case, "writeback_bytes")
    dirty = _series(case, "dirty_bytes")
    came, written = _came(case, dirty, writing)
    stall = case.stall
    best = max(signs, key=lambda s: case.inside(s) / LIMITS[s.metric], default=None)
    if best is not None and case.inside(best) >= LIMITS[best.metric]:
        inside, usual = case.inside(best), case.usual(best)
        what = f"{best.place} {_SAYS[best.metric]} {share(inside)} of the time (usually {share(usual)})"
        return Wait(case.standing_out(best, LIMITS[best.metric] / 2), best.interval_ns, best.place, what, came, written)
    if writing is not None and came != "none":
        what = (
            f"up to {format_bytes(int(_most(writing, stall.begin, stall.end)))} were under writeback on {writing.place}"
        )
        evidence = case.standing_out(writing, LEAST_BYTES)
        if _most(writing, stall.begin, stall.end) < LEAST_BYTES:
            return Wait(spans([]), writing.interval_ns, writing.place, "", came, written)
        return Wait(evidence, writing.interval_ns, writing.place, what, came, written)
    if best is None and writing is None:
        return None
    place = best.place if best is not None else writing.place if writing is not None else case.origin
    return Wait(spans([]), MILLISECOND, place, "", came, written)


_SAYS = {"psi_io": "was stalled on I/O", "cpu_iowait": "waited for I/O", "disk_busy": "kept its disk busy"}


def _series(case: Case, metric: str) -> Series | None:
    return next(iter(case.view.series(case.origin, metric) + case.view.elsewhere(metric)), None)


def _most(series: Series, begin: int, end: int) -> float:
    values = series.during(begin, end)
    return float(values.max()) if len(values) else 0.0


def _came(case: Case, dirty: Series | None, writing: Series | None) -> tuple[Origin, float]:
    """Return whether the bytes written back in the stall were gathered before it or appeared at once. Gathered bytes
    leave fewer dirty pages than there were before the stall (`/proc/vmstat` counts pages under writeback apart). Bytes
    of a flush come on top of the dirty pages, even if they stay for less than a sampling interval."""
    begin, end = case.stall.begin, case.stall.end
    under = 0.0 if writing is None else _most(writing, begin, end) - case.usual(writing)
    before = np.empty(0) if dirty is None else dirty.during(begin - 2 * SECOND, begin - SUDDEN_NS)
    if dirty is None or not len(before):
        return ("none" if writing is not None and under < LEAST_BYTES else "unknown"), under
    highest = max(_most(dirty, begin - SUDDEN_NS, end), float(before.max()))
    lowest = float(dirty.during(begin, end + SECOND).min(initial=highest))
    moved = max(highest - lowest, under)
    if moved < LEAST_BYTES:
        return "none", moved
    return ("gathered" if _expected(before) - lowest >= moved / 2 else "sudden"), moved


def _expected(before: NDArray[np.float64]) -> float:
    """Return the dirty bytes expected at the begin of the stall, from their growth in the 2 s before, less `SUDDEN_NS`.
    Other programs on the host write all the time."""
    half = max(len(before) // 2, 1)
    earlier, later = float(np.median(before[:half])), float(np.median(before[-half:]))
    apart = SECOND - SUDDEN_NS / 2
    return later + max(later - earlier, 0.0) * (apart / 2 + SUDDEN_NS) / apart
