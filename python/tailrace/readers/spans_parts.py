"""Spans in parts: all spans of a trace are in the same part, and one part fits into memory.

```text
spans of all files ─ few: one part
                   └ else by the first 8 bits of the hash of their trace: 256 files ─ too large: by the next 8 bits …
```
The order of the files is kept in a part. No trace knows of another, so linking part by part gives what linking all at
once gives.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from tailrace.bounds import TRACE_SPANS
from tailrace.readers.spills import IN_MEMORY, Rows, Scratch, Table

ROW = np.dtype(
    [
        *((name, "u8") for name in ("trace", "key", "parent")),
        *((name, "i8") for name in ("begin", "end", "number")),
        *((name, "u4") for name in ("service", "interaction", "status", "peer", "host")),
        *(("kind", "u1"), ("marks", "u1"), ("has_parent", "?")),
    ]
)
"""A span. `trace` is the hash of its trace; `key` and `parent` are what spans name each other by; `number` is its place
among all spans; texts are numbers."""
_BITS = 8
_HASH_BITS = 64


class Parts:
    """Spans that are added in any order. A part has at most `most` spans, or those of one trace."""

    def __init__(self, scratch: Scratch, most: int = IN_MEMORY, shift: int = _HASH_BITS - _BITS) -> None:
        self._scratch, self._most, self._shift = scratch, most, shift
        self._kept: list[Table] = []
        self._held = 0
        self._parts: list[_Part] = []
        self.left_out = 0
        """Spans of traces that have too many, after all parts were read."""

    @property
    def is_one(self) -> bool:
        return not self._parts and self._held <= self._most

    def add(self, rows: Table) -> None:
        self._kept.append(rows)
        self._held += len(rows)
        if self._held > self._most:
            self._distribute()

    def _distribute(self) -> None:
        self._parts = self._parts or [_Part(self._scratch, ROW, 0) for _ in range(1 << _BITS)]
        rows = np.concatenate([np.empty(0, ROW), *self._kept])
        self._kept, self._held = [], 0
        number = (rows["trace"] >> np.uint64(self._shift)).astype(np.uint8)
        rows = rows[np.argsort(number, kind="stable")]
        bounds = np.searchsorted(np.sort(number), np.arange((1 << _BITS) + 1))
        for part, begin, end in zip(self._parts, bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            if begin < end:
                part.add(rows[begin:end])

    def __iter__(self) -> Iterator[Table]:
        self.left_out = 0
        if self.is_one:
            yield np.concatenate([np.empty(0, ROW), *self._kept])
            return
        self._distribute()
        together: list[Table] = []
        for part in self._parts:
            if together and sum(map(len, together)) + part.count > self._most:
                yield np.concatenate(together)
                together = []
            if part.is_one_trace or part.count <= self._most:
                together += islice(part.blocks(TRACE_SPANS), 1)
                self.left_out += max(part.count - TRACE_SPANS, 0)
            else:
                yield from self._further(part)
        if together:
            yield np.concatenate(together)

    def _further(self, part: _Part) -> Iterator[Table]:
        """The parts of a part that is too large."""
        further = Parts(self._scratch, self._most, self._shift - _BITS)
        for block in part.blocks(self._most):
            further.add(block)
        yield from further
        self.left_out += further.left_out
        further.remove()

    def remove(self) -> None:
        """Free what they take; nothing can be read afterwards."""
        for part in self._parts:
            part.remove()
        self._kept, self._parts = [], []


class _Part(Rows):
    """A file of spans."""

    _least, _largest = (1 << _HASH_BITS) - 1, 0

    @property
    def is_one_trace(self) -> bool:
        return self._least >= self._largest

    def add(self, rows: Table) -> None:
        self._least = min(self._least, int(rows["trace"].min()))
        self._largest = max(self._largest, int(rows["trace"].max()))
        super().add(rows)
