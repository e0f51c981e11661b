"""chDB: ClickHouse in this process (`chdb://`, or `chdb:///FOLDER` of a database). It reads tables and files."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote

import polars as pl
from chdb.session import Session

from tailrace.engines import sql
from tailrace.engines.clickhouse import literal, name
from tailrace.engines.parts import Part, Plan
from tailrace.errors import InputError, UsageError


class Engine:
    def __init__(self, parts: SplitResult) -> None:
        folder = unquote(parts.path)
        self._kept = bool(folder.strip("/"))
        try:
            self._session: Any = Session(folder) if self._kept else Session()
        except RuntimeError as error:
            raise UsageError(f"--engine chdb://{folder}: it cannot be opened ({_first(error)})") from error

    def partials(self, source: Sequence[str], plan: Plan) -> Iterator[Part]:
        try:
            for one in source:
                table = f"file({literal(one)}, 'Parquet')" if Path(one).exists() else name(one)
                yield sql.reduced(table, partial(self.rows, source=one), one, plan)
        finally:
            self._session.close()

    def rows(self, query: str, source: str) -> pl.DataFrame:
        return pl.read_parquet(io.BytesIO(self._asked(query, source)))

    def order(self, statement: str, source: str) -> None:
        self._asked(statement, source)

    def insert(self, table: str, content: bytes) -> None:
        if not self._kept:
            raise UsageError("--engine chdb://: it keeps nothing", advice="name a folder: chdb:///FOLDER")
        with tempfile.NamedTemporaryFile(prefix="tailrace-", suffix=".tsv") as file:
            file.write(content)
            file.flush()
            self._asked(f"INSERT INTO {table} FROM INFILE {literal(file.name)} FORMAT TabSeparated", table)

    def _asked(self, query: str, source: str) -> bytes:
        try:
            content: bytes = self._session.query(query, "Parquet").bytes()
        except Exception as error:  # chDB raises its own class, or RuntimeError
            raise InputError(source, f"chDB refuses the query ({_first(error)})") from error
        return content


def _first(error: Exception) -> str:
    """What chDB says, without its stack."""
    return str(error).partition("\n")[0].partition(", Stack trace")[0][:500]
