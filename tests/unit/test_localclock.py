"""Logs without a time zone, across the hours in which local clocks are set."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from tailrace import readers
from tailrace.dataset import Dataset
from tailrace.units import SECOND

NIGHT = datetime(2026, 10, 25, tzinfo=UTC)


def line(second: float) -> str:
    """A request that began a quarter of a second after this second of the night, by the local clock, and took 30 ms."""
    stamp = (NIGHT + timedelta(seconds=second + 0.25)).strftime("%d/%b/%Y:%H:%M:%S.%f")[:-3]
    return f'10.0.0.9:4 [{stamp}] front app/a1 0/0/1/29/30 200 5 - - ---- 1/1/0/0/0 0/0 "GET /page HTTP/1.1"\n'


def read(path: Path, *files: list[float]) -> Dataset:
    paths = []
    for number, seconds in enumerate(files):
        paths.append(path / f"lb.log.{number}")
        paths[-1].write_text("".join(map(line, seconds)))
    return readers.read(*(f"lb={one}" for one in paths))


def clock(hours: int, minutes: int = 0) -> float:
    return hours * 3600.0 + minutes * 60


def steadily(begin: float, end: float) -> list[float]:
    return [begin + i * 10 for i in range(int(end - begin) // 10)]


def requests(run: Dataset) -> list[int]:
    return ((run.requests().collect()["sent"] - int(NIGHT.timestamp()) * SECOND) // SECOND).sort().to_list()


def notes(run: Dataset) -> str:
    return " ".join(run.manifest.notes)


def test_the_hour_that_comes_twice_does_not_hold_the_requests_of_both(tmp_path: Path) -> None:
    once, again = steadily(clock(2), clock(3)), steadily(clock(2), clock(4))
    run = read(tmp_path, once + again)
    run.validate()
    assert requests(run) == steadily(clock(2), clock(5))
    assert "set back by an hour" in notes(run)
    assert "after a line at 02:59:50 follows one at 02:00:00" in notes(run)
    calls = run.visits().filter(pl.col("caller").is_not_null()).collect()
    assert calls["sent"].n_unique() == len(once + again)


def test_later_files_of_the_same_log_follow_the_new_clock(tmp_path: Path) -> None:
    first = steadily(clock(2), clock(3)) + steadily(clock(2), clock(3))
    run = read(tmp_path, first, steadily(clock(3), clock(4)), steadily(clock(1), clock(2)))
    assert requests(run) == steadily(clock(1), clock(5))


def test_a_missing_hour_is_reported_and_nothing_is_moved(tmp_path: Path) -> None:
    seconds = steadily(clock(1), clock(2)) + steadily(clock(3), clock(4))
    run = read(tmp_path, seconds)
    assert requests(run) == seconds
    assert "nothing was logged from 01:59:50 to 03:00:00" in notes(run)
    quiet = read(tmp_path, steadily(clock(1), clock(2)) + steadily(clock(5), clock(6)))
    assert "nothing was logged" not in notes(quiet)


@pytest.mark.parametrize("damaged", [clock(3), clock(4), clock(20)])
def test_a_single_line_with_a_damaged_stamp_is_no_clock_that_was_set(tmp_path: Path, damaged: float) -> None:
    seconds = steadily(clock(2), clock(3))
    run = read(tmp_path, [*seconds[:100], damaged, *seconds[100:]])
    assert requests(run) == sorted([*seconds, damaged])
    assert "set back" not in notes(run)


def test_lines_of_two_clocks_in_one_file_give_no_visits(tmp_path: Path) -> None:
    mixed = steadily(clock(2), clock(3)) + steadily(clock(2), clock(3)) + steadily(clock(2), clock(3))
    run = read(tmp_path, mixed)
    assert requests(run) == sorted(mixed)
    assert "go back: after a line at 02:59:50 follows one at 02:00:00" in notes(run)
    assert run.manifest.rows.get("visits", 0) == 0


def test_files_that_are_given_in_another_order_are_no_clock_that_was_set(tmp_path: Path) -> None:
    halves = [steadily(clock(2, 30), clock(3)), steadily(clock(2), clock(2, 30)), steadily(clock(1, 30), clock(2))]
    run = read(tmp_path, *halves)
    assert requests(run) == steadily(clock(1, 30), clock(3))
    assert "set back" not in notes(run)


def test_times_with_a_zone_are_not_touched(tmp_path: Path) -> None:
    text = '10.0.0.9 - - [25/Oct/2026:02:{:02}:00 {}] "GET /page HTTP/1.1" 200 5 "-" "curl" rt=0.012\n'
    path = tmp_path / "access.log"
    path.write_text("".join(text.format(i, zone) for zone in ("+0200", "+0100") for i in range(60)))
    found = requests(readers.read(path))
    assert found[0] == -1
    assert len(found) == 120
    assert found[-1] == 7139
