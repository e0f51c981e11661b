"""Requests that take long whenever they are sent, and those that only seem to."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from systems import Slow, system
from tailrace.diagnosis import diagnose


def test_requests_that_are_slow_by_themselves_have_no_origin() -> None:
    """Each fiftieth request is a report, which takes between 1 and 2 s."""
    memory = system()
    is_report = pl.col("request") % 50 == 0
    longer = pl.when(is_report).then(1_000_000_000 + pl.col("request") * 7919 % 1_000 * 1_000_000).otherwise(0)
    its, visits = memory.tables["requests"], memory.tables["visits"]
    tables = {
        **memory.tables,
        "requests": its.with_columns(
            end=pl.col("end") + longer, interaction=pl.when(is_report).then(pl.lit("report")).otherwise(pl.lit("page"))
        ),
        "visits": visits.with_columns(departure=pl.col("departure") + longer),
    }
    diagnosis = diagnose(replace(memory, tables=tables))
    assert diagnosis.vlrt > 50
    assert {(e.origin, e.cause) for e in diagnosis.episodes} == {(None, "unknown")}
    assert "by themselves" in diagnosis.answer[1]


def test_requests_that_a_stop_made_slow_have_its_cause_whatever_their_names_are() -> None:
    """All requests that a stop makes slow have a name of their own."""
    memory = system(Slow("app", 4.0, 4.6))
    slow = pl.col("end") - pl.col("sent") >= 950_000_000
    named = memory.tables["requests"].with_columns(
        interaction=pl.when(slow).then(pl.lit("report")).otherwise(pl.lit("page"))
    )
    for table in (memory.tables["requests"], named):
        found = diagnose(replace(memory, tables={**memory.tables, "requests": table}))
        assert {episode.cause for episode in found.episodes} == {"freeze"}
