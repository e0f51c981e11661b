"""Logs of databases: when a query began and ended, and what it is called; by hand from tests/golden/readers/dblog."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tailrace import readers
from tailrace.units import MILLISECOND, parse_moment

FILES = Path(__file__).parents[1] / "golden" / "readers" / "dblog"
T = parse_moment("2026-11-20T16:49:00Z")
BOTH = [(0.0, 1203.0, "SELECT items"), (1209.58, 1210.0, "INSERT orders")]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mysql-slow.log", [(0.0, 1203.0, "SELECT items"), (2250.0, 2500.0, "UPDATE orders")]),
        ("mariadb-slow.log", [(0.0, 1.203, "SELECT items"), (1000.0, 2200.0, "INSERT orders")]),
        ("postgresql.log", [*BOTH, (1211.0, 1911.0, None)]),
        ("postgresql.csv", BOTH),
        ("postgresql.json", BOTH),
    ],
)
def test_begin_end_and_name_of_each_query(name: str, expected: list[tuple[float, float, str | None]]) -> None:
    run = readers.read(f"db={FILES / name}")
    run.validate()
    found = run.requests().select("sent", "end", pl.col("interaction").cast(pl.String)).collect().rows()
    assert (
        sorted(((sent - T) / MILLISECOND, (end - T) / MILLISECOND, called) for sent, end, called in found) == expected
    )


def test_a_threshold_leaves_out_what_the_database_held() -> None:
    run = readers.read(f"db={FILES / 'mysql-slow.log'}")
    assert "visits" not in run.manifest.rows
    assert "no query took less than 250 ms, so the log has a threshold" in " ".join(run.manifest.notes)
    assert readers.read(FILES / "postgresql.log").manifest.rows["visits"] == 3
