"""Local clocks that were set: a log without a time zone has an hour twice in autumn, and one is missing in spring.

```text
ends of the lines, in their order:  02:59:58  02:59:59  02:00:00  02:00:01 …    set back: what follows is an hour later
                                    01:59:58  01:59:59  03:00:00  03:00:01 …    perhaps set forward: a note says so
```
A sampler writes its samples in their order. A program writes a line when a request has ended, so ends go back little,
unless the clock went back. Without this correction, the requests of two hours would be in one, and each queue twice as
long.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tailrace import units
from tailrace.units import SECOND

HOUR = 3600 * SECOND
_UNORDERED = 60 * SECOND
"""Lines are out of order by less: workers that buffer their lines, as nginx does, write them each few seconds."""
_BACK_LEAST = HOUR // 2
"""Half of what a clock is set by: the first line afterwards comes within half an hour."""
_BEFORE = 3
"""Lines before a step of which two or more are ahead of it."""
_GAP_MOST = 60 * SECOND
"""How much longer than an hour nothing is logged where a clock is set forward, in a log that has lines each minute."""
_GAPS_MOST = 1 << 14
"""With so many gaps, none of them is that of a clock."""
Times = NDArray[np.int64]


@dataclass(frozen=True)
class Found:
    """What the ends of all lines show."""

    later: tuple[tuple[int, int | None], ...] = ()
    """Numbers of lines whose clock had been set back by an hour, from the first until before the last (None: to the
    end); none where it was not, or where that is not clear."""
    notes: tuple[str, ...] = ()
    disordered: bool = False
    """Times go back by half an hour or more, in another way: how the lines follow each other is unknown."""


@dataclass
class _File:
    """What is known of a file: the number of its first line, its last end, and where it goes back."""

    first: int
    largest: int = 0
    steps: int = 0
    at: int = 0
    """The number of the line after the first step back."""
    top: int = 0
    back: int = 0
    """The last end before it, and the first after it."""


class Watch:
    """Sees the ends of all lines in their order, in ns since the Unix epoch, and keeps little of them."""

    def __init__(self) -> None:
        self._files: list[_File] = []
        self._before = np.empty(0, np.int64)
        self._new_file = True
        self._covered = np.empty((0, 2), np.int64)

    def begin_file(self) -> None:
        """What follows comes from another file."""
        self._new_file = True

    def add(self, ends: Times, numbers: Times) -> None:
        """Add lines in their order; `numbers` increase from line to line."""
        if not len(ends):
            return
        if self._new_file:
            self._files.append(_File(int(numbers[0])))
            self._before, self._new_file = np.empty(0, np.int64), False
        file, here = self._files[-1], len(self._before)
        seen = np.concatenate([self._before, ends])
        for at in _steps(seen, here):
            if not file.steps:
                file.at, file.top, file.back = (
                    int(numbers[at - here]),
                    int(seen[max(at - _BEFORE, 0) : at].max()),
                    int(seen[at]),
                )
            file.steps += 1
        file.largest = max(file.largest, int(ends.max()))
        self._before = seen[-_BEFORE:]
        self._cover(ends)

    def _cover(self, ends: Times) -> None:
        """Keep the times between which there are gaps."""
        if len(self._covered) > _GAPS_MOST:
            return
        bounds = np.concatenate([self._covered, _spans(np.sort(ends))])
        self._covered = _joined(bounds[np.argsort(bounds[:, 0], kind="stable")])

    def found(self) -> Found:
        """What they show."""
        for i, file in enumerate(self._files):
            if not file.steps:
                continue
            top, back = file.top, file.back
            if file.steps > 1 or not top - _UNORDERED <= back + HOUR <= top + _BACK_LEAST:
                return Found(notes=(_unclear(top, back),), disordered=True)
            later = []
            for j, (other, following) in enumerate(zip(self._files, [*self._files[1:], None], strict=True)):
                last = following.first if following else None
                if j == i:
                    later.append((file.at, last))
                elif other.largest > top:
                    later.append((other.first, last))
            return Found(tuple(later), (_set_back(top, back),))
        return Found(notes=tuple(_set_forward(self._covered)))


def set_back(samples: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """Samples without a time zone, in the order of their file: what follows a clock that was set back is an hour later.
    Times that go back in another way, or more than once, stay as they are."""
    of = ["place", "metric"]
    seen = samples.with_columns(before=pl.col("time").shift(1).over(of))
    is_back = (pl.col("before") - pl.col("time") >= _BACK_LEAST).fill_null(value=False)
    steps = seen.with_columns(step=is_back, set=is_back.cast(pl.Int64).cum_sum().over(of))
    back = steps.filter("step")
    if back.is_empty() or back.select(pl.col("set").max()).item() > 1:
        return samples, []
    here = pl.col("time") + HOUR
    if not back.select(here.is_between(pl.col("before") - _UNORDERED, pl.col("before") + _BACK_LEAST).all()).item():
        return samples, []
    last, first = back.select("before", "time").row(0)
    moved = steps.with_columns(time=pl.col("time") + pl.col("set") * HOUR).select(samples.columns)
    return moved, [_set_back(last, first, "a sample")]


def delays(times: Times) -> tuple[Times, tuple[str, ...]]:
    """By how much the times of the rows of a file are later if their clock was set back, and a note. The rows may also
    come with the newest first. Times that go back in another way stay as they are."""
    ordered = times[::-1] if len(times) and times[0] > times[-1] else times
    watch, later = Watch(), np.zeros(len(times), np.int64)
    watch.add(ordered, np.arange(len(times)))
    found = watch.found()
    for first, end in found.later:
        later[first:end] = HOUR
    return (later if ordered is times else later[::-1]), found.notes if found.later else ()


def _spans(ends: Times) -> Times:
    """The first and last of sorted ends between which no gap is long."""
    cuts = np.flatnonzero(np.diff(ends) > _GAP_MOST)
    return np.stack([ends[np.append(0, cuts + 1)], ends[np.append(cuts, len(ends) - 1)]], axis=1)


def _joined(bounds: Times) -> Times:
    """Spans that begin in their order, of which those are joined that have no long gap between them."""
    until = np.maximum.accumulate(bounds[:, 1])
    cuts = np.flatnonzero(bounds[1:, 0] - until[:-1] > _GAP_MOST)
    return np.stack([bounds[np.append(0, cuts + 1), 0], until[np.append(cuts, len(until) - 1)]], axis=1)


def _steps(ends: Times, first: int) -> list[int]:
    """Where ends go back, from the `first` on. A single line that is far ahead is damaged, and shows nothing of the
    clock."""
    steps = (np.flatnonzero(ends[:-1] - ends[1:] >= _BACK_LEAST) + 1).tolist()
    ahead = ((at, ends[max(at - _BEFORE, 0) : at] >= ends[at] + _BACK_LEAST) for at in steps if at >= first)
    return [at for at, far in ahead if far.sum() > 1]


def _set_back(last: int, first: int, what: str = "a line") -> str:
    return (
        f"its clock was set back by an hour, as at the end of summer time: after {what} at {_clock(last)} follows one "
        f"at {_clock(first)}. The times from there on are taken as an hour later"
    )


def _unclear(last: int, first: int) -> str:
    return (
        f"its times have no time zone and go back: after a line at {_clock(last)} follows one at {_clock(first)}. So "
        "the order of its requests, and what a server did meanwhile, are unknown; log times with their zone"
    )


def _set_forward(covered: Times) -> list[str]:
    """A note if nothing was logged for a whole hour of the clock, and this is the only such gap."""
    if len(covered) != 2 or not HOUR <= covered[1, 0] - covered[0, 1] <= HOUR + _GAP_MOST:
        return []
    last, first = int(covered[0, 1]), int(covered[1, 0])
    return [
        f"nothing was logged from {_clock(last)} to {_clock(first)}, as where a clock is set forward for the summer: "
        "this hour may not have existed"
    ]


def _clock(moment: int) -> str:
    return units.format_moment(moment)[11:19]
