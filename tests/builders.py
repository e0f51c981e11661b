"""Rows with defaults, so that a test sets only what matters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from tailrace import dataset

T0 = 1_795_193_376_000_000_000
SMALL: dict[str, Any] = {
    "duration": "2 s",
    "ramp": "1 s",
    "tiers": {"web": {}},
    "interactions": {"page": {"at": {"web": {"compute": "1 ms"}}}},
    "workloads": {"w": {"clients": 20, "think": "1 s", "interaction": "page"}},
}
"""An experiment of one server that runs in milliseconds."""


def visits(*rows: dict[str, Any]) -> pl.DataFrame:
    default = {"server": "web", "sent": T0, "arrival": T0, "drops": 0, "data_drops": 0, "status": "ok"}
    default["departure"] = T0 + 1_000_000
    filled = [{"visit": i + 1, **default, **row} for i, row in enumerate(rows)]
    return _frame(filled, dataset.VISITS)


def requests(*rows: dict[str, Any]) -> pl.DataFrame:
    default = {"server": "web", "sent": T0, "end": T0 + 1_000_000, "status": "ok", "drops": 0, "data_drops": 0}
    return _frame([{"request": i + 1, **default, **row} for i, row in enumerate(rows)], dataset.REQUESTS)


def samples(*rows: dict[str, Any]) -> pl.DataFrame:
    default = {"time": T0, "interval_ns": 50_000_000, "place": "web", "metric": "cpu_busy", "value": 0.0}
    return _frame([{**default, **row} for row in rows], dataset.SAMPLES)


def events(*rows: dict[str, Any]) -> pl.DataFrame:
    default = {"place": "app", "kind": "gc", "begin": T0}
    return _frame([{**default, "end": row.get("begin", T0), **row} for row in rows], dataset.EVENTS)


def run(path: Path, **tables: pl.DataFrame) -> dataset.Dataset:
    """A run folder with these tables."""
    with dataset.create(path) as writer:
        for name, frame in tables.items():
            writer.write_table(name, frame)
    return dataset.Dataset.open(path)


STATES = "tasks_stopped", "tasks_runnable", "tasks_blocked"
"""These metrics say what the threads of a server do. Many recordings do not have them."""


class Without:
    """A recording without some metrics."""

    def __init__(self, run: Any, *metrics: str) -> None:
        self.run, self.metrics = run, metrics

    def samples(self) -> pl.LazyFrame:
        found: pl.LazyFrame = self.run.samples()
        return found.filter(~pl.col("metric").cast(pl.String).is_in(self.metrics))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.run, name)


def _frame(rows: list[dict[str, Any]], table: dataset.Table) -> pl.DataFrame:
    present = {name for row in rows for name in row}
    schema = {name: dtype for name, dtype in table.schema.items() if name in present}
    return pl.DataFrame(rows, schema_overrides=schema).select(list(schema))
