"""InfluxDB's annotated CSV, whole, cut, and with things in it that do not belong there."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tailrace import readers
from tailrace.errors import InputError
from tailrace.units import SECOND, parse_moment

FILE = Path(__file__).parents[1] / "golden" / "readers" / "influx" / "annotated.csv"
T = parse_moment("2026-11-20T16:49:00Z")
HEADER = "#datatype,string,long,dateTime:RFC3339,double,string,string,string\n"
HEADER += ",result,table,_time,_value,_field,_measurement,host\n"


def values(path: Path, metric: str) -> list[tuple[int, float]]:
    samples = readers.read(path).samples().with_columns(pl.col("metric").cast(pl.String)).collect()
    return samples.filter(pl.col("metric") == metric).sort("time").select("time", "value").rows()


def test_the_fields_of_a_cpu_come_together_from_several_tables() -> None:
    assert values(FILE, "cpu_busy") == [(T + SECOND, 0.2), (T + 2 * SECOND, 0.5)]
    assert values(FILE, "cpu_iowait") == [(T + SECOND, 0.04), (T + 2 * SECOND, 0.0)]


def test_a_moment_without_iowait_gives_no_share_of_a_cpu() -> None:
    """At the third second only the idle share is known: the rest may be work, or waiting for a disk."""
    lost = readers.read(FILE).lost()
    assert lost["annotated.csv: moments of a CPU without all of usage_idle, usage_iowait, usage_steal"] == 1
    assert lost["annotated.csv: damaged lines"] == 1


@pytest.mark.parametrize("size", range(60, FILE.stat().st_size, 211))
def test_a_file_that_is_cut_has_no_other_values(tmp_path: Path, size: int) -> None:
    (tmp_path / "annotated.csv").write_bytes(FILE.read_bytes()[:size])
    whole = set(
        readers.read(FILE).samples().select(pl.col("time", "value"), pl.col("metric").cast(pl.String)).collect().rows()
    )
    try:
        cut = readers.read(tmp_path / "annotated.csv").samples()
    except InputError:
        return
    assert set(cut.select(pl.col("time", "value"), pl.col("metric").cast(pl.String)).collect().rows()) <= whole


def test_times_without_order_and_numbers_without_end(tmp_path: Path) -> None:
    rows = [("16:49:02", "9" * 400), ("16:49:03", "7"), ("16:49:01", "5"), ("16:49:04", "NaN"), ("25:61:00", "1")]
    text = "".join(f",,0,2026-11-20T{time}Z,{value},running,processes,app1\n" for time, value in rows)
    (tmp_path / "x.csv").write_text(HEADER + text)
    assert values(tmp_path / "x.csv", "run_queue") == [(T + SECOND, 5.0), (T + 3 * SECOND, 7.0)]
    assert readers.read(tmp_path / "x.csv").lost() == {
        "x.csv: rows without a number, a measurement or a time": 1,
        "x.csv: samples without a usable time, name or value": 2,
    }


def test_text_is_no_number_and_another_query_gives_a_clear_error(tmp_path: Path) -> None:
    text = HEADER.replace("double", "string") + ",,0,2026-11-20T16:49:01Z,5,running,processes,app1\n"
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(InputError, match="it has no metric that Tailrace knows"):
        readers.read(tmp_path / "x.csv")
    (tmp_path / "x.csv").write_text(
        "#datatype,string,string\n#group,true,true\n#default,,\n,error,reference\n,no bucket,897\n"
    )
    with pytest.raises(InputError, match="no bucket"):
        readers.read(tmp_path / "x.csv")


def test_a_number_that_no_counter_has_is_no_busy_disk_and_no_idle_cpu(tmp_path: Path) -> None:
    rows = "".join(
        f"diskio,host=app1,name=vda io_time={time} {T + n * SECOND}\ncpu,host=app1 usage_idle={idle} {T + n * SECOND}\n"
        for n, (time, idle) in enumerate([("1000", "90"), ("9" * 400, "9" * 30), ("1500", "80")])
    )
    (tmp_path / "x.lp").write_text(rows)
    assert values(tmp_path / "x.lp", "disk_busy") == [(T + 2 * SECOND, 0.25)]
    assert values(tmp_path / "x.lp", "cpu_busy") == [(T, 0.1), (T + 2 * SECOND, 0.2)]
    assert readers.read(tmp_path / "x.lp").lost() == {"x.lp: samples without a usable time, name or value": 2}


@pytest.mark.parametrize("grouped", [False, True])
def test_csv_of_the_first_version(tmp_path: Path, grouped: bool) -> None:
    """`influx -format csv` repeats the columns for each measurement, and with a group has its tags in one column."""
    tags = ('"cpu=cpu-total,host=app1",', "") if grouped else ("", ",cpu-total,app1")
    head = "name,tags,time" if grouped else "name,time,cpu,host"
    lines = [f"{head},usage_idle,usage_iowait,usage_steal"]
    lines += [f"cpu,{tags[0]}{1_795_193_341 + i}000000000{tags[1]},75,5,0" for i in range(3)]
    lines += ["", "name,time,host,context_switches"]
    lines += [f"kernel,{1_795_193_341 + i}000000000,app1,{4000 * i}" for i in range(3)]
    path = tmp_path / "influx.csv"
    path.write_text("\n".join(lines) + "\n")
    run = readers.read(path)
    assert not run.lost()
    found = run.samples().with_columns(pl.col("place", "metric").cast(pl.String)).collect()
    values = {key: part["value"].to_list() for key, part in found.group_by("place", "metric")}
    assert values["app1", "cpu_busy"] == pytest.approx([0.2] * 3)
    assert values["app1", "context_switches"] == [4000.0, 4000.0]
