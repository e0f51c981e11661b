"""This module names requests apart whose clients sent them slowly.

Such a request takes long because of its client. If the server has a worker for each connection, the worker waits for
the rest of the request, and others wait for the worker.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from tailrace.diagnosis.changed import Changed
from tailrace.diagnosis.constants import MOSTLY

if TYPE_CHECKING:
    from tailrace.diagnosis.tables import Tables

SLOW = "slow_request"
NAME = "slowly sent "
"""The name of such a request begins like this."""


def are(interactions: pl.Series) -> pl.Series:
    """Return which of these names are those of such requests."""
    return interactions.cast(pl.String).str.starts_with(NAME).fill_null(value=False)


@dataclass(frozen=True)
class _Named(Changed):
    """These are the tables of a recording, in which such requests and their visits have names of their own."""

    sent_slowly: pl.DataFrame
    """These visits lasted mostly because the client sent their request slowly."""

    def requests(self) -> pl.LazyFrame:
        return self._named(self.tables.requests(), "request")

    def visits(self) -> pl.LazyFrame:
        return self._named(self.tables.visits(), "visit")

    def _named(self, rows: pl.LazyFrame, key: str) -> pl.LazyFrame:
        own = pl.col("interaction").cast(pl.String)
        slowly = pl.col(key).is_in(self.sent_slowly[key].implode())
        named = pl.when(slowly).then(NAME + own).otherwise(own)
        return rows.with_columns(interaction=named.cast(pl.Categorical))


def named_apart(tables: Tables) -> Tables:
    """Return the tables in which requests that their clients sent slowly have names of their own."""
    events = tables.events().filter(pl.col("kind").cast(pl.String) == SLOW)
    each = events.select(server=pl.col("place").cast(pl.String), arrival="begin", until="end").collect()
    if each.is_empty():
        return tables
    visits = tables.visits().with_columns(pl.col("server").cast(pl.String)).join(each.lazy(), on=("server", "arrival"))
    mostly = pl.col("until") - pl.col("arrival") > MOSTLY * (pl.col("departure") - pl.col("arrival"))
    of_clients = pl.col("parent").is_null() & pl.col("request").is_not_null()
    found: Any = _Named(tables, visits.filter(mostly, of_clients).select("visit", "request").collect())
    return found  # type: ignore[no-any-return]
