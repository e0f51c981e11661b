"""Opening a Parquet file: a file name is never a pattern, and a file that would decode to too much is refused before
decoding."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import polars as pl
from polars.exceptions import PanicException

from tailrace import whole
from tailrace.errors import InputError, cannot_read, cannot_write

FAULTS = (pl.exceptions.PolarsError, PanicException)
"""What Polars raises for a table that it cannot decode."""
_OF_THE_ENGINE = frozenset(
    {pl.Boolean, pl.String, pl.Categorical, pl.Enum, pl.Float32, pl.Float64}
    | {pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64}
)
"""Types that the engine writes. If a user's column has another type, Polars writes the table."""


@dataclass(frozen=True)
class Shape:
    """The size of a table, from the file's footer and the headers of its pages."""

    rows: int
    bytes: int
    """In memory, when all columns are decoded."""


def scan(path: str | PathLike[str]) -> pl.LazyFrame:
    """The rows of one file. Without these options Polars takes `run[1]` and `g*` as patterns, `~` as a home and `a=b`
    as a column."""
    file = Path(path).absolute()
    try:
        str(file).encode()
    except UnicodeEncodeError:  # Polars cannot handle other names: it gets the open file, and reads all of it each time
        return pl.scan_parquet(file.open("rb"), glob=False, hive_partitioning=False)
    return pl.scan_parquet(file, glob=False, hive_partitioning=False)


def shape(path: Path) -> Shape:
    """Raises InputError for a file that is not Parquet, or beyond a bound (docs/reference/limits.md)."""
    from tailrace._core import table_shape

    try:
        return Shape(*table_shape(str(path)))
    except OSError as error:
        raise cannot_read(path, error) from error
    except ValueError as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: BaseException) -> InputError:
    """The sentence for a library's error about a Parquet file."""
    found = str(error).removeprefix(f"{path}: ").partition("\n")[0]
    return InputError(
        path, f"not a readable Parquet file ({found})", "it may be cut or damaged; make it or copy it again"
    )


def write(rows: pl.DataFrame, path: Path) -> int:
    """Write the rows of a table as they are, completely or not at all; returns their number."""
    from tailrace._core import write_table

    try:
        if not _OF_THE_ENGINE.issuperset(kind.base_type() for kind in rows.dtypes):
            with whole.replacing(path) as file:
                rows.write_parquet(file, compression="zstd", row_group_size=1_000_000)
            return rows.height
        return write_table(rows, str(path))
    except (OSError, ValueError, RuntimeError) as error:
        raise cannot_write(path, error) from error


def write_each(frames: Iterable[pl.DataFrame], path: Path) -> int:
    """Write frames with the same columns of types that the engine writes as one table, one after the other."""
    from tailrace._core import write_tables

    try:
        return write_tables(frames, str(path))
    except (OSError, ValueError, RuntimeError) as error:
        raise cannot_write(path, error) from error


def sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise cannot_read(path, error) from error
