"""Lines of the Linux kernel about what makes requests slow, in the forms of dmesg and the journal.

```text
[Fri Nov 20 16:49:00 2026] TCP: request_sock_TCP: Possible SYN flooding on port 0.0.0.0:8080. …              dmesg -T
2026-11-20T16:49:00,123456+00:00 Out of memory: Killed process 950 (java) …                    dmesg --time-format iso
1795193340.123456 app1 kernel: nf_conntrack: nf_conntrack: table full, dropping packet         journalctl -o short-unix
Nov 20 16:49:00 app1 kernel: [12345.678901] …                 syslog; --began shows the year
{"__REALTIME_TIMESTAMP": "1795193340123456", "MESSAGE": "…", …}                              journalctl -k -o json
[12345.678901] INFO: task jbd2/vda1-8:123 blocked for more than 120 seconds.                   dmesg; --began is needed
```
Each becomes an event. All other lines are skipped. The kernel reports SYN flooding once for each listening socket, so
one line may stand for many lost attempts.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache

import numpy as np

from tailrace import units
from tailrace.errors import InputError
from tailrace.readers import localclock
from tailrace.readers.accesslog_lines import json_table
from tailrace.readers.happened import Happened
from tailrace.readers.source import Found, Source, text_head
from tailrace.units import SECOND

KINDS = {
    "syn_flooding": re.compile(r"[Pp]ossible SYN flooding on port (\S{1,60}?)\.? "),
    "oom_kill": re.compile(r"Out of memory: Kill(?:ed)? process|oom-kill:|Memory cgroup out of memory"),
    "conntrack_full": re.compile(r"nf_conntrack: table full, dropping packet"),
    "neighbour_table_full": re.compile(r"[Nn]eighbour table overflow|neighbor table overflow"),
    "tcp_memory": re.compile(r"TCP: out of memory|too many orphaned sockets"),
    "hung_task": re.compile(r"INFO: task \S{1,100} blocked for more than (\d{1,6}) seconds"),
    "soft_lockup": re.compile(r"soft lockup - CPU#\d{1,5} stuck for (\d{1,6})s"),
    "rcu_stall": re.compile(r"rcu\S{0,30}: (?:INFO: )?(?:rcu\S{0,30} )?(?:self-)?detected (?:expedited )?stalls?"),
    "thermal_throttling": re.compile(r"cpu clock (?:is )?throttled"),
}
_SEEN = re.compile("|".join(f"(?:{kind.pattern})" for kind in KINDS.values()))
_STAMPS = (
    re.compile(r"^\[([A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})\]"),
    re.compile(r"^\[?(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)"),
    re.compile(r"^(\d{9,11}\.\d{1,9}) "),
)
_LEVEL = re.compile(r"^[a-z]\w{2,8} *:[a-z]{3,6} *: (?=\[|\d{4}-)")
"""Of `dmesg -x`: `kern  :warn  : [Fri Nov 20 …`."""
_SINCE_BOOT = re.compile(r"^(?:<\d{1,3}>)?\[ *(\d{1,9}\.\d{1,9})\]|^\d{1,3},\d{1,19},(\d{1,16}),[^;]{1,40};")
_YEARLESS = re.compile(r"^(?:<\d{1,3}>)?([A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) \S{1,255} kernel:")
"""Of syslog."""
_HOST = re.compile(r"^\S+ (\S{1,255}) kernel(?:\[\d+\])?:")


_DAY = 24 * 3600 * SECOND
_AT_ONCE = 4096
"""Lines whose moments are examined together; the result is the same for any number."""


def sniff(name: str, head: bytes) -> bool:
    text = text_head(head) or ""
    return any(_SEEN.search(line) and _stamped(_LEVEL.sub("", line)) for line in text.split("\n"))


def _stamped(line: str) -> bool:
    return any(stamp.match(line) for stamp in (*_STAMPS, _SINCE_BOOT, _YEARLESS)) or _of_journal(line) is not None


def _of_journal(line: str) -> str | None:
    """A line of `journalctl -o json` as `-o short-unix` prints it."""
    table = json_table(line) or {}
    stamp, message = table.get("__REALTIME_TIMESTAMP"), table.get("MESSAGE")
    if not (isinstance(stamp, str) and stamp.isdecimal() and len(stamp) < 20 and isinstance(message, str)):
        return None
    host = table.get("_HOSTNAME")
    return f"{stamp[:-6] or '0'}.{stamp[-6:]:0>6} {host if isinstance(host, str) else 'host'} kernel: {message}"


def read(source: Source) -> Found:
    found, events, undated = Found(), Happened(), 0
    clock, numbers = _Clock(), list[int]()
    for number, line in source.lines(found):
        kind = next((kind for kind, seen in KINDS.items() if seen.search(line)), None) if _SEEN.search(line) else None
        if kind is None and line.startswith("{"):
            continue
        line = (_of_journal(line) if kind else None) or _LEVEL.sub("", line)
        moment, zoned = _moment(line, source.began)
        if moment is not None and not zoned:
            clock.add(number, moment, counts=kind is not None)
        if kind is None:
            continue
        if moment is None:
            undated += 1
            continue
        host = _HOST.match(line)
        lasted = KINDS[kind].search(line)
        seconds = int(lasted[1]) if kind in ("hung_task", "soft_lockup") and lasted else 0
        place = source.place or (host[1] if host else "host")
        events.add(place, kind, moment - seconds * SECOND, moment, line)
        numbers += [number] * (len(events) - len(numbers))
        if events.full:
            break
    if not len(events):
        advice = "pass the start of the machine as --began NAME=MOMENT, or write `journalctl -k -o short-unix`"
        raise InputError(source.path, "its lines have no date, or no year", advice)
    found.notes += [f"{source.path.name}: {note}" for note in clock.notes()]
    events.delay([clock.delay(number) for number in numbers])
    events.into(found, source)
    found.lose("lines without a date", undated)
    if "syn_flooding" in events.kinds:
        found.notes.append(
            f"{source.path.name}: the kernel reports SYN flooding once for a listening socket, so it shows that a "
            "queue of connections overflowed, and not how often"
        )
    return found


class _Clock:
    """The moments of lines without a time zone, in their order: what follows a clock that was set back is later."""

    def __init__(self) -> None:
        self._watch, self._stamps, self._numbers = localclock.Watch(), list[int](), list[int]()
        self._used = False

    def add(self, number: int, moment: int, *, counts: bool) -> None:
        """Add a line; `counts`: it is one of an event."""
        self._stamps.append(moment)
        self._numbers.append(number)
        self._used = self._used or counts
        if len(self._stamps) == _AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        self._watch.add(np.array(self._stamps, np.int64), np.array(self._numbers, np.int64))
        self._stamps, self._numbers = [], []

    def notes(self) -> list[str]:
        """What is said of it, if events depend on it. Then all lines have been added."""
        self._flush()
        found = self._watch.found()
        self._later = found.later
        said = ["its times have no time zone and are taken as UTC", *(found.notes if found.later else ())]
        return said if self._used else []

    def delay(self, number: int) -> int:
        """By how much the time of a line is later."""
        later = any(first <= number and (end is None or number < end) for first, end in self._later)
        return localclock.HOUR if later else 0


def _moment(line: str, began: tuple[int, ...]) -> tuple[int | None, bool]:
    """The moment of a line, and whether its time zone is known."""
    with suppress(ValueError):
        for number, stamp in enumerate(_STAMPS):
            match = stamp.match(line)
            if match and number == 0:
                return _printed(match[1], "%a %b %d %H:%M:%S %Y"), False
            if match and number == 1:
                zoned = bool(re.search(r"(?:Z|[+-]\d\d:?\d\d)$", match[1][11:]))
                return units.parse_moment(match[1]), zoned
            if match:
                return units.parse_moment(match[1], scale=SECOND), True
        if began and (match := _SINCE_BOOT.match(line)):
            since = float(match[1]) * SECOND if match[1] else int(match[2]) * units.MICROSECOND
            return began[0] + int(since), True
        if began and (match := _YEARLESS.match(line)):
            return _first_after(match[1], began[0]), False
    return None, True


def _first_after(text: str, began: int) -> int | None:
    """The first moment with this date, but without its year, that is after the start, or a day before at most."""
    year = datetime.fromtimestamp(began // SECOND, UTC).year
    for each in (year, year + 1):
        if (moment := _printed(f"{each} {text}", "%Y %b %d %H:%M:%S")) >= began - _DAY:
            return moment
    return None


@lru_cache(maxsize=256)
def _printed(text: str, form: str) -> int:
    """The moment of a date; many lines in a row have the same. ValueError: it is none."""
    return int(datetime.strptime(text, form).replace(tzinfo=UTC).timestamp()) * SECOND
