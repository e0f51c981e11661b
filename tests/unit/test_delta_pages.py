"""Tables whose pages hold differences, as other libraries write them: whole ones are read, damaged ones refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from doors import of_run_in_deltas, run_folder, told

TABLES = ("visits.parquet", "requests.parquet", "samples.parquet")
PLACES = 7
"""Damages of each table, spread over its pages."""


def _with(folder: Path, name: str, data: bytes) -> Path:
    shutil.copytree(run_folder(), folder)
    (folder / name).write_bytes(data)
    return folder


@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_deltas_is_read(tmp_path: Path, name: str) -> None:
    run = _with(tmp_path / "run", name, of_run_in_deltas()[name])
    assert told("info", run) == 0
    assert told("diagnose", run, "--quiet") == 0


@pytest.mark.parametrize("damage", [b"\xff" * 10, b"\x80" * 9 + b"\x7f", bytes(40)])
@pytest.mark.parametrize("name", TABLES)
def test_a_damaged_page_of_deltas_ends_in_an_answer_or_a_sentence(tmp_path: Path, name: str, damage: bytes) -> None:
    """`told` fails for any other end."""
    whole = of_run_in_deltas()[name]
    for place in range(1, PLACES):
        at = len(whole) * place // PLACES
        run = _with(tmp_path / str(place), name, whole[:at] + damage + whole[at + len(damage) :])
        told("info", run, "--verify")
        told("diagnose", run, "--quiet")


@pytest.mark.parametrize("name", TABLES)
def test_a_header_of_deltas_that_promises_too_much_is_refused(tmp_path: Path, name: str) -> None:
    """The first page begins with the header of its first column: a size of a block that no memory holds."""
    whole = of_run_in_deltas()[name]
    block = whole.index(b"\x80\x01\x04")  # 128 values in a block of 4 small ones
    run = _with(tmp_path / "run", name, whole[:block] + b"\xff\xff\xff\xff\x0f" + whole[block + 5 :])
    assert told("diagnose", run, "--quiet") == 2
