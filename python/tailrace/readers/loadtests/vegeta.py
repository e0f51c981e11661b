"""vegeta's results: gob as `vegeta attack` writes them, and what `vegeta encode` makes of them.

```text
1795666347832200868,200,4979315,0,5,,aGVsbG8=,,0,GET,http://10.0.0.3/,…                          --to csv
{"attack":"","seq":0,"code":200,"timestamp":"2026-11-20T16:49:00.832200868Z","latency":4979315,…  --to json
```
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tailrace import units
from tailrace.readers import gob
from tailrace.readers.elements import elements, moment, table, text
from tailrace.readers.layout import fields
from tailrace.readers.loadtests.sent import Form, Sent, nanoseconds, outcome, whole
from tailrace.readers.source import Found, Source

_CSV = re.compile(r"\d{19},\d{1,3},\d{1,18},\d{1,18},\d{1,18},")
_JSON = re.compile(
    r'\A\s*\{\s*"attack"\s*:\s*"[^"]*"\s*,\s*"seq"\s*:\s*\d+\s*,\s*"code"\s*:\s*\d+\s*,\s*"timestamp"\s*:\s*"'
)
_RESUME = re.compile(r'\{\s*"attack"\s*:')
_GOB = re.compile(r"\A[\s\S]{3,10}\x06Result[\s\S]{1,20}\x06Attack[\s\S]{1,80}\x07Latency")
_UNIX = 62_135_596_800
"""Seconds from the year 1, where Go's times begin, to 1970."""


def _of_csv(source: Source, found: Found) -> Iterator[tuple[int, Sent | None]]:
    for number, line in source.lines(found):
        row = fields(line, ",")
        begin, took = (whole(row[0]), whole(row[2])) if len(row) >= 12 else (None, None)
        if begin is None or took is None:
            yield number, None
            continue
        code, size, why, method, url = row[1], row[4], row[5], row[9], row[10]
        yield number, Sent(begin, took, outcome(code, why), method=method, url=url, bytes_in=whole(size))


def _of_json(source: Source, found: Found) -> Iterator[tuple[int, Sent | None]]:
    for number, (_, element) in enumerate(elements(source, found, _RESUME), 1):
        values = table(element)
        begin, took = moment(str(values.get("timestamp"))), nanoseconds(text(values.get("latency")) or "", 1)
        if begin is None or took is None:
            yield number, None
            continue
        status = outcome(text(values.get("code")) or "", text(values.get("error")) or "")
        method, url = text(values.get("method")) or "", text(values.get("url")) or ""
        size = whole(text(values.get("bytes_in")) or "")
        yield number, Sent(begin, took, status, method=method, url=url, bytes_in=size)


def _of_gob(source: Source, found: Found) -> Iterator[tuple[int, Sent | None]]:
    try:
        for number, result in enumerate(gob.structs(source.blocks(found)), 1):
            yield number, _result(result)
    except gob.DamagedError as error:
        found.stopped(source.path.name, f"reading stopped there, because {error}")


def _result(result: dict[str, Any]) -> Sent | None:
    """A field that is zero is left out. A request whose name has control characters is damaged."""
    begin, took = _time(result.get("Timestamp")), result.get("Latency", 0)
    if begin is None or not isinstance(took, int) or not 0 <= took < 2**62:
        return None
    method, url, why = (str(result.get(name, "")) for name in ("Method", "URL", "Error"))
    if not (method + url).isprintable():
        return None
    size = result.get("BytesIn", 0)
    status = outcome(str(result.get("Code", 0)), why)
    return Sent(begin, took, status, method=method, url=url, bytes_in=size if isinstance(size, int) else None)


def _time(stamp: Any) -> int | None:
    """A `time.Time` as bytes: a version, seconds, nanoseconds and a zone."""
    if not isinstance(stamp, bytes) or len(stamp) < 13:
        return None
    seconds, rest = int.from_bytes(stamp[1:9], "big") - _UNIX, int.from_bytes(stamp[9:13], "big")
    begin = seconds * units.SECOND + rest
    return begin if 0 < begin < 2**62 else None


FORMS = (
    Form("vegeta", lambda head: bool(_CSV.match(head)), _of_csv, connects=False),
    Form("vegeta", lambda head: bool(_JSON.match(head)), _of_json, connects=False),
    Form("vegeta", lambda head: bool(_GOB.match(head)), _of_gob, connects=False),
)
