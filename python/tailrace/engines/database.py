"""The two passes of a diagnosis in a database: its own SQL counts the VLRT, and only rows around them are fetched.

A table of visits, as `tailrace load-table` makes it, has the tables of requests, samples and events beside it. Spans
become visits as those of a file do.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from tailrace.dataset import TABLES
from tailrace.dataset.schema import conform
from tailrace.engines import Reducing, sql
from tailrace.engines.clickhouse import name as quoted
from tailrace.engines.shards import TEXTS, Shard, Span, extent
from tailrace.errors import InputError

RUN = "run"
"""The column that `load-table` adds. Numbers are unique within a run."""


class Database:
    def __init__(self, asking: Reducing) -> None:
        self._asking = asking

    def count_slow(self, table: str, threshold: int, most: int) -> tuple[int, int, list[int]]:
        """Pass 1: the requests of a table, its VLRT, and when these were sent; of more than `most`, every n-th."""
        of = sql.shape(self._columns(table), table)
        counts = self._asking.rows(sql.counts(quoted(table), of, threshold), table)
        requests, slow = (int(value) for value in counts.row(0))
        step = max(1, -(-slow // most))
        sent = self._asking.rows(sql.slow(quoted(table), of, threshold, step), table)
        return requests, slow, sent["sent"].cast(pl.Int64).to_list()

    def around(self, table: str, spans: Sequence[Span]) -> list[Shard]:
        """Pass 2: the rows of these spans, a shard for each run."""
        of = sql.shape(self._columns(table), table)
        if of.span is not None:
            return [self._spans(table, of, of.span, spans)]
        found = {name: self._rows(beside, name, spans) for name, beside in self._beside(table).items()}
        runs = sorted({run for rows in found.values() for run in rows[RUN].unique()})
        return [
            Shard({name: mine for name, rows in found.items() if (mine := rows.filter(pl.col(RUN) == run)).height})
            for run in runs
        ]

    def _columns(self, table: str) -> list[str]:
        return self._asking.rows(f"DESCRIBE TABLE {quoted(table)}", table)["name"].to_list()

    def _beside(self, table: str) -> dict[str, str]:
        """The tables of the same runs."""
        database, dot, own = table.rpartition(".")
        if own != "visits":
            return {"visits": table}
        names = {name: f"{database}{dot}{name}" for name in TABLES}
        there = {name: self._asking.rows(f"EXISTS TABLE {quoted(at)}", at) for name, at in names.items()}
        return {name: at for name, at in names.items() if str(there[name].item()) == "1"}

    def _rows(self, table: str, name: str, spans: Sequence[Span]) -> pl.DataFrame:
        rows = self._asking.rows(sql.around(quoted(table), *extent(name), spans), table)
        run = rows[RUN].cast(pl.String) if RUN in rows.columns else pl.Series([""] * rows.height, dtype=pl.String)
        wanted = rows.select(column.name for column in TABLES[name].columns if column.name in rows.columns)
        try:
            typed = conform(wanted.lazy(), TABLES[name]).collect()
        except pl.exceptions.PolarsError as error:
            raise InputError(table, f"a value does not fit its column ({str(error).splitlines()[0]})") from error
        return typed.with_columns(TEXTS, run.alias(RUN))

    def _spans(self, table: str, of: sql.Shape, span: sql.SpanColumns, spans: Sequence[Span]) -> Shard:
        """Read as a file of spans is: in a folder of its own, which is then removed."""
        from tailrace.readers import read

        with tempfile.TemporaryDirectory(prefix="tailrace-") as folder:
            file = Path(folder) / "spans.csv"
            self._asking.rows(sql.spans_around(quoted(table), of, span, spans), table).write_csv(file)
            run = read(file, out=Path(folder) / "run")
            tables = {name: getattr(run, name)().collect() for name in TABLES if run.has(name)}
            texts = {name: rows.with_columns(TEXTS) for name, rows in tables.items()}
            return Shard(texts, run.topology, dict(run.manifest.lost), tuple(run.manifest.notes))
