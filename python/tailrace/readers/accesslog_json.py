"""Lines of JSON that programs and logging libraries write for each request, by the names of their fields.

```text
{"level":30,"time":1795193340123,"req":{"method":"GET","url":"/x"},"res":{"statusCode":200},"responseTime":12}      pino
{"@timestamp":"2026-11-20T16:49:00.123Z","event":{"duration":12000000},"http":{"response":{"status_code":200}}}      ECS
{"time":"2026-11-20T16:49:00.123Z","method":"GET","path":"/x","status":200,"duration_ms":12.3}
{"timestamp":"2026-11-20T16:49:00.1Z","httpRequest":{"requestMethod":"GET","status":200,"latency":"0.012s"}}      Google
```
The unit of a duration must be in its name or its value; a number without one could be seconds or milliseconds, so such
a line is none of these. A line is stamped at the end of its request, and those of Google's load balancers at the begin.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from tailrace import units
from tailrace.readers.accesslog_lines import Form, Line, json_table, size_of, status_of
from tailrace.readers.elements import moment, number, text

_DEPTH_MAX = 4
_GOOGLE = "httprequest.latency"
_TIMES = ("@timestamp", "timestamp", "time", "ts", "datetime", "date")
_STATUSES = (
    *("status", "statuscode", "httpstatus", "responsecode", "responsestatus", "res.statuscode"),
    *("http.response.statuscode", "http.statuscode", "httprequest.status"),
)
_METHODS = ("method", "requestmethod", "httpmethod", "req.method", "http.request.method", "httprequest.requestmethod")
_TARGETS = (
    *("path", "uri", "url", "requesturi", "requestpath", "req.url", "url.path", "url.original"),
    "httprequest.requesturl",
)
_SIZES = ("bytes", "size", "bytessent", "responsesize", "http.response.body.bytes", "httprequest.responsesize")
_BARE = ("duration", "latency", "elapsed", "took", "responsetime", "requesttime", "elapsedtime")
_UNITS = {
    **{"ms": units.MILLISECOND, "millis": units.MILLISECOND, "milliseconds": units.MILLISECOND},
    **{"us": units.MICROSECOND, "micros": units.MICROSECOND, "microseconds": units.MICROSECOND},
    **{"ns": 1, "nanos": 1, "nanoseconds": 1, "s": units.SECOND, "sec": units.SECOND, "seconds": units.SECOND},
}
_SCALES = {
    **{f"{name}{unit}": scale for name in _BARE for unit, scale in _UNITS.items()},
    "event.duration": 1,
}
"""Names of durations → their unit."""
_WITH_UNIT = (*_BARE, _GOOGLE)
"""Names of durations whose values may contain their unit."""


def _json(line: str) -> Line | None:
    table = json_table(line)
    if table is None:
        return None
    values = dict(_flat(table, "", 0))
    stamp, duration = _moment(values), _duration(values)
    status = status_of(_first(values, _STATUSES))
    if stamp is None or duration is None or status is None:
        return None
    method, target, size = _first(values, _METHODS), _first(values, _TARGETS), size_of(_first(values, _SIZES))
    return Line(stamp, _GOOGLE not in values, duration, method, target, status, size)


def _flat(table: Mapping[str, Any], above: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Names in lower case without `_`, with a dot for each level."""
    for key, value in table.items():
        name = above + re.sub(r"[_-]", "", key.lower())
        if isinstance(value, dict) and depth < _DEPTH_MAX:
            yield from _flat(value, f"{name}.", depth + 1)
        else:
            yield name, value


def _first(values: Mapping[str, Any], names: tuple[str, ...]) -> str:
    return next((found for name in names if (found := text(values.get(name))) is not None), "")


def _moment(values: Mapping[str, Any]) -> int | None:
    return next((at for name in _TIMES if name in values and (at := moment(str(values[name]))) is not None), None)


def _duration(values: Mapping[str, Any]) -> int | None:
    for name, scale in _SCALES.items():
        took = number(values.get(name))
        if took is not None and 0 <= took * scale < 2**62:
            return round(took * scale)
    for name in _WITH_UNIT:
        value = values.get(name)
        if isinstance(value, str) and re.search(r"\d\s*[a-zµ]+$", value):
            with suppress(ValueError):
                return units.parse_duration(value)
    if "req.method" in values and (took := number(values.get("responsetime"))) is not None and 0 <= took < 10**9:
        return round(took * units.MILLISECOND)  # pino-http
    return None


FORMS = (Form(_json, at_end=True, sparse=True),)
