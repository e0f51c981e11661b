"""Lines of JSON, of LTSV and of logfmt that programs and logging libraries write for each request, by the names of
their fields.

```text
{"level":30,"time":1795193340123,"req":{"method":"GET","url":"/x"},"res":{"statusCode":200},"responseTime":12}      pino
{"@timestamp":"2026-11-20T16:49:00.123Z","event":{"duration":12000000},"http":{"response":{"status_code":200}}}      ECS
{"time":"2026-11-20T16:49:00.123Z","method":"GET","path":"/x","status":200,"duration_ms":12.3}
{"timestamp":"2026-11-20T16:49:00.1Z","httpRequest":{"requestMethod":"GET","status":200,"latency":"0.012s"}}      Google
```
The unit of a duration must be in its name or its value; a number without one could be seconds or milliseconds, so such
a line is none of these. Beside Envoy's flags (`response_flags`) it is in milliseconds. A line is stamped at the end of
its request; those of Google's load balancers, and those with a time like `start_time`, at the begin.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from tailrace import units
from tailrace.readers.accesslog_keys import keyed
from tailrace.readers.accesslog_lines import Form, Line, asked, json_table, local_moment, size_of, status_of
from tailrace.readers.accesslog_proxies import of_envoy
from tailrace.readers.elements import moment, number, text

_DEPTH_MAX = 4
_GOOGLE = "httprequest.latency"
_TIMES = ("@timestamp", "timestamp", "time", "ts", "datetime", "date", "timelocal", "timeiso8601")
_BEGINS = ("starttime", "start", "startedat", "begin", "requeststart", "requeststarttime")
"""Names of times at which a request began."""
_STATUSES = (
    *("status", "statuscode", "httpstatus", "responsecode", "responsestatus", "res.statuscode", "code"),
    *("http.response.statuscode", "http.statuscode", "httprequest.status", "response.status", "response.statuscode"),
)
_METHODS = (
    *("method", "requestmethod", "httpmethod", "reqmethod", "req.method", "request.method"),
    *("http.request.method", "http.method", "httprequest.requestmethod"),
)
_TARGETS = (
    *("path", "uri", "url", "requesturi", "requestpath", "reqpath", "req.url", "request.uri", "request.url"),
    *("request.path", "url.path", "url.original", "http.target", "httprequest.requesturl"),
)
_REQUESTS = ("req", "request", "requestline")
"""Names of request lines, like `GET /x HTTP/1.1`."""
_SIZES = ("bytes", "size", "bytessent", "responsesize", "http.response.body.bytes", "httprequest.responsesize")
_BARE = ("duration", "latency", "elapsed", "took", "responsetime", "requesttime", "elapsedtime", "service")
_UNITS = {
    **dict.fromkeys(("ms", "msec", "msecs", "millis", "milliseconds"), units.MILLISECOND),
    **dict.fromkeys(("us", "usec", "micros", "microsec", "microseconds"), units.MICROSECOND),
    **dict.fromkeys(("ns", "nsec", "nanos", "nanoseconds"), 1),
    **dict.fromkeys(("s", "sec", "secs", "seconds"), units.SECOND),
}
_TIMED = re.compile(
    r"(?:[a-z.]*[a-z.])?(?:duration|latency|elapsed|took|(?:response|request|req|total|elapsed|processing|handling)time"
    rf"|timetaken)(?:in)?({'|'.join(sorted(_UNITS, key=len, reverse=True))})"
)
"""Names of durations that end in their unit."""
_PARTS = re.compile(
    r"upstream|backend|origin|target|db|sql|view|render|queue|connect|wait|ssl|tls|handshake|dns|gc|first"
)
"""Words of durations that are parts of a request."""
_WITH_UNIT = (*_BARE, _GOOGLE)
"""Names of durations whose values may contain their unit."""
_ENVOY_FLAGS = re.compile(r"-|[A-Z]{2,5}(?:,[A-Z]{2,5})*")


def _json(line: str) -> Line | None:
    table = json_table(line)
    return None if table is None else _line(dict(_flat(table, "", 0)))


def _keyed(line: str) -> Line | None:
    table = keyed(line)
    if table is None:
        return None
    values = dict(_flat(table, "", 0))
    if "\t" in line and (took := number(values.get("reqtime"))) is not None:
        values.setdefault("reqtimes", took)  # ltsv.org: seconds
    return _line(values)


def _line(values: Mapping[str, Any]) -> Line | None:
    began = _moment(values, _BEGINS)
    stamp = began if began is not None else _moment(values, _TIMES)
    duration, status = _duration(values), _first(values, _STATUSES)
    if stamp is None or duration is None or (status_of(status) is None and status != "0"):
        return None
    asked_for = _first(values, _REQUESTS)
    method, target = asked(asked_for) if asked_for else (_first(values, _METHODS), _first(values, _TARGETS))
    flags = _first(values, ("responseflags", "flags"))
    size = _first(values, _SIZES)
    if began is not None and flags and _ENVOY_FLAGS.fullmatch(flags):
        inner = {"upstream_host": _first(values, ("upstreamhost", "upstream"))}
        return of_envoy(began, duration / units.MILLISECOND, method, target, status, flags, size, inner)
    own = status_of(status)
    at_end = began is None and _GOOGLE not in values
    return None if own is None else Line(stamp, at_end, duration, method, target, own, size_of(size))


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


def _moment(values: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    for name in names:
        if name in values:
            said = str(values[name]).strip("[]")
            clock, _, zone = said.partition(" ")
            if (at := moment(said)) is not None or (at := local_moment(clock, zone)) is not None:
                return at
    return None


def _duration(values: Mapping[str, Any]) -> int | None:
    """The duration of the request, if its unit is known and no other one may be meant."""
    known = {}
    for name in values:
        match = None if _PARTS.search(name) else _TIMED.fullmatch(name)
        scale = 1 if name == "event.duration" else _UNITS[match[1]] if match else None
        took = number(values[name]) if scale else None
        if scale and took is not None and 0 <= took * scale < 2**62:
            known[name] = round(took * scale)
    if known:
        shortest = min(known, key=len)
        return known[shortest] if sum(len(name) == len(shortest) for name in known) == 1 else None
    for name in _WITH_UNIT:
        value = values.get(name)
        if isinstance(value, str) and re.search(r"\d\s*[a-zµ]+$", value):
            with suppress(ValueError):
                return units.parse_duration(value)
    plain = "duration" if "responseflags" in values else "responsetime" if "req.method" in values else ""
    took = number(values.get(plain))  # Envoy and pino-http: milliseconds
    return round(took * units.MILLISECOND) if took is not None and 0 <= took < 10**9 else None


FORMS = (Form(_json, at_end=True, sparse=True), Form(_keyed, at_end=True, sparse=True))
