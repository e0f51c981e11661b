"""Makes a simulated recording as poor as real ones: the seed draws what is taken out of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import polars as pl

from tailrace import dataset
from tailrace.dataset import Dataset
from tailrace.topology import Topology
from tailrace.units import SECOND

COUNTED = ("context_switches", "direct_reclaims", "listen_drops", "major_faults", "syn_retransmits")
"""Metrics that count events of an interval: the value of a longer interval is their sum. For other metrics it is the
mean."""
LOST = 0.01


@dataclass(frozen=True)
class Tables:
    topology: Topology
    requests: pl.DataFrame
    visits: pl.DataFrame
    samples: pl.DataFrame
    events: pl.DataFrame


def thin(run: Dataset, out: Path, seed: int) -> str:
    """Write the run folder `out`; returns what is missing from it."""
    random = Random(seed)
    name = random.choice(sorted(WAYS))
    tables = (table.collect() for table in (run.requests(), run.visits(), run.samples(), run.events()))
    thinned = WAYS[name](Tables(run.topology, *tables), random)
    with dataset.create(out) as writer:
        writer.maker, writer.topology = "tailrace examine", thinned.topology
        for table in dataset.TABLES:
            writer.write_table(table, getattr(thinned, table))
    return name


def _each_second(run: Tables, _: Random) -> Tables:
    second = (pl.col("time") - 1) // SECOND
    value = (
        pl.when(pl.col("metric").cast(pl.String).is_in(COUNTED).first())
        .then(pl.col("value").sum())
        .otherwise((pl.col("value") * pl.col("interval_ns")).sum() / pl.col("interval_ns").sum())
    )
    samples = run.samples.group_by("place", "metric", second.alias("second"), maintain_order=True).agg(
        pl.col("time").max(), pl.col("interval_ns").sum(), value.alias("value")
    )
    return replace(run, samples=samples.drop("second").sort("time", maintain_order=True))


def _one_server_unseen(run: Tables, random: Random) -> Tables:
    server = random.choice(run.topology.servers)
    seen = ~pl.col("place").cast(pl.String).is_in([server.name, server.node or server.name])
    return replace(run, samples=run.samples.filter(seen))


def _one_place(run: Tables, _: Random) -> Tables:
    """A capture at the entries: it has the visits of the entries and the calls that these make."""
    entries = {server.name for server in run.topology.servers if not run.topology.callers_of(server.name)}
    called = {callee for entry in entries for callee in run.topology.callees_of(entry)}
    caller = pl.col("caller").cast(pl.String)
    visits = run.visits.filter(caller.is_null() | caller.is_in(list(entries)))
    drop = pl.col("kind").cast(pl.String).is_in(["drop", "data_drop"])
    return replace(
        run,
        visits=visits.with_columns(downstream_ns=pl.when(caller.is_null()).then("downstream_ns")),
        events=run.events.filter(~drop | pl.col("place").cast(pl.String).is_in(list(entries | called))),
    )


def _some_lost(run: Tables, random: Random) -> Tables:
    """One request in a hundred is lost, and one visit in a hundred of the other requests. A visit whose caller is lost
    has no parent."""
    requests = run.requests.filter(_kept("request", random))
    visits = run.visits.filter(_kept("visit", random)).join(requests.select("request"), on="request", how="semi")
    known = pl.col("parent").is_in(visits["visit"].implode())
    return replace(run, requests=requests, visits=visits.with_columns(parent=pl.when(known).then("parent")))


def _kept(column: str, random: Random) -> pl.Expr:
    return pl.col(column).hash(random.getrandbits(32)) >= int(LOST * 2**64)


def _no_interactions(run: Tables, _: Random) -> Tables:
    unnamed = pl.lit(None).alias("interaction")
    return replace(run, requests=run.requests.with_columns(unnamed), visits=run.visits.with_columns(unnamed))


WAYS: dict[str, Callable[[Tables, Random], Tables]] = {
    "samples each second": _each_second,
    "no samples of one server": _one_server_unseen,
    "visits of one place": _one_place,
    "1 % lost": _some_lost,
    "no interactions": _no_interactions,
}
