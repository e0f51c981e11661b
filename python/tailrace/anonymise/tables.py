"""The tables of a run with other names and other times, some rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import polars as pl
from polars.io.plugins import register_io_source

from tailrace import whole
from tailrace.anonymise.tokens import Tokens
from tailrace.dataset import Dataset, Writer
from tailrace.dataset.schema import TABLES, Table
from tailrace.dataset.tables import FAULTS, unreadable
from tailrace.errors import cannot_write

_ADDED = ("intended", "first_byte")
"""Columns beyond those of the record that a load generator knows; the content of all others is unknown."""
_MOMENTS = frozenset(_ADDED).union(*(table.moments for table in TABLES.values()))
_ROWS = 1 << 18
"""That are in memory at once: with all columns of a visit about 100 MB."""


def rewrite(run: Dataset, table: Table, tokens: Tokens, writer: Writer) -> None:
    """Write the table, if the run has it; the order of its rows stays."""
    if not run.files(table.name):
        return
    frame: pl.LazyFrame = getattr(run, table.name)()
    there = frame.collect_schema()
    columns = [column.name for column in table.columns]
    columns += [name for name in _ADDED if name in there and name not in columns and there[name].is_integer()]
    left_out = len(there) - len(columns)
    if left_out:
        writer.notes.append(f"{table.name}: {left_out} columns that are not of the record were left out")
    path = writer.folder / table.file
    try:
        rewritten = [_column(name, frame, tokens) for name in columns]
        with whole.replacing(path) as file:
            _in_parts(frame, rewritten).sink_parquet(file, compression="zstd", row_group_size=_ROWS)
    except FAULTS as error:
        if "os error" in str(error):
            raise cannot_write(path, error) from error
        raise unreadable(run.path / table.file, error) from error


def _in_parts(frame: pl.LazyFrame, columns: list[pl.Expr]) -> pl.LazyFrame:
    """The columns, of which Polars on its own would hold millions of rows."""

    def parts(_columns: object, _predicate: object, _rows: object, _batch: object) -> Iterator[pl.DataFrame]:
        begin = 0
        while (part := frame.slice(begin, _ROWS).collect()).height:
            yield part.select(columns)
            begin += _ROWS

    return register_io_source(parts, schema=frame.select(columns).collect_schema())


def _column(name: str, frame: pl.LazyFrame, tokens: Tokens) -> pl.Expr:
    column = pl.col(name)
    if name in _MOMENTS:
        return column.cast(pl.Int64) + tokens.shift_ns
    if name == "detail":
        return pl.lit(None, pl.String).alias(name)
    renamed = _renaming(name, tokens)
    if renamed is None:
        return column
    text = column.cast(pl.String)
    unique = frame.select(text.drop_nulls().unique()).collect(engine="streaming")[name].sort()
    return text.replace_strict(unique, pl.Series(map(renamed, unique), dtype=pl.String), return_dtype=pl.String)


def _renaming(column: str, tokens: Tokens) -> Callable[[str], str] | None:
    """The replacements of a column's texts; None if it has none."""
    match column:
        case "server":
            return lambda text: tokens.name("server", text)
        case "caller":
            return lambda text: tokens.name("host", text)
        case "place":
            return lambda text: tokens.name("place", text)
        case "interaction":
            return tokens.interaction
        case "status":
            return tokens.status
        case "metric":
            return tokens.metric
        case "kind":
            return tokens.kind
    return None
