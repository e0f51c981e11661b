"""Layouts of lines of Envoy, Traefik, AWS' load balancers and W3C logs, for `accesslog_layout`.

Each is made from a line that the slow reader could read, and fits the lines that have the same fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from tailrace import units
from tailrace.readers import accesslog_programs
from tailrace.readers.accesslog_layout import QUOTED, Layout, json_object

_ENVOY = re.compile(r'\[[^\]]*\] "[^"\\]*" \d+ \S+( \S+ \S+ "[^"\\]*")? \d+ \d+ \d+ (?:\d+|-)((?: "[^"\\]*"){0,5})')
_WORDS = 5
"""Texts in quotes at the end of a line of Envoy; the last is the server behind."""
_ALB = re.compile(r"(?:https?|h2|grpcs|wss?) ")
_OF_ENVOY = {
    "start_time": "iso", "method": "method", "path": "uri", "response_code": "status", "response_flags": "flags",
    "bytes_sent": "bytes", "duration": "duration", "upstream_host": "address", "upstream_service_time": "took",
}  # fmt: skip
_OF_TRAEFIK = {
    "StartUTC": "iso", "RequestMethod": "method", "RequestPath": "uri", "DownstreamStatus": "status",
    "DownstreamContentSize": "bytes", "Duration": "duration", "ServiceAddr": "address", "OriginDuration": "took",
    "OriginStatus": "address_status",
}  # fmt: skip
_OF_W3C = {
    "date": "day", "time": "time", "time-taken": "duration", "sc-status": "status", "cs-method": "method",
    "cs-uri-stem": "uri", "sc-bytes": "bytes",
}  # fmt: skip
_IN_MS = {"duration": units.MILLISECOND, "took": units.MILLISECOND}
Piece = tuple[str, str | None, str]
"""The literal before a field, its column, and the bytes before which it ends."""


def _layout(software: str, pieces: Iterable[Piece], after: str, scales: Mapping[str, int]) -> Layout:
    layout = Layout(whole=False, scales=scales, software=software)
    for literal, column, stop in pieces:
        layout.text(literal)
        layout.value(column, stop)
    layout.text(after)
    return layout


def envoy(line: str) -> Layout | None:
    """Envoy's default format and Istio's, which has three more fields after the flags."""
    match = _ENVOY.match(line)
    if match is None:
        return None
    pieces: list[Piece] = [("[", "iso", "]"), ('] "', "asked", QUOTED), ('" ', "status", " "), (" ", "flags", " ")]
    if match[1]:
        pieces += [(" ", None, " "), (" ", None, " "), (' "', None, QUOTED), ('" ', "received", " ")]
    else:
        pieces.append((" ", "received", " "))
    pieces += [(" ", column, " ") for column in ("bytes", "duration", "took")]
    words = match[2].count(' "')
    pieces += [('" "' if i else ' "', "address" if i == _WORDS - 1 else None, QUOTED) for i in range(words)]
    layout = _layout("envoy", pieces, '"' if words else "", _IN_MS)
    layout.whole = words < _WORDS  # else it would fit lines with a server behind, too
    return layout


def traefik(line: str) -> Layout | None:
    """The common log format with Traefik's fields after it."""
    pieces: list[Piece] = [
        *(("", None, "["), ("[", "clock", "]"), ('] "', "asked", QUOTED), ('" ', "status", " "), (" ", "bytes", " ")),
        *((' "', None, QUOTED), ('" "', None, QUOTED), ('" ', "received", " "), (' "', None, QUOTED)),
        *(('" "', "address", QUOTED), ('" ', "duration", "m")),
    ]
    return _layout("traefik text", pieces, "ms", _IN_MS)


def balancer(line: str) -> Layout | None:
    """The application load balancer's; the classic one's are few."""
    kind = _ALB.match(line)
    if kind is None:
        return None
    columns = ("before", "took", "after", "status", "address_status", "received", "bytes")
    pieces: list[Piece] = [
        *((kind[0], "iso", " "), (" ", None, " "), (" ", None, " "), (" ", "address", " ")),
        *((" ", column, " ") for column in columns),
        *((' "', "asked", QUOTED), ('" "', None, QUOTED), ('" ', None, " "), (" ", None, " "), (" ", None, " ")),
        *((' "', None, QUOTED), ('" "', None, QUOTED), ('" "', None, QUOTED), ('" ', None, " "), (" ", "made", " ")),
    ]
    return _layout("balancer", pieces, ' "', {})


def json_lines(line: str) -> Layout | None:
    """Objects of Envoy, Traefik and Caddy."""
    if '"start_time"' in line:
        return json_object(line, _OF_ENVOY, Layout(scales=_IN_MS, software="envoy"), nulls=True)
    if '"StartUTC"' in line:
        return json_object(line, _OF_TRAEFIK, Layout(scales={"duration": 1, "took": 1}, software="traefik"), nulls=True)
    return accesslog_programs.caddy(line)


def w3c(columns: list[str], separator: str) -> Layout | None:
    """A row of these columns; the duration is in milliseconds, or CloudFront's in seconds."""
    named = [_OF_W3C.get(column) for column in columns]
    used = [column for column in named if column]
    if len(set(used)) < len(used):
        return None
    pieces = [(separator if i else "", column, separator) for i, column in enumerate(named)]
    layout = _layout("w3c", pieces, "", {} if "x-edge-location" in columns else _IN_MS)
    layout.whole = True
    return layout
