"""JVM logs against independent knowledge: begin and length of each stop, written by hand into
`readers/gclog/right.toml`, and for recorded JVMs the sums of their own reports."""

from __future__ import annotations

import re
import tomllib
from datetime import datetime
from pathlib import Path

import polars as pl
import pytest

from tailrace.readers import gclog
from tailrace.readers.source import Source
from tailrace.units import MILLISECOND, SECOND

LOGS = Path(__file__).parent / "readers" / "gclog"
RIGHT: dict[str, dict[str, list[tuple[str, float]]]] = tomllib.loads((LOGS / "right.toml").read_text())
RECORDED = sorted(LOGS.glob("recorded-*.log"))


def stops(*names: str) -> pl.DataFrame:
    sources = [Source(LOGS / name) for name in names]
    for source in sources:
        assert gclog.sniff(source.path.name, source.head())
    events = pl.concat(gclog.read(sources).events)
    return events.filter(pl.col("kind").is_in(["gc", "safepoint"]))


@pytest.mark.parametrize("name", RIGHT)
def test_each_stop_is_found_once_and_where_it_was(name: str) -> None:
    found = [(begin, end - begin) for _, begin, end, _ in stops(name).rows()]
    right = [(datetime.fromisoformat(begin).timestamp() * SECOND, length) for begin, length in RIGHT[name]["stops"]]
    assert [length for _, length in found] == [round(length * SECOND) for _, length in right]
    for (begin, _), (moment, _) in zip(found, right, strict=True):
        assert abs(begin - moment) <= MILLISECOND


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_the_sum_of_a_recorded_jvm_is_that_of_its_safepoints(path: Path) -> None:
    text = path.read_text()
    lengths = [int(ns) for ns in re.findall(r" Total: +(\d+) ns", text)]
    lengths += [round(float(s) * SECOND) for s in re.findall(r"threads were stopped: (\d+\.\d+) seconds", text)]
    found = stops(path.name)
    assert sorted((found.get_column("end") - found.get_column("begin")).to_list()) == sorted(lengths)
