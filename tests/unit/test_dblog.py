"""Logs of databases: when a query began and ended, and what it is called; by hand from tests/golden/readers/dblog."""

from __future__ import annotations

import json
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


def _entry(form: str, moment: str, process: int, message: str) -> str:
    """One entry of PostgreSQL's log."""
    if form == "csv":
        return (
            f'{moment} UTC,"app","shop",{process},"10.0.0.2:1",65f.1,1,"SELECT",,,,LOG,00000,"{message}",,,,,,,,,""\n'
        )
    if form == "json":
        return (
            json.dumps({"timestamp": f"{moment} UTC", "pid": process, "session_id": "65f.1", "message": message}) + "\n"
        )
    return f"{moment} UTC [{process}] app@shop LOG:  {message}\n"


@pytest.mark.parametrize("form", ["log", "csv", "json"])
def test_a_statement_that_was_logged_before_its_duration_names_it(form: str, tmp_path: Path) -> None:
    """`log_statement = all` beside `log_duration`: sessions overlap, and one statement failed."""
    lines = [
        ("2026-11-20 16:49:00.000", 1, "statement: SELECT * FROM items WHERE id = 1"),
        ("2026-11-20 16:49:00.001", 2, "execute S_1: UPDATE orders SET x = 1"),
        ("2026-11-20 16:49:00.003", 1, "duration: 3.000 ms"),
        ("2026-11-20 16:49:00.005", 2, "duration: 4.000 ms"),
        ("2026-11-20 16:49:00.006", 3, "statement: SELECT * FROM broken"),
        ("2026-11-20 16:49:00.007", 3, "statement: INSERT INTO logins VALUES (1)"),
        ("2026-11-20 16:49:00.009", 3, "duration: 2.000 ms"),
        ("2026-11-20 16:49:00.010", 3, "duration: 1.000 ms"),
    ]
    (tmp_path / "pg").write_text("".join(_entry(form, *line) for line in lines))
    run = readers.read(f"db={tmp_path / 'pg'}")
    found = run.requests().select("sent", pl.col("interaction").cast(pl.String)).collect().sort("sent").rows()
    assert [((sent - T) / MILLISECOND, called) for sent, called in found] == [
        (0, "SELECT items"), (1, "UPDATE orders"), (7, "INSERT logins"), (9, None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("# Query_time: 0.00{0:02}  Lock_time: 0.0\nSET timestamp={1};\nSELECT 1;\n", False),
        ("2026-11-20 16:49:{0:02} UTC [7] LOG:  duration: 5.0{0:02} ms  statement: SELECT 1\n", True),
    ],
)
def test_whole_seconds_give_response_times_and_no_visits(line: str, advice: bool, tmp_path: Path) -> None:
    """MariaDB's stamps, and those of PostgreSQL's `%t`, do not show how many queries were there at a time."""
    (tmp_path / "log").write_text("".join(line.format(n, 1795193340 + n) for n in range(60)))
    run = readers.read(f"db={tmp_path / 'log'}")
    assert run.requests().collect().height == 60
    assert run.visits().collect().is_empty()
    said = next(note for note in run.manifest.notes if "whole seconds" in note)
    assert ("log_line_prefix" in said) == advice
