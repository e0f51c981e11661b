"""Laws of the interval arithmetic, against a naive bitmap."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tailrace.diagnosis.spans import clip, complement, length, overlap, spans

rows = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=8)


def bitmap(table: np.ndarray, size: int = 64) -> np.ndarray:
    bits = np.zeros(size, dtype=bool)
    for begin, end in table.tolist():
        bits[begin:end] = True
    return bits


@given(rows)
def test_spans_are_sorted_disjoint_and_cover_the_same(given_rows: list[tuple[int, int]]) -> None:
    table = spans(given_rows)
    expected = np.zeros(64, dtype=bool)
    for begin, end in given_rows:
        expected[begin:end] = True
    assert (bitmap(table) == expected).all()
    assert (np.diff(table.ravel()) > 0).all()


@given(rows, st.integers(0, 60), st.integers(0, 60))
def test_overlap_complement_and_clip_agree_with_counting(
    given_rows: list[tuple[int, int]], begin: int, end: int
) -> None:
    begin, end = min(begin, end), max(begin, end)
    table = spans(given_rows)
    bits = bitmap(table)
    assert int(overlap(table, begin, end)[0]) == int(bits[begin:end].sum())
    assert length(clip(table, begin, end)) == int(bits[begin:end].sum())
    rest = complement(table, begin, end)
    assert length(rest) == (end - begin) - int(bits[begin:end].sum())
