"""The spans of all files as columns; names by their number in one list of texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tailrace import _core
from tailrace.bounds import (
    EARLIEST_NS,
    LATEST_NS,
    NAME_CHARACTERS,
    NAMES,
    NAMES_CHARACTERS,
    SPAN_TEXTS,
    YEAR_NS,
)
from tailrace.readers.naming import Names
from tailrace.readers.source import Found
from tailrace.readers.spans import NUMBERED, Kind, Span, Waits, interaction_of_label, status_of_outcome
from tailrace.readers.spans_clocks import CALL, SLACK_NS
from tailrace.readers.spans_parts import Parts
from tailrace.readers.spills import IN_MEMORY, Scratch, Table

if TYPE_CHECKING:
    from tailrace._core import ArrowStream

_KINDS: dict[Kind, int] = {"": 0, **{kind: int(number) for number, kind in NUMBERED.items()}, "by service": 255}
SERVER, CLIENT = _KINDS["server"], _KINDS["client"]
_CHOSEN = 2
_WAITS: dict[Waits, int] = {"": 0, "worker": 4, "connection": 8}
_AT_ONCE = 10_000
_CACHED_MAX = 1 << 16
_TEXTS = ("service", "interaction", "status", "peer", "host")
_FORM = {
    **{"trace": pl.UInt64, "key": pl.UInt64, "parent": pl.UInt64, "kind": pl.UInt8, "begin": pl.Int64, "end": pl.Int64},
    **dict.fromkeys(("service", "label", "outcome", "peer", "host"), pl.UInt32),
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

    def add(self, rows: ArrowStream, texts: Sequence[str]) -> None:
        """Add what the engine cut out of a block (crates/core/src/spans/sheet.rs)."""
        meanings: dict[str, Callable[[str], str | None]] = {
            "service": str,
            "interaction": lambda label: interaction_of_label(label, self.names),
            "status": status_of_outcome,
            "peer": str,
            "host": str,
        }
        codes = [
            self._coded(used, texts, name, meaning)
            for used, (name, meaning) in zip(_core.span_texts(rows, len(texts)), meanings.items(), strict=True)
        ]
        self._append(rows, codes)

    def _coded(
        self, used: Sequence[int], texts: Sequence[str], name: str, meaning: Callable[[str], str | None]
    ) -> list[int]:
        """The numbers that the texts have here, as far as they are used in a column."""
        codes = [0] * len(texts)
        for i in used:
            key = f"{name} {texts[i]}"
            code = self._cached.get(key)
            if code is None:
                code = self._code(name, meaning(texts[i]) or "")
                if len(self._cached) >= _CACHED_MAX:
                    self._cached.clear()
                self._cached[key] = code
            codes[i] = code
        return codes

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

    def _append(self, rows: ArrowStream, codes: Sequence[Sequence[int]] = ()) -> None:
        backwards, shares = self.parts.add(rows, codes)
        self.backwards += backwards
        if shares is not None:
            known = [*(self.kept or ()), *shares]
            self.kept = min(known), max(known)


class Linked:
    """The spans of a part, the first of each id (crates/core/src/spans/linked.rs)."""

    def __init__(self, rows: _core.SpanRows) -> None:
        self._linked = rows.link()
        self.twice, self.cycles = self._linked.twice, self._linked.cycles
        self.moved, self.chosen, self.connections = self._linked.marked()
        """Spans that a store moved, those of traces that were chosen, and waits for a connection of a pool."""

    def calls(self) -> Table:
        """The calls between two hosts: a server's span lies inside its client's (`spans_clocks`)."""
        rows = pl.DataFrame(self._linked.calls())
        found = np.empty(rows.height, CALL)
        for name in rows.columns:
            found[name] = rows[name].to_numpy()
        return found

    def move(self, added: Sequence[int]) -> None:
        """Add an offset to the times of each host, by its number."""
        self._linked.shift(list(added))

    def visits(self, nameable: NDArray[np.bool_]) -> _core.FoundVisits:
        """The visits of these spans; those with impossible times or names are left out."""
        times = (EARLIEST_NS, LATEST_NS, YEAR_NS)
        return self._linked.visits(nameable.tobytes(), times, SLACK_NS)

    @cached_property
    def columns(self) -> Mapping[str, NDArray[Any]]:
        """What is known of each span: its kind, times and texts; the span `above` it, or a negative number; the nearest
        server or consumer above it (`container`); and whether it is a wait for a connection."""
        return {column.name: column.to_numpy() for column in pl.DataFrame(self._linked.columns())}


def linked(parts: Parts) -> Callable[[], Iterator[Linked]]:
    """The linked spans of all parts, as often as they are needed. If there is one part, it is linked once."""
    only = [Linked(rows) for rows in parts] if parts.is_one else []
    return lambda: iter(only) if only else map(Linked, parts)


def offsets_of(texts: Sequence[str], offsets: Mapping[str, int]) -> list[int]:
    """The offset of each host, by its number."""
    return [offsets.get(text, 0) for text in texts]


ROOT = -2
"""In place of the number of a container: there is none, because its topmost span has no parent."""
