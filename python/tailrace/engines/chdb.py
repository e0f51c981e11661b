"""chDB: ClickHouse in this process (`chdb://`, or `chdb:///FOLDER` of a database). It reads tables and files."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote

import polars as pl
from chdb.session import Session

from tailrace.engines import sql
from tailrace.engines.clickhouse import name
from tailrace.engines.parts import Part, Plan
from tailrace.errors import InputError


class Engine:
    def __init__(self, parts: SplitResult) -> None:
        folder = unquote(parts.path)
        self._session: Any = Session(folder) if folder.strip("/") else Session()

    def partials(self, source: Sequence[str], plan: Plan) -> Iterator[Part]:
        try:
            for one in source:
                table = f"file('{_quoted(one)}', 'Parquet')" if Path(one).exists() else name(one)
                shape = sql.shape(self._rows(f"DESCRIBE TABLE {table}", one)["name"].to_list(), one)
                yield sql.part(self._rows(sql.query(table, shape, plan), one))
        finally:
            self._session.close()

    def _rows(self, query: str, source: str) -> pl.DataFrame:
        try:
            content = self._session.query(query, "Parquet").bytes()
        except Exception as error:  # chDB raises its own class, or RuntimeError
            raise InputError(source, f"chDB refuses the query ({str(error).partition(chr(10))[0][:500]})") from error
        return pl.read_parquet(io.BytesIO(content))


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
