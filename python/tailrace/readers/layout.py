"""The meaning of the columns in a table of samples, and its rows as text with their numbers."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import polars as pl

from tailrace import units
from tailrace.dataset import tables
from tailrace.errors import InputError
from tailrace.foreign import listed
from tailrace.readers.source import Found, Source

_COLUMNS = {
    "time": "time timestamp ts datetime date_time time_s time_ms time_us time_ns unix_time",
    "place": "place host hostname node server instance container pod cgroup",
    "metric": "metric metric_name name measurement counter",
    "value": "value val metric_value",
    "interval": "interval interval_s interval_ms interval_us interval_ns duration step",
}
_ROLES = {name: column for column, names in _COLUMNS.items() for name in names.split()}
MISSING = ("", "nan", "null", "none", "na", "n/a", "-")
"""Texts of a value that is not there, in lower case."""
_HEADLESS = ("time", "place", "metric", "value", "interval")
_SCALES = (("_ns", 1), ("_us", units.MICROSECOND), ("_ms", units.MILLISECOND), ("_s", units.SECOND))


@dataclass(frozen=True)
class Layout:
    """`columns` maps a role to its position; with `time_scale` None, the size of the numbers shows the unit."""

    columns: dict[str, int]
    delimiter: str = ","
    header: bool = True
    time_scale: int | None = None
    interval_scale: int = units.SECOND

    @property
    def needed(self) -> tuple[str, ...]:
        return tuple(sorted(self.columns, key=self.columns.__getitem__))


def layout_of(text: str) -> Layout | None:
    """The layout of a CSV text that is a table of samples, from its first line; None for any other text."""
    first = next((line for line in text.split("\n") if line.strip() and not line.startswith("#")), "").strip()
    for delimiter in (",", ";", "\t"):
        names = fields(first, delimiter)
        if len(names) < 3:
            continue
        layout = _by_names(names, delimiter) or _by_position(names, delimiter)
        if layout:
            return layout
    return None


def fields(line: str, delimiter: str) -> list[str]:
    """The fields of a line that may have quotes; empty if a quote is not closed or a field is too long."""
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True), [])
    except csv.Error:
        return []


def named_rows(
    source: Source, found: Found, delimiter: str = ",", known: Sequence[str] | None = None
) -> Iterator[tuple[int, dict[str, str]]]:
    """Each line by the names of the columns: `known` ones, or those in the first line, which is no row then; empty if a
    line has more or fewer fields."""
    names = list(known or ())
    for number, line in source.lines(found):
        row = fields(line if names else line.lstrip("\ufeff"), delimiter)
        if not names:
            names = row
        else:
            yield number, dict(zip(names, row, strict=True)) if len(row) == len(names) else {}


def column_names(text: str) -> tuple[list[str], str]:
    """The columns of a table with a header, and its delimiter; empty if the next line has more or fewer fields."""
    lines = [line for line in text.split("\n")[:-1] if line.strip() and not line.startswith("#")][:2]
    for delimiter in (",", ";", "\t"):
        rows = [fields(line.strip(), delimiter) for line in lines]
        if len(rows) == 2 and len(rows[0]) == len(rows[1]) > 1:
            return [name.strip() for name in rows[0]], delimiter
    return [], ""


def role(name: str) -> str | None:
    """The role of the column with this name."""
    return _ROLES.get(_plain(name))


def _plain(name: str) -> str:
    return name.strip().lower().replace(" ", "_")


def _by_names(names: list[str], delimiter: str = ",") -> Layout | None:
    plain = [_plain(name) for name in names]
    columns: dict[str, int] = {}
    for i, name in enumerate(plain):
        if name in _ROLES:
            columns.setdefault(_ROLES[name], i)
    if not {"time", "metric", "value"} <= columns.keys():
        return None
    interval = plain[columns["interval"]] if "interval" in columns else ""
    return Layout(
        columns,
        delimiter,
        time_scale=_scale(plain[columns["time"]]),
        interval_scale=_scale(interval) or units.SECOND,
    )


def _by_position(row: list[str], delimiter: str) -> Layout | None:
    """time, place, metric, value and optionally interval, without a header."""
    if len(row) not in (4, 5):
        return None
    with suppress(ValueError):
        units.parse_moment(row[0])
        float(row[3])
        return Layout({name: i for i, name in enumerate(_HEADLESS[: len(row)])}, delimiter, header=False)
    return None


def _scale(name: str) -> int | None:
    return next((scale for ending, scale in _SCALES if name.endswith(ending)), None)


def csv_rows(source: Source, found: Found) -> tuple[Layout, Iterator[pl.DataFrame]]:
    """The layout, and the rows as text: row (line number), time, place, metric, value, interval."""
    layout = layout_of(source.head().decode("utf-8-sig", errors="replace"))
    if layout is None:
        raise InputError(
            source.path, "not a table of time, place, metric, value", "docs/reference/readers.md shows one"
        )
    return layout, _csv_blocks(source, found, layout)


def _csv_blocks(source: Source, found: Found, layout: Layout) -> Iterator[pl.DataFrame]:
    header = layout.header
    for first, block in source.line_blocks(found):
        lines = pl.DataFrame({"text": block.removeprefix("\ufeff").split("\n")}).with_row_index("row", first)
        lines = lines.with_columns(pl.col("text").str.strip_chars_end("\r"))
        lines = lines.filter((pl.col("text").str.strip_chars() != "") & ~pl.col("text").str.starts_with("#"))
        if header and lines.height:
            lines, header = lines.slice(1), False
        if '"' in block:
            rows = [fields(text, layout.delimiter) for text in lines.get_column("text")]
            parts = pl.Series("parts", rows, dtype=pl.List(pl.String))
        else:
            parts = lines.get_column("text").str.split(layout.delimiter).alias("parts")
        columns = {
            role: pl.col("parts").list.get(layout.columns[role], null_on_oob=True).str.strip_chars()
            if role in layout.columns
            else pl.lit(None, pl.String)
            for role in _HEADLESS
        }
        yield (
            lines.select("row").with_columns(parts).select("row", **{r: _none_if_empty(f) for r, f in columns.items()})
        )


def _none_if_empty(field: pl.Expr) -> pl.Expr:
    return pl.when(field != "").then(field)


def parquet_rows(source: Source) -> tuple[Layout, Iterator[pl.DataFrame]]:
    """The same for a Parquet file; `row` counts from 0."""
    tables.shape(source.path)
    try:
        frame = tables.scan(source.path)
        schema = frame.collect_schema()
        layout = _by_names(list(schema))
        if layout is None:
            found = f"its columns are {listed(list(schema))}; samples have time, place, metric, value"
            raise InputError(source.path, found, "docs/reference/readers.md shows the form")
        names = {role: list(schema)[i] for role, i in layout.columns.items()}
        columns = {
            role: _as_text(names[role], schema[names[role]]) if role in names else pl.lit(None, pl.String)
            for role in _HEADLESS
        }
        rows = frame.with_row_index("row").select("row", **columns).collect()
    except tables.FAULTS as error:
        raise tables.unreadable(source.path, error) from error
    return layout, iter([rows])


def _as_text(name: str, dtype: pl.DataType) -> pl.Expr:
    column = pl.col(name)
    if isinstance(dtype, pl.Datetime):
        return column.dt.epoch("ns").cast(pl.String)
    if isinstance(dtype, pl.Duration):
        return (column.dt.total_nanoseconds() / units.SECOND).cast(pl.String)
    return column.cast(pl.String)
