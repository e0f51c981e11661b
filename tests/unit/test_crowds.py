"""More requests of one kind than usual: at which server they arrive, and what counts as a burst."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import builders
from plans import made
from tailrace.dataset import Dataset
from tailrace.diagnosis import diagnose
from tailrace.diagnosis.crowds import crowd
from tailrace.diagnosis.serialise import as_dict
from tailrace.diagnosis.tables import look
from tailrace.diagnosis.view import View
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


def seen(run: Dataset) -> View:
    return look(run, 50 * MILLISECOND)


def test_visits_are_not_requested_from_a_server_that_an_interaction_never_reaches(tmp_path: Path) -> None:
    view = seen(made(cached(crowd=False), tmp_path / "run"))
    requests = view.requests.group_by("interaction").len().with_columns(pl.col("interaction").cast(pl.String))
    came = dict(requests.iter_rows())
    asked = {server: len(view.asked(server).arrivals) for server in view.servers}
    both = came["hit"] + came["miss"]
    assert asked == {"web": both, "api": both, "cache": both, "db": came["miss"]}


def test_a_crowd_of_one_sort_is_a_burst_where_it_comes_to(tmp_path: Path) -> None:
    run = made(cached(crowd=True), tmp_path / "run")
    told = as_dict(diagnose(run))
    assert {(episode["origin"], episode["cause"]) for episode in told["episodes"]} == {("db", "workload-burst")}
    found = score(run, told)
    assert found.right == found.vlrt > 200
    calm = made(cached(crowd=False), tmp_path / "calm").requests().filter(pl.col("end") - pl.col("sent") >= SECOND)
    assert calm.collect().is_empty()


def two_sorts(crowd: bool) -> dict[str, Any]:
    """web → db, which works twelve times as long for an order as for a page. For 3 s nine times as many orders may
    come, a third more of all."""
    people = {"kind": "poisson", "rate": 300, "interaction": "page"}
    partners = {"kind": "poisson", "rate": 10, "interaction": "order"}
    crowding = {"kind": "poisson", "rate": 90, "interaction": "order", "begin": "8 s", "end": "11 s"}
    return {
        "duration": "20 s",
        "ramp": "2 s",
        "tiers": {"web": {"workers": 40, "backlog": 30, "calls": ["db"]}, "db": {"workers": 60}},
        "interactions": {
            "page": {"at": {"web": {"compute": "0.3 ms", "calls": {"select": 1}}}},
            "order": {"at": {"web": {"compute": "0.3 ms", "calls": {"insert": 1}}}},
            "select": {"at": {"db": {"compute": "1 ms"}}},
            "insert": {"at": {"db": {"compute": "12 ms"}}},
        },
        "workloads": {"people": people, "partners": partners} | ({"crowd": crowding} if crowd else {}),
    }


def test_a_crowd_of_a_heavy_sort_is_a_burst_though_hardly_more_come(tmp_path: Path) -> None:
    run = made(two_sorts(crowd=True), tmp_path / "run")
    told = as_dict(diagnose(run))
    assert {(episode["origin"], episode["cause"]) for episode in told["episodes"]} == {("db", "workload-burst")}
    assert "of them were order" in str(told["episodes"][0])
    found = score(run, told)
    assert found.right == found.vlrt > 200
    calm = made(two_sorts(crowd=False), tmp_path / "calm").requests().filter(pl.col("end") - pl.col("sent") >= SECOND)
    assert calm.collect().is_empty()


def hedging(**more: Any) -> dict[str, Any]:
    """web, at two thirds of its CPU, and clients that repeat their requests after it has stood still."""
    return {
        "duration": "12 s",
        "ramp": "2 s",
        "tiers": {"web": {"workers": 60}},
        "interactions": {"page": {"at": {"web": {"compute": "3 ms"}}}},
        "workloads": {"users": {"kind": "poisson", "rate": 220, "interaction": "page", "hedge": "200 ms"} | more},
        "stalls": [{"kind": "freeze", "place": "web", "at": "6 s", "for": "600 ms"}],
    }


def test_what_a_client_sends_twice_is_wanted_once(tmp_path: Path) -> None:
    view = seen(made(hedging(), tmp_path / "run"))
    asked, wanted = view.asked("web").arrivals, view.requests.filter(~pl.col("twice"))["sent"].to_numpy()
    around = np.array([6, 8]) * SECOND + view.begin
    assert np.diff(np.searchsorted(asked, around)) > 1.2 * 2 * 220
    assert np.diff(np.searchsorted(wanted, around)) == pytest.approx(2 * 220, rel=0.15)


def test_a_repetition_after_giving_up_is_a_new_request(tmp_path: Path) -> None:
    view = seen(made(hedging(hedge="0 s", timeout="300 ms", retries=2, retry_pause="0 s"), tmp_path / "run"))
    given_up = view.requests["given_up"].sum()
    assert given_up == view.requests.filter(pl.col("status").cast(pl.String) == "abandoned").height > 50
    assert view.requests["twice"].sum() == 0


def test_a_request_is_abandoned_when_it_and_its_hedge_are(tmp_path: Path) -> None:
    view = seen(made(hedging(timeout="300 ms"), tmp_path / "run"))
    both = view.requests.filter("twice", pl.col("status").cast(pl.String) == "abandoned")
    # Of some the first was answered after all.
    assert 0.9 * len(both) < view.requests["given_up"].sum() <= len(both)
    assert len(both) > 20
    assert view.requests.filter("given_up", "twice").is_empty()


@pytest.mark.parametrize(("full", "data_lost", "crowded"), [(False, 20, False), (False, 0, True), (True, 20, True)])
def test_packets_that_are_lost_at_any_queue_length_are_lost_on_a_path_if_those_of_open_connections_are_lost_too(
    tmp_path: Path, full: bool, data_lost: int, crowded: bool
) -> None:
    """Twenty requests are inside, and packets are lost meanwhile. If the queue is full, one is accepted after each that
    left, and finds one less inside."""
    usual = [(at * 10, at * 10 + 2) for at in range(400)]
    held = [(4000, 4012 + at * 40 if full else 6000) for at in range(20)]
    accepted = [(4014 + at * 40, 6000) for at in range(20)]
    each = [moments(*one) for one in (*usual, *held, *accepted)]
    drops = [{"data_drops": int(at >= len(each) - data_lost)} for at in range(len(each))]
    asked = [{"sent": one["sent"], "end": one["departure"], **lost} for one, lost in zip(each, drops, strict=True)]
    tables = {"requests": builders.requests(*asked), "visits": builders.visits(*each)}
    view = seen(builders.run(tmp_path / "run", **tables))
    lost = np.array([moments(4010 + at * 40, 0)["sent"] for at in range(20)])
    assert crowd(view, "web", lost).long == crowded


def moments(arrival_ms: int, departure_ms: int) -> dict[str, int]:
    begin, end = (builders.T0 + at * MILLISECOND for at in (arrival_ms, departure_ms))
    return {"sent": begin, "arrival": begin, "start": begin, "departure": end}
