"""Events that a reader finds one by one, until no more fit into memory."""

from __future__ import annotations

import polars as pl

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

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def full(self) -> bool:
        return len(self) >= self.most

    def add(self, place: str, kind: str, begin: int, end: int, detail: str) -> None:
        self._rows.append((place, kind, begin, end, detail[:_DETAIL_MAX]))
        self.kinds.add(kind)

    def into(self, found: Found, source: Source, *, placed: bool = True) -> None:
        """Put the events into `found`; those that are not `placed` have the place of the file."""
        if self.full:
            found.filled(source.path.name, self.most, "events")
        frame = pl.DataFrame(self._rows, schema=_COLUMNS, orient="row")
        found.events.append(frame if placed else frame.drop("place"))
