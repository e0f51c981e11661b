"""Flat tables of spans whose columns the user names (`--columns`)."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tailrace import readers
from tailrace.dataset import Dataset
from tailrace.errors import InputError, UsageError
from tailrace.units import MILLISECOND, parse_moment

T = parse_moment("2026-11-20T16:49:00Z")
MAPPING = """
[columns]
trace = "tid"
span = "sid"
parent = "caller"
service = "component"
begin = "t0"
duration = "took"
kind = "direction"
name = "op"

[units]
begin = "us"
duration = "ms"

[kinds]
inbound = "server"
outbound = "client"
"""
ROWS = [
    ("a", "1", "", "web", 0, 30, "inbound", "GET /stories"),
    ("a", "2", "1", "web", 1000, 28, "outbound", "call"),
    ("a", "3", "2", "app", 2000, 26, "inbound", "GET /stories"),
    ("a", "4", "3", "app", 3000, 5, "other", "render"),
]
NAMES = ("tid", "sid", "caller", "component", "t0", "took", "direction", "op")


def table() -> pl.DataFrame:
    frame = pl.DataFrame(ROWS, schema=list(NAMES), orient="row")
    return frame.with_columns(t0=pl.col("t0") + T // 1000)


def shown(run: Dataset) -> list[tuple[str, int, int]]:
    visits = run.visits().with_columns(pl.col("server").cast(pl.String)).collect().sort("arrival")
    return [
        (server, (arrival - T) // MILLISECOND, (departure - T) // MILLISECOND)
        for server, arrival, departure in visits.select("server", "arrival", "departure").rows()
    ]


@pytest.fixture
def mapping(tmp_path: Path) -> Path:
    (tmp_path / "columns.toml").write_text(MAPPING)
    return tmp_path / "columns.toml"


def test_the_columns_that_the_mapping_names_are_read(tmp_path: Path, mapping: Path) -> None:
    table().write_csv(tmp_path / "spans.csv")
    table().write_parquet(tmp_path / "spans.parquet")
    for name in ("spans.csv", "spans.parquet"):
        run = readers.read(tmp_path / name, columns=mapping)
        assert shown(run) == [("web", 0, 30), ("app", 2, 28)]
        sent = run.visits().collect().sort("arrival").get_column("sent").to_list()
        assert [(moment - T) // MILLISECOND for moment in sent] == [0, 1]
        assert run.requests().collect().height == 1


def test_a_mapping_that_fits_no_table_is_wrong_use(tmp_path: Path, mapping: Path) -> None:
    table().rename({"took": "lasted"}).write_csv(tmp_path / "spans.csv")
    (tmp_path / "else.csv").write_text("time,place,metric,value\n1795193341,app,cpu_busy,0.5\n")
    with pytest.raises(UsageError, match="no table has all of the columns caller, component"):
        readers.read(tmp_path / "else.csv", columns=mapping)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ('trace = "tid"', "columns.trace"),
        ('duration = "took"', "end or duration"),
        ('begin = "us"', "units.begin"),
        ('inbound = "server"', "kinds.inbound"),
    ],
)
def test_a_wrong_mapping_is_refused_with_its_key(tmp_path: Path, mapping: Path, changed: str, said: str) -> None:
    wrong = {'begin = "us"': 'begin = "hours"', 'inbound = "server"': 'inbound = "door"'}.get(changed, "")
    mapping.write_text(MAPPING.replace(changed, wrong, 1))
    table().write_csv(tmp_path / "spans.csv")
    with pytest.raises(InputError, match=said):
        readers.read(tmp_path / "spans.csv", columns=mapping)


def test_a_damaged_table_gives_what_it_holds(tmp_path: Path, mapping: Path) -> None:
    table().write_csv(tmp_path / "spans.csv")
    with (tmp_path / "spans.csv").open("a") as file:
        file.write("b,1,,web,not a time,3,inbound,GET /\nb,2,,web\n")
    run = readers.read(tmp_path / "spans.csv", columns=mapping)
    assert len(shown(run)) == 2
    assert sum(run.manifest.lost.values()) == 2
