"""Stops of servers that share no request fill the server in front of both, and its other requests wait, too."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from plans import made
from tailrace.dataset import Dataset
from tailrace.diagnosis import because, diagnose

Table = dict[str, Any]


def gateway(*stopped: str) -> Table:
    """web answers static pages by itself; one kind of page needs app1, and one needs app2. A stop of 0.35 s of one of
    them holds 53 of web's 60 threads."""
    pages = {f"page{n}": {"at": {"web": {"compute": "0.3 ms", "calls": {f"query{n}": 1}}}} for n in (1, 2)}
    queries = {f"query{n}": {"at": {f"app{n}": {"compute": "2 ms"}}} for n in (1, 2)}
    rates = {"page1": 150, "page2": 150, "static": 60}
    behind = {"kind": "sync", "workers": 200, "backlog": 128}
    return {
        "seed": 8,
        "duration": "16 s",
        "ramp": "3 s",
        "sampling": {"interval": "50 ms"},
        "tiers": {
            "web": {"kind": "sync", "workers": 60, "backlog": 24, "calls": ["app1", "app2"]},
            "app1": behind,
            "app2": behind,
        },
        "interactions": {"static": {"at": {"web": {"compute": "0.3 ms"}}}} | pages | queries,
        "workloads": {
            name: {"kind": "poisson", "rate": rate, "interaction": name, "entry": "web"} for name, rate in rates.items()
        },
        "stalls": [
            {"kind": "freeze", "place": place, "at": "6 s", "for": "0.35 s", "every": "4 s"} for place in stopped
        ],
    }


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return made(gateway("app1", "app2"), tmp_path_factory.mktemp("both") / "run")


@pytest.mark.parametrize("place", ["app1", "app2"])
def test_each_stop_alone_makes_no_request_very_slow(place: str, tmp_path: Path) -> None:
    assert diagnose(made(gateway(place), tmp_path / "run")).vlrt == 0


def test_stops_of_independent_paths_have_a_half_each_where_they_meet(both: Dataset) -> None:
    found = diagnose(both)
    assert found.vlrt >= 50
    for episode in found.episodes:
        assert (episode.dropper, episode.cause) == ("web", "freeze")
        assert episode.ledger is not None
        half = pytest.approx(0.5, abs=0.1)
        assert {line.server: line.share for line in episode.ledger.lines} == {"app1": half, "app2": half}
        told = {one.place: one.share for one in episode.causes if one.verdict == "found"}
        assert told == {"app1": half, "app2": half}
    by_origin = {row.origin: row.vlrt / found.vlrt for row in found.summary}
    assert by_origin == {"app1": half, "app2": half}


def test_requests_that_need_none_of_the_stopped_servers_are_explained_by_their_stops(both: Dataset) -> None:
    found = diagnose(both)
    very_slow = pl.col("end") - pl.col("sent") >= found.threshold_ns
    victims = both.requests().filter(very_slow, pl.col("interaction").cast(pl.String) == "static").collect()
    assert len(victims) >= 3
    assert {(row.dropper, row.cause, row.ctqo) for row in found.summary} == {("web", "freeze", "upstream")}
    assert sum(row.vlrt for row in found.summary) == found.vlrt


def test_what_has_a_cause_keeps_it_beside_a_larger_part_that_is_unknown(tmp_path: Path) -> None:
    """No monitor shows why app2 hardly works, which makes more requests very slow than the stop of app1 before it."""
    table = gateway("app1")
    table["stalls"][0]["for"] = "0.4 s"
    table["stalls"] += [{"kind": "slow", "place": "app2", "at": "6.2 s", "for": "0.6 s", "every": "4 s", "left": 0.02}]
    found = diagnose(made(table, tmp_path / "run"))
    unknown = [episode for episode in found.episodes if episode.cause == "unknown"]
    assert unknown
    for episode in unknown:
        assert episode.ledger is not None
        shares = {line.cause: line.share for line in episode.ledger.lines}
        assert 0.05 <= shares["freeze"] < 0.5 <= shares["unknown"]
        freezes = sum(row.vlrt for row in episode.chains if row.cause == "freeze")
        assert freezes / episode.vlrt == pytest.approx(shares["freeze"], abs=0.05)
        assert {one.place for one in episode.causes if one.verdict == "found"} == {"app1"}
        assert "A smaller part has a cause. Without the stop of app1" in episode.findings[4].sentence
        assert "app2" in (episode.findings[4].missing or "")
    open_ = sum(row.vlrt for row in found.summary if row.cause == "unknown")
    assert open_ < found.vlrt
    assert any(one.what.startswith(f"The cause of the {open_} VLRT requests") for one in found.unknown)


@pytest.mark.parametrize(
    ("dropped", "said"),
    [
        (0, ": 150 waited in queues; 1 is not explained"),
        (
            20,
            ": web dropped connection attempts of 20; what was lost was sent again; 130 waited in queues without such "
            "a loss; 1 is not explained",
        ),
    ],
)
def test_only_where_packets_were_lost_others_waited_without_such_a_loss(
    dropped: int, said: str, both: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = Counter({"web": dropped} if dropped else {})
    groups = because._Groups(dropped=lost, queued=150 - dropped, unexplained=1)
    monkeypatch.setattr(because, "_groups", lambda _: groups)
    monkeypatch.setattr(because, "_again", lambda _: "")
    found = replace(diagnose(both), vlrt=151)
    assert because.clause(found) == said
