"""sar's data as `sadf` writes them: both forms hold the same samples, computed here by hand."""

from __future__ import annotations

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
