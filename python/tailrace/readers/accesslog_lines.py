"""One line of an access log: when, how long, what, and the calls to the servers behind.

```text
… [20/Nov/2026:16:49:00 +0000] "GET /x HTTP/1.1" 200 512 "-" "curl" 1.203 1.200          nginx, Apache
… [20/Nov/2026:16:49:00 +0000] "GET /x HTTP/1.1" 200 512 msec=… rt=1.203 uct="1.001" urt="1.200" ua="10.0.0.3:80"
{"msec": "1795193340.123", "request_time": "1.203", "upstream_connect_time": "1.001", …}
… [20/Nov/2026:16:49:00.123] http-in app/app1 0/0/1001/12/1013 200 512 - - ---- 1/1/0/0/0 0/0 "GET /x HTTP/1.1"
```
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from tailrace import units
from tailrace.readers import accesslog_layout
from tailrace.readers.accesslog_layout import CALLED, Layout
from tailrace.untrusted import whole_characters

_STAMP = r"\[(\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d)"
_COMBINED = re.compile(_STAMP + r" ([+-]\d{4})\] \"((?:[^\"\\]|\\.)*)\" (\d{3}) (\d+|-)(.*)")
_HAPROXY = re.compile(
    _STAMP + r"(\.\d{3})\] (\S{1,255}) ([^\s/]{1,255})/(\S{1,255}) (-?\d+)/(-?\d+)/(-?\d+)/(-?\d+)/\+?(-?\d+) (-?\d+) "
    r"\+?(\d+) \S+ \S+ (\S{4}) \d+/\d+/\d+/\d+/(\+?\d{1,9}) (\d{1,9})/(\d{1,9}) (.*)"
)
# What a client sends stands in quotes without a name, and may look like a field itself.
_PAIR = re.compile(r"\"(?:[^\"\\]|\\.)*\"|\b([A-Za-z_]\w{0,40})[=:](?:\"((?:[^\"\\]|\\.)*)\"|([^\s\"]+))")
_TOKEN = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|(\S+)")
_SECONDS = re.compile(r"\d{1,9}\.\d{3,6}(?:\s?[,:]\s?(?:\d{1,9}\.\d{3,6}|-))*")
_REQUEST = re.compile(r"\"(?:([A-Z]{3,20}) (\S+)[^\"]*|[^\"]*)\"?")
_PART = re.compile(r"\s*[,:]\s+|,")
UPSTREAMS_MAX = 16
"""Calls of a request; the others are counted."""


@dataclass(frozen=True)
class Upstream:
    """A call to a server behind; `connect_ns` is part of `duration_ns`."""

    server: str
    duration_ns: int
    connect_ns: int | None
    status: str


@dataclass(frozen=True)
class Line:
    stamp_ns: int
    at_end: bool
    duration_ns: int | None
    method: str
    target: str
    status: str
    bytes_out: int | None
    upstreams: tuple[Upstream, ...] = ()
    before_ns: int = 0
    """From the begin to the first call."""
    queued_ns: int = 0
    """Of that, in the proxy's own queue."""
    flags: str = ""
    """Envoy's, which say what happened to the request."""
    retries: int = 0
    """HAProxy's attempts to connect to a server that failed before the last one."""
    redispatched: bool = False
    """The last attempt went to another server."""
    ahead: int = 0
    """Requests that left HAProxy's queue while this one waited in it."""
    further: int = 0
    """Calls that are not among the `upstreams`, because they are too many."""


@dataclass(frozen=True)
class Form:
    parse: Callable[[str], Line | None]
    at_end: bool
    zoneless: bool = False
    sparse: bool = False
    """The program writes other lines into the same file."""
    layout: Callable[[str], Layout | None] | None = None
    """Of lines like this one, so that many can be read at once."""
    steady: Callable[[], bool] = lambda: True
    """Whether the lines still have the fields that the layouts were made for."""
    software: str = ""
    """The only program that writes such lines; empty: several do."""
    halves: bool = False
    """A request has its name in a line at its begin, and the rest in one at its end. So each of the latter is of a
    request, with or without a name."""


def _combined(line: str) -> Line | None:
    match = _COMBINED.search(line)
    if match is None:
        return None
    clock, zone, request, status, sent, rest = match.groups()
    fields: dict[str, Any] = {
        CALLED.get(name, name): quoted or bare for name, quoted, bare in _PAIR.findall(rest) if name
    }
    if "request_time" not in fields:
        fields |= _bare(rest)
    method, target = asked(request)
    return _nginx(fields | {"method": method, "uri": target, "status": status, "bytes_sent": sent}, (clock, zone))


def _bare(rest: str) -> dict[str, str]:
    """Durations without names: the first is the request's, the next the upstream's, as in most configurations. They
    follow the referrer and the user agent, which are in quotes and a client's to choose. Rack writes four decimals."""
    tokens = _TOKEN.findall(rest)
    for _ in range(2):
        tokens = tokens[1:] if tokens and not tokens[0][1] else tokens
    found = [text for quoted, bare in tokens if _SECONDS.fullmatch(text := quoted or bare)]
    return dict(zip(("request_time", "upstream_response_time"), found, strict=False))


def _json(line: str) -> Line | None:
    table = json_table(line)
    if table is None:
        return None
    fields = {CALLED.get(name, name): value for name, value in table.items()}
    if not {"request_time", "status"} <= fields.keys() or not (_of_nginx(table) or "rt" in table):
        return None
    method, target = asked(str(fields.get("request") or ""))
    return _nginx({"method": method, "uri": target, **fields}, None)


def _of_nginx(names: Iterable[str]) -> bool:
    """Whether a name in a line is nginx's own, so that its `response_time` is in seconds, as nginx writes them."""
    return any(name in _NGINX_ALONE or name.startswith("upstream_") for name in names)


_NGINX_ALONE = {"request_time", "msec", "time_local", "time_iso8601", "body_bytes_sent", "request_length"}


def unitless(head: str) -> bool:
    """Whether the durations of such lines are whole numbers only. nginx writes seconds with three decimals, so those of
    another program may be seconds, milliseconds or nanoseconds."""
    took = [text for line in head.split("\n")[:_UNITS_SEEN] if (text := _written(line.rstrip("\r")))]
    return any(text.strip("0") for text in took) and all(text.isdecimal() for text in took)


_UNITS_SEEN = 1000
"""Lines whose durations show whether they are whole numbers."""


def _written(line: str) -> str:
    """The duration of a line in nginx's form, as it is written; empty where it has none."""
    if (table := json_table(line)) is not None:
        return next((str(table[name]) for name in ("rt", "request_time", "response_time") if name in table), "")
    match = _COMBINED.search(line)
    pairs = _PAIR.findall(match[6]) if match else ()
    return next((quoted or bare for name, quoted, bare in pairs if CALLED.get(name, name) == "request_time"), "")


def json_table(line: str) -> dict[str, Any] | None:
    """The object of a line of JSON."""
    if not line.lstrip("\ufeff ").startswith("{"):
        return None
    try:
        table = whole_characters(json.loads(line.lstrip("\ufeff ")), line)
    except (ValueError, RecursionError):
        return None
    return table if isinstance(table, dict) else None


def of_nginx(values: Mapping[str, str]) -> Line | None:
    """A line by nginx's own names of its fields."""
    method, target = asked(values.get("request", ""))
    fields = {CALLED.get(name, name): value for name, value in values.items()}
    return _nginx({"method": method, "uri": target, **fields}, None)


def _nginx(fields: Mapping[str, Any], stamp: tuple[str, str] | None) -> Line | None:
    moment = _moment(fields, stamp)
    status = status_of(str(fields.get("status")))
    if moment is None or status is None:
        return None
    sent, took = str(fields.get("bytes_sent", "")), _PART.split(str(fields.get("upstream_response_time") or "-"))
    return Line(
        stamp_ns=moment,
        at_end=True,
        duration_ns=_seconds(str(fields.get("request_time", ""))),
        method=str(fields.get("method") or ""),
        target=str(fields.get("uri") or ""),
        status=status,
        bytes_out=size_of(sent),
        upstreams=_upstreams(fields, took[:UPSTREAMS_MAX]),
        further=len(took[UPSTREAMS_MAX:]),
    )


def _upstreams(fields: Mapping[str, Any], took: list[str]) -> tuple[Upstream, ...]:
    """nginx lists the servers that it tried, separated by commas and colons; `-` is one that gave no answer."""
    connects = _PART.split(str(fields.get("upstream_connect_time") or "-"))
    servers = re.split(r"\s*,\s*|\s+:\s+", str(fields.get("upstream_addr") or "upstream"))
    statuses = _PART.split(str(fields.get("upstream_status") or ""))
    found = []
    for i, text in enumerate(took):
        duration = _seconds(text)
        if duration is not None:
            server = servers[i] if i < len(servers) else servers[-1]
            status = status_of(statuses[i]) if i < len(statuses) else None
            connect = _seconds(connects[i]) if i < len(connects) else None
            found.append(Upstream(server or "upstream", duration, connect, status or "unknown"))
    return tuple(found)


def _haproxy(line: str) -> Line | None:
    match = _HAPROXY.search(line)
    if match is None:
        return None
    clock, fraction, _, backend, server, *timers, code, sent, state, retries, ahead, ahead_too, rest = match.groups()
    begin = local_moment(clock, "+0000")
    if begin is None or any(len(timer) > 12 for timer in timers) or len(sent) > 18:
        return None
    asking, waiting, connecting, answering, whole = (int(timer) * units.MILLISECOND for timer in timers)
    request = _REQUEST.search(rest)
    method, target = (request[1] or "", request[2] or "") if request else ("", "")
    before = max(asking, 0) + max(waiting, 0)
    called = server != "<NOSRV>" and waiting >= 0 and whole >= before
    # Without an answer from the server, its result is unknown.
    status = (status_of(code) if answering >= 0 else "timeout" if state[0] in "sS" else "unknown") or "unknown"
    name = f"{backend}/{server}"
    up = (Upstream(name, whole - before, connecting if connecting >= 0 else None, status),) if called else ()
    own = status_of(code) or "abandoned"
    begin += int(fraction[1:]) * units.MILLISECOND
    return Line(
        *(begin, False, whole if whole >= 0 else None, method, target, own, int(sent), up, before, max(waiting, 0)),
        retries=int(retries), redispatched=retries[0] == "+", ahead=int(ahead) + int(ahead_too),
    )  # fmt: skip


def asked(request: str) -> tuple[str, str]:
    """Method and target of a request line."""
    parts = request.split(" ")
    return (parts[0], parts[1]) if len(parts) >= 2 else ("", "")


def size_of(text: str) -> int | None:
    """A number of bytes."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def status_of(code: str) -> str | None:
    if len(code) != 3 or not code.isascii() or not code.isdigit():
        return None
    return "ok" if "100" <= code < "400" else code


def _seconds(text: str) -> int | None:
    number = units.parse_number(text) if len(text) < 32 else None
    return int(number * units.SECOND) if number is not None and 0 <= number < 10**8 else None


def _moment(fields: Mapping[str, Any], stamp: tuple[str, str] | None) -> int | None:
    try:
        if "msec" in fields:
            return units.parse_moment(str(fields["msec"]), scale=units.SECOND)
        if stamp is not None:
            return local_moment(*stamp)
        if "time_iso8601" in fields:
            return units.parse_moment(str(fields["time_iso8601"]))
    except ValueError:
        return None
    clock, _, zone = str(fields.get("time_local", "")).partition(" ")
    return local_moment(clock, zone)


@lru_cache(maxsize=4096)
def local_moment(clock: str, zone: str) -> int | None:
    """The moment of `20/Nov/2026:16:49:00` and `+0000`. English months only, as servers write them in any locale."""
    try:
        moment = datetime.strptime(f"{clock} {zone}", "%d/%b/%Y:%H:%M:%S %z")
    except ValueError:
        return None
    return int(moment.timestamp()) * units.SECOND


FORMS = (
    Form(_haproxy, at_end=False, zoneless=True, layout=accesslog_layout.haproxy, software="haproxy"),
    Form(_json, at_end=True, layout=accesslog_layout.json_lines),
    Form(_combined, at_end=True, layout=accesslog_layout.combined),
)
