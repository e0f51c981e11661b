"""Recorded requests in an experiment: clients that wait for answers, the work of each request, lost capacity."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tailrace import experiment, sim
from tailrace.dataset import Dataset
from tailrace.errors import InputError, UsageError
from tailrace.experiment import losses, traces

ONE: dict[str, Any] = {
    "duration": "3 s",
    "ramp": "1 s",
    "latency": "0 ns",
    "tiers": {"web": {"workers": 1, "backlog": 1}, "db": {}},
    "interactions": {
        "page": {"at": {"web": {"compute": "100 ms", "scv": 0.0}, "db": {"compute": "10 ms", "scv": 0.0}}}
    },
}
ROWS = """time,interaction,client,think,factor.web
0,page,1,,1
0.01,page,2,,2
0.5,page,1,0.3,0.5
"""


def recorded(folder: Path, rows: str | pl.DataFrame, **parts: Any) -> experiment.Experiment:
    if isinstance(rows, str):
        file = folder / "requests.csv"
        file.write_text(rows)
    else:
        file = folder / "requests.parquet"
        rows.write_parquet(file)
    load = {"entry": "web", "kind": "trace", "file": str(file)}
    return experiment.from_table({**ONE, "workloads": {"clients": load}, **parts})


def responses(found: experiment.Experiment, folder: Path) -> list[tuple[int, int]]:
    """Send time after the ramp and response time, in ms, by send time."""
    sim.simulate(found, folder / "run", overwrite=True)
    rows = Dataset.open(folder / "run").requests().select("sent", "end").sort("sent").collect()
    return [((sent - sim.EPOCH) // 10**6 - 1000, (end - sent) // 10**6) for sent, end in rows.iter_rows()]


def test_a_recorded_client_waits_for_its_answer_and_thinks(tmp_path: Path) -> None:
    # the first takes 100 ms; its client sends the next 300 ms later, with half the work
    assert responses(recorded(tmp_path, ROWS), tmp_path) == [(0, 100), (10, 290), (400, 50)]


def test_parquet_says_the_same_as_csv(tmp_path: Path) -> None:
    frame = pl.read_csv(ROWS.encode(), schema_overrides={"time": pl.Float64, "factor.web": pl.Float64})
    assert traces.read(recorded(tmp_path, frame).workloads["clients"].file) == traces.read(  # type: ignore[union-attr]
        recorded(tmp_path, ROWS).workloads["clients"].file  # type: ignore[union-attr]
    )


def test_a_think_time_without_a_request_before_it_is_sent_at_its_time(tmp_path: Path) -> None:
    found = recorded(tmp_path, "time,interaction,client,think\n0.2,page,1,5\n")
    assert responses(found, tmp_path) == [(200, 100)]


def test_capacity_that_was_lost_slows_and_stops_a_server(tmp_path: Path) -> None:
    half, stop = tmp_path / "half.csv", tmp_path / "stop.csv"
    half.write_text("time,lost\n0.05,0.5\n0.3,0\n")
    stop.write_text("time,lost\n0.1,0.5\n0.2,0\n")
    lost = [{"place": "web", "cause": "disk", "file": str(half)}, {"place": "web", "file": str(stop)}]
    found = recorded(tmp_path, "time,interaction\n0,page\n", losses=lost)
    # 50 ms at full speed, 50 ms at half of it, 100 ms stopped, 50 ms at half of it
    assert responses(found, tmp_path) == [(0, 250)]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("time,lost\n1,0.5\n1,0\n", "row 1: the times are not in order"),
        ("time,lost\n1,2\n", "row 0: '2' is not between 0 and 1"),
        ("time,share\n1,0.5\n", "the first line must be: time,lost"),
    ],
)
def test_a_damaged_file_of_losses_is_refused(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "lost.csv"
    file.write_text(text)
    with pytest.raises(InputError, match=says):
        losses.read(str(file))


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ("time,interaction,factor.web\n0,page,-1\n", "row 0: factor.web must be a number from 0 on"),
        ("time,client\n0,x\n", "row 0: client must be a number from 0 on"),
        (pl.DataFrame({"time": ["0"]}), "no column time of float64"),
        (pl.DataFrame({"time": [0.0], "factor.web": ["a"]}), "column factor.web: not numbers"),
    ],
)
def test_a_damaged_file_of_requests_is_refused(tmp_path: Path, rows: str | pl.DataFrame, says: str) -> None:
    with pytest.raises(InputError, match=says):
        sim.lower(recorded(tmp_path, rows))


def test_factors_of_a_tier_without_work_are_left_out(tmp_path: Path) -> None:
    found = recorded(tmp_path, "time,interaction,factor.cache\n0,page,7\n")
    assert responses(found, tmp_path) == [(0, 100)]


def test_losses_of_an_unknown_server_are_refused(tmp_path: Path) -> None:
    with pytest.raises((InputError, UsageError), match=r"losses\[0\].place"):
        recorded(tmp_path, ROWS, losses=[{"place": "wep", "file": "x.csv"}])
