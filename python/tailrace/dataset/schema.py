"""The columns of a run folder's tables, in order (docs/reference/dataset.md).

Moments and durations are int64 nanoseconds; moments count from the Unix epoch. Names (*name* in the reference) are
Arrow dictionaries in the files and categories in frames. pandas, Polars and DuckDB all read them as text.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

FORMAT = 1
"""Version of the folder's layout. A reader accepts its own and older ones."""
MOMENT_MAX = 1 << 62
MOMENT_MIN = -MOMENT_MAX
"""146 years on either side of 1970. A moment beyond is damage, and would overflow the difference of two moments."""


@dataclass(frozen=True)
class Column:
    name: str
    dtype: pl.DataType
    required: bool = True
    """A required column exists and holds no null."""

    @property
    def is_duration(self) -> bool:
        return self.name.endswith("_ns")


@dataclass(frozen=True)
class Table:
    name: str
    columns: tuple[Column, ...]
    sorted_by: str
    """Rows are in the order in which they became known."""
    begin: str
    end: str
    """`end` is never before `begin` in a row."""

    @property
    def file(self) -> str:
        return f"{self.name}.parquet"

    @property
    def moments(self) -> list[str]:
        return [column.name for column in self.columns if column.dtype == pl.Int64 and not column.is_duration]

    @property
    def durations(self) -> list[str]:
        return [column.name for column in self.columns if column.is_duration]

    @property
    def schema(self) -> pl.Schema:
        return pl.Schema({column.name: column.dtype for column in self.columns})


_ID, _TIME, _COUNT, _SMALL, _NAME = pl.UInt64(), pl.Int64(), pl.UInt64(), pl.UInt8(), pl.Categorical()

REQUESTS = Table(
    "requests",
    (
        Column("request", _ID),
        Column("client", pl.UInt32(), required=False),
        Column("server", _NAME),
        Column("interaction", _NAME, required=False),
        Column("sent", _TIME),
        Column("connected", _TIME, required=False),
        Column("end", _TIME),
        Column("status", _NAME),
        Column("drops", _SMALL),
        Column("data_drops", _SMALL),
        Column("bytes", _COUNT, required=False),
    ),
    sorted_by="end",
    begin="sent",
    end="end",
)
VISITS = Table(
    "visits",
    (
        Column("visit", _ID),
        Column("parent", _ID, required=False),
        Column("request", _ID, required=False),
        Column("server", _NAME),
        Column("interaction", _NAME, required=False),
        Column("caller", _NAME, required=False),
        Column("sent", _TIME),
        Column("arrival", _TIME),
        Column("start", _TIME, required=False),
        Column("first_byte", _TIME, required=False),
        Column("departure", _TIME),
        Column("drops", _SMALL),
        Column("data_drops", _SMALL),
        Column("status", _NAME),
        Column("bytes_in", _COUNT, required=False),
        Column("bytes_out", _COUNT, required=False),
        Column("downstream_ns", _TIME, required=False),
    ),
    sorted_by="departure",
    begin="arrival",
    end="departure",
)
SAMPLES = Table(
    "samples",
    (
        Column("time", _TIME),
        Column("interval_ns", _TIME),
        Column("place", _NAME),
        Column("metric", _NAME),
        Column("value", pl.Float64()),
    ),
    sorted_by="time",
    begin="time",
    end="time",
)
EVENTS = Table(
    "events",
    (
        Column("place", _NAME),
        Column("kind", _NAME),
        Column("begin", _TIME),
        Column("end", _TIME),
        Column("detail", pl.String(), required=False),
    ),
    sorted_by="begin",
    begin="begin",
    end="end",
)

TABLES: dict[str, Table] = {table.name: table for table in (REQUESTS, VISITS, SAMPLES, EVENTS)}


def fits(found: pl.DataType, wanted: pl.DataType) -> bool:
    """Whether another tool's column type is compatible: any text for a name, any integer for an integer."""
    if wanted == pl.Categorical or wanted == pl.String:
        return found in (pl.Categorical, pl.Enum, pl.String)
    if wanted.is_integer():
        return found.is_integer()
    return found.is_numeric()


def conform(frame: pl.LazyFrame, table: Table, *, strict: bool = True) -> pl.LazyFrame:
    """The table's columns in order with their types; absent optional ones become nulls, and unknown ones stay at the
    end. A value that does not fit its column is an error; without `strict` it becomes null."""
    present = frame.collect_schema()
    columns = [
        (pl.col(c.name) if c.name in present else pl.lit(None).alias(c.name)).cast(c.dtype, strict=strict)
        if present.get(c.name) != c.dtype
        else pl.col(c.name)
        for c in table.columns
    ]
    return frame.select(*columns, *(name for name in present if name not in table.schema))


def shape_problem(present: pl.Schema, table: Table) -> tuple[str, str] | None:
    """The first column that is missing or of a wrong type, with a sentence."""
    for column in table.columns:
        found = present.get(column.name)
        if found is None:
            if column.required:
                return column.name, f"the column is missing; there are {', '.join(present) or 'none'}"
        elif found != pl.Null and not fits(found, column.dtype):
            return column.name, f"its type is {found}, not {column.dtype}"
    return None
