"""Times that cannot belong to their file: one damaged digit makes a sample of the year 2106, or of 1973.

A log may last for years. A row is damaged if it is more than a year away from every other row.
"""

from __future__ import annotations

import polars as pl

from tailrace.bounds import YEAR_NS
from tailrace.readers.source import Found


def without(rows: pl.DataFrame, time: str, found: Found, name: str) -> pl.DataFrame:
    """The rows without those whose `time` is more than a year from the rest; `found` counts them."""
    moments = rows.select(pl.col(time).sort())
    gaps = moments.filter(pl.col(time).diff() > YEAR_NS)
    if gaps.is_empty():
        return rows
    part = pl.col(time).diff().gt(YEAR_NS).fill_null(value=False).cum_sum()
    parts = moments.group_by(part=part).agg(pl.len(), first=pl.col(time).min(), last=pl.col(time).max())
    largest = parts.sort("len", "part", descending=[True, False]).row(0, named=True)
    kept = rows.filter(pl.col(time).is_between(largest["first"], largest["last"]))
    count = rows.height - kept.height
    found.lose("rows far from the rest in time", count)
    found.notes.append(f"{name}: {count} rows lie more than a year from the rest in time and were left out")
    return kept
