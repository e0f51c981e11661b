"""Tables of visits in object storage, Delta and Iceberg give the windows of the same files here."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from stores import CUT, LOST, S3, SILENT, Google, store
from tailrace import engines
from tailrace.dataset.tables import write
from tailrace.engines import Plan, lake
from tailrace.errors import InputError
from tailrace.units import MILLISECOND, SECOND

pytest.importorskip("pyarrow")
T0 = 1_795_193_380 * SECOND
HOURS = 3


def visits(hour: int) -> pl.DataFrame:
    arrivals = [T0 + hour * 3_600 * SECOND + number * 7 * MILLISECOND for number in range(500)]
    rows = [
        (i, "web" if i % 3 else "app", None, at, at, at + (i % 40) * MILLISECOND, 0) for i, at in enumerate(arrivals)
    ]
    schema = {"visit": pl.UInt64, "server": pl.String, "interaction": pl.String, "sent": pl.Int64}
    more = {"arrival": pl.Int64, "departure": pl.Int64, "drops": pl.UInt8}
    return pl.DataFrame(rows, {**schema, **more}, orient="row")


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("day")
    for hour in range(HOURS):
        (folder / f"hour{hour}").mkdir()
        write(visits(hour), folder / f"hour{hour}" / "visits.parquet")
    (folder / "other.parquet").write_bytes(b"no visits")
    return folder


def alike(source: str, day: Path, **plan: Any) -> None:
    there = engines.windows(source, SECOND, **plan)
    here = engines.windows(day, SECOND, queue_max=False, percentiles=False, **plan)
    texts = pl.col("server").cast(pl.String)
    assert here.height > 3
    assert_frame_equal(there.with_columns(texts), here.with_columns(texts), check_exact=True)


def test_a_folder_by_its_address_gives_the_same_bits(day: Path) -> None:
    alike(day.as_uri(), day)


STORES = {"s3://": S3, "gs://anonymous@": Google}
"""How an address begins, and what answers it."""


@pytest.fixture(params=STORES)
def scheme(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    return str(request.param)


def test_objects_of_a_store_give_the_same_bits(scheme: str, day: Path) -> None:
    with store(STORES[scheme], day.parent) as options:
        alike(f"{scheme}{day.name}?{options}", day)
        alike(f"{scheme}{day.name}?{options}", day, begin=T0 + 3_600 * SECOND, end=T0 + 3_603 * SECOND)
        with pytest.raises(InputError):
            lake.tables(f"{scheme}{day.name}/nowhere?{options}")


@pytest.mark.parametrize(
    ("fault", "reason"),
    [(LOST, "it is missing|cannot be read"), (CUT, "cannot be read"), (SILENT, "did not answer")],
)
def test_an_object_that_does_not_come_is_an_error_with_its_name(
    fault: str, reason: str, scheme: str, day: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake, "GOOGLE_RETRIES_S", 1)
    if fault == SILENT:
        monkeypatch.setattr(lake, "PIECE_S", 2)
    faults = {f"{day.name}/hour1/visits.parquet": fault}
    with store(STORES[scheme], day.parent, faults) as options, pytest.raises(InputError, match=reason) as raised:
        engines.windows(f"{scheme}{day.name}?{options}", SECOND)
    assert "/hour1/visits.parquet" in str(raised.value)


def test_a_store_that_falls_silent_in_a_footer_is_an_error(
    scheme: str, day: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake, "PIECE_S", 2)
    faults = {f"{day.name}/hour{hour}/visits.parquet": SILENT for hour in range(HOURS)}
    with (
        store(STORES[scheme], day.parent, faults) as options,
        pytest.raises(InputError, match=r"did not answer|cannot be read"),
    ):
        lake.tables(f"{scheme}{day.name}?{options}", Plan(SECOND, begin=T0))


@pytest.mark.parametrize("kept", [0, 4, 0.5, 0.99])
def test_a_damaged_object_is_an_error_with_its_name(kept: float, scheme: str, day: Path, tmp_path: Path) -> None:
    shutil.copytree(day, tmp_path / "damaged")
    file = tmp_path / "damaged" / "hour1" / "visits.parquet"
    whole = file.read_bytes()
    file.write_bytes(whole[: int(kept if kept >= 1 else kept * len(whole))])
    with store(STORES[scheme], tmp_path) as options, pytest.raises(InputError) as raised:
        engines.windows(f"{scheme}damaged?{options}", SECOND)
    assert f"{scheme}damaged/hour1/visits.parquet" in str(raised.value)


def test_files_of_other_times_are_left_out(day: Path) -> None:
    plan = Plan(SECOND, begin=T0 + 3_600 * SECOND, end=T0 + 3_603 * SECOND)
    [only] = lake.tables(day.as_uri(), plan)
    assert "hour1" in only
    alike(day.as_uri(), day, begin=plan.begin, end=plan.end)


def test_a_delta_table_gives_the_same_bits_in_its_newest_version(day: Path, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    where = str(tmp_path / "delta")
    deltalake.write_deltalake(where, visits(9).to_arrow())
    for hour in range(HOURS):
        mode = "append" if hour else "overwrite"
        deltalake.write_deltalake(where, visits(hour).to_arrow(), mode=mode)
    alike(f"delta:{where}", day)


def test_an_iceberg_table_gives_the_same_bits(day: Path, tmp_path: Path) -> None:
    catalogs = pytest.importorskip("pyiceberg.catalog.sql")
    pytest.importorskip("sqlalchemy")
    where = tmp_path / "iceberg"
    where.mkdir()
    catalog = catalogs.SqlCatalog("own", uri=f"sqlite:///{where}/catalog.db", warehouse=where.as_uri())
    catalog.create_namespace("day")
    signed = pl.col(pl.UInt64, pl.UInt8).cast(pl.Int64)
    frames = [visits(hour).with_columns(signed).to_arrow() for hour in range(HOURS)]
    table = catalog.create_table("day.visits", schema=frames[0].schema)
    for frame in frames:
        table.append(frame)
    alike(f"iceberg:{table.metadata_location}", day)


@pytest.mark.parametrize("source", ["file:///nowhere/at/all", "delta:/nowhere", "iceberg:/nowhere/v1.metadata.json"])
def test_what_is_missing_is_an_error(source: str) -> None:
    for library in {"delta": ["deltalake"], "iceberg": ["pyiceberg"]}.get(source.partition(":")[0], []):
        pytest.importorskip(library)
    with pytest.raises(InputError):
        list(engines.partials(source, Plan(SECOND), "local"))
