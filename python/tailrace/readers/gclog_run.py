"""The reports of one run of a JVM, each at its moment, in little memory.

If the log has no wall clock, the moment is an uptime until the run's clock knows when the JVM started. A stop without
any stamp (before JDK 8u20) gets its time from the pause that it contains, or from how long the application ran before
it.
"""

from __future__ import annotations

from array import array

import numpy as np
import polars as pl

from tailrace import bounds, units
from tailrace.readers.gclog_clock import Clock
from tailrace.readers.gclog_lines import PAUSE, RAN, STALL, STOP, Reported

RESOLUTION = 2 * units.MILLISECOND
"""Stamps are whole milliseconds, at the begin of one report and at the end of the other."""


class Details:
    """The names of stops; each text is stored once and has a number."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, name: str) -> int:
        if name not in self._numbers:
            if len(self.names) >= bounds.GC_NAMES:
                return self._numbers.get(name.split(" (")[0], 0)
            self._numbers[name] = len(self.names)
            self.names.append(name)
        return self._numbers[name]


class Spans:
    """Many stops in compact form: begin, length, number of the detail, and whether `begin` is a moment or still an
    uptime."""

    def __init__(self) -> None:
        self.begin, self.length, self.detail, self.placed = array("q"), array("q"), array("i"), bytearray()

    def add(self, begin: int, length: int, detail: int, placed: bool) -> None:
        self.begin.append(begin)
        self.length.append(length)
        self.detail.append(detail)
        self.placed.append(placed)

    def frame(self, start: int | None) -> pl.DataFrame:
        """Begin, end and detail of the stops with a known time, in the order of the log."""
        table = pl.DataFrame(
            {
                "begin": pl.Series(self.begin, dtype=pl.Int64),
                "length": pl.Series(self.length, dtype=pl.Int64),
                "detail": pl.Series(self.detail, dtype=pl.Int32),
                "placed": pl.Series(np.frombuffer(self.placed, dtype=np.bool_), dtype=pl.Boolean),
            }
        )
        if start is None:
            table = table.filter("placed")
        moment = pl.when("placed").then("begin").otherwise(pl.col("begin") + (start or 0))
        return table.select(begin=moment, end=moment + pl.col("length"), detail="detail")

    def columns(self) -> tuple[array[int], array[int]]:
        return self.begin, self.length

    def unplaced(self) -> int:
        return self.placed.count(0)


class Run:
    """One run of a JVM: its clock and its reports."""

    def __init__(self, details: Details) -> None:
        self.clock = Clock()
        self.details = details
        self.spans = {PAUSE: Spans(), STOP: Spans(), STALL: Spans()}
        self.first_unplaced: int | None = None
        self.nowhere = 0
        """Stops without any stamp and without a neighbour that has one."""
        self.nowhere_ns = 0
        self._went_on: tuple[int, bool] | None = None
        """When the threads resumed after the last stop or pause: (moment or uptime, which)."""
        self._stopped: tuple[int, bool] | None = None
        """When they stopped again, if the log says how long they ran."""
        self._pause: tuple[int, int, bool] | None = None
        """The pause since the last stop: begin, length, placed."""

    @property
    def uptimes(self) -> int:
        """The number of stops that have only an uptime."""
        return sum(spans.unplaced() for spans in self.spans.values())

    def goes_on_in(self, later: Run) -> bool:
        """Whether the run of a later file is the same: it continues this one, or both contain the same report."""
        first, last = later.clock.first, self.clock.last
        if first is None or last is None or first > last - units.SECOND:
            return True
        copied = next(zip(*later.spans[PAUSE].columns(), strict=True), None)
        return copied is not None and copied in set(zip(*self.spans[PAUSE].columns(), strict=True))

    def add(self, report: Reported) -> None:
        """Add a stop at its moment, or at its uptime if the start is not known (yet)."""
        self.clock.learn(report.stamps, report.line)
        at = self._at(report)
        if report.kind == RAN:
            self._ran(at, report.length)
            return
        if at is None and report.kind == STOP:
            at = self._implied(report)
        if at is None:
            self.nowhere += 1
            self.nowhere_ns += report.length
            return
        moment, placed = at
        begin = moment - report.length if report.at_end else moment
        self.spans[report.kind].add(begin, report.length, self.details.number(report.detail), placed)
        if not placed and self.first_unplaced is None:
            self.first_unplaced = report.line.number
        if report.kind == PAUSE:
            self._pause = begin, report.length, placed
        elif report.kind == STOP:
            self._pause = None
        if report.kind != STALL:
            self._went_on, self._stopped = (begin + report.length, placed), None

    def _at(self, report: Reported) -> tuple[int, bool] | None:
        wall, uptime, _ = report.stamps
        if wall is not None:
            return wall, True
        if uptime is not None:
            return (uptime, False) if self.clock.exact is None else (uptime + self.clock.exact, True)
        carried = report.line.carried() if report.at_end else None
        return None if carried is None else (carried, True)

    def _ran(self, at: tuple[int, bool] | None, length: int) -> None:
        if at is not None:
            self._stopped = at
        elif self._went_on is not None:
            self._stopped = self._went_on[0] + length, self._went_on[1]
        self._pause = None

    def _implied(self, stop: Reported) -> tuple[int, bool] | None:
        """The end of a stop without a stamp: that of the pause just before it, else its length after the threads had
        stopped."""
        if self._pause is not None and self._pause[1] <= stop.length + RESOLUTION:
            begin, length, placed = self._pause
            end = begin - stop.reached + stop.length if stop.reached else begin + length
            return max(end, begin + length), placed
        if self._stopped is not None:
            return self._stopped[0] + stop.length, self._stopped[1]
        return None
