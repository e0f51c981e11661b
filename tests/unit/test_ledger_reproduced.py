"""The replay reproduces systems with lines of their own, and with pools that candidates share."""

from __future__ import annotations

import atexit
import shutil
from collections import Counter
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from plans import made
from tailrace import experiment, sim
from tailrace.dataset import Dataset
from tailrace.diagnosis import Diagnosis, diagnose, tables, vlrt
from tailrace.diagnosis.ledger import policies, recorded, verdict
from tailrace.diagnosis.ledger.account import Line
from tailrace.diagnosis.ledger.extract import Extract, ServerExtract
from tailrace.diagnosis.ledger.settled import Settled
from tailrace.diagnosis.ledger.steps import Steps
from tailrace.units import MILLISECOND, SECOND

Table = dict[str, Any]
PAPER = Path(__file__).parents[2] / "experiments/lightning/figure-5"


def system(web: Table, app: Table, db: Table, report: Table, rate: float, batch: Table, *stalls: Table) -> Table:
    """web → app → db. Each page calls db twice. Reports come in batches, and work at the tier that `report` names."""
    callees = {"web": "app", "app": "db"}
    place = next(iter(report))
    way = ["web", "app", "db"][: ["web", "app", "db"].index(place) + 1]
    pages = {f"{way[-1]} report": {"at": report}}
    for name in way[:-1]:
        work = {"compute": "0.1 ms", "calls": {f"{callees[name]} report": 1}}
        pages[f"{name} report"] = {"at": {name: work}}
    return {
        "seed": 3,
        "duration": "14 s",
        "ramp": "3 s",
        "sampling": {"interval": "50 ms"},
        "tiers": {"web": web, "app": app, "db": db},
        "interactions": {
            "page": {"at": {"web": {"compute": "0.5 ms", "calls": {"query": 1}}}},
            "query": {"at": {"app": {"compute": f"{app.pop('ms', 0.9)} ms", "calls": {"select": 2}}}},
            "select": {"at": {"db": {"compute": "0.26 ms"}}},
            **pages,
        },
        "workloads": {
            "users": {"kind": "poisson", "rate": rate, "interaction": "page", "entry": "web"},
            "reports": {"kind": "batch", "interaction": "web report", "entry": "web", **batch},
        },
        "stalls": list(stalls),
    }


QUICK: Table = {"compute": "0.5 ms"}
REPORT: Table = {"compute": "0.5 ms", "wait": "0.7 s"}
OWN = {"kept": False, "pool": 0}
APP: Table = {"workers": 60, "backlog": 64, "calls": {"db": OWN}}
SLOWER: Table = APP | {"ms": 4.8}
DB: Table = {"workers": 60, "backlog": 32}
LINE: Table = {"kind": "bounded", "workers": 12, "light_queue": 300, "backlog": 16, "calls": {"app": OWN}}
POOL: Table = {"kept": True, "pool": 39, "policy": "power_of_two"}
FREEZE: Table = {"kind": "freeze", "place": "db", "at": "8 s", "for": "0.7 s"}
SYSTEMS = {
    "a line of its own": system(
        LINE,
        APP,
        DB,
        {"db": REPORT},
        240,
        {"size": 40, "first": "5 s", "every": "4.5 s"},
    ),
    "one pool for replicas": system(
        {"workers": 115, "backlog": 8, "calls": {"app": POOL}},
        SLOWER | {"count": 3},
        DB | {"backlog": 8},
        {"db": QUICK},
        366,
        {"size": 1, "first": "6 s", "every": "20 s"},
        FREEZE,
    ),
    "reports compute on busy servers": system(
        APP | {"calls": {"app": OWN}},
        APP | {"calls": {"db": OWN}},
        DB | {"count": 2},
        {"db": {"compute": "0.5 s", "scv": 0}},
        580,
        {"size": 9, "first": "6 s", "every": "20 s"},
    ),
}


@cache
def diagnosed(name: str) -> Diagnosis:
    folder = Path(mkdtemp(prefix="tailrace-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    run: Dataset = made(SYSTEMS[name], folder / "run")
    return diagnose(run)


def causes(found: Diagnosis) -> Counter[str]:
    counts: Counter[str] = Counter()
    for row in found.summary:
        counts[row.cause] += row.vlrt
    return counts


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("a line of its own", "soft-resource"),
        ("one pool for replicas", "freeze"),
        ("reports compute on busy servers", "own-work"),
    ],
)
def test_a_system_is_reproduced_and_its_cause_confirmed(name: str, cause: str) -> None:
    found = diagnosed(name)
    was, replayed = (
        sum(getattr(one.ledger, key) for one in found.episodes if one.ledger is not None)
        for key in ("vlrt_recorded", "vlrt_replayed")
    )
    assert abs(replayed - was) <= 0.25 * was
    assert causes(found)[cause] >= 0.9 * found.vlrt


def test_an_episode_after_others_is_reproduced_from_the_last_short_queues(tmp_path: Path) -> None:
    """Between overflows of this system there is no calm time, and a replay from the first of them loses other requests
    than the recording in the later ones."""
    changes = ["duration=34s", "workloads.readers.clients=9000"]
    sim.simulate(experiment.read(PAPER, changes), tmp_path / "run")
    found = diagnose(Dataset.open(tmp_path / "run"))
    assert len(found.episodes) >= 5
    for episode in found.episodes:
        assert episode.ledger is not None
        assert abs(episode.ledger.vlrt_replayed - episode.ledger.vlrt_recorded) <= 0.3 * episode.ledger.vlrt_recorded
    assert causes(found) == {"garbage-collection": found.vlrt}


def test_a_settled_time_is_short_queues_for_a_tenth_of_a_second() -> None:
    """One request is inside in calm steps. Ten come at 1 s for 0.3 s, and ten at 1.35 s for 0.3 s."""
    usual = [(at * 10, at * 10 + 10) for at in range(300)]
    crowds = [(1000, 1300)] * 10 + [(1350, 1650)] * 10
    arrival, departure = (np.array(column) * MILLISECOND for column in zip(*usual, *crowds, strict=True))
    steps = Steps.of(np.array([[0, 3 * SECOND]]))
    recording = SimpleNamespace(
        steps=steps, arrival=arrival, departure=departure, asked=np.ones(len(arrival), dtype=bool)
    )
    settled = Settled(recording, np.arange(300) < 50)  # type: ignore[arg-type]
    assert settled.before(1400 * MILLISECOND) == 0
    assert settled.before(2 * SECOND) == 1660 * MILLISECOND
    assert Settled(recording, np.zeros(300, dtype=bool)).before(2 * SECOND) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("replayed", "queue", "is_model"),
    [(4, 10.0, True), (90, 10.0, True), (90, 30.0, False), (0, 10.0, False), (0, 30.0, False)],
    ids=["as many", "more, with the same queues", "more, with longer queues", "none", "none, with longer queues"],
)
def test_a_replay_with_more_very_slow_requests_is_a_model_if_its_queues_are_the_recorded(
    replayed: int, queue: float, is_model: bool
) -> None:
    none = np.empty(0, dtype=np.int64)
    its = ServerExtract(1.0, {}, np.ones(3), np.full(3, 10.0), np.full(3, queue), none.astype(np.int32), none, 1.0, 1.0)
    extract = Extract(np.arange(3), {"web": 0}, {"web": its})
    assert verdict.Replayed(9, replayed, (), extract).reproduced == is_model


@pytest.mark.parametrize(("alone", "charged"), [(0, 100.0), (20, 80.0)], ids=["error of the replay", "by themselves"])
def test_requests_that_are_slow_by_themselves_are_charged_to_no_line(alone: int, charged: float) -> None:
    line = ("soft-resource", "web")

    def left(without: frozenset[Line]) -> int:
        return 20 if line in without else 100

    def share(of: Line, vlrt: float, remain: int) -> verdict.Share:
        return verdict.Share(of[0], of[1], vlrt, remain)

    causes = verdict.by_cause([line])
    (found,), _ = verdict._verdict(causes, causes, left, lambda _: None, share, 100, alone)
    assert found.vlrt == pytest.approx(charged)


@pytest.mark.parametrize(
    ("remain", "well", "charged"),
    [(40, True, 100.0), (40, False, 60.0), (9, False, 100.0)],
    ids=["calm time", "no calm time", "hardly any remain"],
)
def test_what_remains_without_all_causes_is_unknown_if_no_time_was_calm(
    remain: int, well: bool, charged: float
) -> None:
    """A low clock rate makes an overload worse that the balancer alone makes, from the first request on."""
    line = ("frequency-step", "db")

    def left(without: frozenset[Line]) -> int:
        return remain if line in without else 100

    def share(of: Line, vlrt: float, remain: int) -> verdict.Share:
        return verdict.Share(of[0], of[1], vlrt, remain)

    causes = verdict.by_cause([line])
    (found,), _ = verdict._verdict(causes, causes, left, lambda _: None, share, 100, 0, well=well)
    assert found.vlrt == pytest.approx(charged)


@pytest.mark.parametrize(("rate", "has_calm"), [(100, True), (400, False)], ids=["a stop", "always overloaded"])
def test_a_system_that_is_always_overloaded_has_no_calm_time(tmp_path: Path, rate: int, has_calm: bool) -> None:
    table = system(
        {"workers": 100, "backlog": 20, "calls": {"app": OWN}},
        APP,
        DB,
        {"db": QUICK},
        rate,
        {"size": 1, "first": "6 s", "every": "20 s"},
        FREEZE | {"for": "1.5 s"},
    )
    table["interactions"]["page"]["at"]["web"]["compute"] = "4 ms"
    view = tables.look(made(table, tmp_path / "run"), 50 * MILLISECOND)
    slow = vlrt.find(view, None)
    assert slow.clusters
    assert slow.has_calm == has_calm


def test_a_cause_without_which_the_requests_do_not_occur_comes_before_what_nothing_accounts_for() -> None:
    """A stop of 0.6 s leaves a backlog, in which the server lacks more than that for reasons that were not recorded."""

    def left(without: frozenset[Line]) -> int:
        return 0 if ("freeze", "app") in without else 40 if without else 100

    def share(of: Line, vlrt: float, remain: int) -> verdict.Share:
        return verdict.Share(of[0], of[1], vlrt, remain)

    causes = verdict.by_cause([("freeze", "app"), ("unknown", "app")])
    found, _ = verdict._verdict(causes, causes, left, lambda _: None, share, 100, 0)
    assert [(one.cause, one.vlrt) for one in found] == [("freeze", 100.0)]


def test_calls_wait_for_the_connections_of_their_own_kind(tmp_path: Path) -> None:
    """Reports have two connections of their own to the database, which a batch of them fills; pages have two others."""
    table = system(
        {"workers": 400, "backlog": 400, "calls": {"app": OWN}},
        {"workers": 200, "backlog": 64, "calls": {"db": {"pool": 2, "pool_per": ["interaction"]}}},
        DB,
        {"app": {"compute": "0.2 ms", "calls": {"story": 1}}},
        200,
        {"size": 40, "first": "5 s", "every": "4.5 s"},
    )
    table["interactions"]["story"] = {"at": {"db": {"compute": "0.2 ms", "wait": "90 ms"}}}
    run = made(table, tmp_path / "run")
    assert ("app report",) in {pool.interactions for pool in run.topology.pools}
    view = tables.look(run, 50 * MILLISECOND)
    found = recorded.record(view, vlrt.find(view, None))
    assert found is not None
    ways = policies.routes(view, found)
    stories = found.names.are("story")
    assert len(np.unique(ways.pools.pool[stories])) == 1
    assert not np.isin(ways.pools.pool[found.names.are("select")], ways.pools.pool[stories]).any()
    assert (ways.waited.ready < found.sent)[stories].mean() >= 0.9
