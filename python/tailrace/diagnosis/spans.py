"""Spans are sets of intervals [begin, end) in nanoseconds, held as sorted, disjoint rows of an (n, 2) array. This
module is their arithmetic."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Spans = NDArray[np.int64]


def spans(rows: Iterable[tuple[int, int]] | Spans, gap: int = 0) -> Spans:
    """Return sorted and disjoint rows. Rows closer than `gap` become one, and empty rows are left out."""
    table = np.asarray(list(rows) if not isinstance(rows, np.ndarray) else rows, dtype=np.int64).reshape(-1, 2)
    table = table[table[:, 1] > table[:, 0]]
    if len(table) == 0:
        return table
    table = table[np.argsort(table[:, 0], kind="stable")]
    reach = np.maximum.accumulate(table[:, 1])
    first = np.concatenate(([True], table[1:, 0] > reach[:-1] + gap))
    last = np.append(np.nonzero(first)[0][1:] - 1, len(table) - 1)
    return np.column_stack((table[first, 0], reach[last]))


def union(tables: Iterable[Spans]) -> Spans:
    return spans(np.concatenate([np.empty((0, 2), dtype=np.int64), *tables]))


def where(begin: NDArray[np.int64], end: NDArray[np.int64], mask: NDArray[np.bool_], gap: int = 0) -> Spans:
    """Return the rows of a series for which `mask` holds, joined where they touch."""
    return spans(np.column_stack((begin[mask], end[mask])), gap)


def complement(taken: Spans, begin: int, end: int) -> Spans:
    """Return what `taken` leaves of [begin, end)."""
    inside = clip(taken, begin, end)
    edges = np.concatenate(([begin], inside.ravel(), [end])).astype(np.int64)
    return spans(edges.reshape(-1, 2))


def without(table: Spans, taken: Spans) -> Spans:
    """Return what `taken` leaves of a table."""
    if len(table) == 0 or len(taken) == 0:
        return table
    begin, end = int(table[0, 0]), int(table[-1, 1])
    return complement(union([complement(table, begin, end), taken]), begin, end)


def common(table: Spans, others: Spans) -> Spans:
    """Return the times that are in both tables."""
    return without(table, without(table, others))


def clip(table: Spans, begin: int, end: int) -> Spans:
    return spans(np.clip(table, begin, end))


def length(table: Spans) -> int:
    return int((table[:, 1] - table[:, 0]).sum())


def covered_before(table: Spans, times: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each time how many nanoseconds of `table` lie before it."""
    if len(table) == 0:
        return np.zeros(len(times), dtype=np.int64)
    total = np.concatenate(([0], np.cumsum(table[:, 1] - table[:, 0])))
    begins, ends = table.T
    row = np.maximum(np.searchsorted(begins, times, side="right") - 1, 0)
    found: NDArray[np.int64] = total[row] + np.clip(times, begins[row], ends[row]) - begins[row]
    return found


def inside(table: Spans, times: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each time the number of the row that holds it, or -1."""
    if len(table) == 0:
        return np.full(len(times), -1, dtype=np.int64)
    row = np.searchsorted(table[:, 0], times, side="right") - 1
    return np.where((row >= 0) & (times < table[np.maximum(row, 0), 1]), row, -1)


def overlap(table: Spans, begin: NDArray[np.int64] | int, end: NDArray[np.int64] | int) -> NDArray[np.int64]:
    """Return for each [begin, end) how many nanoseconds of it `table` covers."""
    starts, stops = np.atleast_1d(np.asarray(begin)), np.atleast_1d(np.asarray(end))
    return covered_before(table, stops) - covered_before(table, starts)
