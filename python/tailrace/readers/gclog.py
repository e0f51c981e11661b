"""A JVM's log of its garbage collections and stops (HotSpot, JDK 5 and later). It may be rotated, prefixed by docker or
journald, cut off, or contain two runs.

```text
gclog_lines     a line without its prefixes, and the stamps at its beginning
gclog_unified   JDK 9 and later    ┐ pauses, stops and stalls, each with its stamps
gclog_jdk8      JDK 8 and earlier  ┘
gclog_reports   assigns each to a run of the JVM
gclog_clock     turns an uptime into a moment
gclog_run       the reports of one run, in little memory
gclog_stops     keeps each stop once
```

Everything that stops the application counts: pauses, and the stops around them, which also contain the time until all
threads had stopped. A stop is of kind `gc` if pauses of the collector are at least half of it, else `safepoint`. An
allocation stall of ZGC stops one thread and is an event `allocation_stall`. Stamps are whole milliseconds, so begin and
end are good to 1 ms.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Hashable, Iterator, Sequence

import polars as pl

from tailrace import units
from tailrace.errors import InputError
from tailrace.readers.gclog_lines import EARLIEST, LATEST, PAUSE, STALL, STOP, first_stamps
from tailrace.readers.gclog_reports import Reports
from tailrace.readers.gclog_run import Details
from tailrace.readers.gclog_stops import Comparison, Stop, in_turn, joined, once
from tailrace.readers.source import Found, Source, text_head

_SEEN = re.compile(
    r"\] ?GC\(\d{1,9}\) |\[(?:gc|safepoint)[a-z, ]{0,40}\] |Safepoint \"|threads were stopped: \d|Application time: \d"
    r"|\[(?:Full )?GC(?:--)?(?:[ \[\d(]|\d{4}-)[^\n]{0,400} secs\]|\d: ?\[(?:Full )?GC|\[GC (?:pause|remark|cleanup)"
    r"|\[Pause (?:Init|Final|Full|Degenerated)|^CommandLine flags: -|^[-\d: ]{19} GC log file |\[CMS-concurrent-"
    r"|^Desired survivor size \d",
    re.MULTILINE,
)
_ROTATED = re.compile(r"(?:\.\d{1,6})?(?:\.current)?(?:\.gz|\.zst)?$")
_STALLED = "allocation_stall"
_KINDS = ("gc", "safepoint", _STALLED)


def sniff(name: str, head: bytes) -> bool:
    text = text_head(head)
    return text is not None and _SEEN.search(text) is not None


def sniff_further(source: Source) -> bool:
    """Whether a JVM's collections come later in a file that begins with other text, such as the output of an
    application server; the first 16 MiB are searched."""
    if text_head(source.head()) is None:
        return False
    _, block = next(source.line_blocks(Found()), (0, ""))
    return _SEEN.search(block) is not None


def start(text: str) -> int:
    """The start of a JVM from `--began`, in ns since the Unix epoch; ValueError for an invalid moment."""
    began = units.parse_moment(text)
    if not EARLIEST <= began < LATEST:
        raise ValueError(f"{text!r} is not between 1990 and 2200")
    return began


def together(source: Source) -> Hashable:
    """A key that files of one JVM share: their NAME, else their names without the numbers of a rotation."""
    if source.place is not None:
        return source.place
    return source.path.parent, _ROTATED.sub("", source.path.name)


def read(sources: Sequence[Source]) -> Found:
    """The log of one JVM, in one file or in several rotated files, in any order, possibly with copies."""
    found, reports = Found(), Reports()
    sources = sorted(sources, key=_first_stamp)
    for source in sources:
        reports.read(source, found)
    reports.end()
    notes = list(reports.dated([moment for source in sources[:1] for moment in source.began]))
    for what, count, sentence in reports.troubles():
        found.lose(what, count)
        notes.append(sentence)
    notes += _collect(sources[0], reports, found)
    others = f" and {len(sources) - 1} more" if len(sources) > 1 else ""
    found.notes += [f"{sources[0].path.name}{others}: {note}" for note in notes]
    return found


def _first_stamp(source: Source) -> tuple[int, int, str]:
    """The position of a file among those of its JVM; a file without a stamp comes last."""
    first = first_stamps(text_head(source.head()) or "")
    if first.wall is not None:
        return 0, first.wall, ""
    return (2, 0, source.path.name) if first.uptime is None else (1, first.uptime, "")


def _collect(source: Source, reports: Reports, found: Found) -> Iterator[str]:
    """Put each stop into the events once, and add notes."""
    pauses, stops, stalls = (
        once([pl.concat([run.spans[kind].frame(run.clock.start()) for run in runs]) for runs in reports.files])
        for kind in (PAUSE, STOP, STALL)
    )
    unplaced = [run for runs in reports.files for run in runs if run.uptimes and run.clock.start() is None]
    if pauses.is_empty() and stops.is_empty() and stalls.is_empty():
        _refuse(source, reports)
        yield "no pause and no safepoint in it"
        return
    if unplaced:
        count = sum(run.uptimes for run in unplaced)
        found.lose("stops without a wall clock", count)
        yield (
            f"{count} stops were left out, because they count from the start of a JVM that is unknown; {_began(source)}"
        )
    names, events = reports.details.names, _Events()
    comparison = Comparison(stops)
    for stop in joined(in_turn(pauses, names), in_turn(stops, names, around=True)):
        events.add(stop, stop.kind)
        comparison.add(stop)
    if len(stops) and (different := comparison.words()):
        yield different
    for stall in joined(in_turn(stalls, names), ()):
        events.add(stall, _STALLED)
    found.events.append(events.frame())


def _refuse(source: Source, reports: Reports) -> None:
    """The error for a log whose stops have no known time."""
    runs = [run for runs in reports.files for run in runs]
    line = next((run.first_unplaced for run in runs if run.first_unplaced is not None), None)
    if line is not None:
        why = "its lines count from the start of the JVM, and the log does not say when that was"
        raise InputError(source.path, why, _began(source), line=line)
    if any(run.nowhere for run in runs):
        raise InputError(source.path, "its lines have no time stamp", _LOG_WITH)


_LOG_WITH = (
    "log with -Xlog:gc*,safepoint:file=gc.log:time,uptime,level,tags "
    "(JDK 8: -XX:+PrintGCDetails -XX:+PrintGCDateStamps)"
)


def _began(source: Source) -> str:
    return f"pass it with --began {source.place or source.path.name}=2026-11-20T16:49:00Z, or {_LOG_WITH}"


class _Events:
    """The rows of the events, column by column."""

    def __init__(self) -> None:
        self.kind, self.begin, self.end, self.detail = array("b"), array("q"), array("q"), array("i")
        self.details = Details()

    def add(self, stop: Stop, kind: str) -> None:
        self.kind.append(_KINDS.index(kind))
        self.begin.append(stop.begin)
        self.end.append(stop.end)
        self.detail.append(self.details.number(stop.detail))

    def frame(self) -> pl.DataFrame:
        kinds, names = pl.Series(_KINDS), pl.Series(self.details.names)
        columns = {
            "kind": kinds.gather(pl.Series(self.kind, dtype=pl.Int8)),
            "begin": pl.Series(self.begin, dtype=pl.Int64),
            "end": pl.Series(self.end, dtype=pl.Int64),
            "detail": names.gather(pl.Series(self.detail, dtype=pl.Int32)),
        }
        return pl.DataFrame(columns).sort("begin", maintain_order=True)
