"""`tailrace windows`: the command says what the engine computes."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import tailrace
from doors import run_folder, told
from tailrace.cli import perform
from tailrace.units import SECOND


def test_files_hold_all_windows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, out = run_folder(), tmp_path / "windows.parquet"
    assert perform(["windows", str(run), "--window", "1s", "-o", str(out), "--quiet"]) == 0
    expected = tailrace.windows(run, SECOND).with_columns(pl.col("server").cast(pl.String))
    assert_frame_equal(pl.read_parquet(out), expected)
    assert perform(["windows", str(run), "--window", "1s", "-o", str(tmp_path / "w.csv"), "-q"]) == 0
    assert len((tmp_path / "w.csv").read_text().splitlines()) == expected.height + 1
    capsys.readouterr()
    assert perform(["windows", str(run), "--window", "1s", "--server", "10.77.0.3:80", "--json"]) in (0, 2)


def test_a_server_and_a_span_are_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    run = run_folder()
    every = tailrace.windows(run, SECOND)
    server, begin = str(every["server"][0]), int(every["window"].min()) + SECOND  # type: ignore[call-overload,operator]
    words = ["--server", server, "--begin", f"{begin}", "--end", f"{begin + 2 * SECOND}", "--window", "1s"]
    assert perform(["windows", str(run), *words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["rows"], [row["window"] for row in found["windows"]]) == (2, [begin, begin + SECOND])
    assert perform(["windows", str(run), *words]) == 0
    assert server in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ("--server", "elsewhere"),
        ("--begin", "yesterday"),
        ("--begin", "5", "--end", "4"),
        ("-o", "windows.xlsx"),
        ("--window", "1h"),
    ],
)
def test_wrong_words_are_refused(words: tuple[str, ...]) -> None:
    assert told("windows", run_folder(), *words) == 2
