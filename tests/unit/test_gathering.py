"""Two passes over many run folders: the diagnosis is that of all their rows, and little moves."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from doors import told
from tailrace import dataset, sim
from tailrace.cli import perform
from tailrace.dataset import Dataset
from tailrace.diagnosis import diagnose
from tailrace.engines import gathering
from tailrace.engines.gathering import AROUND_NS, SPANS_NS_MAX, around
from tailrace.experiment import from_table
from tailrace.units import SECOND

HOUR = 300 * SECOND
STALL = {"kind": "freeze", "place": "app", "at": "12 s", "for": "700 ms"}


def moved(run: Dataset, by: int, out: Path) -> None:
    """The same run at a later time."""
    with dataset.create(out) as writer:
        for name, table in dataset.TABLES.items():
            rows = getattr(run, name)().with_columns(pl.col(moment) + by for moment in table.moments).collect()
            if rows.height:
                writer.write_table(name, rows)
        writer.topology = run.topology


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four run folders of some minutes each; in the third one a server stood still."""
    folder = tmp_path_factory.mktemp("day")
    tiers = {"web": {"workers": 20, "backlog": 10, "calls": ["app"]}, "app": {"workers": 30}}
    table = {
        "duration": "20 s",
        "ramp": "2 s",
        "tiers": tiers,
        "interactions": {
            "page": {"at": {"web": {"compute": "0.5 ms", "calls": {"servlet": 1}}}},
            "servlet": {"at": {"app": {"compute": "1 ms"}}},
        },
        "workloads": {"users": {"kind": "poisson", "rate": 150, "interaction": "page"}},
    }
    for name, stalls in (("calm", []), ("stalled", [STALL])):
        sim.simulate(from_table({**table, "stalls": stalls}), folder / f"{name}.made")
    calm, stalled = (Dataset.open(folder / f"{name}.made") for name in ("calm", "stalled"))
    for hour, run in enumerate((calm, calm, stalled, calm)):
        moved(run, hour * HOUR, folder / f"hour{hour}")
    for name in ("calm", "stalled"):
        shutil.rmtree(folder / f"{name}.made")
    return folder


def test_the_diagnosis_is_that_of_the_hour_with_the_stall(day: Path, tmp_path: Path) -> None:
    found = gathering.survey(day, "local")
    assert (found.folders, found.vlrt > 20) == (4, True)
    run = gathering.gather(day, "local", found, tmp_path / "run")
    run.validate()
    expected = diagnose(Dataset.open(day / "hour2"))
    answer = diagnose(run)
    assert answer.summary == expected.summary
    assert answer.vlrt == expected.vlrt == found.vlrt
    assert any(f"with {found.requests:,} requests" in note for note in run.manifest.notes)
    assert run.manifest.rows["requests"] < found.requests / 2


def test_the_command_explains_a_day_and_keeps_what_it_fetched(
    day: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert perform(["diagnose", str(day), "--engine", "local", "-o", str(out), "-q", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["summary"][0]["origin"] == "app"
    assert (out / "report.html").exists()
    calm = [str(day / "hour0"), str(day / "hour1")]
    assert perform(["diagnose", *calm, "--engine", "local", "-q"]) == 0
    assert "requests of 2 run folders took 950 ms or longer" in capsys.readouterr().out
    assert perform(["info", str(day), "--engine", "local", "--json"]) == 0
    counts = json.loads(capsys.readouterr().out)
    assert (counts["run_folders"], len(counts["sent"])) == (4, counts["vlrt"])
    assert perform(["info", str(day), "--engine", "local"]) == 0
    assert f"{counts['requests']:,} requests in 4 run folders" in capsys.readouterr().out
    assert told("info", day, "--engine", "nowhere://") == 2
    assert told("diagnose", tmp_path, "--engine", "nowhere://", "-q") == 2
    assert told("diagnose", day, "--engine", "clickhouse://127.0.0.1:9", "-q") == 2


def test_numbers_of_run_folders_stay_apart(day: Path, tmp_path: Path) -> None:
    """Each hour has VLRT if the threshold is short; visits still have their own callers."""
    found = gathering.survey(day, "local", threshold_ns=1_000_000)
    run = gathering.gather(day, "local", found, tmp_path / "run")
    run.validate()
    visits = run.visits().collect()
    assert visits["visit"].is_unique().all()
    both = visits.join(visits.select(parent="visit", began="arrival", of="request"), on="parent")
    assert both.height > 1_000
    assert (both["arrival"] >= both["began"]).all()
    assert (both["request"] == both["of"]).all()
    assert run.manifest.rows["requests"] == found.requests


def test_workers_fetch_the_same_rows(day: Path, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    found = gathering.survey(day, "local")
    there = gathering.gather(day, "dask://local?workers=2", found, tmp_path / "there")
    here = gathering.gather(day, "local", found, tmp_path / "here")
    for name in dataset.TABLES:
        assert_frame_equal(getattr(there, name)().collect(), getattr(here, name)().collect())


def test_spans_are_bounded_and_those_with_the_most_come_first() -> None:
    moments = [0, SECOND, 10 * 60 * SECOND]
    assert around(moments) == ([(-AROUND_NS, SECOND + AROUND_NS), (moments[2] - AROUND_NS, moments[2] + AROUND_NS)], 0)
    assert around([]) == ([], 0)
    many = [hour * 3600 * SECOND for hour in range(100)]
    spans, left_out = around([*many, many[-1] + 1, many[-1] + 2])
    assert spans[-1][0] == many[-1] - AROUND_NS
    assert sum(end - begin for begin, end in spans) <= SPANS_NS_MAX
    assert left_out == 100 - len(spans)
    [(begin, end)], _ = around(list(range(0, 7200 * SECOND, SECOND)))
    assert end - begin == SPANS_NS_MAX
