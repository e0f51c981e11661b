"""Events that a reader finds one by one, until no more fit into memory."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tailrace.bounds import EARLIEST_NS, LATEST_NS
from tailrace.readers import room
from tailrace.readers.source import Found, Source

_DETAIL_MAX = 300
_COLUMNS = {"place": pl.String, "kind": pl.String, "begin": pl.Int64, "end": pl.Int64, "detail": pl.String}


class Happened:
    """Rows of the events."""

    def __init__(self) -> None:
        self._rows: list[tuple[str, str, int, int, str]] = []
        self.kinds: set[str] = set()
        self.most = room.events()
        self.unusable = 0

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def full(self) -> bool:
        return len(self) >= self.most

    def add(self, place: str, kind: str, begin: int, end: int, detail: str) -> None:
        """Add an event, or count it as unusable."""
        if not (begin >= EARLIEST_NS and end <= LATEST_NS):
            self.unusable += 1
            return
        self._rows.append((place, kind, begin, end, detail[:_DETAIL_MAX]))
        self.kinds.add(kind)

    def delay(self, delays: Sequence[int]) -> None:
        """Make each event later by so many ns, in their order."""
        self._rows = [
            (place, kind, begin + by, end + by, detail)
            for (place, kind, begin, end, detail), by in zip(self._rows, delays, strict=True)
        ]

    def into(self, found: Found, source: Source, *, placed: bool = True) -> None:
        """Put the events into `found`; those that are not `placed` have the place of the file."""
        found.lose("events without a usable time", self.unusable)
        if self.full:
            found.filled(source.path.name, self.most, "events")
        frame = pl.DataFrame(self._rows, schema=_COLUMNS, orient="row")
        found.events.append(frame if placed else frame.drop("place"))
