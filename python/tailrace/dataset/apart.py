"""The samples of each place and metric, apart from the others. A day at 50 ms has tens of millions of samples, so one
column of all of them is in memory at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray


class Sampled(NamedTuple):
    """The samples of one place and metric, in the order of the table."""

    place: str
    metric: str
    time: NDArray[np.int64]
    interval_ns: NDArray[np.int64]
    value: NDArray[np.float64]


def apart(samples: pl.LazyFrame) -> Iterator[Sampled]:
    """Yield the samples of each place and metric; those whose first sample comes first are first."""
    groups, names = _groups(samples.select("place", "metric").collect())
    columns = [_split(samples, name, groups) for name in ("time", "interval_ns", "value")]
    del groups
    for place, metric in names:
        yield Sampled(place, metric, *(column.popleft() for column in columns))


def _groups(names: pl.DataFrame) -> tuple[list[NDArray[np.int64]], list[tuple[str, str]]]:
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
    found = np.unique(codes)
    small = np.zeros(int(found.max(initial=0)) + 1, dtype=np.uint32)
    small[found] = np.arange(len(found))
    return len(found), small[codes]


def _split(samples: pl.LazyFrame, name: str, groups: list[NDArray[np.int64]]) -> deque[Any]:
    whole = samples.select(name).collect()[name].to_numpy()
    return deque(whole[rows] for rows in groups)
