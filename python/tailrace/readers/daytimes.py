"""Moments of tools that print the time of day alone: `--began NAME=MOMENT` says on which day they began."""

from __future__ import annotations

from tailrace.bounds import UNDATED_NS
from tailrace.readers.source import Found, Source
from tailrace.units import SECOND

_DAY_S = 86_400
_DAY = _DAY_S * SECOND


class Daytimes:
    """Times of day, in the order of a file, which may pass midnight."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._midnight = (source.began[0] if source.began else UNDATED_NS) // _DAY * _DAY
        self._last = -1

    def moment(self, hours: str, minutes: str, seconds: str) -> int:
        second = int(hours) * 3600 + int(minutes) * 60 + int(seconds)
        self._midnight += _DAY * (second < self._last - _DAY_S // 2)
        self._last = second
        return self._midnight + second * SECOND

    def date(self, found: Found) -> None:
        """Say in `found` if the day is unknown."""
        found.undated = not self._source.began
        if found.undated:
            name = self._source.place or self._source.path.name
            found.notes.append(
                f"{self._source.path.name}: it has times of day and no date, and is dated 2000-01-01. Pass --began "
                f"{name}=MOMENT"
            )
