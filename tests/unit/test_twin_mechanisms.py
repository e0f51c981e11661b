"""Mechanisms of a twin, each with a system that shows it: the twin does what the system did."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from tailrace import experiment, sim, twin
from tailrace.dataset import Dataset
from tailrace.diagnosis.ledger.delays import Delays
from tailrace.diagnosis.ledger.steps import Steps
from tailrace.diagnosis.queues import Stays
from tailrace.diagnosis.spans import spans
from tailrace.experiment import losses
from tailrace.experiment.kernels import schedule
from tailrace.study.intervals import of_one_more
from tailrace.twin import demands, equals, paths
from tailrace.twin.demands import Demand
from tailrace.twin.gate import _counted
from tailrace.twin.machines import Machines
from tailrace.twin.outcome import Outcome
from tailrace.twin.spread import needed
from tailrace.twin.structure import Structure
from tailrace.twin.tree import Kind, Tree

S = 1_000_000_000
USERS = {"users": {"kind": "poisson", "rate": 300.0, "interaction": "page"}}


def recorded(folder: Path, **parts: Any) -> Dataset:
    folder.mkdir(exist_ok=True)
    table = {"duration": "10 s", "ramp": "1 s", "workloads": USERS, "kernel": {"syn": "linux-3.3"}, **parts}
    sim.simulate(experiment.from_table(table), folder / "run")
    return Dataset.open(folder / "run")


def longest(run: Dataset, server: str) -> int:
    visits = run.visits().filter(pl.col("server").cast(pl.String) == server).select("arrival", "departure").collect()
    return Stays.of(visits["arrival"].to_numpy(), visits["departure"].to_numpy()).longest


@pytest.mark.parametrize(("stops", "left"), [((True, False), 0.0), ((False, False), losses.CRAWLS)])
def test_a_server_accepts_while_nothing_that_stops_it_takes_its_speed(stops: tuple[bool, ...], left: float) -> None:
    taken = [[(0, 0.5), (2 * S, 0.0)], [(0, 0.5), (S, 0.0)]]
    assert losses.left(taken, stops) == [(0, left), (S, 0.5), (2 * S, 1.0)]


@pytest.mark.parametrize("kind", ["freeze", "burn"])
def test_free_workers_take_connections_unless_the_server_is_stopped(kind: str, tmp_path: Path) -> None:
    """A stopped server holds its accept queue, and those that were inside; a neighbour lets it fill all its places."""
    stall = {"kind": kind, "at": "5 s", "for": "700 ms", "place": "web" if kind == "freeze" else "web-node"}
    more = {"threads": 1, "weight": 1000.0} if kind == "burn" else {}
    tiers = {"web": {"workers": 60, "backlog": 16}}
    pages = {"page": {"at": {"web": {"compute": "1 ms"}}}}
    run = recorded(tmp_path, tiers=tiers, interactions=pages, stalls=[stall | more])
    most = longest(run, "web")
    assert (most == 60 + 17) == (kind == "burn")
    gate = twin.gate(twin.learn(run), run)
    assert gate.reproduced[0].longest["web"] == pytest.approx(most, abs=3)
    assert gate.passed, gate.off


def test_candidates_share_a_pool_that_their_calls_never_exceed_together(tmp_path: Path) -> None:
    tiers = {
        "web": {"workers": 60, "backlog": 16, "calls": {"app": {"pool": 8, "kept": True, "pool_per": []}}},
        "app": {"workers": 20, "count": 2},
    }
    pages = {"page": {"at": {"web": {"compute": "500 us", "calls": {"part": 1}}}}}
    pages |= {"part": {"at": {"app": {"compute": "2 ms"}}}}
    stall = {"kind": "freeze", "place": "app1", "at": "5 s", "for": "500 ms"}
    common = twin.learn(recorded(tmp_path / "common", tiers=tiers, interactions=pages, stalls=[stall]))
    assert common.experiment.tiers["web"].calls["app"].pool_per == ()
    tiers["web"]["calls"] = {"app": {"pool": 8, "kept": True, "pool_per": ["candidate"]}}
    apart = twin.learn(recorded(tmp_path / "apart", tiers=tiers, interactions=pages, stalls=[stall]))
    assert apart.experiment.tiers["web"].calls["app"].pool_per == ("candidate",)


def test_a_visit_that_got_nothing_needs_nothing() -> None:
    """Its server lacked its capacity for as long as it stayed, and the other visit used what the mean says for two."""
    tree = Tree([Kind("web", "page", (), 0)], np.array([0, 0]), np.array([0, 1]))
    needs = {0: Demand("web", "page", 2, 1.0, 0.0, 0.0, 1.0)}
    works = np.array([0.0, 2.0])
    found = demands._factors(tree, Structure({"web": ("web",)}, {}), needs, np.zeros(2), works, np.array([0, 1]))
    assert found["factor.web"].tolist() == [0.0, 2.0]


def test_visits_that_wait_for_a_timer_wait_in_the_twin(tmp_path: Path) -> None:
    """Each is mostly alone in its server, and could have computed all the time, but the CPU was not used."""
    pages = {
        "page": {"at": {"web": {"compute": "1 ms", "calls": {"query": 1}}}},
        "query": {"at": {"db": {"compute": "1 ms"}}},
        "report page": {"at": {"web": {"compute": "1 ms", "calls": {"report": 1}}}},
        "report": {"at": {"db": {"compute": "0 ms", "wait": "1.4 s"}}},
    }
    tiers = {"web": {"workers": 60, "calls": ["db"]}, "db": {"workers": 60}}
    load = USERS["users"] | {"interaction": None, "mix": {"page": 0.9985, "report page": 0.0015}}
    load = {key: value for key, value in load.items() if value is not None}
    run = recorded(tmp_path, tiers=tiers, interactions=pages, workloads={"users": load}, duration="20 s")
    needs = {need.interaction: need for need in twin.learn(run).demands if need.tier == "db"}
    assert needs["report"].wait_ns == pytest.approx(1.4e9, rel=0.01)
    assert needs["report"].compute_ns == 0.0
    assert needs["query"].compute_ns == pytest.approx(1e6, rel=0.05)


def test_a_visit_that_an_unseen_program_sent_is_kept(tmp_path: Path) -> None:
    """One command of another program holds the only worker of a store; some of the store's calls lost their caller."""
    pages = {
        "page": {"at": {"web": {"compute": "1 ms", "calls": {"get": 1}}}},
        "get": {"at": {"store": {"compute": "100 us"}}},
        "sleep": {"at": {"store": {"compute": "0 ms", "wait": "900 ms"}}},
    }
    tiers = {"web": {"workers": 400, "backlog": 16, "calls": ["store"]}, "store": {"workers": 1, "backlog": 500}}
    other = {"kind": "batch", "size": 1, "first": "4 s", "every": "20 s", "entry": "store", "interaction": "sleep"}
    run = recorded(tmp_path, tiers=tiers, interactions=pages, workloads={"users": USERS["users"], "other": other})
    file = run.path / "requests.parquet"
    rows = pl.read_parquet(file)  # nobody recorded the clients of the store
    rows.with_columns(server=pl.lit("web").cast(rows.schema["server"])).write_parquet(file)
    found = twin.learn(Dataset.open(run.path))
    assert {str(name) for rows in found.arrivals.values() for name in rows["interaction"]} == {"page", "sleep"}


def test_more_may_wait_inside_than_workers_and_accept_queue_hold(tmp_path: Path) -> None:
    """A server with threads accepts every connection, and keeps it until a thread is free."""
    tiers = {"web": {"kind": "bounded", "workers": 4, "backlog": 4, "light_queue": 500}}
    pages = {"page": {"at": {"web": {"compute": "1 ms"}}}}
    stall = {"kind": "freeze", "place": "web", "at": "5 s", "for": "700 ms"}
    run = recorded(tmp_path, tiers=tiers, interactions=pages, stalls=[stall])
    file = run.path / "topology.toml"
    file.write_text("".join(line for line in file.read_text().splitlines(True) if not line.startswith("queue_max")))
    found = twin.learn(Dataset.open(run.path))
    assert found.experiment.tiers["web"].kind == "bounded"
    assert any(unknown.name == "tiers.web.light_queue" for unknown in found.unknowns)


@pytest.mark.parametrize("rate", [150.0, 300.0])
def test_calls_over_kept_connections_wait_beside_the_accept_queue_and_not_without_limit_inside(
    rate: float, tmp_path: Path
) -> None:
    """One caller keeps its connections, the other opens one for each call: only the calls of the second are dropped."""
    tiers = {
        "gate": {"workers": 0, "calls": {"app": {"kept": True, "pool": 20}}},
        "web": {"workers": 100, "backlog": 64, "calls": {"app": {"kept": False, "pool": 0}}},
        "app": {"workers": 8, "backlog": 8},
    }
    pages = {
        "old": {"at": {"gate": {"compute": "100 us", "calls": {"part": 1}}}},
        "page": {"at": {"web": {"compute": "100 us", "calls": {"part": 1}}}},
        "part": {"at": {"app": {"compute": "1 ms"}}},
    }
    loads = {
        "users": {"kind": "poisson", "rate": rate, "interaction": "page", "entry": "web"},
        "others": {"kind": "poisson", "rate": 400.0 - rate, "interaction": "old", "entry": "gate"},
    }
    stall = {"kind": "slow", "place": "app", "left": 0.02, "at": "5 s", "for": "600 ms"}
    run = recorded(tmp_path, tiers=tiers, interactions=pages, workloads=loads, stalls=[stall])
    assert longest(run, "app") > 1.5 * (8 + 8 + 1)
    found = twin.learn(run)
    assert found.experiment.tiers["app"].kind == "sync"
    checked = twin.gate(found, run)
    assert checked.recorded.drops["app"] > 20
    assert checked.passed, checked.off


def test_the_callers_whose_calls_are_as_many_as_the_connections_open_one_for_each(tmp_path: Path) -> None:
    """Nothing is lost, and a server counts the connections of all its callers together."""
    kept = {"gate": True, "web": False, "shop": False}
    rates = {"gate": 150.0, "web": 40.0, "shop": 55.0}
    tiers = {
        name: {"workers": 50, "calls": {"app": {"kept": keeps, "pool": 20 if keeps else 0}}}
        for name, keeps in kept.items()
    }
    pages = {name: {"at": {name: {"compute": "100 us", "calls": {"part": 1}}}} for name in kept}
    loads = {
        name: {"kind": "poisson", "rate": rate, "interaction": name, "entry": name} for name, rate in rates.items()
    }
    parts = {"part": {"at": {"app": {"compute": "1 ms"}}}}
    run = recorded(tmp_path, tiers=tiers | {"app": {"workers": 30}}, interactions=pages | parts, workloads=loads)
    found = twin.learn(run)
    assert {name: found.experiment.tiers[name].calls["app"].kept for name in kept} == kept


def test_the_workers_of_a_caller_are_no_pool(tmp_path: Path) -> None:
    """Each of thirty workers waits for one call, so thirty calls are open for as long as the server behind stalls."""
    tiers = {
        "web": {"workers": 30, "backlog": 16, "calls": {"app": {"kept": False, "pool": 0}}},
        "app": {"workers": 90},
    }
    pages = {"page": {"at": {"web": {"compute": "500 us", "calls": {"part": 1}}}}}
    pages |= {"part": {"at": {"app": {"compute": "500 us"}}}}
    stall = {"kind": "freeze", "place": "app", "at": "5 s", "for": "700 ms"}
    found = twin.learn(recorded(tmp_path, tiers=tiers, interactions=pages, stalls=[stall]))
    assert found.experiment.tiers["web"].calls["app"].pool == 0


def test_of_a_tier_some_servers_share_a_node_and_others_have_their_own() -> None:
    machines = Machines({"app1": "box", "db": "box"}, {"app1": 2.0, "app2": 1.0, "db": 2.0, "web": 1.0})
    found = Structure({"web": ("web",), "app": ("app1", "app2"), "db": ("db",)}, {})
    assert machines.of_tier(("app1", "app2")) == {"node": ["box", "node of app2"]}
    one, two = {"cores": 1.0}, {"cores": 2.0}
    assert machines.nodes(found) == {"web": one, "box": two, "node of app2": one}


def test_a_disk_is_busy_for_a_server_without_visits_too(tmp_path: Path) -> None:
    """Calls that follow traffic all hang at one of two servers, while the disks of both are busy."""
    disk = {"flush": {"period": "20 s", "first": "5 s", "rate": "1 MB/s"}, "bandwidth": "30 MB/s"}
    call = {"kept": True, "pool": 50, "policy": "total_traffic"}
    tiers = {"web": {"workers": 40, "backlog": 16, "calls": {"db": call}}, "db": {"workers": 50, "count": 2}}
    pages = {"page": {"at": {"web": {"compute": "500 us", "calls": {"query": 1}}}}}
    pages |= {"query": {"at": {"db": {"compute": "500 us"}}}}
    found = twin.learn(recorded(tmp_path, tiers=tiers, interactions=pages, nodes={"db": {"disk": disk}}))
    busy = {file: sum(lost > 0.9 for _, lost in steps) for file, steps in found.losses.items() if "log-flush" in file}
    assert busy.keys() == {"db1-log-flush.csv", "db2-log-flush.csv"}
    assert all(busy.values())


def test_a_caller_that_waits_briefly_for_a_connection_repeats_no_attempt_after_that() -> None:
    table = {
        "duration": "1 s",
        "kernel": {"syn": "linux-6.5"},
        "tiers": {"web": {"workers": 1}},
        "interactions": {"page": {"at": {"web": {"compute": "1 ms"}}}},
        "workloads": USERS,
    }
    made = schedule(experiment.from_table(table), None, S + S // 2)
    assert (made["repeats"], made["give_up"]) == ([S], S + S // 2)


def test_a_hole_in_a_path_reaches_half_way_to_the_packets_that_came_through() -> None:
    lost, arrived = np.array([100, 120]) * 1_000_000, np.array([10, 90, 150, 400]) * 1_000_000
    assert paths._widened(lost, arrived) == (95_000_000, 135_000_000)
    alone = np.array([5]) * 1_000_000
    assert paths._widened(alone, np.empty(0, dtype=np.int64)) == (5_000_000, 6_000_000)


def test_attempts_that_a_queue_refused_are_no_part_of_a_hole() -> None:
    """Of attempts to a full queue, one is taken for lost on its way: the hole is no longer than the time around it."""
    ms = 1_000_000
    sent = np.array([0, 100, 110, 120, 130, 140, 400]) * ms
    arrived = sent + np.array([0, 1000, 1000, 1000, 1000, 1000, 0]) * ms
    lost = np.array([0, 1, 1, 1, 1, 1, 0])
    everyone, none = np.zeros(7, dtype=np.int64), np.full(7, -1)
    recorded = SimpleNamespace(
        servers=("web",),
        number={"web": 0},
        server=everyone,
        caller=none,
        sent=sent,
        arrival=arrived,
        lost=lost,
        schedule=(1000 * ms,),
        steps=Steps.of(spans([(50 * ms, 3000 * ms)])),
    )
    account: Any = SimpleNamespace(recorded=recorded)

    def late(visits: list[int]) -> Delays:
        its = np.array(visits)
        return Delays.came_late(its, (account.recorded.arrival - account.recorded.sent)[its])

    [hole] = paths._of(account, Structure({"web": ("web",)}, {}), "web", late([5]), 50 * ms)
    assert hole["at"] == "135 ms"
    assert hole["share"] == 1.0
    [hole] = paths._of(account, Structure({"web": ("web",)}, {}), "web", late([1, 5]), 50 * ms)
    assert hole["share"] == pytest.approx(2 / 5)


def test_equal_candidates_are_compared_in_the_order_of_their_queues(tmp_path: Path) -> None:
    call = {"kept": True, "pool": 50, "policy": "total_request"}
    tiers = {"web": {"workers": 40, "backlog": 16, "calls": {"db": call}}, "db": {"workers": 50, "count": 3}}
    pages = {"page": {"at": {"web": {"compute": "500 us", "calls": {"query": 1}}}}}
    pages |= {"query": {"at": {"db": {"compute": "500 us"}}}}
    freeze = {"kind": "freeze", "at": "5 s", "for": "700 ms", "place": "db2"}
    found = twin.learn(recorded(tmp_path, tiers=tiers, interactions=pages, stalls=[freeze]))
    sets = equals.equals(found)
    assert sets == [{"db1": "db1", "db3": "db3"}]  # db2 lost capacity
    none: Any = np.array([], dtype=np.int64)
    then = Outcome(9, none, {}, {"db3": 4}, {"web": 9, "db1": 2, "db2": 30, "db3": 20})
    run = Outcome(9, none, {}, {"db1": 5}, {"web": 9, "db1": 19, "db2": 31, "db3": 3})
    again = equals.interchanged(then, run, sets)
    assert again.longest == {"web": 9, "db3": 19, "db2": 31, "db1": 3}
    assert again.drops == {"db3": 5}


@pytest.mark.parametrize("kernel", [{"syn": "linux-3.3"}, {"syn": "linux-2.6.32"}])
def test_data_that_came_after_a_second_were_repeated_as_data(tmp_path: Path, kernel: dict[str, str]) -> None:
    """All workers wait for data that are repeated after 0.2, 0.6 and 1.4 s: the hole ends between the last two."""
    call = {"kept": True, "pool": 20}
    tiers = {"web": {"workers": 20, "calls": {"db": call}}, "db": {"workers": 50}}
    pages = {"page": {"at": {"web": {"compute": "500 us", "calls": {"query": 1}}}}}
    pages |= {"query": {"at": {"db": {"compute": "500 us"}}}}
    hole = {"kind": "packet-loss", "place": "db", "at": "1 s", "for": "800 ms"}
    run = recorded(tmp_path, tiers=tiers, interactions=pages, kernel=kernel, stalls=[hole])
    [again] = twin.learn(run).experiment.stalls
    assert again.at + again.length < 2.4 * S
    assert twin.gate(twin.learn(run), run).passed


def test_the_recording_is_one_more_run_of_the_twin() -> None:
    """A queue of 100 differs from 120 by more than 15 %, unless runs of the twin differ by as much."""
    assert not _counted("queue", 120, [100, 100, 101, 100, 99], "").passed
    assert _counted("queue", 120, [100, 110, 104, 92, 95], "").passed
    assert not _counted("queue", 200, [100, 110, 104, 92, 95], "").passed
    low, high = of_one_more([100, 110, 104, 92, 95])
    assert 80 < low < 92
    assert 110 < high < 122


def test_the_recording_is_as_like_the_twin_as_runs_of_the_twin_are_alike() -> None:
    assert needed([1, 1, 1], lambda one, other: float(one == other), 0.8) == 0.8
    assert needed([1, 2, 1], lambda one, other: 1.0 if one == other else 0.6, 0.8) == 0.6


def test_only_calls_that_overlap_are_made_at_once(tmp_path: Path) -> None:
    """A visit makes two calls to the cache at once, and before them two to the database, one after the other."""
    calls = {"query": {"count": 2}, "look": {"count": 2, "parallel": True}}
    parts = {
        "tiers": {"web": {"calls": ["db", "cache"]}, "db": {}, "cache": {}},
        "interactions": {
            "page": {"at": {"web": {"compute": "1 ms", "calls": calls}}},
            "query": {"at": {"db": {"compute": "500 us", "wait": "2 ms"}}},
            "look": {"at": {"cache": {"compute": "500 us", "wait": "2 ms"}}},
        },
        "workloads": {"users": {"kind": "poisson", "rate": 100.0, "interaction": "page"}},
    }
    learnt = twin.learn(recorded(tmp_path, **parts)).table["interactions"]
    made = {call["to"]: call for work in learnt.values() for at in work["at"].values() for call in at["calls"].values()}
    assert made["cache"].get("parallel") is True
    assert "parallel" not in made["db"]
    assert made["db"]["count"] == 2


@pytest.mark.parametrize("kept", [True, False])
def test_recorded_connections_show_whether_calls_open_them(tmp_path: Path, kept: bool) -> None:
    parts = {
        "tiers": {"web": {"workers": 20, "calls": {"db": {"kept": kept}}}, "db": {}},
        "interactions": {
            "page": {"at": {"web": {"compute": "1 ms", "calls": {"query": 1}}}},
            "query": {"at": {"db": {"compute": "1 ms"}}},
        },
    }
    run = recorded(tmp_path, **parts)
    learnt = twin.learn(run)
    assert learnt.table["tiers"]["web"]["calls"]["db"]["kept"] is kept
    assert not any(unknown.key == "kept" for unknown in learnt.unknowns)
    manifest = run.path / "manifest.json"
    table = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(table | {"connections": {}}))
    unsure = twin.learn(run.path)
    assert unsure.table["tiers"]["web"]["calls"]["db"]["kept"] is True
    assert [unknown.tier for unknown in unsure.unknowns if unknown.key == "kept"] == ["db"]


@pytest.mark.parametrize("held", [True, False])
def test_a_pool_may_be_held_for_whole_visits(tmp_path: Path, held: bool) -> None:
    """A page makes two queries; while the database stands still, pages wait for one of five connections."""
    parts = {
        "tiers": {"web": {"workers": 50, "calls": {"db": {"kept": True, "pool": 5, "for_visit": held}}}, "db": {}},
        "interactions": {
            "page": {"at": {"web": {"compute": "2 ms", "calls": {"query": 2}}}},
            "query": {"at": {"db": {"compute": "500 us"}}},
        },
        "stalls": [{"kind": "freeze", "place": "db", "at": "3 s", "for": "300 ms"}],
    }
    calls = twin.learn(recorded(tmp_path, **parts)).table["tiers"]["web"]["calls"]["db"]
    assert calls["pool"] == 5
    assert calls.get("for_visit", False) is held


def _scattered(calls: dict[str, Any]) -> dict[str, Any]:
    """A page that makes these calls: each takes 2 ms, besides `long`, which takes 8 ms."""
    waits = {name: "8 ms" if name == "long" else "2 ms" for name in calls}
    return {
        "tiers": {
            "web": {"workers": 50, "calls": [f"s{name}" for name in calls]},
            **{f"s{name}": {} for name in calls},
        },
        "interactions": {
            "page": {"at": {"web": {"compute": "1 ms", "calls": calls}}},
            **{name: {"at": {f"s{name}": {"compute": "200 us", "wait": wait}}} for name, wait in waits.items()},
        },
        "workloads": {"users": {"kind": "poisson", "rate": 100.0, "interaction": "page"}},
    }


@pytest.mark.parametrize(
    ("calls", "groups"),
    [
        ({"one": {}, "two": {"with_previous": True}, "long": {"with_previous": True}}, [{"one", "two", "long"}]),
        ({"one": {}, "two": {"with_previous": True}, "three": {}}, [{"one", "two"}, {"three"}]),
        ({"three": {}, "one": {}, "two": {"with_previous": True}}, [{"three"}, {"one", "two"}]),
        ({"one": {}, "two": {}, "three": {}}, [{"one"}, {"two"}, {"three"}]),
        ({"one": {"count": 3}, "long": {"with_previous": True}}, [{"one", "long"}]),
        (
            {"one": {"count": 3, "parallel": True}, "two": {"with_previous": True}, "long": {}},
            [{"one", "two"}, {"long"}],
        ),
    ],
)
def test_calls_to_several_servers_at_the_same_time_are_learnt(
    tmp_path: Path, calls: dict[str, Any], groups: list[set[str]]
) -> None:
    run = recorded(tmp_path, **_scattered(calls))
    page = next(one for one in twin.learn(run).experiment.interactions.values() if "web" in one.at).at["web"]
    found = [{page.calls[name].to for name in step} for step in page.steps()]
    assert found == [{f"s{name}" for name in group} for group in groups]
    for name, made in page.calls.items():
        assert made.parallel == calls[name].get("parallel", False)
        assert made.count == calls[name].get("count", 1)
