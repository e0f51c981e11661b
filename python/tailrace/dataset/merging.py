"""Two tables in order as one, of which a part is in memory at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import polars as pl

from tailrace.dataset.tables import scan, shape

ROWS = 1 << 18
"""Rows of a written table that are in memory at a time: about 40 MB."""


def written(path: Path) -> Iterator[pl.LazyFrame]:
    """The rows of a table in parts."""
    return (scan(path).slice(begin, ROWS) for begin in range(0, shape(path).rows, ROWS))


def merged(first: Iterable[pl.DataFrame], second: Iterable[pl.DataFrame], key: str) -> Iterator[pl.DataFrame]:
    """The rows of both in the order of the column `key`, in which each of them is; of equal ones, those of the first
    come first."""
    firsts, seconds = (frame for frame in first if frame.height), (frame for frame in second if frame.height)
    one, other = next(firsts, None), next(seconds, None)
    while one is not None and other is not None:
        last, end = one[key][-1], other[key][-1]
        # Rows like the last of a frame may be in the next one, too.
        if last <= end:
            count, ready = other[key].search_sorted(last, side="left"), one
            ready, other = pl.concat([ready, other[:count]]), other[count:]
            one = next(firsts, None)
        else:
            count, ready = one[key].search_sorted(end, side="right"), other
            ready, one = pl.concat([one[:count], ready]), one[count:]
            other = next(seconds, None)
        yield ready.sort(key, maintain_order=True)
    for rest, more in ((one, firsts), (other, seconds)):
        if rest is not None:
            yield rest
        yield from more
