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


@pytest.mark.parametrize("newest_first", [True, False])
def test_dates_of_netdata_are_an_hour_later_after_the_clock_was_set_back(newest_first: bool, tmp_path: Path) -> None:
    clocks = [f"{hour}:{minute:02}:00" for hour in ("02", "02", "03") for minute in range(0, 60, 10)]
    rows = [f"2026-10-25 {time},{number},1,0\n" for number, time in enumerate(clocks)]
    path = tmp_path / "system.cpu.csv"
    path.write_text("time,user,system,iowait\n" + "".join(reversed(rows) if newest_first else rows))
    run = readers.read(f"app={path}")
    found = run.samples().filter(pl.col("metric").cast(pl.String) == "cpu_busy").collect().sort("time")
    assert (found["time"].diff().drop_nulls() // (60 * SECOND)).to_list() == [10] * (len(clocks) - 1)
    assert [round(value * 100) for value in found["value"]] == [number + 1 for number in range(len(clocks))]
    assert "set back by an hour" in notes(run)


def test_lines_of_the_kernel_are_an_hour_later_after_the_clock_was_set_back(tmp_path: Path) -> None:
    events = "Out of memory: Killed process 950 (java)"
    texts = [("02:10:00", events), *((f"02:5{i}:00", "usb 1-1: new device") for i in range(3)), ("02:05:00", "usb")]
    path = tmp_path / "dmesg.txt"
    lines = [f"[Sun Oct 25 {time} 2026] {text}\n" for time, text in [*texts, ("02:20:00", events)]]
    path.write_text("".join(lines))
    run = readers.read(f"app={path}")
    begins = [(begin - int(NIGHT.timestamp()) * SECOND) // SECOND for begin in run.events().collect()["begin"]]
    assert sorted(begins) == [clock(2, 10), clock(3, 20)]
    assert "set back by an hour" in notes(run)
    path.write_text("".join(lines[:1] + lines[-1:]))
    assert "set back" not in notes(readers.read(f"app={path}"))
