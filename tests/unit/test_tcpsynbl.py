"""Histograms of tcpsynbl with times, and without."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tailrace import readers
from tailrace.errors import InputError

FILES = Path(__file__).parents[1] / "golden" / "readers" / "tcpsynbl"


def test_the_fullest_queue_of_a_second_counts() -> None:
    run = readers.read(f"app={FILES / 'libbpf.txt'}", began=["app=2026-11-20T16:49:00Z"])
    text = pl.col("metric").cast(pl.String)
    rows = run.samples().select(text, "value").collect().rows()
    assert [value for metric, value in rows if metric == "accept_queue_reached"] == [2, 128]
    assert [value for metric, value in rows if metric == "accept_queue_arrivals"] == [962, 127, 0]
    assert not any("2000-01-01" in note for note in run.manifest.notes)


def test_a_histogram_without_times_is_refused_with_what_has_them(tmp_path: Path) -> None:
    text = (FILES / "libbpf.txt").read_text()
    path = tmp_path / "tcpsynbl.txt"
    path.write_text("\n".join(line for line in text.split("\n") if not line.startswith("16:")))
    with pytest.raises(InputError, match="tcpsynbl -T 1"):
        readers.read(path)


def test_damaged_lines_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "tcpsynbl.txt"
    path.write_text((FILES / "libbpf.txt").read_text().replace(" : 961 ", " : x61 "))
    run = readers.read(path)
    assert run.lost() == {"tcpsynbl.txt: damaged lines": 1}
