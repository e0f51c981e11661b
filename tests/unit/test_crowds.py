"""More of one sort of requests than usual: who comes to a server, and what a burst is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from tailrace import sim
from tailrace.dataset import Dataset
from tailrace.diagnosis import diagnose
from tailrace.diagnosis.serialise import as_dict
from tailrace.diagnosis.view import View, look
from tailrace.experiment import from_table
from tailrace.score import score
from tailrace.units import MILLISECOND, SECOND


def cached(crowd: bool) -> dict[str, Any]:
    """web → api → cache, and → db for the one in ten that it lacks. For 3 s there may come more of those, not twice as
    many of all."""
    misses = {"kind": "poisson", "rate": 300, "interaction": "miss", "begin": "8 s", "end": "11 s"}
    users = {"kind": "poisson", "rate": 500, "mix": {"hit": 9, "miss": 1}}
    return {
        "duration": "20 s",
        "ramp": "2 s",
        "tiers": {
            "web": {"workers": 40, "backlog": 30, "calls": ["api"]},
            "api": {"workers": 30, "backlog": 30, "calls": ["cache", "db"]},
            "cache": {"kind": "async"},
            "db": {"workers": 20},
        },
        "interactions": {
            "hit": {"at": {"web": {"compute": "0.3 ms", "calls": {"read-hit": 1}}}},
            "miss": {"at": {"web": {"compute": "0.3 ms", "calls": {"read-miss": 1}}}},
            "read-hit": {"at": {"api": {"compute": "0.3 ms", "calls": {"get": 1}}}},
            "read-miss": {"at": {"api": {"compute": "0.3 ms", "calls": {"get": 1, "select": 1}}}},
            "get": {"at": {"cache": {"compute": "0.1 ms"}}},
            "select": {"at": {"db": {"compute": "6 ms"}}},
        },
        "workloads": {"users": users} | ({"crowd": misses} if crowd else {}),
    }


def made(folder: Path, crowd: bool = True) -> Dataset:
    sim.simulate(from_table(cached(crowd)), folder)
    return Dataset.open(folder)


def seen(run: Dataset) -> View:
    return look(run, 50 * MILLISECOND)


def test_requests_of_an_interaction_that_never_comes_to_a_server_are_not_asked_of_it(tmp_path: Path) -> None:
    view = seen(made(tmp_path / "run", crowd=False))
    requests = view.requests.group_by("interaction").len().with_columns(pl.col("interaction").cast(pl.String))
    came = dict(requests.iter_rows())
    asked = {server: len(view.asked(server).arrivals) for server in view.servers}
    both = came["hit"] + came["miss"]
    assert asked == {"web": both, "api": both, "cache": both, "db": came["miss"]}


def test_a_crowd_of_one_sort_is_a_burst_where_it_comes_to(tmp_path: Path) -> None:
    run = made(tmp_path / "run")
    told = as_dict(diagnose(run))
    assert {(episode["origin"], episode["cause"]) for episode in told["episodes"]} == {("db", "workload-burst")}
    found = score(run, told)
    assert found.right == found.vlrt > 200
    assert found.confusion == {"workload-burst": {"workload-burst": found.vlrt}}
    calm = made(tmp_path / "calm", crowd=False).requests().filter(pl.col("end") - pl.col("sent") >= SECOND)
    assert calm.collect().is_empty()
