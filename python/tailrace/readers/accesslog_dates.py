"""Dates in the format of an access log: Apache's `%{%Y-%m-%dT%H:%M:%S}t`, and those of servers in Java.

```text
%{%d/%b/%Y %T}t.%{msec_frac}t %{%z}t      Apache: strftime, whose parts may be in several fields
%{yyyy-MM-dd HH:mm:ss.SSS}t               Tomcat, Jetty (%{…|UTC}t): SimpleDateFormat, DateTimeFormatter
%{time,yyyy-MM-dd HH:mm:ss}               Undertow
```
Each becomes an expression with a group for each part. A zone that is a name other than UTC's is not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

from tailrace import units
from tailrace.bounds import LATEST_NS

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NAME, _OFFSET = r"[A-Za-z]{3,9}\.?", r"Z|[+-]\d\d(?::?\d\d)?"
_PARTS = {
    "year": r"\d{4}",
    "short": r"\d\d",
    "month": r"\d{1,2}",
    "named": _NAME,
    "day": r"\d{1,2}| \d",
    "hour": r"\d{1,2}| \d",
    "half": r"[AaPp]\.?[Mm]\.?",
    "minute": r"\d\d",
    "second": r"\d\d",
    "fraction": r"\d{1,9}",
    "epoch": r"\d{9,11}",
    "offset": _OFFSET,
    "zone": r"[A-Za-z][A-Za-z/_+\-0-9]{0,39}",
}
_COMPOSED = {"T": "%H:%M:%S", "D": "%m/%d/%y", "F": "%Y-%m-%d", "R": "%H:%M", "r": "%I:%M:%S %p", "c": "%a %b %e %T %Y"}
_STRFTIME = {
    **{"Y": "year", "y": "short", "m": "month", "b": "named", "h": "named", "B": "named", "d": "day", "e": "day"},
    **{"H": "hour", "k": "hour", "I": "hour", "l": "hour", "p": "half", "M": "minute", "S": "second"},
    **{"s": "epoch", "z": "offset", "Z": "zone"},
}
_JAVA = {"d": "day", "H": "hour", "h": "hour", "a": "half", "m": "minute", "s": "second", "S": "fraction"}
_JAVA_OFFSETS = {"Z": "offset", "X": "offset", "x": "offset", "z": "zone", "V": "zone"}
_SKIPPED = {"a": _NAME, "A": _NAME, "j": r"\d{3}", "n": r"\n", "t": r"\t", "%": "%"}
_JAVA_TOKEN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']")
UTC_NAMES = {"utc", "gmt", "z", "etc/utc", "etc/gmt", "zulu", "uct"}


@dataclass(frozen=True)
class Date:
    """The format of a date, or of a part of one."""

    expression: str
    """What matches its text, without groups."""
    groups: re.Pattern[str]
    names: tuple[str, ...]
    """Of the groups; none if another field has the moment."""

    def parts(self, text: str) -> dict[str, str]:
        """The parts of a text that the expression matches."""
        match = self.groups.fullmatch(text)
        return dict(zip(self.names, match.groups(), strict=False)) if match else {}


def of_strftime(form: str) -> Date | None:
    """The format of C's strftime; None if it has a part that is not known, or none at all."""
    for letter, longer in _COMPOSED.items():
        form = form.replace(f"%{letter}", longer)
    pieces, names = list[str](), list[str]()
    for literal, letter in re.findall(r"([^%]+)|%[-_0E]?(.)", form):
        if literal:
            pieces.append(re.escape(literal))
        elif letter in _SKIPPED:
            pieces.append(_SKIPPED[letter])
        elif letter in _STRFTIME:
            names.append(_STRFTIME[letter])
            pieces.append(f"({_PARTS[names[-1]]})")
        else:
            return None
    return _date(pieces, names)


def of_java(form: str) -> Date | None:
    """The format of Java's SimpleDateFormat or DateTimeFormatter; None as above."""
    pieces, names = list[str](), list[str]()
    for match in _JAVA_TOKEN.finditer(form):
        letter, size = match[2] or "", len(match[0])
        name = _JAVA.get(letter) or _JAVA_OFFSETS.get(letter)
        if letter in ("y", "u"):
            name = "short" if size == 2 else "year"
        elif letter in ("M", "L"):
            name = "named" if size > 2 else "month"
        if not letter:
            pieces.append(re.escape("'" if match[0] == "''" else (match[1] or "").replace("''", "'") or match[0]))
        elif letter in "Ee":
            pieces.append(_NAME)
        elif name is None:
            return None
        else:
            names.append(name)
            pieces.append(f"({_PARTS[name]})")
    return _date(pieces, names) if form.count("'") % 2 == 0 else None


def _date(pieces: Iterable[str], names: list[str]) -> Date | None:
    if not names or len(set(names)) < len(names):
        return None
    text = "".join(pieces)
    return Date(re.sub(r"(?<!\\)\((?!\?)", "(?:", text), re.compile(text), tuple(names))


def whole(names: Iterable[str]) -> bool:
    """Whether these parts make a moment."""
    known = set(names)
    day = {"day"} <= known and known & {"year", "short"} and known & {"month", "named"}
    return "epoch" in known or bool(day and {"hour", "minute", "second"} <= known)


def zoned(names: Iterable[str]) -> bool:
    """Whether these parts have the time zone."""
    return bool({"epoch", "offset"} & set(names))


def moment(parts: Mapping[str, str]) -> int | None:
    """The moment of these parts, in UTC if they have no zone, in ns since the Unix epoch; None if there is none."""
    try:
        fraction = int(parts.get("fraction", "0").ljust(9, "0"))
        if "epoch" in parts:
            return int(parts["epoch"]) * units.SECOND + fraction
        hour = int(parts["hour"])
        if "half" in parts:
            hour = hour % 12 + 12 * (parts["half"][0] in "Pp")
        year = int(parts["year"]) if "year" in parts else 2000 + int(parts["short"])
        month = MONTHS.index(parts["named"][:3].lower()) + 1 if "named" in parts else int(parts["month"])
        clock = (year, month, int(parts["day"]), hour, int(parts["minute"]), min(int(parts["second"]), 59))
        at = int(datetime(*clock, tzinfo=_zone(parts.get("offset", "Z"))).timestamp()) * units.SECOND + fraction
    except (ValueError, KeyError, OverflowError):
        return None
    return at if 0 <= at <= LATEST_NS else None


def _zone(offset: str) -> timezone:
    if offset == "Z":
        return UTC
    digits = offset[1:].replace(":", "").ljust(4, "0")
    east = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(-east if offset[0] == "-" else east)
