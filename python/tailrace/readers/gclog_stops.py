"""Reports of a JVM's log → the times when its application stood still; each stop counts once.

A log may report one stop several times: as a pause of the collector, as the stop around it (which also contains the
time until all threads had stopped, and other operations), and again in a copy of the file. A pause inside a stop
belongs to it. Two successive pauses are two, even if their stamps in whole milliseconds overlap. A pause that reaches
back over another contains it.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from tailrace import units
from tailrace.readers.gclog_run import RESOLUTION
from tailrace.units import format_duration, format_share

_COLLECTS = re.compile(r"Collect|GC|^G1|^Gen|^Z(?:Mark|Relocate|Verify|Op)|^XMark|^XRelocate|^Shenandoah")
BRIEF = 10 * units.MILLISECOND
"""A stop this short cannot explain a slow request, whatever its cause."""
_DIFFERENCE = 0.05
_NESTED_MAX = 64


@dataclass(slots=True)
class Stop:
    """`collection` is the time of its pauses, `longest` the length of the pause whose `detail` it has; `around` is true
    if the log reports it as a stop, and not only as a pause."""

    begin: int
    end: int
    detail: str
    collection: int = 0
    longest: int = 0
    around: bool = False

    @property
    def kind(self) -> str:
        """`gc` if pauses of the collector are at least half of it, else `safepoint`."""
        length = self.end - self.begin
        if self.longest:
            return "gc" if length <= BRIEF or 2 * self.collection >= length else "safepoint"
        return "gc" if not self.around or _COLLECTS.search(self.detail) else "safepoint"


def once(files: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The reports of several files (begin, end, detail), sorted by their ends. A report in several files is kept
    once."""
    if len(files) == 1:
        return files[0].sort("end", maintain_order=True)
    key = ["begin", "end", "detail"]
    reports = pl.concat([frame.with_columns(file=pl.lit(i, pl.Int32)) for i, frame in enumerate(files)])
    reports = reports.with_columns(nth=pl.int_range(pl.len()).over(["file", *key]))
    reports = reports.unique([*key, "nth"], keep="first", maintain_order=True)
    return reports.sort("end", maintain_order=True).select(key)


def in_turn(reports: pl.DataFrame, names: Sequence[str], *, around: bool = False) -> Iterator[Stop]:
    """Successive pauses, by their ends; a pause that reaches back over others contains them."""
    last: list[Stop] = []
    for begin, end, detail in reports.iter_rows():
        stop = Stop(begin, end, names[detail], around=around)
        while last and stop.begin < last[-1].end - RESOLUTION:
            inner = last.pop()
            if inner.end - inner.begin > (stop.end - stop.begin) // 2:
                stop.detail = inner.detail
            stop.begin, stop.end = min(inner.begin, stop.begin), max(inner.end, stop.end)
        if last and stop.begin < last[-1].end:
            late = last[-1].end - stop.begin
            stop.begin, stop.end = stop.begin + late, stop.end + late
        if not around:
            stop.collection = stop.longest = stop.end - stop.begin
        last.append(stop)
        if len(last) > _NESTED_MAX:
            yield last.pop(0)
    yield from last


def joined(pauses: Iterable[Stop], stops: Iterable[Stop]) -> Iterator[Stop]:
    """Stops with the pauses inside them, and pauses without a reported stop; those that still overlap are merged."""
    last: Stop | None = None
    for stop in _with_pauses(pauses, stops):
        if last is not None and stop.begin < last.end - RESOLUTION:
            _take(last, stop)
            continue
        if last is not None:
            yield last
        last = stop
    if last is not None:
        yield last


def _with_pauses(pauses: Iterable[Stop], stops: Iterable[Stop]) -> Iterator[Stop]:
    near, more = deque[Stop](), iter(stops)
    for pause in pauses:
        while (not near or near[-1].begin <= pause.end + RESOLUTION) and (stop := next(more, None)):
            near.append(stop)
        while near and near[0].end < pause.begin - RESOLUTION:
            yield near.popleft()
        around = max(near, key=lambda stop: _shared(pause, stop), default=None)
        if around is None or _shared(pause, around) < 0:
            yield pause
        else:
            _take(around, pause)
    yield from near
    yield from more


def _shared(pause: Stop, stop: Stop) -> int:
    """Their overlap; below 0 if they do not overlap within the precision of stamps. A stop that contains all of a pause
    comes first."""
    off = max(0, stop.begin - pause.begin, pause.end - stop.end)
    if off <= RESOLUTION:
        return pause.end - pause.begin + 2 * RESOLUTION - off
    return min(pause.end, stop.end) - max(pause.begin, stop.begin) - RESOLUTION


def _take(stop: Stop, pause: Stop) -> None:
    if pause.begin < stop.begin - RESOLUTION or pause.end > stop.end + RESOLUTION:
        stop.begin, stop.end = min(stop.begin, pause.begin), max(stop.end, pause.end)
    stop.collection += pause.collection
    if pause.longest and pause.longest >= stop.longest:
        stop.detail, stop.longest = pause.detail, pause.longest


class Comparison:
    """The sum of the pauses and the sum of the stops of all threads, for a log that reports both."""

    def __init__(self, stops: pl.DataFrame) -> None:
        self._begin: int = stops.get_column("begin")[0] if len(stops) else 0
        self._end: int = stops.get_column("end")[-1] if len(stops) else 0
        self.pauses = self.stops = self.other = self.alone = 0

    def add(self, stop: Stop) -> None:
        length = stop.end - stop.begin
        if stop.around:
            self.stops += length
            self.pauses += stop.collection
            self.other += 0 if stop.collection else length
        elif self._begin <= stop.begin <= self._end:
            self.pauses += length
            self.alone += length

    def words(self) -> str | None:
        """A note if they differ by more than a twentieth."""
        most = max(self.pauses, self.stops)
        if not self.pauses or abs(self.pauses - self.stops) <= _DIFFERENCE * most:
            return None
        parts = [
            f"{format_duration(length)} are {what}"
            for length, what in ((self.other, "stops without a collection"), (self.alone, "pauses outside of them"))
            if length
        ]
        return (
            f"its pauses of the collector add up to {format_duration(self.pauses)}, the stops of all threads that it "
            f"reports to {format_duration(self.stops)}, {format_share(abs(self.pauses - self.stops) / most)} apart"
            + (f" ({', '.join(parts)})" if parts else "")
            + "; each stop counts as a whole"
        )
