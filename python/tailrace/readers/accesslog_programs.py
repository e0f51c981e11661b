"""Layouts of lines of uWSGI, Rails, PHP-FPM and Caddy, for `accesslog_layout`.

Each is made from a line that the slow reader could read. What its expression says about lengths and letters, the layout
or `accesslog_outcomes` checks as well.
"""

from __future__ import annotations

import json
import re

from tailrace import units
from tailrace.readers.accesslog_layout import QUOTED, Layout

_UWSGI = re.compile(
    r"\[pid: \d+\|app: \d+\|req: \d+/\d+\] [^\[]*\[[^\]]*\] \S+ \S* => generated \d+ bytes in \d+ (\w+) \("
)
_SCALES = {"msecs": units.MILLISECOND, "micros": units.MICROSECOND}
_STAMP = re.compile(r"(\D*)(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,]\d{3,6})")
_COMPLETED = re.compile(r'[^="]* (Started [A-Z]+ "[^"]*" )?Completed \d{3} [^="]* in [\d.]+ms')
_METHOD = re.compile(r"[^=]* method=([A-Z]+)(?= )")
_PAIR = re.compile(r" (\w+)=([^\s=]*)(?= |$)")
_OF_LOGRAGE = {"path": "uri", "status": "status", "duration": "duration"}
_PHP = re.compile(r'\S+ - \S* \d\d/\w{3}/[\d:]{13} [+-]\d{4} "[A-Z]+ [^"]*" \d{3}( \S+)? \d+\.\d{3,6}( |$)')
_CLOCK = 26
"""Characters of `20/Nov/2026:16:49:00 +0000`."""
_OF_CADDY = {
    "ts": "stamp", "duration": "duration", "status": "status", "size": "bytes", "request.method": "method",
    "request.uri": "uri",
}  # fmt: skip
_KEY = re.compile(r'\s*"((?:[^"\\]|\\.)*)"\s*:\s*')
_TEXT = re.compile(r'"([^"\\]*)"')
_NUMBER = re.compile(r"\d+(\.\d+)?(?=[,}\s])")


def uwsgi(line: str) -> Layout | None:
    match = _UWSGI.match(line)
    if match is None or match[1] not in _SCALES:
        return None
    layout = Layout(whole=False, scales={"duration": _SCALES[match[1]]}, software="uwsgi")
    layout.text("[pid: ")
    layout.value("received", "|")
    for literal, stop in (("|app: ", "|"), ("|req: ", "/"), ("/", "]")):
        layout.text(literal)
        layout.field("integer", stop)
    layout.text("] ")
    layout.field("skip", "[", most=400)
    layout.text("[")
    layout.field("clock_c", "]", "clock")
    for literal, column, stop, most in (
        *(("] ", "method", " ", 20), (" ", "uri", " ", 4000)),
        *((" => generated ", "bytes", " ", None), (" bytes in ", "duration", " ", None)),
        *((f" {match[1]} (", None, " )", 40), (" ", "status", ")", None)),
    ):
        layout.text(literal)
        layout.value(column, stop, most)
    layout.text(")")
    return layout


def rails(line: str) -> Layout | None:
    """A line of Rails itself, perhaps with the name of its request, or one of lograge."""
    stamp = _STAMP.match(line)
    if stamp is None:
        return None
    layout = Layout(whole=False, software="rails")
    layout.text(stamp[1])
    layout.field("iso_local", "", "iso", most=len(stamp[2]))
    layout.field("until", "", most=300)
    if completed := _COMPLETED.match(line, stamp.end()):
        if completed[1]:
            layout.text("Started ")
            layout.value("method", " ", 20)
            layout.text(' "')
            layout.value("uri", '"', 4000)
            layout.text('" ')
        for literal, column, stop in (("Completed ", "status", " "), (" ", None, ""), ("in ", "duration", "m")):
            layout.text(literal)
            if column is None:
                layout.field("until", "", most=60)
            else:
                layout.value(column, stop)
        layout.text("ms")
        return layout
    method = _METHOD.match(line, stamp.end())
    return _with_pairs(layout, line, method.end()) if method else None


def _with_pairs(layout: Layout, line: str, at: int) -> Layout | None:
    layout.text("method=")
    layout.value("method", " ", 20)
    used = set[str]()
    while "duration" not in used and (pair := _PAIR.match(line, at)) is not None and pair[1] not in used:
        layout.text(f" {pair[1]}=")
        column = _OF_LOGRAGE.get(pair[1])
        if column == "uri":
            layout.field("path", " =", column, most=2000)
        else:
            layout.value(column, " =", 2000)
        used.add(pair[1])
        at = pair.end()
    return layout if used >= _OF_LOGRAGE.keys() and "method" not in used else None


def php(line: str) -> Layout | None:
    match = _PHP.match(line)
    if match is None or not (match[1] or match.end() == len(line)):
        return None
    layout = Layout(whole=not match[2], software="php")
    layout.value("state", " ", 60)
    layout.text(" - ")
    layout.field("skip", " ", most=60)
    layout.text(" ")
    layout.field("clock", "", "clock", most=_CLOCK)
    for literal, column, stop, most in (
        *((' "', "method", " ", 20), (" ", "uri", '"', 4000), ('" ', "status", " ", None)),
        *([(" ", "flags", " ", 400)] if match[1] else ()),
    ):
        layout.text(literal)
        layout.value(column, stop, most)
    layout.text(" ")
    layout.field("seconds", " ", "duration")
    layout.text(match[2])
    return layout


def caddy(line: str) -> Layout | None:
    """An object with others inside, always with the same keys."""
    layout, used = Layout(software="caddy"), set[str]()
    at = _object(line, 0, "", layout, used)
    return layout if at == len(line) and used >= _OF_CADDY.keys() else None


def _object(line: str, at: int, path: str, layout: Layout, used: set[str]) -> int:
    """Adds the object that begins here; returns where it ends, or -1 if it has another form."""
    separator = "{"
    while line[at : at + 1] == separator and (key := _KEY.match(line, at + 1)) is not None:
        layout.text(separator + key[0])
        name, at = path + key[1], key.end()
        column = _OF_CADDY.get(name)
        if column is None and line[at : at + 1] == "{" and any(known.startswith(f"{name}.") for known in _OF_CADDY):
            at = _object(line, at, f"{name}.", layout, used)
        elif column is None:
            layout.field("value", "")
            at = _after_value(line, at)
        elif name in used:
            return -1
        else:
            at = _value(line, at, column, layout)
            used.add(name)
        if at < 0:
            return -1
        separator = ","
    layout.text("}")
    return at + 1 if line[at : at + 1] == "}" else -1


def _value(line: str, at: int, column: str, layout: Layout) -> int:
    quoted = column in ("method", "uri")
    match = (_TEXT if quoted else _NUMBER).match(line, at)
    if match is None:
        return -1
    if quoted:
        layout.text('"')
        layout.value(column, QUOTED)
        layout.text('"')
    elif column in ("stamp", "duration"):
        layout.field("double", ",} ", column)
    else:
        layout.value(column, ",} ")
    return match.end()


def _after_value(line: str, at: int) -> int:
    try:
        return json.JSONDecoder().raw_decode(line, at)[1]
    except (ValueError, RecursionError):
        return -1
