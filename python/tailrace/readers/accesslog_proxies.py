"""Lines of other proxies: HAProxy's tcplog, Envoy and Istio, Traefik, Caddy, and AWS' load balancers.

```text
… [20/Nov/2026:16:49:00.123] front app/app1 0/1003/5007 212 -- 1/1/1/0/0 0/0                        HAProxy, tcplog
[2026-11-20T16:49:00.310Z] "GET /x HTTP/2" 503 UO 0 91 226 - "…" "curl" "id" "web" "10.0.0.3:80"    Envoy, Istio
… [20/Nov/2026:16:49:00 +0000] "GET /x HTTP/1.1" 200 5 "-" "curl" 42 "web@docker" "http://10.0.0.3:80" 12ms   Traefik
http 2026-11-20T16:49:00.186641Z app/lb/50dc 10.0.0.9:2817 10.0.0.3:80 0.000 0.001 0.000 200 200 34 366 "GET http://…
```
HAProxy, Envoy, Traefik and the classic load balancer stamp the begin; Caddy and the application load balancer the end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from tailrace import units
from tailrace.readers import accesslog_cuts
from tailrace.readers.accesslog_lines import Form, Line, Upstream, asked, json_table, local_moment, size_of, status_of
from tailrace.readers.elements import moment, number, table, text

_TCP = re.compile(
    r"\[(\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d)(\.\d{3})\] (\S{1,255}) ([^\s/]{1,255})/(\S{1,255}) "
    r"(-?\d{1,12})/(-?\d{1,12})/\+?(-?\d{1,12}) \+?(\d{1,18}) (\S{2}) \d+/\d+/\d+/\d+/(\+?\d{1,9}) (\d{1,9})/(\d{1,9})"
)
_ENVOY = re.compile(
    r"^\[(\d{4}-\d\d-\d\dT[\d:.]{8,20}Z)\] \"((?:[^\"\\]|\\.)*)\" (\d{1,3}) (\S{1,60})(?: (\S{0,200}) (\S{0,200}) "
    r"\"((?:[^\"\\]|\\.)*)\")? (\d{1,18}) (\d{1,18}) (\d{1,12}) (\d{1,12}|-)((?: \"(?:[^\"\\]|\\.)*\"){0,5})"
)
_TRAEFIK = re.compile(
    r"\[(\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d) ([+-]\d{4})\] \"((?:[^\"\\]|\\.)*)\" (\d{3}|-) (\d+|-) "
    r"\"(?:[^\"\\]|\\.)*\" \"(?:[^\"\\]|\\.)*\" \d+ \"(?:[^\"\\]|\\.)*\" \"((?:[^\"\\]|\\.)*)\" (\d{1,12})ms"
)
_TIMES = r"(-1|\d{1,9}(?:\.\d{1,9})?) (-1|\d{1,9}(?:\.\d{1,9})?) (-1|\d{1,9}(?:\.\d{1,9})?)"
_REST = rf"(\S{{0,60}}) (\S{{1,60}}) {_TIMES} (\d{{3}}|-) (\d{{3}}|-) (\d{{1,18}}) (\d{{1,18}}) \"((?:[^\"\\]|\\.)*)\""
_ALB = re.compile(rf"^(?:https?|h2|grpcs|wss?) (\d{{4}}-\S{{10,30}}Z) \S{{0,200}} {_REST}(.*)")
_ELB = re.compile(rf"^(\d{{4}}-\d\d-\d\dT\S{{8,20}}Z) \S{{1,200}} {_REST}")
_CREATED = re.compile(r" (\d{4}-\d\d-\d\dT[\d:.]{8,20}Z) \"")
_AUTHORITY = re.compile(r"^[a-z0-9]{2,6}://")
_QUOTED = re.compile(r"\"((?:[^\"\\]|\\.)*)\"")
_ENDED = {"DC": "abandoned", "UT": "timeout", "UF": "refused", "UC": "reset", "UR": "reset", "LR": "reset"}
"""Envoy's flags → what became of a call without a response of the server behind."""


def ended_by(flags: str) -> str | None:
    """What Envoy's flags say became of such a call; None: they say nothing of it."""
    return next((_ENDED[flag] for flag in flags.split(",") if flag in _ENDED), None)


def host_of(address: str | None) -> str | None:
    """The server behind, without its scheme; None: there is none."""
    host = _AUTHORITY.sub("", address or "-")
    return None if host in ("-", "", "null") else host


def _tcp(line: str) -> Line | None:
    match = _TCP.search(line)
    begin = local_moment(match[1], "+0000") if match else None
    if match is None or begin is None:
        return None
    begin += int(match[2][1:]) * units.MILLISECOND
    waiting, connecting, whole = (int(match[i]) * units.MILLISECOND for i in (6, 7, 8))
    if whole < 0:
        return None
    before, server, state = max(waiting, 0), match[5], match[10]
    # The first letter of the state says which side ended the session, the second in which phase.
    status = "ok" if state[0] == "-" else {"C": "abandoned", "S": "reset"}.get(state[0], "unknown")
    if state[0] in "sS" and state[1] == "C":
        status = "timeout" if state[0] == "s" else "refused"
    called = server != "<NOSRV>" and waiting >= 0 and whole >= before
    connect = connecting if connecting >= 0 else None
    up = (Upstream(f"{match[4]}/{server}", whole - before, connect, status),) if called else ()
    return Line(
        *(begin, False, whole, "", "", status, int(match[9]), up, before, before),
        retries=int(match[11]), redispatched=match[11][0] == "+", ahead=int(match[12]) + int(match[13]),
    )  # fmt: skip


def _envoy(line: str) -> Line | None:
    match = _ENVOY.match(line)
    begin = moment(match[1]) if match else None
    if match is None or begin is None:
        return None
    words = [word.group(1) for word in _QUOTED.finditer(match[12])]
    method, target = asked(match[2])
    values = {"upstream_host": words[4] if len(words) > 4 else "", "upstream_service_time": match[11]}
    return of_envoy(begin, int(match[10]), method, target, match[3], match[4], match[9], values)


def of_envoy(
    begin: int, took_ms: float, method: str, target: str, code: str, flags: str, size: str, values: Mapping[str, Any]
) -> Line:
    ended = ended_by(flags)
    own = status_of(code.rjust(3, "0")) if code != "0" else ended or "abandoned"
    host = host_of(text(values.get("upstream_host")))
    service = number(values.get("upstream_service_time"))
    duration = round(took_ms * units.MILLISECOND)
    ups: tuple[Upstream, ...] = ()
    if host:
        inside = duration if service is None else min(round(service * units.MILLISECOND), duration)
        ups = (Upstream(host, inside, None, ended or own or "unknown"),)
    flags = "" if flags in ("-", "") else flags
    return Line(begin, False, duration, method, target, own or "unknown", size_of(size), ups, flags=flags)


def _traefik(line: str) -> Line | None:
    match = _TRAEFIK.search(line)
    begin = local_moment(match[1], match[2]) if match else None
    if match is None or begin is None:
        return None
    method, target = asked(match[3])
    duration = int(match[7]) * units.MILLISECOND
    host = host_of(match[6])
    status = status_of(match[4]) or "unknown"
    ups = (Upstream(host, duration, None, status),) if host else ()
    return Line(begin, False, duration, method, target, status, size_of(match[5]), ups)


def _balancer(line: str) -> Line | None:
    match = _ALB.match(line)
    at_end = match is not None
    match = match or _ELB.match(line)
    stamp = moment(match[1]) if match else None
    if match is None or stamp is None:
        return None
    parts = [None if match[i] == "-1" else number(match[i]) for i in (4, 5, 6)]
    known = [round(part * units.SECOND) for part in parts if part is not None]
    duration = sum(known) if len(known) == 3 else None
    created = _CREATED.search(match[12]) if at_end else None
    begin = moment(created[1]) if created else None
    if begin is not None and begin <= stamp:
        duration = max(duration or 0, stamp - begin)
    method, target = asked(match[11])
    ups: tuple[Upstream, ...] = ()
    if parts[1] is not None and match[3] != "-":
        ups = (Upstream(match[3], round(parts[1] * units.SECOND), None, status_of(match[8]) or "unknown"),)
    before = round(parts[0] * units.SECOND) if parts[0] is not None else 0
    own = status_of(match[7]) or "unknown"
    return Line(stamp, at_end, duration, method, target, own, size_of(match[10]), ups, before)


def _json(line: str) -> Line | None:
    values = json_table(line)
    if values is None:
        return None
    if {"start_time", "response_code", "duration"} <= values.keys():
        begin, took = moment(str(values["start_time"])), number(values["duration"])
        if begin is None or took is None or not 0 <= took < 10**9:
            return None
        method, target = str(values.get("method") or ""), str(values.get("path") or "")
        code, size = text(values["response_code"]) or "0", text(values.get("bytes_sent")) or ""
        flags = text(values.get("response_flags")) or "-"
        return of_envoy(begin, took, method, target, code, flags, size, values)
    if {"StartUTC", "Duration", "DownstreamStatus"} <= values.keys():
        return _of_traefik(values)
    if values.keys() >= _CADDY:
        return _of_caddy(values)
    return None


def _of_traefik(values: Mapping[str, Any]) -> Line | None:
    begin, took = moment(str(values["StartUTC"])), number(values["Duration"])
    if begin is None or took is None or not 0 <= took < 10**18:
        return None
    host, inside = host_of(text(values.get("ServiceAddr"))), number(values.get("OriginDuration"))
    code = status_of(text(values.get("OriginStatus")) or "") or "unknown"
    ups = (Upstream(host, round(inside), None, code),) if host and inside is not None and 0 <= inside <= took else ()
    own = status_of(text(values["DownstreamStatus"]) or "") or "abandoned"
    method, target = str(values.get("RequestMethod") or ""), str(values.get("RequestPath") or "")
    size = size_of(text(values.get("DownstreamContentSize")) or "")
    return Line(begin, False, round(took), method, target, own, size, ups)


def caddy(head: str) -> Form | None:
    """The form of a log of Caddy whose durations are not in seconds; None for any other. Raises UnitlessError.

    Caddy measures in nanoseconds. Its seconds have decimals; its nanoseconds and milliseconds are whole numbers
    (zap's `NanosDurationEncoder` and `MillisDurationEncoder`), so the smallest of these shows which they are."""
    tables = [values for line in head.split("\n")[:-1][:_CADDY_LINES] if (values := json_table(line))]
    took = [values["duration"] for values in tables if values.keys() >= _CADDY]
    if not any(took) or not all(type(each) is int for each in took):
        return None
    if _NS_LEAST > min(took) >= _MS_LEAST:
        raise UnitlessError
    return Form(partial(_caddy_line, scale=units.MILLISECOND if min(took) < _MS_LEAST else 1), at_end=True)


class UnitlessError(Exception):
    """A log whose durations may be in several units."""


_CADDY = {"ts", "duration", "status", "request"}
_CADDY_LINES = 1000
_MS_LEAST = 1_000
"""No request takes less than a microsecond, so fewer nanoseconds are milliseconds."""
_NS_LEAST = 10_000
"""If all are as long as this, they are nanoseconds: no server needs ten seconds for each request."""


def _caddy_line(line: str, scale: int) -> Line | None:
    values = json_table(line) or {}
    return _of_caddy(values, scale) if values.keys() >= _CADDY else None


def _of_caddy(values: Mapping[str, Any], scale: int = units.SECOND) -> Line | None:
    """`duration` is a number, or text with its unit (`duration_format string`)."""
    end, duration, request = moment(str(values["ts"])), values["duration"], table(values["request"])
    if isinstance(duration, str):
        with suppress(ValueError):
            duration, scale = units.parse_duration(duration), 1
    took = number(duration)
    if end is None or took is None or not 0 <= took * scale < 10**6 * units.SECOND:
        return None
    own = status_of(text(values["status"]) or "") or "abandoned"
    method, target = str(request.get("method") or ""), str(request.get("uri") or "")
    return Line(end, True, round(took * scale), method, target, own, size_of(text(values.get("size")) or ""))


FORMS = (
    Form(_tcp, at_end=False, zoneless=True, software="haproxy"),
    Form(_envoy, at_end=False, layout=accesslog_cuts.envoy, software="envoy"),
    Form(_balancer, at_end=True, layout=accesslog_cuts.balancer),
    Form(_traefik, at_end=False, layout=accesslog_cuts.traefik),
    Form(_json, at_end=True, layout=accesslog_cuts.json_lines),
)
