"""Each remedy removes most very long requests of a system that it is meant for, and applies only where it can."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tailrace import sim
from tailrace.advise.changing import possible
from tailrace.advise.remedies import EFFORTS, REMEDIES, Remedy
from tailrace.experiment import Experiment, from_table, places

ROOT = Path(__file__).parents[2]
Table = dict[str, Any]


def system(web: Table, app: Table, call: Table | None = None, rate: float = 200.0, **others: Any) -> Table:
    """Requests to web, which calls app; both compute 2 ms."""
    return {
        "duration": "6 s",
        "ramp": "1 s",
        "kernel": {"syn": "linux-3.3"},
        "tiers": {"web": {"workers": 20, "backlog": 10, **web, "calls": {"app": call or {}}}, "app": app},
        "interactions": {
            "page": {"at": {"web": {"compute": "2 ms", "calls": {"part": 1}}}},
            "part": {"at": {"app": {"compute": "2 ms"}}},
        },
        "workloads": {"users": {"kind": "poisson", "rate": rate, "interaction": "page"}},
        **others,
    }


def stall(kind: str, place: str, length: str = "300 ms", **keys: Any) -> list[Table]:
    return [{"kind": kind, "place": place, "at": "2 s", "for": length, **keys}]


def heavy_and_light() -> Table:
    """Forty requests of 50 ms at once, and light ones that wait behind them."""
    table = system({"workers": 500, "backlog": 500}, {"workers": 2}, {"pool": 2})
    heavy = {"at": {"web": {"compute": "1 ms", "calls": {"search": 1}}}, "light": False}
    table["interactions"] |= {"heavy": heavy, "search": {"at": {"app": {"compute": "50 ms"}}}}
    table["workloads"]["searches"] = {"kind": "batch", "size": 40, "every": "4 s", "interaction": "heavy"}
    table["workloads"]["searches"]["first"] = "1 s"
    return table


def bursts() -> Table:
    table = system({}, {})
    table["workloads"]["batch"] = {"kind": "batch", "size": 200, "every": "2 s", "interaction": "page"}
    return table


def behind_a_stall() -> Table:
    """Hundreds of requests wait when app goes on, and more come almost as fast as it serves them."""
    web = {"workers": 2000, "backlog": 2000}
    return system(web, {"workers": 2}, {"pool": 2000}, rate=450.0, stalls=stall("freeze", "app", "1500 ms"))


def silent() -> Table:
    table = system({}, {})
    table["interactions"]["early"] = {"silent": True, "at": {"web": {"wait": "1500 ms"}}}
    early = {"kind": "batch", "size": 20, "every": "4 s", "first": "1 s", "interaction": "early"}
    table["workloads"]["browsers"] = early
    return table


STALLED = system({}, {}, stalls=stall("freeze", "app"))
EVENTS = {"kind": "async", "backlog": 10, "light_queue": 20}
AGAIN = {"users": {"clients": 200, "think": "1 s", "interaction": "page"}}
TWO = {"count": 2, "workers": 50}
UNEVEN = stall("freeze", "app1", "800 ms")
CASES: dict[str, Table] = {
    "backlog": STALLED,
    "workers": STALLED,
    "pool": system({}, {"workers": 40}, {"pool": 1, "endpoint": "wait"}, rate=440.0, latency="200 us"),
    "asynchronous": STALLED,
    "shedding": system({"workers": 100}, {"workers": 100}, {"pool": 100}, stalls=stall("freeze", "app", "1500 ms")),
    "limit": system({"workers": 500}, {"workers": 500}, {"pool": 500}, stalls=stall("freeze", "app", "1500 ms")),
    "priority": heavy_and_light(),
    "newest": behind_a_stall(),
    "policy": system({}, TWO, {"policy": "total_request", "pool": 20}, stalls=UNEVEN),
    "mechanism": system({}, TWO, {"pool": 4, "pool_per": ["candidate"], "endpoint": "original"}, stalls=UNEVEN),
    "connecting": system({}, TWO | {"workers": 10, "backlog": 4}, {"kept": False}, stalls=UNEVEN),
    "hedging": STALLED,
    "elsewhere": system({}, {}, stalls=stall("freeze", "web")),
    "between": system({}, TWO, {"pool": 40, "pool_per": ["candidate"]}, stalls=UNEVEN),
    "retries": STALLED,
    "timeout": STALLED,
    "retransmission": STALLED,
    "keepalive": system({}, {}, {"kept": False}, stalls=stall("freeze", "app"))
    | {"tiers": {"web": EVENTS | {"calls": {"app": {"kept": False}}}, "app": {"workers": 500}}}
    | {"stalls": stall("freeze", "web"), "workloads": AGAIN},
    "quota": system({}, {"quota": {"time": "36 ms"}}),
    "governor": system({}, {}, nodes={"app": {"governor": {"frequencies": ["0.6 GHz", "2 GHz"], "up": 0.99}}}),
    "isolation": system({}, {}, stalls=stall("burn", "app", threads=20, weight=20.0)),
    "pinning": system({}, {}, stalls=stall("burn", "app", threads=20, weight=20.0), nodes={"app": {"cores": 2}}),
    "silence": silent(),
    "heap": system({}, {"heap": {"young": "8 MiB", "per_visit": "26 kB", "young_collection": {"base": "300 ms"}}}),
    "flush": system({}, {}, nodes={"app": {"disk": {"flush": {"period": "3 s", "first": "2 s", "rate": "8 MB/s"}}}}),
    "smoothing": bursts(),
    "replica": system({}, {"demand_factor": 2.7}),
}


REFUSING = ("shedding", "limit", "timeout")
"""They exchange very long requests for refused ones."""


def harmed(experiment: Experiment) -> tuple[int, int]:
    made = sim.count(experiment)
    return made.over_1s, made.over_1s + made.failed


@pytest.mark.parametrize("remedy", REMEDIES, ids=lambda remedy: remedy.name)
def test_a_remedy_removes_what_it_is_meant_for(remedy: Remedy) -> None:
    base = from_table(CASES[remedy.name])
    before, _ = harmed(base)
    assert before >= 10
    left = []
    for option in remedy.options(base):
        for size in option.sizes:
            changed = possible(base, option.changes(size))
            assert changed is not None, option.words(size)
            left.append(harmed(changed)[remedy.name not in REFUSING])
    assert min(left) <= before / 2


def test_a_remedy_without_anything_to_change_does_not_apply() -> None:
    plain = from_table(STALLED)
    applied = {remedy.name for remedy in REMEDIES if any(option.sizes for option in remedy.options(plain))}
    unfit = {
        "keepalive",
        "policy",
        "mechanism",
        "quota",
        "governor",
        "isolation",
        "pinning",
        "silence",
        "heap",
        "flush",
        "smoothing",
    }
    assert applied == set(CASES) - unfit - {"between", "connecting"}


def test_a_replica_of_a_stalled_server_is_not_stalled() -> None:
    first = {("freeze", "app"): "app1", ("iowait", "app"): "app1-node", ("iowait", "app-node"): "app1-node"}
    for (kind, place), moved in first.items():
        base = from_table(system({}, {}, stalls=stall(kind, place)))
        [option] = [
            option
            for remedy in REMEDIES
            if remedy.name == "replica"
            for option in remedy.options(base)
            if option.place == "app" and option.sizes == (2,)
        ]
        changed = possible(base, option.changes(2))
        assert changed is not None
        assert [one.place for one in changed.stalls] == [moved]


def test_the_reference_names_every_remedy_with_its_source_and_side_effect() -> None:
    text = (ROOT / "docs/reference/remedies.md").read_text()
    rows = re.findall(r"^\| `([a-z]+)` \| (.*) \| (.*) \| (.*) \| (.*) \|$", text, re.MULTILINE)
    assert [row[0] for row in rows] == [remedy.name for remedy in REMEDIES]
    for (_, _, effort, hurts, source), remedy in zip(rows, REMEDIES, strict=True):
        assert (effort, hurts, source) == (EFFORTS[remedy.effort], remedy.hurts, remedy.source)


def test_asynchronous_servers_keep_the_connections_of_their_drivers() -> None:
    """A proxy opens a connection for each call, unless an asynchronous server behind it can hold any number. A server
    behind it keeps its pool, whatever the software of the twin."""
    table = system({}, {"calls": {"db": {"pool": 40, "for_visit": True}}, "workers": 30})
    table["tiers"]["db"] = {}
    table["interactions"]["part"]["at"]["app"]["calls"] = {"query": 1}
    table["interactions"]["query"] = {"at": {"db": {"compute": "1 ms"}}}
    base = from_table(table)
    [remedy] = [one for one in REMEDIES if one.name == "asynchronous"]
    made = {option.place: possible(base, option.changes(None)) for option in remedy.options(base)}
    tiers = {place: one.tiers for place, one in made.items() if one}
    assert list(tiers) == ["web", "web, app", "web, app, db"]
    web = {place: (of["web"].calls["app"].kept, of["web"].calls["app"].pool) for place, of in tiers.items()}
    assert web == {"web": (False, 0), "web, app": (True, 0), "web, app, db": (True, 0)}
    for of in (tiers["web, app"], tiers["web, app, db"]):
        assert (of["app"].kind, of["app"].workers) == ("async", 0)
        assert (of["app"].calls["db"].kept, of["app"].calls["db"].pool) == (True, 40)


def test_quota_periods_at_different_times_leave_a_server_that_goes_on() -> None:
    """Two servers behind a balancer that asks the less busy one, each with a quota of short bursts in long periods."""
    app = {"count": 2, "workers": 4, "backlog": 2, "quota": {"time": "262 ms", "period": "1 s"}}
    call = {"policy": "least_connections", "kept": False}
    base = from_table(system({"workers": 200, "backlog": 200}, app, call, rate=250.0) | {"duration": "12 s"})
    [remedy] = [one for one in REMEDIES if one.name == "quota"]
    [spread] = [one for one in remedy.options(base) if one.sizes == (None,) and "periods" in one.words(None)]
    changed = possible(base, spread.changes(None))
    assert changed is not None
    assert changed.tiers["app"].quota is not None
    assert changed.tiers["app"].quota.phases == "even"
    before, after = harmed(base)[0], harmed(changed)[0]
    assert before >= 10
    assert after <= before / 4
    assert not [one for one in remedy.options(changed) if one.sizes == (None,) and "periods" in one.words(None)]


def test_a_pinned_server_has_cpus_of_its_own_and_leaves_the_others() -> None:
    table = system({"node": ["host"]}, {"node": ["host"]}, nodes={"host": {"cores": 4, "governor": {}}})
    [remedy] = [one for one in REMEDIES if one.name == "pinning"]
    options = {option.place: option for option in remedy.options(from_table(table))}
    assert list(options) == ["web", "app"]
    assert options["app"].sizes == (1, 2, 3)
    changed = possible(from_table(table), options["app"].changes(3))
    assert changed is not None
    nodes = places.nodes(changed)
    assert {name: node.cores for name, node in nodes.items()} == {"host": 1.0, "app-cpus": 3.0}
    assert all(node.governor for node in nodes.values())
    single = from_table(system({"node": ["host"]}, {"node": ["host"]}, nodes={"host": {"cores": 1}}))
    assert not list(remedy.options(single))
