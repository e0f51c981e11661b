"""Logs of databases that say themselves which queries they have."""

from __future__ import annotations

from pathlib import Path

import pytest

from tailrace import readers
from tailrace.dataset import Dataset

MYSQL = """# Time: 2026-11-20T16:49:0{}.203000Z
# User@Host: app[app] @  [10.0.0.2]  Id:     8
# Query_time: 0.00{}000  Lock_time: 0.000100 Rows_sent: 1  Rows_examined: 100
{}SET timestamp=1795193340;
SELECT * FROM items WHERE id = 17;
"""


def read(path: Path, text: str) -> Dataset:
    path.write_text(text)
    run = readers.read(f"db={path}")
    run.validate()
    return run


def notes(run: Dataset) -> str:
    return " ".join(run.manifest.notes)


def test_the_share_that_percona_server_logs_scales_queue_lengths(tmp_path: Path) -> None:
    rate = "# Log_slow_rate_type: query  Log_slow_rate_limit: 10\n"
    run = read(tmp_path / "slow.log", "".join(MYSQL.format(i, 1 + i, rate) for i in range(8)))
    assert run.topology.servers[0].kept == 0.1
    assert "(Log_slow_rate_limit): 1 of 10. Findings scale" in notes(run)
    assert run.manifest.rows["visits"] == 8
    whole = read(tmp_path / "slow.log", "".join(MYSQL.format(i, 1 + i, "") for i in range(8)))
    assert whole.topology.servers[0].kept is None
    two = [MYSQL.format(i, 1 + i, rate.replace("10", str(10 + i % 2))) for i in range(8)]
    changed = read(tmp_path / "slow.log", "".join(two))
    assert changed.topology.servers[0].kept is None
    assert "No single share scales the others" in notes(changed)


LINE = "2026-11-20 16:49:0{}.203 UTC [22] app@shop LOG:  duration: {}.000 ms  statement: SELECT * FROM items\n"
CHANGED = '2026-11-20 16:49:00.000 UTC [1] LOG:  parameter "{}" changed to "{}"\n'


@pytest.mark.parametrize(
    ("name", "value", "whole"),
    [
        ("log_min_duration_statement", "5", False),
        ("log_min_duration_sample", "5ms", False),
        ("log_statement_sample_rate", "0.1", False),
        ("log_min_duration_statement", "0", True),
        ("work_mem", "5", True),
    ],
)
def test_what_postgresql_says_of_its_limit_counts(tmp_path: Path, name: str, value: str, whole: bool) -> None:
    text = CHANGED.format(name, value) + "".join(LINE.format(i, 5 + i) for i in range(8))
    run = read(tmp_path / "postgresql.log", text)
    assert run.manifest.rows["requests"] == 8
    assert run.manifest.rows.get("visits", 0) == (8 if whole else 0)
    assert (f"({name} = {value})" in notes(run)) is not whole


def test_a_limit_below_ten_milliseconds_shows_by_the_edge_of_the_durations(tmp_path: Path) -> None:
    line = "2026-11-20 16:49:{:02}.{:03} UTC [22] app@shop LOG:  duration: {:.3f} ms  statement: SELECT * FROM {}\n"
    took = [5 + 0.01 * (i * 7919 % 400) for i in range(400)]
    text = "".join(line.format(i // 10, i, ms, "items" if i % 2 else "users") for i, ms in enumerate(took))
    run = read(tmp_path / "postgresql.log", text)
    assert run.manifest.rows.get("visits", 0) == 0
    assert "took 5 ms or longer, with a sharp edge there" in notes(run)
