"""The unit of the durations of flat tables: the smallest that their begin shows, if no name says it."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Literal

import polars as pl
import pytest

from tailrace import readers
from tailrace.errors import InputError
from tailrace.units import MILLISECOND

COLUMNS = ("TraceId", "SpanId", "ParentSpanId", "SpanKind", "ServiceName", "SpanName", "Timestamp", "Duration")


def took(path: Path) -> list[int]:
    """Milliseconds of each request."""
    return [
        (end - sent) // MILLISECOND
        for sent, end in readers.read(path).requests().select("sent", "end").collect().iter_rows()
    ]


def table(folder: Path, begin: str | list[str], duration: int) -> Path:
    begins = [begin] if isinstance(begin, str) else begin
    rows = [
        (f"0{n}", "0a", "", "SPAN_KIND_SERVER", "web", "GET /", at, str(duration)) for n, at in enumerate(begins, 1)
    ]
    path = folder / "spans.csv"
    path.write_text("\n".join(map(",".join, [COLUMNS, *rows])) + "\n")
    return path


@pytest.mark.parametrize(
    ("begin", "duration"),
    [
        ("2026-11-20 16:49:00.123456789", 20_000_000),
        ("2026-11-20T16:49:00.123456Z", 20_000),
        ("2026-11-20 16:49:00.123", 20),
        ("1795193340123456789", 20_000_000),
    ],
)
def test_the_begin_shows_the_unit(tmp_path: Path, begin: str, duration: int) -> None:
    assert took(table(tmp_path, begin, duration)) == [20]


@pytest.mark.parametrize(
    ("ends", "duration"),
    [((".123456", ".12345", ""), 20_000), ((".123", ".123456789", ".123456"), 20_000_000)],
    ids=["Python", "Go"],
)
def test_programs_leave_out_zeros_at_the_end_of_a_begin(tmp_path: Path, ends: tuple[str, ...], duration: int) -> None:
    begins = [f"2026-11-20T16:49:0{n}{end}" for n, end in enumerate(ends)]
    assert took(table(tmp_path, begins, duration)) == [20, 20, 20]


def test_a_later_begin_that_contradicts_the_first_ones_is_refused(tmp_path: Path) -> None:
    begins = [*["2026-11-20T16:49:00.123"] * 100, "2026-11-20T16:49:00.123456"]
    with pytest.raises(InputError, match="nothing shows the unit"):
        readers.read(table(tmp_path, begins, 20))


def test_without_a_unit_nothing_is_guessed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing shows the unit of the durations in its column Duration"):
        readers.read(table(tmp_path, "2026-11-20 16:49:00", 20))


@pytest.mark.parametrize(("unit", "duration"), [("ms", 20), ("us", 20_000), ("ns", 20_000_000)])
def test_dates_of_parquet_have_a_unit(tmp_path: Path, unit: Literal["ms", "us", "ns"], duration: int) -> None:
    row = ("01", "0a", "", "SPAN_KIND_SERVER", "web", "GET /", datetime(2026, 11, 20, 16, 49), duration)
    frame = pl.DataFrame([row], COLUMNS, orient="row").with_columns(pl.col("Timestamp").dt.cast_time_unit(unit))
    frame.write_parquet(tmp_path / "spans.parquet")
    assert took(tmp_path / "spans.parquet") == [20]
