"""Opening a Parquet file: a name is a name, whatever characters it has, and what would grow beyond all measure is
refused before anything of it is decoded."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import polars as pl

from tailrace.errors import InputError, cannot_read


@dataclass(frozen=True)
class Shape:
    """How large a table is, as its end and the heads of its pages say."""

    rows: int
    bytes: int
    """In memory, when all columns are decoded."""


def scan(path: str | PathLike[str]) -> pl.LazyFrame:
    """The rows of one file. Without the options, `run[1]` and `g*` are patterns, `~` is a home and `a=b` a column."""
    file = Path(path).absolute()
    try:
        str(file).encode()
    except UnicodeEncodeError:  # Polars knows no other names: it gets the file, and reads all of it each time
        return pl.scan_parquet(file.open("rb"), glob=False, hive_partitioning=False)
    return pl.scan_parquet(file, glob=False, hive_partitioning=False)


def shape(path: Path) -> Shape:
    """Raises InputError for what is no Parquet file, or beyond a bound (docs/reference/limits.md)."""
    from tailrace._core import table_shape

    try:
        return Shape(*table_shape(str(path)))
    except OSError as error:
        raise cannot_read(path, error) from error
    except ValueError as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: BaseException) -> InputError:
    """The sentence for what a library says of a Parquet file."""
    found = str(error).removeprefix(f"{path}: ")
    return InputError(path, f"not a readable Parquet file ({found})", "it may be cut or damaged; make the run again")
