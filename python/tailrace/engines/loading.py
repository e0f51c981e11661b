"""A run folder → tables of ClickHouse, from which windows are reduced later."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from tailrace import engines
from tailrace.dataset import TABLES, Dataset
from tailrace.dataset.schema import Table
from tailrace.engines import clickhouse
from tailrace.errors import UsageError

ROWS_AT_ONCE = 100_000
"""Of one INSERT; about 10 MB, and one part of the table."""
_TYPES: dict[type[pl.DataType], str] = {
    pl.Int64: "Int64",
    pl.UInt64: "UInt64",
    pl.UInt32: "UInt32",
    pl.UInt8: "UInt8",
    pl.Float64: "Float64",
}


def load(run: Dataset, engine: str, database: str, name: str) -> dict[str, int]:
    """Append the tables of a run folder to those of a database, which are made if they are missing. Each row gets the
    run's name in the column `run`. Returns the rows of each table. Raises UsageError if that run is there already."""
    server = engines.opened(engine)
    if not isinstance(server, engines.Storing):
        raise UsageError(f"--engine {engine}: expected clickhouse://HOST, clickhouses://HOST or chdb:///FOLDER")
    quoted = clickhouse.name(database)
    server.order(f"CREATE DATABASE IF NOT EXISTS {quoted}", database)
    done = {}
    for table in TABLES.values():
        if not run.has(table.name):
            continue
        target = f"{quoted}.`{table.name}`"
        server.order(_made(target, table), target)
        count = f"SELECT count() AS rows FROM {target} WHERE run = {clickhouse.literal(name)}"
        if str(server.rows(count, target).item()) != "0":
            raise UsageError(f"{database}.{table.name} has a run {name} already", advice="choose another --name")
        done[table.name] = 0
        for rows in _pieces(run, table):
            server.insert(target, _written(rows, name))
            done[table.name] += rows.height
    return done


def _made(target: str, table: Table) -> str:
    columns = ", ".join(f"`{column.name}` {_type(column.dtype, column.required)}" for column in table.columns)
    day = 86_400 * 10**9
    order = {"visits": "server, departure", "requests": "server, end", "samples": "place, metric, time"}
    return (
        f"CREATE TABLE IF NOT EXISTS {target} (run String, {columns}) ENGINE = MergeTree "
        f"PARTITION BY intDiv({table.end}, {day}) ORDER BY ({order.get(table.name, f'place, {table.begin}')})"
    )


def _type(of: pl.DataType, required: bool) -> str:
    plain = _TYPES.get(of.base_type(), "String")
    return plain if required else f"Nullable({plain})"


def _pieces(run: Dataset, table: Table) -> Iterator[pl.DataFrame]:
    rows = getattr(run, table.name)().select(column.name for column in table.columns)
    begin = 0
    while (piece := rows.slice(begin, ROWS_AT_ONCE).collect()).height:
        yield piece
        begin += piece.height


def _written(rows: pl.DataFrame, name: str) -> bytes:
    """The rows in TabSeparated."""
    texts = [column.name for column in rows if column.dtype in (pl.Categorical, pl.Enum, pl.String)]
    safe = [pl.col(text).cast(pl.String).map_elements(clickhouse.escaped, return_dtype=pl.String) for text in texts]
    named = rows.with_columns(safe).select(pl.lit(clickhouse.escaped(name)).alias("run"), pl.all())
    content = named.write_csv(separator="\t", include_header=False, null_value="\\N", quote_style="never")
    return content.encode()
