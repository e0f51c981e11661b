"""A line of a JVM's log without its prefixes, and the stamps at its beginning.

```text
docker, kubectl    2026-01-20T07:15:12.480518204Z [pod/app/app] …    before the JVM's own text, which is searched for
json-file, CRI     {"log":"… \\u003e …\\n","time":"2026-01-20T07:15:12.48Z"}     unwrapped
unified            [2026-11-20T16:52:55.693+0000][33.708s][info][gc] GC(5) …     decorations, in any combination
JDK 8 and earlier  2016-11-20T16:52:55.688+0000: 33.703: #12: [GC …              wall clock, uptime, number
```

The JVM's own stamp counts. The stamp of a prefix is used only if the JVM wrote no stamp, or only an uptime.
Every expression here takes time in proportion to the length of the line, and a line is at most `bounds.GC_LINE` long.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

from tailrace import bounds, units
from tailrace.readers.source import Found, Source
from tailrace.untrusted import whole_characters

_MESSAGE_KEYS = ("log", "message", "msg", "MESSAGE", "Message", "@message", "text")
_CARRIER_TIME_KEYS = ("time", "@timestamp", "timestamp", "ts", "__REALTIME_TIMESTAMP")
_WINDOW = 200
_DATE = r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?(Z|[+-]\d\d:?\d\d)"
_CARRIED = re.compile(rf"(?:^|[\s|\]]){_DATE}(?=[\s|])")
_PLAIN = re.compile(rf"(?:{_DATE}: ?)?(?:(\d{{1,9}}[.,]\d{{1,4}}): ?)?(?:#\d{{1,9}}: ?)?$")
_PLAIN_MAX = 80
_WALL = re.compile(_DATE)
_UPTIME = re.compile(r"(\d{1,9}[.,]\d{1,9})s")
_UNIT = re.compile(r"(\d{1,19})(ms|ns)")
_TAGS = re.compile(r"(?:gc|safepoint)(?:,[a-z0-9]{1,20}){0,8}")
_DECORATIONS_MAX = 16
_UNIX_MS_MIN = 10**11  # 1973 as Unix time in milliseconds; as an uptime it is 3 years
_YEARS = (1990, 2200)
EARLIEST, LATEST = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) * units.SECOND for year in _YEARS)
"""No JVM is older than the first; a later stamp is damage, and nanoseconds end in 2262."""


class Line(NamedTuple):
    number: int
    text: str
    shipped: int | None = None

    def carried(self) -> int | None:
        """The stamp of the prefix, in ns since the Unix epoch."""
        if self.shipped is not None:
            return self.shipped
        match = _CARRIED.search(self.text, 0, _WINDOW)
        return moment(match[1], match[2], match[3]) if match else None


class Stamps(NamedTuple):
    """The stamps before a message: wall clock and uptime in ns, and the tags of unified logging (None without any)."""

    wall: int | None
    uptime: int | None
    tags: frozenset[str] | None = None


UNSTAMPED = Stamps(None, None)

PAUSE, STOP, STALL, RAN = "pause", "stop", "stall", "ran"


class Reported(NamedTuple):
    """The report of a line or of a record of several lines: a PAUSE of the collector, a STOP of the application, a
    STALL of one thread, or the time that the application RAN since the previous stop."""

    kind: str
    stamps: Stamps
    at_end: bool
    """The stamps are of its end, not of its begin."""
    length: int
    detail: str
    line: Line
    reached: int = 0
    """For a STOP: the time until all threads had stopped."""


def bounded(source: Source, found: Found) -> Iterator[tuple[int, str]]:
    """The lines of a log, with any line ends. Only the begin of an overlong line is returned, and `found` counts it."""
    cut = 0
    for number, line in source.lines(found):
        for text in line.split("\r"):
            cut += len(text) > bounds.GC_LINE
            yield number, text[: bounds.GC_LINE]
    found.lose(f"ends of lines longer than {bounds.GC_LINE // 1024} KiB", cut)


def unwrapped(number: int, text: str) -> Line:
    """The line without the JSON of a log shipper, which may follow a prefix."""
    begin = text.find("{") if text.endswith("}") else -1
    if begin >= 0:
        try:
            fields = whole_characters(json.loads(text[begin:]), text)
        except (ValueError, RecursionError):
            fields = None
        if isinstance(fields, dict):
            message = next((fields[key] for key in _MESSAGE_KEYS if isinstance(fields.get(key), str)), None)
            if message is not None:
                shipped = _first_moment(fields) or Line(number, text[:begin]).carried()
                return Line(number, message.rstrip("\r\n"), shipped)
    return Line(number, text)


def _first_moment(fields: dict[str, object]) -> int | None:
    for key in _CARRIER_TIME_KEYS:
        match = _WALL.fullmatch(str(fields.get(key, ""))[:40])
        if match:
            return moment(match[1], match[2], match[3])
    return None


def stamps(text: str, at: int) -> Stamps:
    """The stamps that directly precede the character `at` of a line."""
    while at and text[at - 1] == " ":
        at -= 1
    if at and text[at - 1] == "]":
        decorated = _decorations(text, at)
        if decorated.tags is not None or decorated.wall is not None or decorated.uptime is not None:
            return decorated
    return _plain(text, at)


_FIRST = re.compile(rf"{_DATE}|(?:^|\[|\s)(\d{{1,9}}[.,]\d{{1,4}})(?:s\]|: )", re.MULTILINE)


def first_stamps(text: str) -> Stamps:
    """The first stamp of a text."""
    match = _FIRST.search(text)
    if match is None:
        return UNSTAMPED
    return Stamps(*((moment(match[1], match[2], match[3]), None) if match[1] else (None, length_ns(match[4], "s"))))


def _plain(text: str, at: int) -> Stamps:
    window = max(0, at - _PLAIN_MAX)
    match = _PLAIN.match(text, window, at) or _PLAIN.search(text, window, at)
    if match is None:
        return UNSTAMPED
    wall = moment(match[1], match[2], match[3]) if match[1] else None
    return Stamps(wall, length_ns(match[4], "s") if match[4] else None)


def _decorations(text: str, at: int) -> Stamps:
    wall = uptime = counter = tags = None
    for inner in _groups(text, at):
        if date := _WALL.fullmatch(inner):
            wall = moment(date[1], date[2], date[3])
        elif seconds := _UPTIME.fullmatch(inner):
            uptime = length_ns(seconds[1], "s")
        elif number := _UNIT.fullmatch(inner):
            if number[2] == "ns":
                counter = int(number[1])
            elif int(number[1]) >= _UNIX_MS_MIN:
                wall = int(number[1]) * units.MILLISECOND
            else:
                uptime = int(number[1]) * units.MILLISECOND
        elif _TAGS.fullmatch(inner):
            tags = frozenset(inner.split(","))
    return Stamps(wall, counter if uptime is None else uptime, tags)


def _groups(text: str, at: int) -> Iterable[str]:
    """The texts in the brackets that end at `at`, last first."""
    for _ in range(_DECORATIONS_MAX):
        begin = text.rfind("[", max(0, at - _WINDOW), at)
        inner = text[begin + 1 : at - 1]
        if begin < 0 or "]" in inner:
            return
        yield inner.strip()
        if begin == 0 or text[begin - 1] != "]":
            return
        at = begin


def moment(date: str, fraction: str | None, zone: str) -> int | None:
    """Nanoseconds since the Unix epoch; None for an invalid date."""
    second = _second(date, zone)
    return None if second is None else second + int((fraction or "").ljust(9, "0"))


@lru_cache(4096)
def _second(date: str, zone: str) -> int | None:
    try:
        whole = datetime.fromisoformat(date + ("+00:00" if zone == "Z" else zone))
    except ValueError:
        return None
    return round(whole.astimezone(UTC).timestamp()) * units.SECOND if _YEARS[0] < whole.year < _YEARS[1] else None


def length_ns(number: str, unit: str) -> int:
    """Nanoseconds of "12.345" or "12,345" in `s` or `ms`."""
    digits = 6 if unit == "ms" else 9
    whole, _, part = number.replace(",", ".").partition(".")
    return int(whole + part[:digits].ljust(digits, "0"))
