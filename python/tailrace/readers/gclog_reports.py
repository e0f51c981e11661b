"""Assigns each line of a JVM's log to its format, and each report to a run of the JVM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tailrace.readers import gclog_jdk8
from tailrace.readers.gclog_clock import Clock
from tailrace.readers.gclog_jdk8 import Records
from tailrace.readers.gclog_lines import STOP, Line, Reported, bounded, unwrapped
from tailrace.readers.gclog_run import Details, Run
from tailrace.readers.gclog_unified import Unified
from tailrace.readers.source import Found, Source
from tailrace.units import format_moment

_RECORD = ("[GC", "[Full GC", "[Pause", "[Class Histogram", "[Heap Dump")
_UNIFIED = ("GC(", "afepoint", "Stall")
_WAIT = ("were stopped", "Application time")
_HEADER = " GC log "


class Reports:
    """The reports of a JVM's files, in the order in which they are read."""

    def __init__(self) -> None:
        self.details = Details()
        self.records, self.unified = Records(), Unified()
        self.files: list[list[Run]] = []

    def read(self, source: Source, found: Found) -> None:
        self.files.append([Run(self.details)])
        for number, text in bounded(source, found):
            if _may_report(text) or (self.records.open and ("[" in text or "]" in text)):
                for report in self._of(unwrapped(number, text)):
                    self._take(report)

    def end(self) -> None:
        """A record may continue in the next file; it ends with the last file."""
        for report in self.records.ended():
            self._take(report)
        self.unified.ended()

    def _of(self, line: Line) -> Iterator[Reported]:
        text = line.text
        if self.records.open or any(word in text for word in _RECORD):
            yield from self.records.reports(line)
        if any(word in text for word in _UNIFIED):
            yield from self.unified.reports(line)
        if any(word in text for word in _WAIT):
            for report in gclog_jdk8.waits(line, self.unified.region or "application threads stopped"):
                if report.kind == STOP:
                    yield from self.records.interrupted()
                yield report
        elif _HEADER in text:
            self.files[-1][-1].clock.learn_header(text)

    def _take(self, report: Reported) -> None:
        runs = self.files[-1]
        if runs[-1].clock.begins_anew(report.stamps):
            runs.append(Run(self.details))
        runs[-1].add(report)

    def troubles(self) -> Iterator[tuple[str, int, str]]:
        """Stops that could not be read: the kind, the number, and a sentence."""
        torn = self.records.torn + self.unified.torn
        if torn:
            last = self.unified.last_torn or self.records.last_torn
            last = f"; the last is {last}" if last else ""
            what = "a pause is left out: its end is" if torn == 1 else f"{torn} pauses are left out: their ends are"
            yield "pauses without an end", torn, f"{what} missing or cut off{last}"
        nowhere = sum(run.nowhere for runs in self.files for run in runs)
        if nowhere:
            seconds = sum(run.nowhere_ns for runs in self.files for run in runs) / 1e9
            what = f"stops without a time stamp, near which nothing else has one: {nowhere}, together {seconds:.4f} s"
            yield "stops without a time stamp", nowhere, what

    def dated(self, began: Sequence[int]) -> Iterator[str]:
        """Give each run the start of its JVM, and note its source."""
        told = list(began)
        for runs in self._starts():
            clock = Clock.of([run.clock for run in runs])
            uptimes = any(run.uptimes for run in runs)
            if uptimes and clock.exact is None and told:
                clock.told = told.pop(0)
            for run in runs:
                run.clock = clock
            if uptimes and (start := clock.start()) is not None and clock.source():
                yield f"it counts from the start of the JVM, {format_moment(start)} {clock.source()}"
        if told:
            yield f"--began says {len(told)} more starts than there are runs of a JVM without a wall clock in it"

    def _starts(self) -> list[list[Run]]:
        """The runs by the start that they belong to: a file continues the previous one, or copies it."""
        starts: list[list[Run]] = []
        for runs in self.files:
            for i, run in enumerate(runs):
                if i == 0 and starts and starts[-1][-1].goes_on_in(run):
                    starts[-1].append(run)
                else:
                    starts.append([run])
        return starts


def _may_report(text: str) -> bool:
    """A quick test whether a line can be a report; most lines are not."""
    return (
        "Pause" in text
        or "[GC" in text
        or "[Full GC" in text
        or "were stopped" in text
        or "afepoint" in text
        or "Application time" in text
        or "Stall (" in text
        or "[Class Histogram" in text
        or "[Heap Dump" in text
        or _HEADER in text
    )
