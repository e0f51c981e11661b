"""Layouts of access logs: the engine cuts lines that have one into columns, many at a time (crates/core/src/lines).

A layout is made from a line that the slow reader could read. It is strict: a line that fits it gets the same values
from both readers, and the slow one reads each other line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

NUMBERS = (
    "clock",
    "stamp",
    "duration",
    "status",
    "bytes",
    "received",
    "took",
    "connect",
    "before",
    "after",
    "retries",
    "ahead",
    "ahead_too",
    "iso",
    "made",
)
"""Numbers that are not negative: moments and durations are in ns, or in a unit of their log (`Layout.scales`)."""
TIMERS = ("asking", "waiting", "connecting", "answering", "all")
"""HAProxy's, in milliseconds."""
TEXTS = ("method", "day", "time", "address", "address_status", "flags", "state")
NAME = "asked"
"""The name of a request, made from its line, or from its method and `uri`."""
COLUMNS = (*NUMBERS, *TIMERS, *TEXTS, NAME)

CALLED = {
    "rt": "request_time",
    "uct": "upstream_connect_time",
    "urt": "upstream_response_time",
    "ua": "upstream_addr",
    "response_time": "request_time",
    "us": "upstream_status",
    "@timestamp": "time_iso8601",
    "timestamp": "time_iso8601",
    "time": "time_iso8601",
    "request_method": "method",
    "request_uri": "uri",
    "body_bytes_sent": "bytes_sent",
}
"""Names of nginx' fields in common log formats."""
OF_NGINX = {
    "msec": "stamp",
    "time_iso8601": "iso",
    "time_local": "clock",
    "request_time": "duration",
    "request": "asked",
    "method": "method",
    "uri": "uri",
    "status": "status",
    "bytes_sent": "bytes",
    "upstream_response_time": "took",
    "upstream_connect_time": "connect",
    "upstream_addr": "address",
    "upstream_status": "address_status",
}
_IN_ANY_PLACE = {"stamp", "duration", "took", "connect", "address", "address_status"}
"""What may follow the combined format; its own fields come first."""
_DECIMALS = {"stamp", "duration", "took", "connect", "before", "after"}
_OF_UTC = ("envoy", "traefik", "balancer")
"""Software whose moments of ISO 8601 are in UTC."""
LAYOUTS_MAX = 4
QUOTED, _BARE, _WORD = '"\\', ' "', ' "=:'
_TOKEN = re.compile(r'(?:([A-Za-z_]\w{0,40})([=:]))?(?:"((?:[^"\\]|\\.)*)"|([^\s"=:][^\s"]*))')
_COMBINED = re.compile(r'[^\[]*\[[^\]]*\] "(?:[^"\\]|\\.)*" \d{3} (?:\d+|-)(?= |$)')
_SECONDS = re.compile(r"\d{1,9}\.\d{3,6}")
_HAPROXY = re.compile(r'([^"]*?)\[\d\d/\w{3}/\d{4}:[\d:]{8}\.\d{3}\] \S+ \S+/\S+ [-\d]+(?:/[-\d]+){4} -?\d+ \d+ .*"')
_KEY = re.compile(r'\s*[{,]\s*"((?:[^"\\]|\\.)*)"\s*:\s*')
_VALUE = re.compile(r'"((?:[^"\\]|\\.)*)"|-?\d[\d.]*|null|true|false')


@dataclass
class Layout:
    """Literals and fields in turn; a field has a kind, a column if its value is used, and the bytes before which it
    ends."""

    fields: list[dict[str, Any]] = field(default_factory=list)
    after: str = ""
    whole: bool = True
    scales: Mapping[str, int] = field(default_factory=dict)
    """Nanoseconds per unit of `stamp`, `duration` and `took`, if those are whole numbers."""
    software: str = "nginx"
    """Whose lines they are, which says what the columns mean (`accesslog_outcomes`)."""

    def text(self, literal: str) -> None:
        self.after += literal

    def field(self, kind: str, stop: str, column: str | None = None, *, most: int | None = None) -> None:
        number = None if column in (None, "uri") else COLUMNS.index(column or "")
        limit = {} if most is None else {"most": most}
        self.fields.append({"before": self.after, "kind": kind, "column": number, "stop": stop, **limit})
        self.after = ""

    def value(self, column: str | None, stop: str, most: int | None = None) -> None:
        """A field that is used, or one that is not; it has at most `most` bytes."""
        if column is None:
            self.field("skip", stop, most=most)
            return
        if column in ("address", "address_status"):
            stop += ", "  # nginx separates several servers by commas, and by colons with spaces
        decimal = column in _DECIMALS and column not in self.scales
        utc = self.software in _OF_UTC
        kind = {
            **{"asked": "request", "clock": "clock", "method": "method", "uri": "target"},
            **{"iso": "iso_utc" if utc else "iso", "made": "iso_utc"},
        }.get(column, "text" if column in TEXTS else "integer")
        self.field("decimal" if decimal else kind, stop, column, most=most)


def plan(layouts: Iterable[Layout]) -> str:
    """The layouts as the engine reads them."""
    values = {NAME: "names"} | dict.fromkeys(TEXTS, "texts") | dict.fromkeys(TIMERS, "signed")
    columns = [(name, values.get(name, "numbers")) for name in COLUMNS]
    cut = [{"fields": one.fields, "after": one.after, "whole": one.whole} for one in layouts]
    return json.dumps({"columns": columns, "layouts": cut})


def of_lines(lines: Iterable[str], make: Callable[[str], Layout | None]) -> list[Layout]:
    """The first few different layouts of these lines."""
    found: list[Layout] = []
    for line in lines:
        layout = make(line) if len(found) < LAYOUTS_MAX else None
        if layout is not None and layout not in found:
            found.append(layout)
    return found


def combined(line: str) -> Layout | None:
    """The combined format of nginx and Apache, with further fields after it."""
    match = _COMBINED.match(line)
    tokens = _tokens(line[match.end() :]) if match else None
    if tokens is None:
        return None
    layout = Layout()
    for literal, column, stop in (
        *(("", None, "["), ("[", "clock", "]"), ('] "', "asked", QUOTED), ('" ', "status", " ")),
        (" ", "bytes", " "),
    ):
        layout.text(literal)
        layout.value(column, stop)
    names = [CALLED.get(token[1], token[1]) for token in tokens]
    if "request_time" in names:
        return layout if _with_pairs(layout, tokens, names) else None
    return layout if _with_durations(layout, tokens) else None


def _tokens(rest: str) -> list[re.Match[str]] | None:
    """What stands between single spaces; None if there is anything else."""
    found, at = list[re.Match[str]](), 0
    while at < len(rest):
        match = _TOKEN.match(rest, at + 1) if rest[at] == " " else None
        if match is None:
            return None
        found.append(match)
        at = match.end()
    return found


def _with_pairs(layout: Layout, tokens: list[re.Match[str]], names: list[str]) -> bool:
    """Fields that have names, like `rt=1.203`."""
    known = [name for name in names if name]
    if len(set(known)) < len(known) or any(OF_NGINX.get(name, "took") not in _IN_ANY_PLACE for name in known):
        return False
    for token, name in zip(tokens, names, strict=True):
        quote = '"' if token[3] is not None else ""
        layout.text(f" {token[1] or ''}{token[2] or ''}{quote}")
        stop = QUOTED if quote else _BARE if name else _WORD
        layout.value(OF_NGINX.get(name), stop)
        layout.text(quote)
    return True


def _with_durations(layout: Layout, tokens: list[re.Match[str]]) -> bool:
    """Durations without names, behind the referrer and the user agent in quotes."""
    leading, wanted = 0, ["duration", "took"]
    while leading < min(2, len(tokens)) and tokens[leading][3] is not None and not tokens[leading][1]:
        leading += 1
    for i, token in enumerate(tokens):
        if token[1]:
            return False
        quote = '"' if token[3] is not None else ""
        stop = QUOTED if quote else _WORD
        layout.text(f" {quote}")
        if i < leading:
            layout.field("skip", stop)
        elif wanted and _SECONDS.fullmatch(token[3] if quote else token[4]):
            layout.field("seconds", stop, wanted.pop(0))
        else:
            layout.field("word", stop)
        layout.text(quote)
    return "duration" not in wanted


def json_lines(line: str) -> Layout | None:
    """A flat object of nginx' fields, always in the same order."""
    names = {name: OF_NGINX.get(called) for name, called in CALLED.items()} | OF_NGINX
    layout = json_object(line, names, Layout(), nulls=False)
    used = {COLUMNS[one["column"]] for one in (layout.fields if layout else ()) if one["column"] is not None}
    return layout if {"duration", "status"} <= used else None


def json_object(line: str, columns: Mapping[str, str | None], layout: Layout, *, nulls: bool) -> Layout | None:
    """A flat object of these names, always in the same order; None: it is none, or a column comes twice. With `nulls`,
    a value that is null is as if it were not there."""
    used, at = set[str](), 0
    while (key := _KEY.match(line, at)) is not None and (value := _VALUE.match(line, key.end())) is not None:
        quote, at = '"' if value[1] is not None else "", value.end()
        column = columns.get(key[1])
        if column in used:
            return None
        used |= {column} if column else set()
        layout.text(key[0] + quote)
        if nulls and not quote and (value[0] in _WORDS or column is None):
            _bare(layout, value[0])
            continue
        layout.value(column, QUOTED if quote else ",} ")
        layout.text(quote)
    layout.text("}")
    return layout if line[at:] == "}" else None


_WORDS = ("null", "true", "false")


def _bare(layout: Layout, value: str) -> None:
    """A value without quotes that is not used: the same word, or any number."""
    if value in _WORDS:
        layout.text(value)
    else:
        layout.field("decimal" if "." in value else "integer", ",} ")


def haproxy(line: str) -> Layout | None:
    """HAProxy's httplog: five timers, and the request at the end."""
    match = _HAPROXY.match(line)
    if match is None:
        return None
    layout = Layout(whole=False, software="haproxy")
    for _ in range(match[1].count("[") + 1):
        layout.field("skip", "[/")
        layout.text("[")
    layout.field("clock_ms", "]", "clock")
    timers = [("/" if i else " ", timer, " /") for i, timer in enumerate(TIMERS)]
    for literal, column, stop in (
        *(("] ", None, " "), (" ", "address", " "), *timers, (" ", "status", " ")),
        *((" ", "bytes", " "), (" ", None, " "), (" ", None, " "), (" ", "state", " ")),
    ):
        layout.text(literal)
        layout.value(column, stop)
    for i, column in enumerate((None, None, None, None, "retries", "ahead", "ahead_too")):
        layout.text(" " if i in (0, 5) else "/")
        layout.field("integer", " /", column, most=9)
    layout.text(" ")
    layout.field("skip", '"')
    layout.text('"')
    layout.value("asked", '"')
    return layout
