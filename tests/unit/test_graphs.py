"""Random graphs of services: what is drawn, and the truth about them."""

from __future__ import annotations

import hashlib
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tailrace import sim
from tailrace.dataset import Dataset
from tailrace.experiment import from_table
from tailrace.score import drawing, read
from tailrace.score.graphs import CACHE, CALLS_MAX, COMPUTE_MAX, GUEST, STORES, draw
from tailrace.score.stalls import BURST, NEIGHBOUR
from tailrace.score.sweep import BOTH, CHAINS, GRAPHS, shape, sweep
from tailrace.score.troubles import Table

DRAWN = [draw(seed) for seed in range(300)]


def calls(table: Table) -> list[dict[str, Any]]:
    """How often each interaction calls each other."""
    works = (work for interaction in table["interactions"].values() for work in interaction["at"].values())
    return [made for work in works for made in work.get("calls", {}).values() if isinstance(made, dict)]


def own(table: Table) -> dict[str, Table]:
    """Tiers of the system that receives the requests."""
    return {name: tier for name, tier in table["tiers"].items() if not name.startswith(GUEST)}


def test_every_drawn_graph_can_be_simulated() -> None:
    for table in DRAWN[:120]:
        sim.lower(from_table(table))


def test_equal_seeds_draw_equal_graphs() -> None:
    assert [draw(seed) for seed in range(20)] == DRAWN[:20]
    assert all(one != other for one, other in pairwise(DRAWN))


def test_each_tier_is_called_and_calls_one_to_three_later_ones() -> None:
    for table in DRAWN:
        tiers = own(table)
        assert 3 <= len(tiers) <= 7
        called = {callee for tier in tiers.values() for callee in tier.get("calls", {})}
        entries = {load["entry"] for load in table["workloads"].values()} - {GUEST}
        assert called | entries == set(tiers)
        assert not called & entries
        for place, (name, tier) in enumerate(tiers.items()):
            assert (0 if name in STORES else 1) <= len(tier.get("calls", {})) <= CALLS_MAX
            assert set(tier.get("calls", {})) <= set(list(tiers)[place + 1 :])


@pytest.mark.parametrize(
    "has",
    [
        lambda t: "others" in t["workloads"],
        lambda t: any(len(tier.get("calls", {})) == CALLS_MAX for tier in t["tiers"].values()),
        lambda t: CACHE in t["tiers"],
        lambda t: any(made.get("parallel") for made in calls(t)),
        lambda t: any(made.get("with_previous") for made in calls(t)),
        lambda t: any(made.get("all") for made in calls(t)),
        lambda t: any(0 < made.get("count", 1) < 1 for made in calls(t)),
        lambda t: "mix" in t["workloads"]["users"],
        lambda t: t["workloads"]["users"].get("kind") == "poisson",
        lambda t: t["workloads"]["users"].get("kind") == "modulated",
        lambda t: t["workloads"]["users"].get("index_of_dispersion") == 100,
        lambda t: t["workloads"]["users"].get("index_of_dispersion") == 400,
        lambda t: any("hedge" in load for load in t["workloads"].values()),
        lambda t: any(load.get("retries") for load in t["workloads"].values()),
        lambda t: any("node" in tier for tier in own(t).values()),
        lambda t: GUEST in t["workloads"],
    ],
)  # fmt: skip
def test_every_option_is_drawn_sometimes_and_none_always(has: Any) -> None:
    assert 5 <= sum(map(has, DRAWN)) <= 290


def test_no_read_is_heavier_at_a_tier_than_in_chains() -> None:
    for table in DRAWN:
        for name in own(table):
            compute = table["interactions"][f"{name} read"]["at"][name]["compute"]
            assert 0 < int(compute.removesuffix(" us")) <= COMPUTE_MAX * 1e6


def test_chains_stay_what_they_were() -> None:
    """A block of seeds can be scored again, and means the same systems."""
    tables = json.dumps([drawing.draw(seed) for seed in range(100)])
    assert hashlib.sha256(tables.encode()).hexdigest()[:16] == "f83d97cfa1e1de6e"


def test_of_both_every_other_seed_is_a_graph_wherever_a_block_begins() -> None:
    assert [shape(seed, BOTH) for seed in (6, 7, 8)] == [CHAINS, GRAPHS, CHAINS]
    assert {shape(seed, GRAPHS) for seed in range(4)} == {GRAPHS}


def test_a_sweep_takes_no_chain_for_a_graph(tmp_path: Path) -> None:
    [chain] = sweep([1], tmp_path, systems=CHAINS, processes=1)
    [graph] = sweep([1], tmp_path, systems=BOTH, processes=1)
    assert (chain["systems"], graph["systems"]) == (CHAINS, GRAPHS)
    assert chain["requests"] != graph["requests"]


def shared(**more: Any) -> Table:
    """web calls app and beside, which share a machine, and app calls db. At times more requests arrive than the machine
    can serve."""
    return {
        "duration": "20 s",
        "ramp": "2 s",
        "tiers": {
            "web": {"kind": "async", "calls": ["app", "beside"]},
            "app": {"workers": 60, "calls": ["db"]},
            "beside": {"workers": 60, "node": "app"},
            "db": {"workers": 60},
            **more,
        },
        "interactions": {
            "page": {"at": {"web": {"calls": {"servlet": 1, "ask": 1}}}},
            "servlet": {"at": {"app": {"compute": "1.5 ms", "calls": {"query": 1}}}},
            "ask": {"at": {"beside": {"compute": "1.5 ms"}}},
            "query": {"at": {"db": {"compute": "0.5 ms"}}},
        },
        "workloads": {
            "users": {"kind": "modulated", "rates": [200, 600], "stays": ["5 s", "1 s"], "interaction": "page"}
        },
    }


def kinds(table: Table, folder: Path) -> set[tuple[str, tuple[str, ...]]]:
    """The truth in the examiner's form."""
    table["workloads"]["users"]["entry"] = "web"
    sim.simulate(from_table(table), folder)
    return {(s.kind, tuple(sorted(s.origins))) for s in read(folder, Dataset.open(folder).topology)}


def test_servers_of_one_way_are_no_neighbours_of_each_other(tmp_path: Path) -> None:
    apart, way = shared(), shared(beside={"workers": 60}, db={"workers": 60, "node": "app"})
    assert (NEIGHBOUR, ("app",)) in kinds(apart, tmp_path / "apart")
    assert {kind for kind, _ in kinds(way, tmp_path / "way")} == {BURST}


def test_a_burst_does_not_come_to_another_entry(tmp_path: Path) -> None:
    two = shared(gate={"kind": "async", "calls": ["db"]})
    two["interactions"]["look"] = {"at": {"gate": {"calls": {"query": 1}}}}
    two["workloads"]["others"] = {"kind": "poisson", "rate": 20, "interaction": "look", "entry": "gate"}
    assert {origins for kind, origins in kinds(two, tmp_path / "run") if kind == BURST} == {("web",)}
