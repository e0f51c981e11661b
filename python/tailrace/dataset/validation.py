"""Checks that every row of a table keeps the format. An error names the file, column and row of the first that does
not."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from tailrace.dataset.schema import Table
from tailrace.dataset.tables import FAULTS
from tailrace.errors import InputError

_ROW = "__row"


def check(frame: pl.LazyFrame, table: Table, path: Path) -> None:
    """Raise `InputError` for the first row that violates the table's format."""
    numbered = frame.with_row_index(_ROW)
    try:
        _check_nulls(numbered, table, path)
        _check_order(numbered, table, path)
        _check_spans(numbered, table, path)
    except FAULTS as error:
        raise InputError(path, f"it cannot be read to its end ({error})", "it may be damaged") from error


def _check_nulls(frame: pl.LazyFrame, table: Table, path: Path) -> None:
    required = [column.name for column in table.columns if column.required]
    counts = frame.select(pl.col(required).null_count()).collect(engine="streaming").row(0, named=True)
    for name, count in counts.items():
        if count:
            row = _first(frame.filter(pl.col(name).is_null()))[_ROW]
            raise InputError(path, f"no value ({count} of them)", f"{name} must be known", column=name, row=row)


def _check_order(frame: pl.LazyFrame, table: Table, path: Path) -> None:
    key = table.sorted_by
    backwards = frame.filter(pl.col(key) < pl.col(key).shift(1))
    found = _first(backwards)
    if found:
        advice = f"{table.file} must be sorted by {key}"
        raise InputError(path, f"{found[key]} comes after a later value", advice, column=key, row=found[_ROW])


def _check_spans(frame: pl.LazyFrame, table: Table, path: Path) -> None:
    found = _first(frame.filter(pl.col(table.end) < pl.col(table.begin)))
    if found:
        raise InputError(
            path,
            f"{table.end} {found[table.end]} is before {table.begin} {found[table.begin]}",
            "nothing ends before it begins",
            column=table.end,
            row=found[_ROW],
        )


def _first(frame: pl.LazyFrame) -> dict[str, int]:
    rows = frame.head(1).collect(engine="streaming")
    return rows.row(0, named=True) if rows.height else {}
