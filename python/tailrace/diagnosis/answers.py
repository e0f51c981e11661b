"""This module moves the end of requests and visits whose answer was lost on its way and sent again.

A capture at the server sees the first copy of each answer, so the visit seems to end there. The client has the answer
when the server repeats it for the last time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from tailrace.diagnosis.changed import Changed

if TYPE_CHECKING:
    from tailrace.diagnosis.tables import Tables

REPEATED = "repeated_answer"
LOSSES_MAX = 255
"""The record counts losses in eight bits."""


@dataclass(frozen=True)
class _Arrived(Changed):
    """These are the tables of a recording, with requests and visits that last until their answers arrived."""

    repeated: pl.DataFrame
    """For each server, and each end that was not the last, this is the end, and how many times the answer was sent
    again."""

    def requests(self) -> pl.LazyFrame:
        return self._moved(self.tables.requests(), "end")

    def visits(self) -> pl.LazyFrame:
        return self._moved(self.tables.visits(), "departure")

    def _moved(self, rows: pl.LazyFrame, end: str) -> pl.LazyFrame:
        known = rows.with_columns(place=pl.col("server").cast(pl.String)).join(
            self.repeated.lazy(), left_on=("place", end), right_on=("server", "end"), how="left", maintain_order="left"
        )
        lost = pl.col("data_drops").fill_null(0).cast(pl.UInt32) + pl.col("times").fill_null(0)
        losses = pl.when(pl.col("times").is_not_null()).then(lost.clip(upper_bound=LOSSES_MAX)).otherwise("data_drops")
        moved = {end: pl.coalesce("until", end), "data_drops": losses.cast(rows.collect_schema()["data_drops"])}
        return known.with_columns(**moved).drop("place", "until", "times")


def arrived(tables: Tables) -> Tables:
    """Return the tables with requests and visits that end when their answers arrived."""
    events = tables.events().filter(pl.col("kind").cast(pl.String) == REPEATED)
    each = events.select(server=pl.col("place").cast(pl.String), end="begin", until="end").collect()
    if each.is_empty():
        return tables
    found: Any = _Arrived(
        tables, each.group_by("server", "end").agg(pl.col("until").max(), times=pl.len().cast(pl.UInt32))
    )
    return found  # type: ignore[no-any-return]
