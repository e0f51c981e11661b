"""Garbage collections of the experiment's heap. They arise by themselves; the JVM's log shows when."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from tailrace.dataset import EVENTS, scan
from tailrace.experiment import truth
from tailrace.testbed.system import System


def arose(system: System, run: Path) -> Iterator[truth.Stall]:
    """Of servers with a `heap`, from the events that the reader made of their logs."""
    collected = [name for name, setting in system.settings.items() if setting.tier.heap]
    if not collected:
        return
    events = scan(run / EVENTS.file).collect().with_columns(pl.col("place", "kind").cast(pl.String))
    pauses = events.filter((pl.col("kind") == "gc") & pl.col("place").is_in(collected))
    for place, begin, end in pauses.select("place", "begin", "end").iter_rows():
        yield truth.Stall("garbage-collection", place, begin, end)
