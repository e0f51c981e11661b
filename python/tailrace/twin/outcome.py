"""What became of the requests of a run: what the gate compares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from tailrace.dataset import Dataset
from tailrace.diagnosis import spans
from tailrace.diagnosis.queues import Stays, Times
from tailrace.diagnosis.unanswered import HOW
from tailrace.diagnosis.vlrt import THRESHOLD_NS
from tailrace.units import SECOND

MODES_MOST = 30
"""Seconds; longer response times count as one mode."""


@dataclass(frozen=True)
class Outcome:
    answered: int
    vlrt: Times
    """When the very slow requests were sent, ns since the begin, in order."""
    modes: Mapping[int, int]
    """Response time in whole seconds → very slow requests."""
    drops: Mapping[str, int]
    """Server → lost connection attempts."""
    longest: Mapping[str, int]
    """Server → its longest queue."""


def outcome(run: Dataset, entries: tuple[str, ...], begin: int, kept: spans.Spans | None = None) -> Outcome:
    """Of the requests to these servers; `begin` is the moment from which times count. Answers are counted where `kept`
    has the requests."""
    asked = (
        run.requests()
        .with_columns(pl.col("server", "status").cast(pl.String))
        .filter(pl.col("server").is_in(list(entries)))
        .select("request", "server", "sent", "status", "drops", response=pl.col("end") - pl.col("sent"))
        .collect()
        .sort("sent")
    )
    visits = (
        run.visits()
        .select(pl.col("server").cast(pl.String), "request", "arrival", "departure", "drops", "data_drops")
        .collect()
    )
    slow = asked.filter(pl.col("response") >= THRESHOLD_NS)
    seconds = slow.select((pl.col("response") / SECOND).round().clip(upper_bound=MODES_MOST).cast(pl.Int64))
    # One whose handshake was not completed is outside, though its first packet arrived.
    inside = visits.filter(
        pl.col("arrival").is_not_null(),
        pl.col("departure") >= pl.col("arrival"),
        pl.col("data_drops").fill_null(0) == 0,
    )
    answered = asked.filter(~pl.col("status").is_in(list(HOW)))["sent"].to_numpy() - begin
    return Outcome(
        len(answered) if kept is None else int((spans.inside(kept, answered) >= 0).sum()),
        slow["sent"].to_numpy() - begin,
        dict(seconds["response"].value_counts().iter_rows()),
        _drops(asked, visits),
        {
            str(name): Stays.of(rows["arrival"].to_numpy(), rows["departure"].to_numpy()).longest
            for (name,), rows in inside.group_by("server")
        },
    )


def _drops(asked: pl.DataFrame, visits: pl.DataFrame) -> dict[str, int]:
    """Of visits, and of requests that never became one."""
    never = asked.filter(~pl.col("request").is_in(visits["request"].drop_nulls().unique().implode()))
    lost = pl.concat([visits.select("server", "drops"), never.select("server", "drops")])
    counts = lost.group_by("server").agg(pl.col("drops").cast(pl.Int64).sum()).filter(pl.col("drops") > 0)
    return dict(counts.sort("server").iter_rows())


def matched(some: Times, others: Times, within_ns: int) -> int:
    """How many of the ones have a partner among the others that is no further away; each is used once."""
    i = j = found = 0
    a, b = np.sort(some).tolist(), np.sort(others).tolist()
    while i < len(a) and j < len(b):
        if abs(a[i] - b[j]) <= within_ns:
            found, i, j = found + 1, i + 1, j + 1
        elif a[i] < b[j]:
            i += 1
        else:
            j += 1
    return found


def alike(some: Mapping[Any, int], others: Mapping[Any, int]) -> float:
    """What two distributions have in common, 0 to 1."""
    a, b = sum(some.values()), sum(others.values())
    if not a or not b:
        return 1.0 if a == b else 0.0
    return sum(min(some.get(key, 0) / a, others.get(key, 0) / b) for key in {*some, *others})
