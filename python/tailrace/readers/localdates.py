"""Dates of other countries in a table: `20.11.2026 16:49:00`, `11/20/2026 4:49:00 PM`.

With points, the day comes first. With other signs, a number above 12 is the day, and one of them decides for the whole
column. If none does, the dates are unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from tailrace import units

Order = Literal["day", "month", ""]
"""What comes first; empty if it is unknown."""

_DATE = re.compile(
    r"\s*(\d{1,2})([./-])(\d{1,2})\2(\d{4})(?:,? {1,3}|T)(\d{1,2}):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?"
    r"(?: ?([AaPp])\.?[Mm]\.?)?\s*"
)


def is_local(text: str) -> bool:
    return _DATE.fullmatch(text) is not None


def is_zoneless(text: str) -> bool:
    """A date and a time of day whose zone is unknown. A Unix time has none, and needs none."""
    return ":" in text and not _ZONE.search(text)


ZONELESS = "its times have no time zone and are taken as UTC"
_ZONE = re.compile(r"(?:Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)\s*\Z", re.IGNORECASE)


def order(texts: Iterable[str]) -> Order:
    """What comes first in the dates of a column."""
    found = set[Order]()
    for text in texts:
        if date := _DATE.fullmatch(text):
            first, second = int(date[1]), int(date[3])
            if date[2] == "." or first > _MONTHS >= second:
                found.add("day")
            elif second > _MONTHS >= first:
                found.add("month")
    return found.pop() if len(found) == 1 else ""


_MONTHS = 12


def moment(text: str, first: Order) -> int:
    """Nanoseconds since the Unix epoch, in UTC; ValueError if it is no such date."""
    date = _DATE.fullmatch(text)
    if date is None or not first:
        raise ValueError(f"{text!r} is no date whose order is known")
    day, month = (date[1], date[3]) if first == "day" else (date[3], date[1])
    hour = int(date[5]) % 12 + 12 * (date[9] in "Pp") if date[9] else int(date[5])
    return units.parse_moment(
        f"{date[4]}-{int(month):02}-{int(day):02}T{hour:02}:{date[6]}:{date[7] or '00'}.{date[8] or '0'}Z"
    )


def note(first: Order) -> str:
    return f"its dates have the {first} first, and no time zone: they are taken as UTC"


def refusal(text: str) -> str:
    return f"whether the day or the month comes first in its dates, such as {text[:40]}, is unknown"


ADVICE = "write them like 2026-11-20T16:49:00Z"
