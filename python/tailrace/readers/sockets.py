"""Dumps of `ss`, `nstat` and `/proc/net/netstat` in sequence, each after a line with its time.

```text
1795193340.12                                                   date +%s.%N, or an ISO time
LISTEN 129    128          0.0.0.0:8080      0.0.0.0:*          ss -lnt: the accept queue and its limit
ESTAB  0      0            10.0.0.3:8080     10.0.0.2:41312     ss -nti: a connection, and below it what it did;
     cubic rto:204 rtt:0.5/0.2 … retrans:0/3 …                  no `retrans` means none
TcpExtListenDrops               12                 0.0          nstat -az
TcpExt: SyncookiesSent ListenOverflows ListenDrops …            cat /proc/net/netstat: names, then numbers
TcpExt: 0 12 12 …
```
The place of a listening socket is its address, or `NAME:PORT` with NAME=FILE; that of a counter is the host. A level is
as it was at that moment. What a connection sent again before the first dump that has it is unknown, and counts nowhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tailrace.readers.counters import Counters
from tailrace.readers.elements import moment, number
from tailrace.readers.sampled import Sampled
from tailrace.readers.source import Found, Source, text_head

_STAMP = re.compile(
    r"\s*(\d{9,10}(?:\.\d{1,9})?|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)\s*$"
)
_DATE = re.compile(
    r"\s*[A-Z][a-z]{2} (?:([A-Z][a-z]{2}) +(\d{1,2})|(\d{1,2}) ([A-Z][a-z]{2}) (\d{4})) (\d{1,2}):(\d\d):(\d\d)"
    r"(?: ([AP])M)?(?: ([A-Z]{2,5}|[+-]\d\d))?(?: (\d{4}))?\s*$"
)
"""What `date` prints by default."""
_LISTEN = re.compile(r"(?:tcp\s+)?LISTEN\s+(\d{1,9})\s+(\d{1,9})\s+(\S{1,100}:\d{1,5})\s+\S+:\*")
_CONNECTION = re.compile(
    r"(?:tcp\s+)?(?:[A-Z][A-Z0-9-]{2,11}\s+)?\d{1,9}\s+\d{1,9}\s+(\S{1,100}:\d{1,5})\s+(\S{1,100}:\d{1,5})"
)
_DETAILS = re.compile(r"\s.*\srto:\d")
_RETRANSMITTED = re.compile(r"\sretrans:\d{1,9}/(\d{1,9})\b")
_NSTAT = re.compile(r"(TcpExt(?:ListenDrops|ListenOverflows|TCPSynRetrans))\s+(\d{1,19})\b")
_NETSTAT = re.compile(r"TcpExt: (\S.*)")
_OF_JSON = re.compile(r'"(TcpExt(?:ListenDrops|TCPSynRetrans))":\s*(\d{1,19})\b')
"""`nstat -j`."""
_IN_WORDS = (
    (re.compile(r"\s+(\d{1,19}) SYNs to LISTEN sockets (?:dropped|ignored)"), "TcpExtListenDrops"),
    (re.compile(r"\s+TCPSynRetrans: (\d{1,19})\b"), "TcpExtTCPSynRetrans"),
)
"""`netstat -s`."""


def sniff(name: str, head: bytes) -> bool:
    """A line with a time, and below it one of a dump."""
    lines = (text_head(head) or "").split("\n")[:2000]
    stamped = next((i for i, line in enumerate(lines) if line.strip()), len(lines))
    if stamped == len(lines) or not (_STAMP.match(lines[stamped]) or _DATE.match(lines[stamped])):
        return False
    below = lines[stamped + 1 :]
    details = any(_CONNECTION.match(line) for line in below) and any(_DETAILS.search(line) for line in below)
    return details or any(
        _LISTEN.match(line) or _NSTAT.match(line) or _NETSTAT.match(line) or any(_counters(line)) for line in below
    )


def read(source: Source) -> Found:
    found, samples, points = Found(), Sampled(), Counters()
    host, zones = source.place or "host", set[str]()
    for stamp, kind, of, value in _values(source, found, zones):
        if kind == "counter":
            points.add(host, f"nstat_{of}", "", stamp, value)
        elif kind == "connection":
            points.add(host, "ss_retrans", of, stamp, value)
        else:
            port = of.rpartition(":")[2]
            samples.add(stamp, None, of if source.place is None else f"{source.place}:{port}", kind, value)
        if samples.full or points.full:
            break
    points.into(samples, found, source)
    samples.into(found, source, "there is no listening socket in it, and a single value of each counter or connection")
    if zones := {zone for zone in zones if zone[0] not in "+-"}:
        found.notes.append(f"{source.path.name}: its times are in {', '.join(sorted(zones))} and are taken as UTC")
    return found


def _values(source: Source, found: Found, zones: set[str]) -> Iterator[tuple[int, str, str, float | None]]:
    """Moment, kind (a metric of the record, `counter` or `connection`), address or name, and value."""
    now: int | None = None
    names: list[str] = []
    ends = ""
    for line_number, line in source.lines(found):
        if stamp := _STAMP.match(line) or _DATE.match(line):
            now = moment(stamp[1]) if stamp.re is _STAMP else _dated(stamp, zones)
            if now is None:
                found.damaged(source.path.name, line_number)
        elif now is None:
            continue
        elif match := _LISTEN.match(line):
            yield now, "accept_queue", match[3], number(match[1])
            yield now, "accept_queue_limit", match[3], number(match[2])
        elif match := _CONNECTION.match(line):
            ends = f"{match[1]} {match[2]}"
            if _DETAILS.search(line):
                yield now, "connection", ends, _retransmitted(line)
        elif ends and _DETAILS.match(line):
            yield now, "connection", ends, _retransmitted(line)
            ends = ""
        elif match := _NSTAT.match(line):
            yield now, "counter", match[1], number(match[2])
        elif match := _NETSTAT.match(line):
            words = match[1].split()
            if not words[0].lstrip("-").isdigit():
                names = words
                continue
            for name, word in zip(names, words, strict=False):
                if name in ("ListenDrops", "TCPSynRetrans"):
                    yield now, "counter", f"TcpExt{name}", number(word)
        else:
            for name, value in _counters(line):
                yield now, "counter", name, value


def _counters(line: str) -> Iterator[tuple[str, float | None]]:
    """The counters in a line of `nstat -j` or of `netstat -s`."""
    yield from ((name, number(value)) for name, value in _OF_JSON.findall(line))
    for form, name in _IN_WORDS:
        if match := form.match(line):
            yield name, number(match[1])


def _dated(date: re.Match[str], zones: set[str]) -> int | None:
    """The moment of `Fri Nov 20 16:49:00 UTC 2026`, or of `Fri 20 Nov 2026 04:49:00 PM UTC`."""
    month, day, day_first, month_after, year_after, hour, minute, second, half, zone, year = date.groups()
    number = _MONTHS.find((month or month_after).lower()) // 3 + 1
    hours = int(hour) % 12 + 12 * (half == "P") if half else int(hour)
    if zone not in ("UTC", "GMT") and len(zones) < _ZONES:
        zones.add(zone or "an unknown time zone")
    return moment(
        f"{year or year_after}-{number:02}-{int(day or day_first):02}T{hours:02}:{minute}:{second}"
        f"{f'{zone}:00' if zone and zone[0] in '+-' else 'Z'}"
    )


_MONTHS, _ZONES = "janfebmaraprmayjunjulaugsepoctnovdec", 3


def _retransmitted(details: str) -> float:
    """Segments that a connection has sent again so far."""
    match = _RETRANSMITTED.search(details)
    return float(match[1]) if match else 0.0
