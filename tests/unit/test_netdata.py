"""Charts of Netdata, by hand from the answers that its documentation shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tailrace import readers
from tailrace.errors import InputError
from tailrace.units import SECOND

T = 1_795_193_340
MIB = 1 << 20


def written(folder: Path, name: str, labels: list[str], data: list[Any], chart: str | None = None) -> str:
    """A file as Netdata answers, newest first; inside `jsonwrap` if `chart` is given."""
    body = {"labels": ["time", *labels], "data": data[::-1]}
    whole = {"api": 1, "id": chart, "name": chart, "view_update_every": 1, "result": body} if chart else body
    (folder / name).write_text(json.dumps(whole))
    return str(folder / name)


def values(*paths: str) -> dict[tuple[str, str], list[tuple[int, int, float]]]:
    """Seconds after T, the interval in seconds, and the value, of each place and metric."""
    run = readers.read(*paths)
    run.validate()
    found: dict[tuple[str, str], list[tuple[int, int, float]]] = {}
    text = pl.col("place", "metric").cast(pl.String)
    for time, interval, place, metric, value in (
        run.samples().select("time", "interval_ns", text, "value").sort("time").collect().iter_rows()
    ):
        found.setdefault((place, metric), []).append((time // SECOND - T, interval // SECOND, value))
    return found


@pytest.mark.parametrize(
    ("chart", "labels", "cells", "want"),
    [
        ("system.ctxt", ["switches"], [4000], {"context_switches": 8000}),
        ("system.processes", ["running", "blocked"], [7, 2], {"run_queue": 7}),
        ("mem.pgfaults", ["minor", "major"], [900, 3], {"major_faults": 6}),
        ("mem.writeback", ["Dirty", "Writeback"], [2, 1], {"dirty_bytes": 2 * MIB, "writeback_bytes": MIB}),
        ("system.io_some_pressure_stall_time", ["time"], [250], {"psi_io": 0.25}),
        ("disk_util.sda", ["utilization"], [87.5], {"disk_busy": 0.875}),
        ("disk_busy.nvme0n1", ["busy"], [875], {"disk_busy": 0.875}),
        ("ip.tcp_accept_queue", ["overflows", "drops"], [5, 6], {"listen_drops": 12}),
        ("ipv4.tcphandshake", ["EstabResets", "SynRetrans"], [5, 6], {"syn_retransmits": 12}),
    ],
)
def test_a_chart_of_a_host(
    tmp_path: Path, chart: str, labels: list[str], cells: list[float], want: dict[str, float]
) -> None:
    """Steps of 2 s: a rate per second counts twice."""
    rows = [[T + 2, *cells], [T + 4, *cells], [T + 6, *(None for _ in cells)]]
    found = values(f"app={written(tmp_path, 'any.json', labels, rows, chart)}")
    assert found == {("app", metric): [(2, 2, value), (4, 2, value)] for metric, value in want.items()}
    by_name = values(f"app={written(tmp_path, f'{chart}.json', labels, rows)}")
    assert by_name == found


def test_charts_of_a_control_group_have_its_name(tmp_path: Path) -> None:
    found = values(
        written(tmp_path, "1.json", ["throttled"], [[T, 40], [T + 1, 0]], "cgroup_shop-app.throttled"),
        written(tmp_path, "2.json", ["used"], [[T, 99], [T + 1, 10]], "cgroup_shop-app.cpu_limit"),
        written(tmp_path, "3.json", ["time"], [[T, 500], [T + 1, 0]], "cgroup_shop-app.cpu_some_pressure_stall_time"),
    )
    place = "shop-app"
    assert found[place, "cpu_throttled"] == [(0, 1, 0.4), (1, 1, 0.0)]
    assert found[place, "cpu_busy"] == [(0, 1, 0.99), (1, 1, 0.1)]
    assert found[place, "psi_cpu"] == [(0, 1, 0.5), (1, 1, 0.0)]


def test_the_busiest_disk_counts_and_steps_may_differ(tmp_path: Path) -> None:
    found = values(
        written(tmp_path, "disk_util.sda.json", ["utilization"], [[T, 10], [T + 1, 90]]),
        written(tmp_path, "disk_util.sdb.json", ["utilization"], [[T, 30], [T + 1, 20]]),
        written(tmp_path, "system.ctxt.json", ["switches"], [[T, 1], [T + 5, 1]]),
    )
    assert found["netdata", "disk_busy"] == [(0, 1, 0.3), (1, 1, 0.9)]
    assert found["netdata", "context_switches"] == [(0, 5, 5.0), (5, 5, 5.0)]


def test_rows_may_be_objects(tmp_path: Path) -> None:
    rows = [{"time": T, "switches": 5}, {"time": T + 1, "switches": None}]
    assert values(written(tmp_path, "a.json", ["switches"], rows, "system.ctxt")) == {
        ("netdata", "context_switches"): [(0, 1, 5.0)]
    }


def test_a_percentage_that_no_cpu_has_is_no_busy_cpu(tmp_path: Path) -> None:
    labels = ["user", "system", "iowait"]
    rows = [[T, 20, 10, 0], [T + 1, 1e12, 0, 0], [T + 2, 20, 10, 400], [T + 3, -50, 0, 0]]
    path = written(tmp_path, "system.cpu.json", labels, rows)
    found = values(path)
    assert found["netdata", "cpu_busy"] == [(0, 1, 0.3), (2, 1, 0.3)]
    assert [second for second, *_ in found["netdata", "cpu_iowait"]] == [0, 1, 3]
    assert readers.read(path).lost() == {"system.cpu.json: samples without a usable time, name or value": 3}


def test_a_chart_that_nothing_names_is_refused_with_the_way_to_name_it(tmp_path: Path) -> None:
    path = written(tmp_path, "x.json", ["received", "sent"], [[T, 1, 2]])
    with pytest.raises(InputError, match="not of a chart that Tailrace reads") as error:
        readers.read(path)
    assert "jsonwrap" in str(error.value)
    known = written(tmp_path, "system.ctxt.json", ["switches"], [[T, 1], [T + 1, 1]])
    assert any("x.json" in note for note in readers.read(path, known).manifest.notes)
