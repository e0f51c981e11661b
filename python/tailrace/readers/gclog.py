"""A JVM's log of its garbage collections: unified logging (JDK 9 and later) and JDK 8's -XX:+PrintGCDetails.

```text
unified   [2026-11-20T16:52:55.693+0000][33.708s][info][gc] GC(5) Pause Young (…) 150M->14M(494M) 4.859ms
          a line is stamped at the END of what it reports, so the pause began 4.859 ms before
          ("gc,start" lines are stamped at the begin; one without an end is a pause that the log's end cut off)
JDK 8     2016-11-20T16:52:55.688+0000: 33.703: [GC (Allocation Failure) …, 0.0048590 secs] [Times: …]
          a line is stamped at the BEGIN of the collection
```

Only what stops the application counts: pauses, and safepoints (which also hold the time to reach them). Pauses that
overlap or nest are one. An event of kind `gc` is a collection; other stops are of kind `safepoint`. Stamps are whole
milliseconds, so begin and end are good to 1 ms.

A log that counts only from the start of the JVM cannot be placed beside a capture, and is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from tailrace import units
from tailrace.errors import InputError
from tailrace.readers import gclog_jdk8
from tailrace.readers.source import Event, Found, Source, text_head

_DECORATION = re.compile(r"\[([^\[\]]*)\]")
_ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
_UPTIME = re.compile(r"\d+[.,]\d+s")
_MILLIS = re.compile(r"(\d{12,14})ms")  # Unix time; an uptime of twelve digits would be 3 years
_TAGS = re.compile(r"[a-z]+(?:,[a-z]+)*\s*")
_LEVELS = frozenset({"trace", "debug", "info", "warning", "error"})
_LENGTH = r"(\d+(?:[.,]\d+)?)\s?(ms|s)"
_PAUSE = re.compile(
    rf"GC\((\d+)\) (?:[YyOo]: )?(Pause [^\d\s][^>]*?)(?: \d+[KMG]?(?:\(\d+[KMG]?\))?->\S+)? {_LENGTH}\s*$"
)
_PAUSE_BEGUN = re.compile(r"GC\((\d+)\) (?:[YyOo]: )?(Pause [^\d\s].*?)\s*$")
_STALL = re.compile(rf"Allocation Stall \(.*\) {_LENGTH}\s*$")
_SAFEPOINT = re.compile(r'Safepoint "([^"]*)",.* Total: +(\d+) ns')
_REGION = re.compile(r"Entering safepoint region: (\S+)")
_STOPPED = re.compile(r"Total time for which application threads were stopped: (\d+[.,]\d+) seconds")
_COLLECTS = re.compile(r"Collect|GC|^G1|^Gen|^Z(?:Mark|Relocate|Verify|Op)|^XMark|^XRelocate|^Shenandoah")
_UNIFIED = re.compile(
    r"^(?:\[[^\[\]]*\])+ ?(?:GC\(\d+\) |Using (?:G1|Serial|Parallel|The Z|Shenandoah|Concurrent)|Safepoint \"|"
    r"Application time:|Entering safepoint region|Total time for which|Heap (?:Region|Min|Max)|CardTable|"
    r"Initializing The Z|\S+ ?\S*Version: |Version: \d)",
    re.MULTILINE,
)


def sniff(name: str, head: bytes) -> bool:
    text = text_head(head)
    return text is not None and (bool(_UNIFIED.search(text)) or gclog_jdk8.recognises(text))


def read(source: Source) -> Found:
    found = Found()
    head = text_head(source.head()) or ""
    old = not _UNIFIED.search(head) and gclog_jdk8.recognises(head)
    parse = gclog_jdk8.stops if old else _stops
    lines = _Lines(source, found)
    events = list(parse(lines))
    if lines.unplaced and not events:
        raise InputError(
            source.path,
            "its lines count from the start of the JVM and no wall clock says when that was",
            "log with -Xlog:gc*,safepoint:file=gc.log:time,uptime,level,tags (JDK 8: -XX:+PrintGCDateStamps)",
            line=lines.unplaced[0],
        )
    if lines.unplaced:
        found.lose("lines without a wall clock", len(lines.unplaced))
        found.notes.append(f"{source.path.name}: {len(lines.unplaced)} pauses without a wall clock were left out")
    found.events += [replace(event, place=source.place) for event in merged(events)]
    if not events:
        found.notes.append(f"{source.path.name}: no pause and no safepoint in it")
    return found


class _Lines:
    """The lines of a log, and those whose pause could not be placed in time."""

    def __init__(self, source: Source, found: Found) -> None:
        self.source, self.found = source, found
        self.unplaced: list[int] = []

    def __iter__(self) -> Iterator[tuple[int, str]]:
        return self.source.lines(self.found)


def _stops(lines: _Lines) -> Iterator[Event]:
    begun: dict[str, str] = {}
    region = ""
    for number, line in lines:
        moment, tags, message = _decorations(line)
        entered = _REGION.search(message)
        if entered:
            region = entered[1].rstrip(",")
        stop = _stop(message, region)
        if stop is None:
            start = _PAUSE_BEGUN.fullmatch(message)
            if start and "start" in tags:
                begun[start[1]] = f"{start[2]} (line {number})"
            continue
        kind, length, detail = stop
        begun = {}
        if moment is None:
            lines.unplaced.append(number)
            continue
        yield Event(kind, moment - length, moment, detail)
    if begun:
        cut = ", ".join(begun.values())
        lines.found.notes.append(f"{lines.source.path.name}: it ends within a pause, which is left out: {cut}")


def _decorations(line: str) -> tuple[int | None, frozenset[str], str]:
    """The wall clock of a line (None without one), its tags, and its message."""
    moment: int | None = None
    tags: frozenset[str] = frozenset()
    at = 0
    while match := _DECORATION.match(line, at):
        text, at = match[1].strip(), match.end()
        if moment is None and _ISO.match(text):
            moment = _moment(text)
        elif moment is None and (millis := _MILLIS.fullmatch(text)):
            moment = int(millis[1]) * units.MILLISECOND
        elif _TAGS.fullmatch(text) and text not in _LEVELS:
            tags = frozenset(text.split(","))
    return moment, tags, line[at:].strip()


def _moment(text: str) -> int | None:
    try:
        return units.parse_moment(text)
    except ValueError:
        return None


def _stop(message: str, region: str) -> tuple[str, int, str] | None:
    """Kind, length and detail of the stop that a line reports."""
    if pause := _PAUSE.search(message):
        return "gc", length_ns(pause[3], pause[4]), pause[2].strip()
    if safepoint := _SAFEPOINT.search(message):
        return _kind(safepoint[1]), int(safepoint[2]), safepoint[1]
    if stopped := _STOPPED.search(message):
        return _kind(region), length_ns(stopped[1], "s"), region or "application threads stopped"
    if stall := _STALL.search(message):
        return "gc", length_ns(stall[1], stall[2]), "Allocation Stall"
    return None


def _kind(operation: str) -> str:
    return "gc" if _COLLECTS.search(operation) else "safepoint"


def length_ns(number: str, unit: str) -> int:
    return units.parse_duration(number.replace(",", ".") + unit)


def merged(events: list[Event]) -> list[Event]:
    """Stops that overlap or nest become one, a collection if one of them is; its detail is that of the longest
    pause. What else a safepoint did is told by the safepoint alone."""
    joined: list[list[Event]] = []
    end = 0
    for event in sorted(events, key=lambda event: (event.begin, event.end)):
        if joined and event.begin < end:
            joined[-1].append(event)
            end = max(end, event.end)
        else:
            joined.append([event])
            end = event.end
    return [_one(group) for group in joined]


def _one(group: list[Event]) -> Event:
    collections = [event for event in group if event.kind == "gc"]
    named = [event for event in collections if event.detail.startswith("Pause")] or collections or group
    longest = max(named, key=lambda event: event.end - event.begin)
    return replace(longest, begin=min(e.begin for e in group), end=max(e.end for e in group))
