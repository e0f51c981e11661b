"""Bursts of the workload: batches, from the first request of one to its last, as the load generator sent them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from tailrace.dataset import REQUESTS, scan
from tailrace.experiment import places, truth
from tailrace.experiment.workloads import Batch
from tailrace.testbed.system import System


def arose(system: System, run: Path) -> Iterator[truth.Stall]:
    """Requests that were due at the same moment are a batch; no other arrivals coincide"""
    batches = [load for load in system.experiment.workloads.values() if isinstance(load, Batch)]
    if not batches:
        return
    sent = scan(run / "raw/load" / REQUESTS.file).collect().with_columns(pl.col("server").cast(pl.String))
    for load in batches:
        entry = load.entry or places.entries(system.experiment)[0]
        together = (
            sent.filter(pl.col("server").is_in(system.servers(entry)))
            .group_by("intended")
            .agg(pl.len(), pl.col("sent").min().alias("begin"), pl.col("sent").max().alias("end"))
            .filter(2 * pl.col("len") > load.size)
        )
        for begin, end in together.select("begin", "end").iter_rows():
            yield truth.Stall("workload-burst", system.servers(entry)[0], begin, end)
