"""The spans of all files as columns; names by their number in one list of texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tailrace import _core
from tailrace.bounds import NAME_CHARACTERS, NAMES, NAMES_CHARACTERS, SPAN_TEXTS
from tailrace.readers.naming import Names
from tailrace.readers.source import Found
from tailrace.readers.spans import NUMBERED, Kind, Span, Waits, interaction_of_label, status_of_outcome
from tailrace.readers.spans_clocks import CALL
from tailrace.readers.spans_parts import ROW, Parts
from tailrace.readers.spills import IN_MEMORY, Scratch, Table

_KINDS: dict[Kind, int] = {"": 0, **{kind: int(number) for number, kind in NUMBERED.items()}, "by service": 255}
SERVER, CLIENT, _BY_SERVICE = _KINDS["server"], _KINDS["client"], _KINDS["by service"]
_MOVED, _CHOSEN = 1, 2
_WAITS: dict[Waits, int] = {"": 0, "worker": 4, "connection": 8}
_AT_ONCE = 10_000
_CACHED_MAX = 1 << 16
_TEXTS = ("service", "interaction", "status", "peer", "host")
_FORM = {
    **{"trace": pl.UInt64, "key": pl.UInt64, "parent": pl.UInt64, "kind": pl.UInt8, "begin": pl.Int64, "end": pl.Int64},
    **dict.fromkeys(_TEXTS, pl.UInt32),
    **{"marks": pl.UInt8, "kept": pl.Float64},
}
_NAMED = ("server", "interaction", "status")
NAMELESS = 1
"""In place of a text that is too long, or that comes after too many others: a visit of such a server is left out, an
interaction is called `OTHER`, and a status is unknown."""
Numbers = NDArray[np.int64]


class Spans:
    """Collects columns, of which at most some `most` rows are in memory."""

    def __init__(self, scratch: Scratch, most: int = IN_MEMORY) -> None:
        self.names = Names()
        self.backwards = 0
        """Spans that end before they begin."""
        self.kept: tuple[float, float] | None = None
        """The smallest and the largest share of traces that a sampler kept."""
        self.parts = Parts(scratch, most)
        self._count = 0
        self._texts: dict[str, int] = {"": 0}
        self._characters = 0
        self._of = {what: {0} for what in _NAMED}
        """The numbers of the texts that name servers, interactions and statuses."""
        self._cached: dict[str, int] = {}

    @property
    def texts(self) -> list[str]:
        """Number → text; number 1 is for those that can be no name."""
        nothing, *others = self._texts
        return [nothing, "", *others]

    def naming(self) -> dict[str, NDArray[np.bool_]]:
        """Which texts may name a server, an interaction and a status."""
        found = {what: np.zeros(len(self._texts) + 1, dtype=bool) for what in _NAMED}
        for what, mask in found.items():
            mask[list(self._of[what])] = True
        return found

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
                code = self._code(name, meaning(texts[i]) or "")
                if len(self._cached) >= _CACHED_MAX:
                    self._cached.clear()
                self._cached[key] = code
            codes[i] = code
        return codes[column]

    def _code(self, name: str, text: str) -> int:
        code = self._texts.get(text)
        if code is None:
            characters = self._characters + len(text)
            if len(text) > NAME_CHARACTERS or len(self._texts) >= SPAN_TEXTS or characters > NAMES_CHARACTERS:
                return 0 if name == "host" else NAMELESS
            code = self._texts[text] = len(self._texts) + 1
            self._characters = characters
        known = self._of.get("server" if name in ("service", "peer") else name)
        if known is not None and code not in known:
            # Of the interactions, the rarest lose their names when all are counted (`stays.common_names`).
            if len(known) > NAMES and name != "interaction":
                return NAMELESS
            known.add(code)
        return code

    def add_each(self, spans: Iterable[Span | None], found: Found) -> None:
        """Add spans that a reader of tables finds one by one."""
        spans = iter(spans)
        while some := list(islice(spans, _AT_ONCE)):
            whole = [span for span in some if span is not None]
            found.lose("spans without an id, a time or a service", len(some) - len(whole))
            self._append(pl.DataFrame(list(map(self._row, whole)), schema=_FORM, orient="row"))

    def _row(self, span: Span) -> tuple[int | float | None, ...]:
        texts = (span.service, span.interaction or "", span.status, span.peer or "", span.host)
        return (
            *_core.span_keys(span.trace, span.id, span.parent),
            *(_KINDS[span.kind], span.begin, span.end),
            *map(self._code, _TEXTS, texts),
            *((_CHOSEN if span.chosen else 0) | _WAITS[span.waits_for], span.kept),
        )

    def _append(self, rows: pl.DataFrame) -> None:
        forwards = rows.filter(pl.col("end") >= pl.col("begin"))
        self.backwards += rows.height - forwards.height
        shares = forwards["kept"].drop_nulls().to_numpy()
        if len(shares):
            known = [*(self.kept or ()), float(shares.min()), float(shares.max())]
            self.kept = min(known), max(known)
        table = np.empty(forwards.height, ROW)
        for name in ("trace", "key", "kind", "begin", "end", *_TEXTS, "marks"):
            table[name] = forwards[name].to_numpy()
        table["parent"] = forwards["parent"].fill_null(0).to_numpy()
        table["has_parent"] = forwards["parent"].is_not_null().to_numpy()
        table["number"] = np.arange(self._count, self._count + forwards.height)
        self._count += forwards.height
        self.parts.add(table)


class Linked:
    """The spans of a part, the first of each id; spans by their number in it, and negative for none."""

    def __init__(self, rows: Table) -> None:
        kind = _with_kinds(rows)
        parent = pl.when("has_parent").then(pl.col("parent"))
        columns = {"key": rows["key"], "parent": rows["parent"], "has_parent": rows["has_parent"], "kind": kind}
        table, order, self.cycles = _core.link_spans(pl.DataFrame(columns).select("key", parent, "kind"))
        links = pl.DataFrame(table)
        self.twice = len(rows) - links.height
        row = links["row"].to_numpy()
        rows, self.kind = rows[row], kind[row]
        self.above: Numbers = links["above"].to_numpy()
        self.container: Numbers = links["container"].to_numpy()
        """The nearest span of a server or consumer above a span; else `ROOT`, or a smaller number where a
        parent is missing or spans are above themselves."""
        self.order = np.array(order, dtype=np.int64)
        """The servers and consumers, each after its container."""
        self.number, self.begin, self.end = (rows[name].copy() for name in ("number", "begin", "end"))
        self.service, self.interaction, self.status, self.peer, host = (rows[name].astype(np.int64) for name in _TEXTS)
        self.host: Numbers = np.where(host == 0, self.service, host)
        """Whose clock its times are of."""
        self.queued, self.connection = (rows["marks"] & _WAITS[what] != 0 for what in ("worker", "connection"))
        """Which spans are waits for a worker, and for a connection of a pool."""
        self.moved, self.chosen = (int(np.count_nonzero(rows["marks"] & mark)) for mark in (_MOVED, _CHOSEN))

    def calls(self) -> Table:
        """The calls between two hosts: a server's span lies inside its client's (`spans_clocks`)."""
        servers = np.flatnonzero((self.kind == SERVER) & (self.above >= 0))
        clients = self.above[servers]
        between = (self.kind[clients] == CLIENT) & (self.host[clients] != self.host[servers])
        servers, clients = servers[between], clients[between]
        found = np.empty(len(servers), CALL)
        found["client"], found["server"] = self.host[clients], self.host[servers]
        found["least"] = self.begin[clients] - self.begin[servers]
        found["largest"] = self.end[clients] - self.end[servers]
        return found

    def move(self, added: Numbers) -> None:
        """Add an offset to the times of each host, by its number."""
        self.begin += added[self.host]
        self.end += added[self.host]


def _with_kinds(rows: Table) -> NDArray[np.uint8]:
    """The kinds, where a span without one is that of a server if the span above it is of another service or missing."""
    kind: NDArray[np.uint8] = rows["kind"].copy()
    open_now = np.flatnonzero(kind == _BY_SERVICE)
    if not len(open_now):
        return kind
    order = np.argsort(rows["key"], kind="stable")
    keys = rows["key"][order]
    at = np.searchsorted(keys, rows["parent"][open_now], "right") - 1
    above = order[np.maximum(at, 0)]
    known = (at >= 0) & (rows["key"][above] == rows["parent"][open_now]) & rows["has_parent"][open_now]
    inside = known & (rows["service"][above] == rows["service"][open_now])
    kind[open_now] = np.where(inside, _KINDS[""], SERVER)
    return kind


def linked(parts: Parts) -> Callable[[], Iterator[Linked]]:
    """The linked spans of all parts, as often as they are needed. If there is one part, it is linked once."""
    only = [Linked(rows) for rows in parts] if parts.is_one else []
    return lambda: iter(only) if only else map(Linked, parts)


def offsets_of(texts: Sequence[str], offsets: Mapping[str, int]) -> Numbers:
    """The offset of each host, by its number."""
    return np.array([offsets.get(text, 0) for text in texts], dtype=np.int64)


ROOT = -2
"""In place of the number of a container: there is none, because its topmost span has no parent."""
