"""Episodes are the times in which a series is high, or events last; and how those of two series coincide. This is the
papers' method: what happens at the same time, in which order, and how often.

```text
a series of drawn.py ─ least, most ─▶ windows ─┐
an event, such as gc ──────────────────────────┴─ gap ─▶ episodes:   when   ▁▁██▁▁▁▁██▁▁
                                                                      meets  ▁██▁▁▁▁▁▁▁▁▁  coincidence 1/2, lag of 1
```
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tailrace.dataset.metrics import SHARES
from tailrace.study import drawn
from tailrace.study.measured import WINDOW, Measured
from tailrace.toml import wrong_name
from tailrace.units import MILLISECOND

EVENTS = ("gc", "drop")
"""Kinds of events that have episodes, besides the series that timelines draw."""
SATURATED = 0.95
"""CPU share from which a window counts as saturated: a window at the edge of a stall is rarely full."""
GAP = 500 * MILLISECOND
"""Episodes that are closer than this are one. The papers' millibottlenecks last up to 0.6 s, and seconds lie between
them."""
When = Mapping[str, Any]
"""`series` and `place`, and optionally `least` or `most`, `over` (of vlrt), `window`, `gap` and `lasts`."""
Times = NDArray[np.int64]


@dataclass(frozen=True)
class Episodes:
    """In increasing order and apart from each other; times are ns after the ramp."""

    begin: Times
    end: Times
    total: NDArray[np.float64]
    """The sum of the series in each episode, such as the number of VLRT."""


def problem(when: object, where: str) -> str | None:
    """A sentence about the first error, or None."""
    if not isinstance(when, Mapping) or "series" not in when or "place" not in when:
        return f'{where} must be a table like {{ series = "queue", place = "web", least = 278 }}'
    series, known = when["series"], {*drawn.KNOWN, *EVENTS}
    if series not in known:
        return wrong_name(f"{where}.series", series, known, "series or kind of event")
    if "over" in when and series != "vlrt":
        return f"{where}.over is for vlrt alone, got {series}"
    if series not in (*EVENTS, *drawn.COUNTED, *SHARES) and not when.keys() & {"least", "most"}:
        return f"{where} needs least or most, in the unit of {series}"
    return None


def find(run: Measured, when: When) -> Episodes:
    begin, end, total = _events(run, when) if when["series"] in EVENTS else _windows(run, when)
    if not len(begin):
        return Episodes(begin, end, total)
    reached = np.maximum.accumulate(end)
    first = np.r_[True, begin[1:] > reached[:-1] + int(when.get("gap", GAP))]
    starts = np.flatnonzero(first)
    begin, end, total = begin[first], reached[np.r_[starts[1:] - 1, len(begin) - 1]], np.add.reduceat(total, starts)
    lasting = end - begin >= int(when.get("lasts", 0))
    return Episodes(begin[lasting], end[lasting], total[lasting])


def _events(run: Measured, when: When) -> tuple[Times, Times, NDArray[np.float64]]:
    found = run.events(when["place"], when["series"]).sort("begin")
    begin, end = (found[name].to_numpy().astype(np.int64) - run.begin for name in ("begin", "end"))
    return begin, np.maximum(begin, end), np.ones(len(begin))


def _windows(run: Measured, when: When) -> tuple[Times, Times, NDArray[np.float64]]:
    """The windows in which some server of the place has a value from `least` to `most`."""
    window, series = int(when.get("window", WINDOW)), when["series"]
    if "over" in when:
        found = drawn.vlrt(run, when["place"], window, int(when["over"]))
    else:
        found = drawn.values(run, series, when["place"], window)
    least = when.get("least", None if "most" in when else 1 if series in drawn.COUNTED else SATURATED)
    if least is not None:
        found = found.filter(pl.col("value") >= least)
    if "most" in when:
        found = found.filter(pl.col("value") <= when["most"])
    rows = found.group_by("window").agg(pl.col("value").sum()).sort("window")
    begin = rows["window"].to_numpy().astype(np.int64)
    return begin, begin + window, rows["value"].to_numpy().astype(np.float64)


def met(when: Episodes, meets: Episodes, near: int) -> tuple[NDArray[np.bool_], Times]:
    """Whether each episode of `when` overlaps one of `meets`, or is at most `near` away from it; and how much later it
    begins, of those that do."""
    if not len(meets.begin):
        return np.zeros(len(when.begin), dtype=np.bool_), np.zeros(0, dtype=np.int64)
    at = np.searchsorted(meets.end, when.begin - near)
    there = np.minimum(at, len(meets.begin) - 1)
    overlap = (at < len(meets.begin)) & (meets.begin[there] <= when.end + near)
    return overlap, (when.begin - meets.begin[there])[overlap]


def by_chance(when: Episodes, meets: Episodes, near: int, length: int) -> float:
    """The share that would coincide if each episode of `when` began at any time of the run with equal probability."""
    shares = []
    for lasts in when.end - when.begin:
        begin = np.maximum(meets.begin - near - lasts, 0)
        end = np.minimum(meets.end + near, length)
        reached = np.r_[0, np.maximum.accumulate(end)[:-1]] if len(end) else end
        shares.append(float(np.maximum(end - np.maximum(begin, reached), 0).sum()) / length)
    return float(np.mean(shares)) if shares else 0.0
