"""Tables of a stranger: rows that break a promise are left out and counted, and what is beyond a bound is refused."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from builders import T0, events, requests, run, samples, visits
from tailrace import dataset
from tailrace.bounds import PLACES
from tailrace.dataset import Dataset, tables
from tailrace.diagnosis import diagnose
from tailrace.errors import InputError, UsageError
from tailrace.export import write_pcap
from tailrace.report import write_html
from tailrace.report.info import describe
from tailrace.timeline import windows

LEAST, MOST = -(2**63), 2**63 - 1
YEARS = 10 * 366 * 24 * 3600 * 10**9
GOOD = [{"sent": T0 + i, "arrival": T0 + i, "departure": T0 + i + 1000} for i in range(9)]


def _run(folder: Path, **tables: pl.DataFrame) -> Dataset:
    """A run folder with these tables as they are."""
    rows = {name: frame.height for name, frame in tables.items()}
    made = run(folder, **{name: frame.clear() for name, frame in tables.items()})
    for name, frame in tables.items():
        frame.write_parquet(made.path / f"{name}.parquet")
    manifest = made.path / "manifest.json"
    text = manifest.read_text()
    for name, count in rows.items():
        text = text.replace(f'"{name}": 0', f'"{name}": {count}')
    manifest.write_text(text)
    return Dataset.open(folder)


@pytest.mark.parametrize(
    "bad",
    [
        {"departure": None},
        {"server": None},
        {"arrival": T0 + 9, "departure": T0 + 8},
        {"departure": MOST},
        {"sent": LEAST},
        {"sent": T0 - YEARS, "arrival": T0 - YEARS, "departure": T0 - YEARS},
        {"start": MOST},
        {"downstream_ns": -1},
        {"downstream_ns": YEARS},
    ],
)
def test_a_damaged_row_costs_that_row(tmp_path: Path, bad: dict[str, Any]) -> None:
    opened = _run(tmp_path / "run", visits=visits(*GOOD, bad))
    assert opened.visits().select("departure").collect()["departure"].to_list() == [row["departure"] for row in GOOD]
    [(what, count)] = opened.lost().items()
    assert what.startswith("visits.parquet: rows without a value that must be there")
    assert count == 1
    assert windows(opened)["arrivals"].sum() == 9
    assert write_pcap(opened, tmp_path / "run.pcap").visits == 9
    assert opened.has("visits")
    assert describe(opened)["lost"] == opened.lost()


def test_values_of_samples_are_finite_and_intervals_short(tmp_path: Path) -> None:
    wrong: list[dict[str, Any]] = [{"value": v} for v in (float("inf"), float("nan"), 1e300)]
    wrong += [{"interval_ns": interval} for interval in (-1, MOST, YEARS)]
    opened = _run(tmp_path / "run", samples=samples({}, *wrong, {}))
    assert opened.samples().collect().height == 2
    assert list(opened.lost().values()) == [6]


def test_the_order_and_the_types_of_another_tool_are_put_right(tmp_path: Path) -> None:
    frame = visits(*reversed(GOOD)).with_columns(pl.col("sent").cast(pl.UInt64), pl.col("drops").cast(pl.Int64))
    opened = _run(tmp_path / "run", visits=frame)
    found = opened.visits().collect()
    assert found["departure"].is_sorted()
    assert found["drops"].dtype == pl.UInt8
    assert opened.lost() == {}
    assert windows(opened)["arrivals"].sum() == 9


def test_a_table_without_a_good_row_is_empty(tmp_path: Path) -> None:
    opened = _run(tmp_path / "run", visits=visits({"departure": None}), requests=requests({"end": MOST}))
    assert not opened.has("visits")
    found = diagnose(opened)
    write_html(opened, found, tmp_path / "report.html")
    assert found.vlrt == 0
    with pytest.raises(InputError, match="no visits"):
        write_pcap(opened, tmp_path / "run.pcap")


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"visits": visits({"interaction": "x" * 1_000_000})}, "column interaction: a text of 1000000 bytes"),
        ({"events": events({"detail": "x" * 100_000})}, "column detail: a text of 100000 bytes"),
        ({"samples": samples({}).join(pl.DataFrame({"n": range(PLACES + 1)}), how="cross")}, "column place: more than"),
    ],
)
def test_names_are_bounded(tmp_path: Path, table: dict[str, pl.DataFrame], said: str) -> None:
    [(name, frame)] = table.items()
    if "n" in frame.columns:
        frame = frame.with_columns(place=pl.col("n").cast(pl.String)).drop("n")
    opened = _run(tmp_path / "run", **{name: frame})
    with pytest.raises(InputError, match=said):
        diagnose(opened)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("notes", ["n"] * 10_001, "notes: it must be of at most 10,000 entries"),
        ("lost", {f"k{i}": 1 for i in range(10_001)}, "lost: it must be of at most 10,000 entries"),
        ("lost", {"k" * 10_001: 1}, "every text: it must be of at most 10,000 characters"),
        (
            "connections",
            {"servers": {f"s{i}": {} for i in range(20_001)}},
            "connections.servers: it must be of",
        ),
    ],
)
def test_a_manifest_is_bounded(tmp_path: Path, key: str, value: Any, said: str) -> None:
    made = run(tmp_path / "run", samples=samples({}))
    manifest = made.path / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), key: value}))
    with pytest.raises(InputError, match=said):
        Dataset.open(made.path)


def test_messages_without_end_are_not_written_out(tmp_path: Path) -> None:
    opened = _run(tmp_path / "run", visits=visits({"bytes_in": 2**63}))
    with pytest.raises(UsageError, match="a capture of at most"):
        write_pcap(opened, tmp_path / "run.pcap")


def test_very_regular_rows_are_no_bomb(tmp_path: Path) -> None:
    """They take almost no byte each, and are decoded a row group at a time."""
    made = run(tmp_path / "run", samples=samples({}))
    row = made.samples().collect()
    count = 8_000_000
    columns = {name: pl.repeat(row[name][0], count, dtype=kind, eager=True) for name, kind in row.schema.items()}
    with dataset.create(tmp_path / "regular") as writer:
        writer.write_table("samples", pl.DataFrame(columns))
    file = tmp_path / "regular" / "samples.parquet"
    assert tables.shape(file).bytes > 256 * max(file.stat().st_size, 1 << 20)
    assert Dataset.open(tmp_path / "regular").samples().select(pl.len()).collect().item() == count


def _rows(file: Path) -> None:
    """A billion equal numbers."""
    batch = pa.table({"time": pa.repeat(T0, 1_000_000)})
    with pq.ParquetWriter(file, batch.schema, compression="zstd") as writer:
        for _ in range(60):
            writer.write_table(batch)


def _page(file: Path) -> None:
    """One page of 80 MB of zeros."""
    options = {"use_dictionary": False, "data_page_size": 1 << 30, "write_batch_size": 10_000_000}
    pq.write_table(pa.table({"time": pa.repeat(0, 10_000_000)}), file, compression="zstd", **options)


def _prefix(file: Path) -> None:
    """Long texts that say of each other how they begin."""
    table = pa.table({"detail": pa.repeat("x" * 10_000, 10_000)})
    pq.write_table(table, file, use_dictionary=False, column_encoding={"detail": "DELTA_BYTE_ARRAY"})


def _list(file: Path) -> None:
    """A list in the end of the file that claims two thousand million entries."""
    content = file.read_bytes()
    end = int.from_bytes(content[-8:-4], "little")
    footer = bytearray(content[-8 - end : -8])
    footer[2:4] = b"\x19\xfc"  # the schema: a list of more than 14 structures …
    footer[4:4] = b"\xff\xff\xff\xff\x07"
    file.write_bytes(content[: -8 - end] + footer + len(footer).to_bytes(4, "little") + b"PAR1")


@pytest.mark.parametrize("bomb", [_rows, _page, _prefix, _list])
def test_a_bomb_is_refused_before_it_goes_off(tmp_path: Path, bomb: Any) -> None:
    opened = _run(tmp_path / "run", samples=samples({}))
    manifest = opened.path / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"samples": 1', '"events": 0'))
    bomb(opened.path / "samples.parquet")
    done = subprocess.run(
        [sys.executable, "-m", "tailrace", "info", str(opened.path)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30)),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2, done.stderr
    assert "samples.parquet" in done.stderr
    assert len(done.stderr.splitlines()) == 1
