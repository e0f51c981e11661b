"""chDB: ClickHouse in this process (`chdb://`, or `chdb:///FOLDER` of a database). It reads tables and files."""

from __future__ import annotations

import io
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
from tailrace.errors import InputError


class Engine:
    def __init__(self, parts: SplitResult) -> None:
        folder = unquote(parts.path)
        self._session: Any = Session(folder) if folder.strip("/") else Session()

    def partials(self, source: Sequence[str], plan: Plan) -> Iterator[Part]:
        try:
            for one in source:
                table = f"file({literal(one)}, 'Parquet')" if Path(one).exists() else name(one)
                yield sql.reduced(table, partial(self.rows, source=one), one, plan)
        finally:
            self._session.close()

    def rows(self, query: str, source: str) -> pl.DataFrame:
        try:
            content = self._session.query(query, "Parquet").bytes()
        except Exception as error:  # chDB raises its own class, or RuntimeError
            raise InputError(source, f"chDB refuses the query ({str(error).partition(chr(10))[0][:500]})") from error
        return pl.read_parquet(io.BytesIO(content))
