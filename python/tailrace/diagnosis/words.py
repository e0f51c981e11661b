"""This module writes the moments, durations and counts of a diagnosis. Moments are seconds since the recording began,
as on the time axes of the report. `tailrace.units` prints the units themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tailrace.units import SECOND, format_duration, format_share


class HasMoments(Protocol):
    def moment(self, time: int, /) -> int: ...


def clock(view: HasMoments, ns: int) -> str:
    return f"{view.moment(ns) / SECOND:,.3f} s"


def duration(ns: int) -> str:
    return format_duration(int(ns))


def share(value: float) -> str:
    return format_share(value)


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def rate(per_second: float) -> str:
    return f"{per_second:,.0f}/s" if per_second >= 10 else f"{per_second:.1f}/s"


def listing(names: Sequence[str], word: str = "and") -> str:
    """Return "a", "a and b", or "a, b and c"."""
    return f" {word} ".join(filter(None, (", ".join(names[:-1]), names[-1]))) if names else "nothing"
