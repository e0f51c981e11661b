"""The spans of all files as columns; names by their number in one list of texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tailrace import _core
from tailrace.readers import room
from tailrace.readers.naming import Names
from tailrace.readers.source import Found
from tailrace.readers.spans import NUMBERED, Kind, Span, interaction_of_label, status_of_outcome

_KINDS: dict[Kind, int] = {"": 0, **{kind: int(number) for number, kind in NUMBERED.items()}}
SERVER, CLIENT = _KINDS["server"], _KINDS["client"]
_MOVED, _CHOSEN = 1, 2
_AT_ONCE = 10_000
_CACHED_MAX = 1 << 16
_SCHEMA = {
    **{"key": pl.UInt64, "parent": pl.UInt64, "kind": pl.UInt8, "begin": pl.Int64, "end": pl.Int64},
    **dict.fromkeys(("service", "interaction", "status", "peer", "host"), pl.UInt32),
    "marks": pl.UInt8,
}
Numbers = NDArray[np.int64]


class Spans:
    """Collects columns, until no more fit into memory."""

    def __init__(self) -> None:
        self.names = Names()
        self.backwards = 0
        """Spans that end before they begin."""
        self.kept: tuple[float, float] | None = None
        """The smallest and the largest share of traces that a sampler kept."""
        self.most = room.spans()
        self.count = 0
        self._texts: dict[str, int] = {"": 0}
        self._parts: list[pl.DataFrame] = []
        self._cached: dict[str, int] = {}

    @property
    def full(self) -> bool:
        return self.count >= self.most

    def add(self, rows: pl.DataFrame, texts: Sequence[str]) -> None:
        """Add what the engine cut out of a block (crates/core/src/spans/sheet.rs)."""
        meanings: dict[str, tuple[str, Callable[[str], str | None]]] = {
            "service": ("service", str),
            "interaction": ("label", lambda label: interaction_of_label(label, self.names)),
            "status": ("outcome", status_of_outcome),
            "peer": ("peer", str),
            "host": ("host", str),
        }
        coded = [
            pl.Series(name, self._coded(rows[column].to_numpy(), texts, name, meaning))
            for name, (column, meaning) in meanings.items()
        ]
        self._append(rows.with_columns(coded))

    def _coded(
        self, column: NDArray[np.uint32], texts: Sequence[str], name: str, meaning: Callable[[str], str | None]
    ) -> NDArray[np.uint32]:
        """The column with the numbers that texts have here."""
        used = np.zeros(len(texts), dtype=bool)
        used[column] = True
        codes = np.zeros(len(texts), dtype=np.uint32)
        for i in np.flatnonzero(used).tolist():
            key = f"{name} {texts[i]}"
            code = self._cached.get(key)
            if code is None:
                code = self._code(meaning(texts[i]) or "")
                if len(self._cached) >= _CACHED_MAX:
                    self._cached.clear()
                self._cached[key] = code
            codes[i] = code
        return codes[column]

    def _code(self, text: str) -> int:
        return self._texts.setdefault(text, len(self._texts))

    def add_each(self, spans: Iterable[Span | None], found: Found) -> None:
        """Add spans that a reader of tables finds one by one."""
        spans = iter(spans)
        while not self.full and (some := list(islice(spans, _AT_ONCE))):
            whole = [span for span in some if span is not None]
            found.lose("spans without an id, a time or a service", len(some) - len(whole))
            rows = list(map(self._row, whole))
            self._append(pl.DataFrame(rows, schema={**_SCHEMA, "kept": pl.Float64}, orient="row"))

    def _row(self, span: Span) -> tuple[int | float | None, ...]:
        parent = None if span.parent is None else _core.span_key(span.trace, span.parent)
        texts = (span.service, span.interaction or "", span.status, span.peer or "", span.host)
        return (
            *(_core.span_key(span.trace, span.id), parent, _KINDS[span.kind], span.begin, span.end),
            *map(self._code, texts),
            *(_CHOSEN if span.chosen else 0, span.kept),
        )

    def _append(self, rows: pl.DataFrame) -> None:
        forwards = rows.filter(pl.col("end") >= pl.col("begin"))
        self.backwards += rows.height - forwards.height
        shares = forwards["kept"].drop_nulls().to_numpy()
        if len(shares):
            known = [*(self.kept or ()), float(shares.min()), float(shares.max())]
            self.kept = min(known), max(known)
        self.count += forwards.height
        self._parts.append(forwards.select(*_SCHEMA))

    def linked(self) -> Linked:
        frame = pl.concat(self._parts) if self._parts else pl.DataFrame(schema=_SCHEMA)
        self._parts.clear()
        return Linked(frame, list(self._texts))


class Linked:
    """All spans, the first of each id; spans by their number, and negative for none."""

    def __init__(self, frame: pl.DataFrame, texts: list[str]) -> None:
        table, order, self.cycles = _core.link_spans(frame.select("key", "parent", "kind"))
        links = pl.DataFrame(table)
        self.twice = frame.height - links.height
        frame = frame.drop("key", "parent")[links["row"]]
        self.texts = texts
        self.above: Numbers = links["above"].to_numpy()
        self.container: Numbers = links["container"].to_numpy()
        """The nearest span of a server or consumer above a span; else `ROOT`, or a smaller number where a
        parent is missing or spans are above themselves."""
        self.order = np.array(order, dtype=np.int64)
        """The servers and consumers, each after its container."""
        self.begin, self.end = (frame[name].to_numpy().copy() for name in ("begin", "end"))
        self.kind = frame["kind"].to_numpy()
        self.service, self.interaction, self.status, self.peer, host = (
            frame[name].to_numpy().astype(np.int64) for name in ("service", "interaction", "status", "peer", "host")
        )
        self.host: Numbers = np.where(host == 0, self.service, host)
        """Whose clock its times are of."""
        marks = frame["marks"].to_numpy()
        self.moved, self.chosen = (int(np.count_nonzero(marks & mark)) for mark in (_MOVED, _CHOSEN))

    def calls(self) -> Iterator[tuple[str, str, Numbers, Numbers]]:
        """For each pair of hosts the bounds of the offset between their clocks: a server's span lies inside its
        client's."""
        servers = np.flatnonzero((self.kind == SERVER) & (self.above >= 0))
        servers = servers[self.kind[self.above[servers]] == CLIENT]
        clients = self.above[servers]
        calls = pl.DataFrame(
            {
                "client": self.host[clients],
                "server": self.host[servers],
                "least": self.begin[clients] - self.begin[servers],
                "largest": self.end[clients] - self.end[servers],
            }
        )
        for pair in calls.partition_by("client", "server", maintain_order=True):
            client, server = (self.texts[pair[name][0]] for name in ("client", "server"))
            yield client, server, pair["least"].to_numpy(), pair["largest"].to_numpy()

    def move(self, offsets: Mapping[str, int]) -> None:
        """Add an offset to the times of each host."""
        added = np.array([offsets.get(text, 0) for text in self.texts], dtype=np.int64)[self.host]
        self.begin += added
        self.end += added


ROOT = -2
"""In place of the number of a container: there is none, because its topmost span has no parent."""
