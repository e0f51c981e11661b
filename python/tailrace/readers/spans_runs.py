"""Visits in the order in which they ended, from runs that are sorted: a block of each run is in memory at a time.

```text
run 1   ┤ block ├──────   What is not later than the end of every block is given out, in order;
run 2   ┤ block   ├────   the blocks that were used up are replaced by the next ones.
```
As soon as there are many runs, they become one longer run, so few files are open at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tailrace.readers.spills import IN_MEMORY, Rows, Scratch, Table

VISIT = np.dtype(
    [
        *(("departure", "i8"), ("number", "i8"), ("parent", "i8"), ("top", "i8"), ("sent", "i8"), ("arrival", "i8")),
        ("start", "i8"),
        *((name, "u4") for name in ("server", "interaction", "caller", "status")),
        ("entry", "u1"),
    ]
)
"""A visit. `number` is that of its span, `parent` that of the visit above it, `top` that of the topmost one, whose
`entry` says whether a client sent it; `start` is negative if unknown; texts are numbers."""


_BLOCK = 1 << 15
"""Rows of a single run that are read at a time: 3 MB, which caches of processors hold."""
_TOGETHER = 64
"""Runs of one level that become a run of the next."""


class Runs:
    """Visits as rows."""

    def __init__(self, scratch: Scratch, most: int = IN_MEMORY) -> None:
        self._scratch, self._most = scratch, most
        self._levels: list[list[Rows]] = []
        self.count = 0
        self._open: Rows | None = None
        self._held = np.empty(0, VISIT)
        """The last rows of the run that is open, in order: the next ones may come between them."""

    def add(self, rows: Table) -> None:
        """Add rows; they are sorted here. Where they begin after what was added before last, the open run goes on: so
        what comes nearly in order is one run."""
        if not len(rows):
            return
        self.count += len(rows)
        rows = _in_order(rows)
        least = rows["departure"][0]
        if self._open is not None and (not len(self._held) or least < self._held["departure"][0]):
            self._close()
        if self._open is None:
            self._open, self._held = Rows(self._scratch, VISIT, self._most), rows
            return
        before = int(np.searchsorted(self._held["departure"], least))
        self._open.add(self._held[:before])
        self._held = _in_order(np.concatenate([self._held[before:], rows])) if before < len(self._held) else rows

    def _close(self) -> None:
        """End the open run."""
        if self._open is not None:
            self._open.add(self._held)
            if self.count > self._most:
                self._open.spill()
            run, self._open, self._held = self._open, None, np.empty(0, VISIT)
            self._append(run, 0)

    def _append(self, run: Rows, level: int) -> None:
        """Add a run that is complete; many of one level become one of the next."""
        if level == len(self._levels):
            self._levels.append([])
        runs = self._levels[level]
        runs.append(run)
        if len(runs) == _TOGETHER:
            longer = Rows(self._scratch, VISIT, self._most if self.count <= self._most else 0)
            for block in _merged(runs, self._most):
                longer.add(block)
            for used in runs:
                used.remove()
            runs.clear()
            self._append(longer, level + 1)

    def remove(self) -> None:
        """Free what they take; nothing can be read afterwards."""
        self._close()
        for run in (run for runs in self._levels for run in runs):
            run.remove()
        self._levels = []

    def __iter__(self) -> Iterator[Table]:
        """All visits, in order; at most some `most` of them at a time."""
        self._close()
        return _merged([run for runs in self._levels for run in runs], self._most)


def _merged(runs: Sequence[Rows], most: int) -> Iterator[Table]:
    """The rows of all runs, in order; at most some `most` of them at a time."""
    if len(runs) == 1:
        yield from runs[0].blocks(min(most, _BLOCK))
        return
    size = max(most // max(len(runs), 1), 16)
    open_now = [_Head(run, size) for run in runs]
    while open_now := [head for head in open_now if head.fill()]:
        last = min((head.last for head in open_now if not head.is_at_end), default=None)
        yield _in_order(np.concatenate([head.take(last) for head in open_now]))


def _in_order(rows: Table) -> Table:
    """The rows in order. Those of a log come nearly so, and a stable order keeps what is in order."""
    departure, number = (np.ascontiguousarray(rows[name]) for name in ("departure", "number"))
    if (number[1:] < number[:-1]).any():
        return rows[np.lexsort((number, departure))]
    is_ordered = (departure[1:] >= departure[:-1]).all()
    return rows if is_ordered else rows[np.argsort(departure, kind="stable")]


class _Head:
    """The rows of a run that are in memory."""

    def __init__(self, run: Rows, size: int) -> None:
        self._blocks, self._size = run.blocks(size), size
        self._block = run.empty()
        self.is_at_end = False
        """No rows follow those in memory."""

    def fill(self) -> bool:
        """Have at least `size` rows, or those that are left; returns whether there are any."""
        while len(self._block) < self._size and not self.is_at_end:
            block = next(self._blocks, None)
            self.is_at_end = block is None
            if block is not None:
                self._block = np.concatenate([self._block, block])
        return len(self._block) > 0

    @property
    def last(self) -> tuple[int, int]:
        return int(self._block["departure"][-1]), int(self._block["number"][-1])

    def take(self, last: tuple[int, int] | None) -> Table:
        """The rows up to this one, or all of them."""
        departure, number = last or self.last
        begin, end = np.searchsorted(self._block["departure"], [departure, departure + 1]).tolist()
        at = begin + int(np.searchsorted(self._block["number"][begin:end], number, "right"))
        taken, self._block = self._block[:at], self._block[at:]
        return taken
