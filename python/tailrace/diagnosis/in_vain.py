"""This module adds calls that no server answered. They are no visits of any server, so the recording lacks them.

    web    ├─ attempt ✗ ────────── 1 s ──────────┤ attempt ✓ ├─ call ─┤──┤
    app2      (refused, or no answer)

A capture shows the attempt, or bytes that nothing acknowledged, and neither who sent them nor how long it waited. A
server calls as soon as it needs the answer, so the attempt is of the visit that was free for the shortest time. That
visit waits until its next call, or until it ends; several attempts in a row are one wait. Other bytes are acknowledged
in the end: their visit arrives late.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from tailrace.diagnosis.changed import Changed
from tailrace.diagnosis.queues import Times

if TYPE_CHECKING:
    from tailrace.diagnosis.tables import Tables

REFUSED, UNANSWERED, UNACKNOWLEDGED = "refused_call", "unanswered_call", "unacknowledged"
NAMES = {
    REFUSED: "connections that were refused",
    UNANSWERED: "connections without an answer",
    UNACKNOWLEDGED: "calls that were not acknowledged",
}
FIRST = 2**62 + 2**61
"""The numbers of these calls begin here. Others have smaller numbers."""


@dataclass(frozen=True)
class _Added(Changed):
    """These are the tables of a recording with such calls."""

    calls: pl.DataFrame
    late: pl.DataFrame
    """These visits arrived `until` then, because what was sent to them was not acknowledged before."""

    def visits(self) -> pl.LazyFrame:
        visits = self.tables.visits()
        schema = visits.collect_schema()
        late = pl.col("until").is_not_null()
        moved = {
            "arrival": pl.when(late).then(pl.min_horizontal("until", "departure")).otherwise("arrival"),
            "data_drops": pl.when(late).then(pl.max_horizontal("data_drops", 1)).otherwise("data_drops"),
        }
        known = visits.join(self.late.lazy(), on="visit", how="left", maintain_order="left").with_columns(**moved)
        columns = [
            (pl.col(name) if name in self.calls.columns else pl.lit(None)).cast(kind).alias(name)
            for name, kind in schema.items()
        ]
        return pl.concat([known.select(schema.names()).cast(schema), self.calls.lazy().select(columns)])


def added(tables: Tables) -> Tables:
    """Return the tables with the calls that no server answered, and with visits that arrived when what was sent to them
    was acknowledged."""
    kinds = pl.col("kind").cast(pl.String)
    events = (
        tables.events().filter(kinds.is_in(list(NAMES))).select(kinds, pl.col("place").cast(pl.String), "begin", "end")
    )
    tried = events.filter(pl.col("place").is_not_null()).collect()
    if tried.is_empty():
        return tables
    called = {place: tables.topology.place_to_server(place) for place in tried["place"].unique()}
    servers = pl.col("place").replace({place: server.name for place, server in called.items() if server is not None})
    of_visits = pl.col("server").cast(pl.String), pl.col("visit", "parent", "request", "sent", "arrival", "departure")
    visits = tables.visits().select(*of_visits).collect()
    served = set(visits["server"].unique())
    found, late = [], [pl.DataFrame(schema={"visit": pl.UInt64, "until": pl.Int64})]
    for (server, kind), its in tried.with_columns(servers).partition_by("place", "kind", as_dict=True).items():
        each = its.group_by(sent="begin").agg(until=pl.col("end").max()).sort("sent")
        if kind == UNACKNOWLEDGED:
            came = visits.filter(pl.col("server") == server).join(each, on="sent")
            late.append(came.select("visit", "until"))
            each = each.join(came, on="sent", how="anti", maintain_order="left")
        callers = tables.topology.callers_of(str(server))
        if server in served and len(each) and callers:
            found.append(_calls(_waits(_free(visits, callers), each["sent"].to_numpy()), str(server), str(kind)))
    none = _calls(_waits(_free(visits, ()), np.empty(0, dtype=np.int64)), "", REFUSED)
    calls = pl.concat([none, *found]).with_row_index("number").with_columns(visit=FIRST + pl.col("number"))
    waited = pl.concat(late).group_by("visit").agg(pl.col("until").max())
    result: Any = _Added(tables, calls.drop("number"), waited)
    return result  # type: ignore[no-any-return]


def _free(visits: pl.DataFrame, callers: Collection[str]) -> pl.DataFrame:
    """Return the stretches in which a visit of these servers had no call open, in the order of their begins."""
    mine = visits.filter(pl.col("server").is_in(list(callers)))
    mine = mine.select("visit", "request", caller="server", begin="arrival", end="departure")
    calls = visits.select(visit="parent", sent="sent", left="departure").join(mine, on="visit").sort("visit", "sent")
    after = calls.select(
        "visit",
        "request",
        "caller",
        begin=pl.col("left").cum_max().over("visit"),
        end=pl.coalesce(pl.col("sent").shift(-1).over("visit"), "end"),
    )
    first = calls.group_by("visit").agg(first=pl.col("sent").min())
    before = mine.join(first, on="visit", how="left").with_columns(end=pl.coalesce("first", "end")).drop("first")
    return pl.concat([before, after]).filter(pl.col("begin") <= pl.col("end")).sort("begin", "visit")


def _waits(free: pl.DataFrame, tried: Times) -> pl.DataFrame:
    """Return the stretches in which a server tried to call at these times, which are in order. Several attempts in one
    stretch are one wait, from the first of them on."""
    begin, end = free["begin"].to_numpy(), free["end"].to_numpy()
    first: dict[int, int] = {}
    begun: list[int] = []
    following = 0
    for moment, until in zip(tried.tolist(), np.searchsorted(begin, tried, "right").tolist(), strict=True):
        begun.extend(range(following, until))
        following = max(following, until)
        # No later attempt is in a stretch that has ended.
        while begun and end[begun[-1]] < moment:
            begun.pop()
        if begun:
            first.setdefault(begun[-1], moment)
    return free[list(first)].with_columns(pl.Series("sent", list(first.values()), pl.Int64))


def _calls(waits: pl.DataFrame, server: str, kind: str) -> pl.DataFrame:
    """Return these waits as visits of the server. One that refuses a connection was reached. Others arrived when their
    callers went on. Each ends just before that, so that the next call follows it."""
    gone_on = pl.max_horizontal("sent", pl.col("end") - 1)
    return waits.select(
        "request",
        "caller",
        "sent",
        parent="visit",
        server=pl.lit(server),
        interaction=pl.lit(NAMES[kind]),
        arrival="sent" if kind == REFUSED else gone_on,
        departure=gone_on,
        drops=pl.lit(0),
        data_drops=pl.lit(int(kind != REFUSED)),
    )
