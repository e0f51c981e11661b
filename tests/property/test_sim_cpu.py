"""Processors: the share of each group, and the effect of a stall."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plans import (
    MS,
    Plan,
    S,
    assert_is,
    changed,
    closed,
    counts,
    exponential,
    poisson,
    replicate,
    run,
    server,
    station,
    system,
)


def busy(clients: int, work_ns: float, duration: int, **more: Any) -> Plan:
    """A station that always has `clients` jobs: each finished job comes again at once."""
    return station({"constant": work_ns}, closed(clients, {"constant": 0.0}), duration=duration, **more)


def beside_each_other(weights: list[float], clients: list[int], virtual: list[float], cores: float) -> Plan:
    """Groups on one node, each with a server that always has so many jobs of 1 ms."""
    servers = [server(f"s{i}", cores=cores) for i in range(len(weights))]
    loads = [closed(n, {"constant": 0.0}, entries=[i]) for i, n in enumerate(clients)]
    plan = system(servers, [[{"compute": {"constant": 1e6}}]], *loads, duration=20 * S, sample=S)
    plan["nodes"] = [{"name": "node", "cores": cores}]
    shares = zip(weights, virtual, strict=True)
    plan["groups"] = [{"name": f"s{i}", "node": 0, "weight": w, "cores": v} for i, (w, v) in enumerate(shares)]
    return plan


def used(plan: Plan, folder: Path) -> list[float]:
    """Cores that each group used."""
    samples = run(plan, folder).samples
    cores = plan["nodes"][0]["cores"]
    seen = []
    for group in plan["groups"]:
        mine = samples.filter((samples["place"] == group["name"]) & (samples["metric"] == "cpu_busy"))
        seen.append(float(mine["value"].head(20).sum()) / 20 * min(group["cores"], cores))
    return seen


@pytest.mark.parametrize(
    ("weights", "clients", "virtual", "cores", "expected"),
    [
        ([1, 1], [3, 5], [1, 1], 1.0, [0.5, 0.5]),
        ([3, 1], [2, 2], [1, 1], 1.0, [0.75, 0.25]),
        # Two want less than their share, one thread and one virtual CPU; the third gets the rest.
        ([1, 1, 1], [1, 9, 9], [4, 1, 4], 4.0, [1.0, 1.0, 2.0]),
        # 1 : 2 : 5 of four cores is 0.5 : 1 : 2.5; the last one wants two, and the others share the rest 1 : 2.
        ([1, 2, 5], [9, 9, 2], [4, 4, 4], 4.0, [2 / 3, 4 / 3, 2.0]),
    ],
)
def test_groups_get_their_shares_by_weight_and_what_others_leave(
    weights: list[float], clients: list[int], virtual: list[float], cores: float, expected: list[float], tmp_path: Path
) -> None:
    """Water-filling. Exact but for the rounding of each job's end to a whole ns: 1e-6 of 1 ms."""
    assert used(beside_each_other(weights, clients, virtual, cores), tmp_path) == pytest.approx(expected, rel=2e-5)


def served(plan: Plan) -> int:
    return int(counts(plan)["answered"])


def test_a_quota_is_the_throughput_there_is() -> None:
    """30 ms of each 100 ms, on two cores at once: 0.3 cores."""
    plan = busy(8, 1e6, duration=10 * S, cores=2.0)
    plan["groups"][0]["quota"] = {"quota": 30 * MS, "period": 100 * MS}
    assert served(plan) == pytest.approx(10 * 300, abs=8)


def test_work_grows_with_runnable_threads_along_the_curve() -> None:
    """1 + slope·(n - free)^power, constant while n is."""
    for n in (4, 5, 20, 100):
        plan = busy(n, 1e6, duration=20 * S)
        plan["groups"][0]["inflation"] = {"free": 4.0, "slope": 0.02, "power": 1.2}
        inflated = 1 + 0.02 * max(0, n - 4) ** 1.2
        assert served(plan) == pytest.approx(20_000 / inflated, abs=n + 1)


def test_half_the_clock_rate_is_twice_the_work() -> None:
    """A governor that never steps up: M/M/1 at half the speed."""
    plan = station(exponential(1 * MS), poisson(350), duration=300 * S, ramp=5 * S)
    plan["nodes"][0]["governor"] = {"period": 500 * MS, "hz": [1e9, 2e9], "up": 2.0, "down": 0.0}
    assert_is(replicate(plan), 2e-3 / (1 - 0.7), within=0.05)


@pytest.mark.parametrize(
    ("effect", "left"),
    [
        ({"freeze": {"group": 0}}, 0.0),
        ({"slow": {"group": 0, "left": 0.3}}, 0.3),
        ({"iowait": {"node": 0, "blocks": 0.6}}, 0.4),
        ({"iowait": {"node": 0, "blocks": 1.0}}, 0.0),
        ({"burn": {"group": 0, "threads": 30}}, 0.25),
    ],
    ids=["freeze", "slow", "iowait", "all iowait", "burn"],
)
def test_what_a_stall_takes_is_exactly_its_share_of_its_time(effect: Plan, left: float) -> None:
    """Ten jobs of 1 ms at any time; two stalls of 0.4 s in 10 s. One round of jobs is under way at the end."""
    stalls = [{"begin": at * S, "end": at * S + 400 * MS, "kind": "k", "effect": effect} for at in (2, 6)]
    plan = busy(10, 1e6, duration=10 * S)
    lost = served(plan) - served(changed(plan, stalls=stalls))
    assert lost == pytest.approx(800 * (1 - left), abs=11)


def test_a_neighbour_takes_its_weight() -> None:
    plan = beside_each_other([1, 3], [4, 1], [1, 1], 1.0)
    alone = changed(plan, workloads=plan["workloads"][:1])
    burn = {"begin": 5 * S, "end": 9 * S, "kind": "neighbour", "effect": {"burn": {"group": 1, "threads": 2}}}
    assert served(alone) - served(changed(alone, stalls=[burn])) == pytest.approx(4000 * 0.75, abs=5)


def test_collections_take_their_time_and_nothing_else() -> None:
    """Every 1000th visit stops the server for 5 ms and 0.2 ms for each of the ten inside."""
    plan = busy(10, 1e6, duration=20 * S)
    plan["servers"][0]["heap"] = {
        "young_bytes": 1e6,
        "bytes_per_visit": 1e3,
        "threads": 1.0,
        "young": {"base": 5 * MS, "per_live": MS // 5},
    }
    cycle = 1000 * 1e-3 + 7e-3
    assert served(plan) == pytest.approx(20 / cycle * 1000, abs=18)
