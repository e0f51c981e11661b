"""Parquet between the engine and other libraries: each reads what the other writes."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tailrace._core import reduce, write_table

ROWS = 5_000
MS = 1_000_000


def visits() -> pl.DataFrame:
    """Some servers have no drops recorded, and interactions are many."""
    row = pl.int_range(ROWS, eager=True)
    return pl.DataFrame(
        {
            "server": ("s" + (row % 3).cast(pl.String)).cast(pl.Categorical()),
            "interaction": pl.select(pl.when(row % 5 > 0).then("GET /" + (row % 1700).cast(pl.String))).to_series(),
            "sent": row * MS,
            "arrival": row * MS + 7,
            "departure": row * MS + 7 + (row * 7919) % (40 * MS),
            "drops": pl.select(pl.when(row % 11 > 0).then((row % 3).cast(pl.UInt8))).to_series(),
        }
    )


def windows(file: Path) -> pl.DataFrame:
    return pl.DataFrame(reduce([str(file)], 50 * MS, by_interaction=True))


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> pl.DataFrame:
    file = tmp_path_factory.mktemp("ours") / "visits.parquet"
    assert write_table(visits(), str(file)) == ROWS
    found = windows(file)
    assert found["arrivals"].sum() == ROWS
    return found


FORMS: list[dict[str, Any]] = [
    {"data_page_version": version, "use_dictionary": dictionary, "compression": compression}
    for version, dictionary, compression in itertools.product(
        ["1.0", "2.0"], [True, ["server"], False], ["none", "zstd", "snappy"]
    )
]


@pytest.mark.parametrize("form", [*FORMS, {"compression": "lz4"}, {"version": "1.0", "row_group_size": 700}])
def test_files_of_pyarrow_are_read_in_each_of_its_forms(tmp_path: Path, expected: pl.DataFrame, form: Any) -> None:
    file = tmp_path / "visits.parquet"
    pq.write_table(visits().to_arrow(), file, data_page_size=4096, write_batch_size=256, **form)
    assert windows(file).equals(expected)


@pytest.mark.parametrize("encoding", ["DELTA_LENGTH_BYTE_ARRAY", "PLAIN"])
def test_text_without_a_dictionary_is_read(tmp_path: Path, expected: pl.DataFrame, encoding: str) -> None:
    file = tmp_path / "visits.parquet"
    plain = visits().with_columns(pl.col("server").cast(pl.String)).to_arrow()
    columns = {"server": encoding, "interaction": encoding, "arrival": "DELTA_BINARY_PACKED"}
    pq.write_table(plain, file, use_dictionary=False, column_encoding=columns)
    assert windows(file).equals(expected)


def test_a_dictionary_that_grew_too_large_is_read(tmp_path: Path, expected: pl.DataFrame) -> None:
    """The first pages count on it; the others have the text itself."""
    file = tmp_path / "visits.parquet"
    pq.write_table(visits().to_arrow(), file, dictionary_pagesize_limit=512, data_page_size=1024, write_batch_size=64)
    encodings = pq.ParquetFile(file).metadata.row_group(0).column(1).encodings
    assert {"PLAIN", "RLE_DICTIONARY"} <= set(encodings)
    assert windows(file).equals(expected)


def test_files_of_polars_and_duckdb_are_read(tmp_path: Path, expected: pl.DataFrame) -> None:
    frame = visits()
    frame.write_parquet(tmp_path / "polars.parquet", row_group_size=900)
    assert windows(tmp_path / "polars.parquet").equals(expected)
    duckdb.sql(f"copy (from frame) to '{tmp_path}/duckdb.parquet' (format parquet, row_group_size 2048)")
    assert windows(tmp_path / "duckdb.parquet").equals(expected)


def test_what_the_engine_writes_others_read_with_its_types(tmp_path: Path) -> None:
    values = [None, 0, 1, 100]
    kinds = [pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64, pl.Float32, pl.Float64]
    frame = pl.DataFrame(
        {
            **{str(kind): pl.Series(values * 3000, dtype=kind) for kind in kinds},
            "truth": [None, True, False, True] * 3000,
            "text": [None, "a", "", "é"] * 3000,
            "name": pl.Series([None, "a", "", "é"] * 3000, dtype=pl.Categorical()),
        }
    )
    file = tmp_path / "table.parquet"
    assert write_table(frame, str(file)) == frame.height
    found = pl.read_parquet(file)
    assert found.schema == frame.schema
    assert found.equals(frame)
    arrow = pq.read_table(file)
    assert arrow.schema.field("name").type == pa.dictionary(pa.int32(), pa.string())
    assert arrow.schema.field("UInt16").type == pa.uint16()
    assert arrow.to_pylist() == frame.to_dicts()
    assert duckdb.sql(f"from '{file}'").fetchall() == frame.rows()


@pytest.mark.parametrize(
    ("name", "column", "found"),
    [
        ("sent", pl.Series([None] * ROWS, dtype=pl.Datetime("ns")), "Timestamp"),
        ("arrival", pl.Series([0.0] * ROWS), "Float64"),
        ("server", pl.Series([0] * ROWS), "Int64"),
        ("drops", pl.Series([[1]] * ROWS), "a list"),
    ],
)
def test_a_column_of_another_type_is_named(tmp_path: Path, name: str, column: pl.Series, found: str) -> None:
    file = tmp_path / "visits.parquet"
    visits().with_columns(column.alias(name)).write_parquet(file)
    with pytest.raises(ValueError, match=f"column {name} must be .*, is .*") as error:
        windows(file)
    assert found.lower() in str(error.value).lower()
