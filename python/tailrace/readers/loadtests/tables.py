"""Tables of the small load generators: hey, oha, ab.

```text
response-time,DNS+dialup,DNS,Request-write,Response-delay,Response-read,status-code,offset        hey -o csv
request-start,DNS,DNS+dialup,Response-delay,request-duration,bytes,status                        oha --output-format csv
starttime seconds ctime dtime ttime wait                                                         ab -g, tabs between
```
Times of hey and oha are seconds since the start of the test. The stamps of ab are whole seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tailrace import units
from tailrace.readers.layout import named_rows
from tailrace.readers.loadtests.sent import Form, Sent, nanoseconds, outcome, whole
from tailrace.readers.source import Found, Source

_HEY = ["response-time", "DNS+dialup", "DNS", "Request-write", "Response-delay", "Response-read", "status-code"]
_OHA = ["request-start", "DNS", "DNS+dialup"]
_AB = ["starttime", "seconds", "ctime", "dtime", "ttime", "wait"]

Row = dict[str, str]


def _first(text: str, delimiter: str = ",") -> list[str]:
    return text.lstrip("\ufeff").split("\n", 1)[0].rstrip("\r").split(delimiter)


def _each(
    read: Callable[[Row, int], Sent | None], delimiter: str = ","
) -> Callable[[Source, Found], Iterator[tuple[int, Sent | None]]]:
    """`read` also gets the start of the test."""

    def requests(source: Source, found: Found) -> Iterator[tuple[int, Sent | None]]:
        start = source.began[0] if source.began else 0
        for number, row in named_rows(source, found, delimiter):
            yield number, read(row, start)

    return requests


def _of_hey(row: Row, start: int) -> Sent | None:
    begin, took = _seconds(row, "offset"), _seconds(row, "response-time")
    if begin is None or took is None:
        return None
    return Sent(start + begin, took, outcome(row.get("status-code", "")), _connecting(row))


def _of_oha(row: Row, start: int) -> Sent | None:
    begin, took = _seconds(row, "request-start"), _seconds(row, "request-duration")
    if begin is None or took is None:
        return None
    size = whole(row.get("bytes", ""))
    return Sent(start + begin, took, outcome(row.get("status", "")), _connecting(row), bytes_in=size)


def _connecting(row: Row) -> int | None:
    """The time to connect, which is counted from the query for the name on: without that."""
    both, query = _seconds(row, "DNS+dialup"), _seconds(row, "DNS")
    return both if both is None or query is None else max(both - query, 0)


def _of_ab(row: Row, start: int) -> Sent | None:
    begin = nanoseconds(row.get("seconds", ""), units.SECOND)
    took, connect = (nanoseconds(row.get(name, ""), units.MILLISECOND) for name in ("ttime", "ctime"))
    return Sent(begin, took, "unknown", connect) if begin is not None and took is not None else None


def _seconds(row: Row, name: str) -> int | None:
    return nanoseconds(row.get(name, ""), units.SECOND)


FORMS = (
    Form("hey", lambda head: _first(head)[:7] == _HEY, _each(_of_hey), undated=True),
    Form("oha", lambda head: _first(head)[:3] == _OHA, _each(_of_oha), undated=True),
    Form("ab", lambda head: _first(head, "\t") == _AB, _each(_of_ab, "\t")),
)
