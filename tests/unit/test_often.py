"""Causes that occur as often when no request becomes very slow: their effect on the queue distinguishes them from
chance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from plans import made
from tailrace.diagnosis import diagnose
from tailrace.diagnosis.serialise import as_dict
from tailrace.score import score
from tailrace.units import SECOND


def crowds(long: bool) -> dict[str, Any]:
    """web → db, and six crowds that are gone before any request is refused; optionally one that stays for longer."""
    moments = [(begin, begin + 0.4) for begin in (1, 3, 5, 7, 15, 17)] + ([(10, 11.5)] if long else [])
    coming = {
        f"crowd{number}": {
            "kind": "poisson",
            "rate": 1100,
            "interaction": "page",
            "begin": f"{begin} s",
            "end": f"{end} s",
        }
        for number, (begin, end) in enumerate(moments)
    }
    return {
        "duration": "19 s",
        "ramp": "2 s",
        "kernel": {"syn": "linux-3.3"},
        "tiers": {"web": {"workers": 230, "calls": {"db": {"pool": 0}}}, "db": {"workers": 230}},
        "interactions": {
            "page": {"at": {"web": {"compute": "0.3 ms", "calls": {"select": 1}}}},
            "select": {"at": {"db": {"compute": "1.6 ms"}}},
        },
        "workloads": {"users": {"kind": "poisson", "rate": 150, "interaction": "page"}} | coming,
    }


def test_bursts_that_filled_the_queue_without_vlrt_are_still_evidence(tmp_path: Path) -> None:
    run = made(crowds(long=True), tmp_path / "run")
    told = as_dict(diagnose(run))
    assert {(episode["origin"], episode["cause"]) for episode in told["episodes"]} == {("db", "workload-burst")}
    found = score(run, told)
    assert found.right == found.vlrt > 100
    without = made(crowds(long=False), tmp_path / "without").requests().filter(pl.col("end") - pl.col("sent") >= SECOND)
    assert without.collect().is_empty()


def crowded(more: dict[str, Any]) -> dict[str, Any]:
    """web → app, which serves half less with fifty inside than with ten, and something more."""
    return {
        "duration": "20 s",
        "ramp": "2 s",
        "kernel": {"syn": "linux-3.3"},
        "tiers": {
            "web": {"workers": 150, "calls": ["app"]},
            "app": {"workers": 120, "inflation": {"free": 10, "slope": 0.022}},
        },
        "interactions": {
            "page": {"at": {"web": {"compute": "0.3 ms", "calls": {"make": 1}}}},
            "make": {"at": {"app": {"compute": "0.6 ms"}}},
        },
    } | more


USERS = {"kind": "poisson", "rate": 480, "interaction": "page"}


def test_a_crowd_fills_a_server_that_can_do_less_the_more_are_inside(tmp_path: Path) -> None:
    crowd = {"kind": "poisson", "rate": 900, "interaction": "page", "begin": "8 s", "end": "10 s"}
    run = made(crowded({"workloads": {"users": USERS, "crowd": crowd}}), tmp_path / "run")
    told = as_dict(diagnose(run))
    assert {(episode["origin"], episode["cause"]) for episode in told["episodes"]} == {("app", "workload-burst")}
    found = score(run, told)
    assert found.right == found.vlrt > 100


def test_no_crowd_is_reported_for_a_server_that_is_slower_for_a_while(tmp_path: Path) -> None:
    stall = {"kind": "slow", "place": "app", "at": "8 s", "for": "2 s", "left": 0.2}
    run = made(crowded({"workloads": {"users": USERS}, "stalls": [stall]}), tmp_path / "run")
    told = as_dict(diagnose(run))
    assert {episode["cause"] for episode in told["episodes"]} == {"unknown"}
    assert score(run, told).vlrt > 100
