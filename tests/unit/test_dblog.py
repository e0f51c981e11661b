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
        ("postgresql.log", [*BOTH, (1211.0, 1911.0, "SELECT orders")]),
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


@pytest.mark.parametrize("form", ["log", "csv", "json"])
def test_plans_name_their_statement_in_each_form_of_the_log(form: str) -> None:
    """PostgreSQL 15 wrote all three at once: plans as text, then as JSON, each of several lines."""
    run = readers.read(f"db={FILES / 'auto-explain'}.{form}")
    found = run.requests().select("sent", "end", pl.col("interaction").cast(pl.String)).collect().rows()
    assert [round((end - sent) / MILLISECOND, 3) for sent, end, _ in found] == [0.669, 0.065, 0.087, 0.059, 20.267]
    names = ["INSERT stories", "SELECT stories", "SELECT stories", "UPDATE stories", "SELECT"]
    assert [called for _, _, called in found] == names


def test_a_plan_of_very_many_lines_is_read(tmp_path: Path) -> None:
    lines = (FILES / "auto-explain.csv").read_text().splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("Seq Scan"))
    (tmp_path / "pg.csv").write_text("\n".join([*lines[:at], *["  ->  Materialize"] * 500, *lines[at:]]))
    run = readers.read(f"db={tmp_path / 'pg.csv'}")
    assert run.manifest.rows["requests"] == 5


def test_a_threshold_leaves_out_what_the_database_held() -> None:
    run = readers.read(f"db={FILES / 'mysql-slow.log'}")
    assert "visits" not in run.manifest.rows
    assert "no query took less than 250 ms, so the log has a threshold" in " ".join(run.manifest.notes)
    assert readers.read(FILES / "postgresql.log").manifest.rows["visits"] == 3


@pytest.mark.parametrize(
    "line",
    [
        "1795193341.203 [22] LOG:  duration: 1203.000 ms  statement: {sql}",
        "2026-11-20 16:49:01.203 UTC [22] LOG:  Dauer: 1203.000 ms  Anweisung: {sql}",
        "2026-11-20 16:49:01.203 UTC [22] app@shop LOG:  durée : 1203.000 ms, instruction : {sql}",
        "2026-11-20 16:49:01.203 UTC [22] СООБЩЕНИЕ:  продолжительность: 1203.000 мс, оператор: {sql}",
        "Nov 20 16:49:01 db1 postgres[22]: [5-1] 2026-11-20 16:49:01.203 UTC LOG:  duration: 1203.000 ms  bind: {sql}",
        "db-1  | 2026-11-20 16:49:01.203 UTC [22] LOG:  duration: 1203.000 ms  execute S_1/C_2: {sql}",
    ],
)  # fmt: skip
def test_prefixes_and_languages_of_postgresql(tmp_path: Path, line: str) -> None:
    path = tmp_path / "postgresql.log"
    path.write_text(line.format(sql="SELECT a FROM items WHERE id = 17") + "\n")
    found = readers.read(f"db={path}").requests().with_columns(pl.col("interaction").cast(pl.String)).collect()
    assert found.select("sent", "end", "interaction").rows() == [
        (1_795_193_340_000_000_000, 1_795_193_341_203_000_000, "SELECT items")
    ]
