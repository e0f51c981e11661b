"""The samples of each place and metric, apart from the others. A day at 50 ms has tens of millions of samples, so they
are read in parts, and metrics that were sampled at the same times share these."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

AT_ONCE = 2_000_000
"""So many samples are apart at the same time. They take less than 200 MB meanwhile."""

Name = tuple[str, str]


class When(NamedTuple):
    """When samples were taken, in nanoseconds."""

    time: NDArray[np.int64]
    interval_ns: NDArray[np.int64]


class Sampled(NamedTuple):
    """The samples of one place and metric, in the order of the table. If the one before was sampled at the same times,
    `when` is the same object as there."""

    place: str
    metric: str
    when: When
    value: NDArray[np.float64]


def apart(samples: pl.LazyFrame) -> Iterator[Sampled]:
    """Yield the samples of each place and metric; those whose first sample comes first are first."""
    parts: dict[Name, list[tuple[When, NDArray[np.float64]]]] = {}
    columns = samples.select("place", "metric", "time", "interval_ns", "value")
    for batch in columns.collect_batches(chunk_size=AT_ONCE, maintain_order=True):
        for name, when, value in _split(batch):
            parts.setdefault(name, []).append((when, value))
    before: When | None = None
    for place, metric in list(parts):
        whens, values = zip(*parts.pop((place, metric)), strict=True)
        before = _same(When(*map(np.concatenate, zip(*whens, strict=True))), before)
        yield Sampled(place, metric, before, np.concatenate(values))


def _same(when: When, before: When | None) -> When:
    """Return the times before, if these are the same."""
    return before if before is not None and all(map(np.array_equal, when, before)) else when


def _split(batch: pl.DataFrame) -> Iterator[tuple[Name, When, NDArray[np.float64]]]:
    groups, names = _groups(batch.select("place", "metric"))
    time, interval_ns, value = (batch[name].to_numpy() for name in ("time", "interval_ns", "value"))
    last: When | None = None
    for rows, name in zip(groups, names, strict=True):
        last = _same(When(time[rows], interval_ns[rows]), last)
        yield name, last, value[rows]


def _groups(names: pl.DataFrame) -> tuple[list[NDArray[np.int64]], list[Name]]:
    """Return the rows of each pair of names, and the pairs."""
    (places, place), (metrics, metric) = (_numbers(names[column]) for column in names.columns)
    # NumPy sorts short numbers by their digits, which is much faster.
    number = place * np.uint64(metrics) + metric
    number = number.astype(np.uint16) if places * metrics <= 2**16 else number
    order = np.argsort(number, kind="stable")
    begins = 1 + np.flatnonzero(np.diff(number[order]))
    groups = sorted(np.split(order, begins), key=lambda rows: int(rows[0])) if len(order) else []
    return groups, [(str(names["place"][int(rows[0])]), str(names["metric"][int(rows[0])])) for rows in groups]


def _numbers(column: pl.Series) -> tuple[int, NDArray[np.uint32]]:
    """Return how many different names there are, and a small number for each of them."""
    codes = column.cast(pl.Categorical).to_physical().to_numpy()
    found = np.flatnonzero(np.bincount(codes))
    small = np.zeros(int(found.max(initial=0)) + 1, dtype=np.uint32)
    small[found] = np.arange(len(found))
    return len(found), small[codes]
