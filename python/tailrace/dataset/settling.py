"""Tables for the analysts, from any maker: rows that violate the format are left out and counted.

```text
visits.parquet ─ read once by the engine ─┬─ every row is valid ──────────────────▶ the file itself
                                          └─ else: types, order, rows corrected ──▶ a copy
```

A table that cannot be decoded, or has names beyond a bound, is refused.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any

import polars as pl

from tailrace import bounds
from tailrace.dataset import schema, tables
from tailrace.errors import InputError, cannot_read

_MOST = {"caller": bounds.CALLERS, "interaction": bounds.INTERACTIONS, "place": bounds.PLACES}


@dataclass(frozen=True)
class Settled:
    """`path` is the table's own file, or a copy."""

    path: Path
    rows: int
    left_out: int = 0


def settle(path: Path, table: schema.Table, copy: Path) -> Settled:
    """Read a table to its end. Raises InputError if it cannot be read or is beyond a bound; writes `copy` if not all
    rows are valid."""
    rows = tables.shape(path).rows
    source = path
    if not _has_types(path, table):
        _write(path, _conforming(path, table), copy)
        source = copy
    found = _examined(path, source, table)
    middle = found["middle"]
    spread = found["greatest"] - found["least"] if middle is not None else 0
    if found["sorted"] and not found["damaged"] and spread <= bounds.YEAR_NS:
        return Settled(source, rows)
    frame = _conforming(source, table).filter(_good(table, middle) if middle is not None else pl.lit(False))
    kept = _write(path, frame.sort(table.sorted_by, maintain_order=True), copy)
    return Settled(copy, kept, rows - kept)


def promises(table: schema.Table) -> dict[str, Any]:
    """The rules that the engine checks (crates/core/src/record/examine.rs)."""
    texts = {
        c.name: (bounds.TEXT_BYTES_OF_ROW, 0) if c.dtype == pl.String else (bounds.NAME_BYTES, most(c.name))
        for c in table.columns
        if c.dtype in (pl.String, pl.Categorical)
    }
    return {
        "required": [column.name for column in table.columns if column.required],
        "moments": table.moments,
        "durations": table.durations,
        "values": [column.name for column in table.columns if column.dtype == pl.Float64],
        "texts": texts,
        "spans": [(table.begin, table.end)],
        "sorted_by": table.sorted_by,
    }


def most(column: str) -> int:
    """The most different names in a column."""
    return _MOST.get(column, bounds.NAMES)


def _has_types(path: Path, table: schema.Table) -> bool:
    """Whether the file's columns have exactly the types of the schema; text may be stored as text or as names."""
    try:
        present = tables.scan(path).collect_schema()
    except tables.FAULTS as error:
        raise tables.unreadable(path, error) from error
    text = (pl.String, pl.Categorical, pl.Enum)
    return all(
        present[c.name] == c.dtype or (c.dtype in text and present[c.name] in text)
        for c in table.columns
        if c.name in present
    )


def _examined(path: Path, source: Path, table: schema.Table) -> dict[str, Any]:
    from tailrace._core import examine_table

    try:
        found: dict[str, Any] = json.loads(examine_table(str(source), json.dumps(promises(table))))
    except OSError as error:
        raise cannot_read(path, error) from error
    except ValueError as error:
        said = str(error).removeprefix(f"{source}: ")
        raise InputError(path, f"it cannot be read ({said})", "docs/reference/limits.md lists what is read") from error
    return found


def _good(table: schema.Table, middle: int) -> pl.Expr:
    """Valid rows with a time that is not far from all others."""
    required = [pl.col(column.name).is_not_null() for column in table.columns if column.required]
    near = [
        pl.col(name).is_between(middle - bounds.YEAR_NS, middle + bounds.YEAR_NS).fill_null(True)
        for name in table.moments
    ]
    short = [pl.col(name).is_between(0, bounds.YEAR_NS).fill_null(True) for name in table.durations]
    finite = [pl.col(column.name).abs() <= bounds.VALUE_MAX for column in table.columns if column.dtype == pl.Float64]
    return reduce(and_, [*required, *near, *short, *finite, pl.col(table.begin) <= pl.col(table.end)])


def _conforming(source: Path, table: schema.Table) -> pl.LazyFrame:
    """Only the schema's columns; values that do not fit a column become null."""
    return schema.conform(tables.scan(source), table, strict=False).select(table.schema.names())


def _write(path: Path, frame: pl.LazyFrame, copy: Path) -> int:
    """The rows of a copy."""
    try:
        rows = frame.collect()
    except tables.FAULTS as error:
        raise tables.unreadable(path, error) from error
    return tables.write(rows, copy)
