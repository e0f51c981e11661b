"""When the clients of a load send more than usual, by their own pattern: the times that its run folder has."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl

from servers import serving
from tailrace import sim
from tailrace.dataset import Dataset
from tailrace.experiment import from_table, truth
from tailrace.load.lowering import Share
from tailrace.load.running import load
from tailrace.load.targets import aim


def bursty(out: Path, workers: int = 1, **workload: Any) -> list[tuple[int, int]]:
    """Begin and end of each surge of a load of 2 s, in the order of their ends."""
    page = {"page": {"at": {"web": {}}}}
    load_of = {"load": {**workload, "interaction": "page"}}
    table = from_table(
        {"duration": "2 s", "ramp": "0", "tiers": {"web": {}}, "interactions": page, "workloads": load_of}
    )
    simulated = sim.simulate(table, out / "simulated").stalls
    with serving() as (url, _):
        load(table, aim([url], False), out / "run", share=Share(workers=workers))
    found = Dataset.open(out / "run").events().filter(pl.col("kind").cast(pl.String) == "surge").collect()
    assert found["place"].cast(pl.String).unique().to_list() == [stall.place for stall in simulated[:1]] == ["web"]
    return found.sort("end").select("begin", "end").rows()


def test_surges_of_open_arrivals_are_those_of_the_simulator(tmp_path: Path) -> None:
    sent = bursty(tmp_path, workers=2, kind="modulated", rates=[50, 1000], stays=["0.2 s", "0.1 s"])
    drawn = [(stall.begin, stall.end) for stall in truth.read_stalls(tmp_path / "simulated")]
    assert len(drawn) > 3
    assert [(b - sent[0][0], e - sent[0][0]) for b, e in sent] == [(b - drawn[0][0], e - drawn[0][0]) for b, e in drawn]


def test_clients_of_one_process_think_shorter_in_its_surges(tmp_path: Path) -> None:
    surges = bursty(tmp_path, clients=40, think="50 ms", think_max="0", index_of_dispersion=400)
    assert all(begin < end for begin, end in surges)
    assert all(earlier[1] <= later[0] for earlier, later in pairwise(surges)), "one process has one mode at a time"
    rows = Dataset.open(tmp_path / "run").requests().collect().sort("client", "intended")
    again = rows.with_columns(thought=pl.col("intended").shift(-1).over("client") - pl.col("end")).drop_nulls("thought")
    fast = pl.any_horizontal(*(pl.col("end").is_between(begin, end, closed="right") for begin, end in surges))
    means = dict(again.group_by(fast.alias("fast")).agg(pl.col("thought").mean()).rows())
    assert 3 * means[True] < means[False]
