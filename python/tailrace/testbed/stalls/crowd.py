"""Bursts of the workload, as the load generator sent them: batches, from the first request of one to its last, and
surges of clients that have an index of dispersion, or of open arrivals whose rate switches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from tailrace.dataset import EVENTS, REQUESTS, scan
from tailrace.experiment import places, truth
from tailrace.experiment.workloads import Batch
from tailrace.testbed.stalls.injection import joined
from tailrace.testbed.system import System

CAUSE = "workload-burst"
SURGE = "surge"
"""The kind of event in the run folder of a load."""


def arose(system: System, run: Path) -> Iterator[truth.Stall]:
    sent = run / "raw/load"
    yield from _batches(system, sent)
    if (sent / EVENTS.file).exists():
        yield from _surges(sent)


def _batches(system: System, sent: Path) -> Iterator[truth.Stall]:
    """Requests that were due at the same moment are a batch; no other arrivals coincide."""
    batches = [load for load in system.experiment.workloads.values() if isinstance(load, Batch)]
    if not batches:
        return
    requests = scan(sent / REQUESTS.file).collect().with_columns(pl.col("server").cast(pl.String))
    for load in batches:
        entry = load.entry or places.entries(system.experiment)[0]
        together = (
            requests.filter(pl.col("server").is_in(system.servers(entry)))
            .group_by("intended")
            .agg(pl.len(), pl.col("sent").min().alias("begin"), pl.col("sent").max().alias("end"))
            .filter(2 * pl.col("len") > load.size)
        )
        for begin, end in together.select("begin", "end").iter_rows():
            yield truth.Stall(CAUSE, system.servers(entry)[0], begin, end)


def _surges(sent: Path) -> Iterator[truth.Stall]:
    """Surges of several processes of clients overlap; as in the simulator, they are one."""
    names = pl.col("place", "kind").cast(pl.String)
    events = scan(sent / EVENTS.file).with_columns(names).filter(pl.col("kind") == SURGE).collect().sort("begin")
    for (place,), surges in events.group_by("place", maintain_order=True):
        for begin, end in joined(surges.select("begin", "end").iter_rows(), gap=0):
            yield truth.Stall(CAUSE, str(place), begin, end)
