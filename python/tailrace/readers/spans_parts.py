"""Spans in parts: all spans of a trace are in the same part, and one part fits into memory.

```text
spans of all files ─ few: one part
                   └ else by the first 8 bits of the key of their trace: 256 parts ─ too large: by the next 8 bits …
```
The engine keeps them (crates/core/src/spans/store.rs).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tailrace import _core
from tailrace.bounds import TRACE_SPANS
from tailrace.readers.spills import IN_MEMORY, Scratch

if TYPE_CHECKING:
    from tailrace._core import ArrowStream

_BITS = 8
_HASH_BITS = 64
Range = tuple[float, float]


class Parts:
    """Spans that are added in any order. A part has at most `most` spans, or those of one trace."""

    def __init__(self, scratch: Scratch, most: int = IN_MEMORY, shift: int = _HASH_BITS - _BITS) -> None:
        self._scratch, self._most, self._shift = scratch, most, shift
        self._store = _core.SpanStore(shift)
        self._is_spilled = False
        self.left_out = 0
        """Spans of traces that have too many, after all parts were read."""

    @property
    def is_one(self) -> bool:
        return not self._is_spilled

    @property
    def have_many_hosts(self) -> bool:
        return self._store.has_many_hosts

    def add(self, rows: ArrowStream, codes: Sequence[Sequence[int]] = ()) -> tuple[int, Range | None]:
        """Add rows, with the numbers that the texts of a column have here. Returns how many end before they begin,
        which are left out, and the range of the shares of traces that samplers kept."""
        found = self._store.add(rows, list(map(list, codes)))
        self._make_room()
        return found

    def _make_room(self) -> None:
        if self._store.held > self._most:
            self._distribute()

    def _distribute(self) -> None:
        self._store.distribute(self._scratch.new())
        self._is_spilled = True

    def __iter__(self) -> Iterator[_core.SpanRows]:
        """The parts; spans that are in memory are taken out."""
        self.left_out = 0
        if self.is_one:
            yield self._store.take()
            return
        if self._store.held:
            self._distribute()
        together = _core.SpanRows()
        for number, (count, is_one_trace) in enumerate(self._store.parts()):
            if len(together) and len(together) + count > self._most:
                yield together
                together = _core.SpanRows()
            if is_one_trace or count <= self._most:
                self._store.read(number, 0, TRACE_SPANS, together)
                self.left_out += max(count - TRACE_SPANS, 0)
            else:
                yield from self._further(number, count)
        if len(together):
            yield together

    def _further(self, number: int, count: int) -> Iterator[_core.SpanRows]:
        """The parts of a part that is too large."""
        further = Parts(self._scratch, self._most, self._shift - _BITS)
        for first in range(0, count, self._most):
            block = _core.SpanRows()
            self._store.read(number, first, self._most, block)
            further._store.add_spans(block)
            further._make_room()
        yield from further
        self.left_out += further.left_out

    def remove(self) -> None:
        """Free what they take; nothing can be read afterwards."""
        self._store = _core.SpanStore(self._shift)
