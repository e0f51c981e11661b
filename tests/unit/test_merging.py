"""Tables in order that become one, part by part."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from tailrace.dataset.merging import merged

_Keys = st.lists(st.lists(st.integers(0, 9), max_size=6), max_size=6)


def _frames(parts: list[list[int]], name: str) -> list[pl.DataFrame]:
    """The keys in order, in parts of the same lengths, with the place of each row."""
    keys = sorted(key for part in parts for key in part)
    frames, done = [], 0
    for part in parts:
        ordered = keys[done : done + len(part)]
        places = [f"{name}{place}" for place in range(done, done + len(part))]
        frames.append(pl.DataFrame({"key": ordered, "row": places}, schema={"key": pl.Int64, "row": pl.String}))
        done += len(part)
    return frames


@given(_Keys, _Keys)
def test_rows_come_as_from_a_sort_of_all(one: list[list[int]], other: list[list[int]]) -> None:
    first, second = _frames(one, "a"), _frames(other, "b")
    empty = pl.DataFrame(schema={"key": pl.Int64, "row": pl.String})
    found = pl.concat([empty, *merged(first, second, "key")])
    assert found.equals(pl.concat([empty, *first, *second]).sort("key", maintain_order=True))
