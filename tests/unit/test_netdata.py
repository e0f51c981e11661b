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


def second(folder: Path, chart: str, labels: list[str], cells: list[float | None], instances: int = 1) -> str:
    """A file as `/api/v2/data` answers: cells with a rate of anomalies and signs, oldest first."""
    summary = {
        "nodes": [{"mg": "b5", "nd": "7f", "nm": "app1", "ni": 0}],
        "contexts": [{"id": chart, "is": {"sl": instances, "qr": instances}}],
        "labels": [{"id": "_collect_module", "vl": [{"id": "/proc/stat"}]}],
    }
    result = {
        "labels": ["time", *labels],
        "point": {"value": 0, "arp": 1, "pa": 2},
        "data": [[T + 2 * i, *([cell, 0, 0] for cell in cells)] for i in range(1, 4)],
    }
    totals = {"nodes": {"sl": 1, "qr": 1}, "instances": {"sl": instances, "qr": instances}}
    request = {"format": "json2", "selectors": {"contexts": ["*"], "instances": []}}
    whole = {"api": 2, "id": "x", "request": request, "summary": summary, "totals": totals, "result": result}
    path = folder / f"{chart}.v2.json"
    path.write_text(json.dumps({**whole, "db": {"tiers": 3}, "view": {"units": "percentage", "labels": []}}, indent=1))
    return str(path)


def test_answers_of_the_second_form(tmp_path: Path) -> None:
    cpu = second(tmp_path, "system.cpu", ["user", "system", "iowait"], [30, 12, 4])
    assert values(f"app={cpu}") == {
        ("app", "cpu_busy"): [(2, 2, 0.42), (4, 2, 0.42), (6, 2, 0.42)],
        ("app", "cpu_iowait"): [(2, 2, 0.04), (4, 2, 0.04), (6, 2, 0.04)],
    }
    both = values(f"app={cpu}", f"app={second(tmp_path, 'system.ctxt', ['switches'], [4000])}")
    assert both["app", "context_switches"] == [(2, 2, 8000), (4, 2, 8000), (6, 2, 8000)]


def test_values_of_several_disks_together_are_left_out(tmp_path: Path) -> None:
    disks = second(tmp_path, "disk.util", ["utilization"], [40], instances=3)
    with pytest.raises(InputError, match="several nodes, disks or control groups together"):
        readers.read(f"app={disks}")
    run = readers.read(f"app={disks}", f"app={second(tmp_path, 'system.ctxt', ['switches'], [4000])}")
    assert any("instances=disk_util.sda" in note for note in run.manifest.notes)


EXPORTED = """\
netdata_info{{instance="app1",application="netdata",version="v1.44.3"}} 1 {0}
# COMMENT homogeneous chart "system.cpu", context "system.cpu", family "cpu", units "percentage"
netdata_system_cpu_percentage_average{{chart="system.cpu",dimension="user",family="cpu",instance="app1"}} 30.5 {0}
netdata_system_cpu_percentage_average{{chart="system.cpu",dimension="system",family="cpu",instance="app1"}} 11.5 {0}
netdata_system_ctxt_context_switches_persec_average{{chart="system.ctxt",dimension="switches",instance="app1"}} 4000 {0}
netdata_disk_util_of_time_working_average{{chart="disk_util.sda",dimension="utilization",instance="app1"}} 40 {0}
netdata_disk_util_of_time_working_average{{chart="disk_util.sdb",dimension="utilization",instance="app1"}} 90 {0}
netdata_system_load_load_average{{chart="system.load",dimension="load1",instance="app1"}} 3.1 {0}
"""


def test_what_netdata_exports_to_prometheus(tmp_path: Path) -> None:
    scrapes = tmp_path / "netdata.prom"
    scrapes.write_text("".join(EXPORTED.format((T + 2 * i) * 1000) for i in range(1, 4)))
    want = {
        ("app1", "cpu_busy"): [(2, 2, 0.42), (4, 2, 0.42), (6, 2, 0.42)],
        ("app1", "context_switches"): [(2, 2, 8000), (4, 2, 8000), (6, 2, 8000)],
        ("app1", "disk_busy"): [(2, 2, 0.9), (4, 2, 0.9), (6, 2, 0.9)],
    }
    assert values(str(scrapes)) == want
    series: dict[str, Any] = {}
    for line in scrapes.read_text().splitlines():
        if not line.startswith("#"):
            head, value, stamp = line.rsplit(" ", 2)
            series.setdefault(head, []).append([int(stamp) / 1000, value])
    result = []
    for head, points in series.items():
        name, _, labels = head.partition("{")
        pairs = dict(part.split("=") for part in labels.strip("}").split(","))
        plain = {key: text.strip('"') for key, text in pairs.items()}
        result.append({"metric": {"__name__": name, **plain}, "values": points})
    stored = tmp_path / "stored.json"
    stored.write_text(json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}))
    found = values(str(stored))
    assert {key: found[key] for key in want} == want
