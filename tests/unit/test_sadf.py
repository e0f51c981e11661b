"""sar's data as `sadf` writes them: both forms hold the same samples, computed here by hand."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from tailrace import readers
from tailrace.units import SECOND, parse_moment

FILES = Path(__file__).parents[1] / "golden" / "readers" / "sadf"
T = parse_moment("2026-11-20T16:49:01Z")
ONE, TEN = (T, SECOND), (T + 10 * SECOND, 10 * SECOND)
# 12.5 + 0.5 + 7 %; the busiest disk; 1,000 kB; 100 switches a second for 10 s.
EXPECTED = {
    ("app1", "cpu_busy"): [(*ONE, 0.2), (*TEN, 0.5)],
    ("app1", "cpu_iowait"): [(*ONE, 0.04), (*TEN, 0.0)],
    ("app1", "cpu_steal"): [(*ONE, 0.01), (*TEN, 0.0)],
    ("app1", "run_queue"): [(*ONE, 3.0), (*TEN, 9.0)],
    ("app1", "dirty_bytes"): [(*ONE, 1_024_000.0), (*TEN, 0.0)],
    ("app1", "context_switches"): [(*ONE, 1438.0), (*TEN, 1000.0)],
    ("app1", "disk_busy"): [(*ONE, 0.625)],
    ("app1/cpu0", "cpu_busy"): [(*ONE, 0.4)],
    ("app1/cpu0", "cpu_iowait"): [(*ONE, 0.08)],
    ("app1/cpu0", "cpu_steal"): [(*ONE, 0.02)],
}


def series(samples: pl.DataFrame) -> dict[tuple[str, str], list[tuple[int, int, float]]]:
    found: dict[tuple[str, str], list[tuple[int, int, float]]] = {}
    for time, interval, place, metric, value in samples.rows():
        found.setdefault((place, metric), []).append((time, interval, round(value, 9)))
    return found


@pytest.mark.parametrize(("name", "lost"), [("sar.json", "damaged elements"), ("sar.csv", "damaged lines")])
def test_both_forms_hold_the_same_samples(name: str, lost: str) -> None:
    run = readers.read(FILES / name)
    assert series(run.samples().collect()) == EXPECTED
    assert run.lost() == {f"{name}: {lost}": 1}
    assert any("good to 1 s only" in note for note in run.manifest.notes)


def test_times_without_utc_are_named(tmp_path: Path) -> None:
    (tmp_path / "sar.csv").write_text((FILES / "sar.csv").read_text().replace(" UTC", " CET"))
    assert any("in CET and are taken as UTC" in note for note in readers.read(tmp_path / "sar.csv").manifest.notes)


def test_a_damaged_moment_costs_only_itself(tmp_path: Path) -> None:
    whole = (FILES / "sar.json").read_text()
    (tmp_path / "sar.json").write_text(whole.replace('"idle": 75.00', '"idle": 75.0.0'))
    found = series(readers.read(tmp_path / "sar.json").samples().collect())
    assert found["app1", "cpu_busy"] == [(*TEN, 0.5)]


@pytest.mark.parametrize(
    "stamps",
    [
        ("2026-11-20T16:49:00+0000", "2026-11-20T16:49:01+0000"),
        ("2026-11-20T17:49:00+0100", "2026-11-20T17:49:01+0100"),
        ("11/20/2026 04:49:00 PM", "11/20/2026 04:49:01 PM"),
        ("11/20/26 16:49:00", "11/20/26 16:49:01"),
        ("04:49:00 PM", "04:49:01 PM"),
        ("16:49:00", "16:49:01"),
    ],
)
def test_times_of_the_tools_depend_on_the_locale(stamps: tuple[str, str], tmp_path: Path) -> None:
    load = {"user": 10.0, "nice": 0.0, "system": 5.0, "iowait": 1.0, "steal": 0.0, "idle": 84.0}
    entries = [{"timestamp": stamp, "avg-cpu": load, "disk": [{"disk_device": "a", "util": 50.0}]} for stamp in stamps]
    host = {"nodename": "db1", "date": "11/20/2026", "number-of-cpus": 4, "statistics": [entries[0], *entries]}
    file = tmp_path / "iostat.json"
    file.write_text(json.dumps({"sysstat": {"hosts": [host]}}))
    times = readers.read(file).samples().collect()["time"]
    assert set(times) == {parse_moment("2026-11-20T16:49:00Z"), parse_moment("2026-11-20T16:49:01Z")}


def test_a_file_of_lines_may_begin_with_a_restart_and_a_comment(tmp_path: Path) -> None:
    stamp = "2026-11-20 16:49:00 UTC"
    lines = [("-1", "LINUX-RESTART", "(4 CPU)"), ("-1", "COM a new version"), ("1", "all", "%user", "25.00")]
    text = "".join("\t".join(("app1", own[0], stamp, *own[1:])) + "\n" for own in lines)
    (tmp_path / "sar.txt").write_text(text)
    run = readers.read(tmp_path / "sar.txt")
    assert run.samples().select("value").collect()["value"].to_list() == [0.25]
    assert run.lost() == {}


def test_several_reports_on_one_line_are_told_apart(tmp_path: Path) -> None:
    """`sadf -d -h -- -u -P ALL -w -q -d`; the number of CPUs and of disks stands nowhere."""
    cpus, switches = "CPU;%user;%nice;%system;%iowait;%steal;%idle[...]", "proc/s;cswch/s"
    queue, disks = "runq-sz;plist-sz;ldavg-1;ldavg-5;ldavg-15;blocked", "DEV;tps;rkB/s;aqu-sz;await;%util[...]"
    header = f"# hostname;interval;timestamp;{cpus};{switches};{queue};{disks}\n"
    of_cpus = "-1;12.50;0.50;7.00;4.00;1.00;75.00;0;25.00;1.00;14.00;8.00;2.00;50.00;1;0.00;0.00;0.00;0.00;0.00;100.00"
    of_disks = "vda;3.00;0.00;0.00;0.67;62.50;dev8-0;3.00;0.00;0.00;0.67;10.00"
    row = f"app1;1;2026-11-20 16:49:01 UTC;{of_cpus};1.00;1438.00;3;204;8.05;8.06;8.18;0;{of_disks}\n"
    path = tmp_path / "sar.csv"
    path.write_text(header + row + row.replace(":01", ":02").replace("vda", "4711"))
    run = readers.read(path)
    found = series(run.samples().collect())
    of_first = {key: values[:1] for key, values in EXPECTED.items() if key[1] != "dirty_bytes"}
    assert {key: values for key, values in found.items() if key[0] != "app1/cpu1"} == of_first
    assert found["app1/cpu1", "cpu_busy"] == [(*ONE, 0.0)]
    assert run.lost() == {"sar.csv: damaged lines": 1}, "no disk is called 4711"
