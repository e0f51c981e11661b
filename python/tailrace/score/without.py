"""What the troubles of a drawn system really did: it is simulated again without each of them, with the same random
numbers. No rule says what belongs to what, and nothing but the number of very slow requests (VLRT) is looked at.

    n        VLRT of the system as it was drawn
    left     of those without all troubles of one kind; none: without any trouble
    alone    with those of one kind alone

Of so many requests it may be right to tell a kind: max(n - left, alone - none), for one trouble may do nothing without
another, and of two that do the same each alone would be missed by nobody. That the cause is unknown is right of as many
as there are without any trouble, or as there are fewer without what nobody samples (`slow`).
"""

from __future__ import annotations

import copy
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from tailrace import sim
from tailrace.dataset import Dataset
from tailrace.experiment import from_table
from tailrace.score.busy import reached
from tailrace.score.graphs import GUEST
from tailrace.score.stalls import BALANCER, BURST, CAUSES, FREQUENCY, NEIGHBOUR, NONE, QUOTA
from tailrace.score.troubles import Table
from tailrace.units import parse_duration

OF_TIERS = {"heap": "garbage-collection", "quota": QUOTA}
OF_DISKS = {"flush": "log-flush", "writeback": "writeback"}


def troubles(table: Table) -> tuple[str, ...]:
    """The kinds of those of a drawn experiment, look-alikes among them."""
    found = {_cause(stall) for stall in table["stalls"]}
    found |= {cause for tier in table["tiers"].values() for key, cause in OF_TIERS.items() if key in tier}
    for node in table["nodes"].values():
        found |= {cause for key, cause in OF_DISKS.items() if key in node.get("disk", {})}
        found |= {FREQUENCY} if "governor" in node else set()
    bursty = any(_is_bursty(load) for name, load in table["workloads"].items() if name != GUEST)
    found |= {BURST} if bursty else set()
    found |= {NEIGHBOUR} if GUEST in table["workloads"] or _beside(table) else set()
    return tuple(sorted(found))


def without(table: Table, kinds: Iterable[str]) -> Table:
    """The experiment without troubles of these kinds. Without `balancer`, calls go round; without bursts, as many come
    evenly; without neighbours, guests ask for nothing, and tiers of different ways are on different machines."""
    left, gone = copy.deepcopy(table), set(kinds)
    left["stalls"] = [stall for stall in left["stalls"] if _cause(stall) not in gone]
    loads = left["workloads"]
    if NEIGHBOUR in gone:
        loads.pop(GUEST, None)
        for name in _beside(table):
            del left["tiers"][name]["node"]
    if BURST in gone:
        own = {name: _evenly(load) for name, load in loads.items() if name != GUEST and load.get("kind") != "batch"}
        left["workloads"] = own | {name: load for name, load in loads.items() if name == GUEST}
    for tier in left["tiers"].values():
        for key in [key for key, cause in OF_TIERS.items() if cause in gone]:
            tier.pop(key, None)
        for call in tier.get("calls", {}).values() if BALANCER in gone else ():
            call |= {"policy": "round_robin", "endpoint": "modified"}
    for node in left["nodes"].values():
        disk = {key: what for key, what in node.pop("disk", {}).items() if OF_DISKS.get(key) not in gone}
        node |= {"disk": disk} if set(disk) & set(OF_DISKS) else {}
        if FREQUENCY in gone:
            node.pop("governor", None)
    return left


def _beside(table: Table) -> list[str]:
    """Tiers that run beside one which neither leads to them nor is led to."""
    tiers = table["tiers"]
    calls = {name: tier.get("calls", {}) for name, tier in tiers.items()}
    ways = {name: reached(name, calls) for name in tiers}
    own = {name: tier["node"][0] for name, tier in tiers.items() if "node" in tier and not name.startswith(GUEST)}
    return [name for name, home in own.items() if name not in ways[home] and home not in ways[name]]


def _is_bursty(load: Table) -> bool:
    return load.get("kind") in ("batch", "modulated") or "index_of_dispersion" in load


def _evenly(load: Table) -> Table:
    """As many requests, without waves or bursts."""
    if load.get("kind") == "modulated":
        stays = [parse_duration(stay) for stay in load["stays"]]
        rate = sum(rate * stay for rate, stay in zip(load["rates"], stays, strict=True)) / sum(stays)
        rest = {key: value for key, value in load.items() if key not in ("kind", "rates", "stays")}
        return {"kind": "poisson", "rate": rate, **rest}
    return {key: value for key, value in load.items() if key != "index_of_dispersion"}


def _cause(stall: Table) -> str:
    """Drawn stalls have one each."""
    kind: str = stall["kind"]
    return min(CAUSES.get(kind, frozenset({kind})))


def right(table: Table, told: Mapping[str, Any]) -> int:
    """Of how many of the VLRT that a diagnosis (diagnosis.json, read) explains its causes may be right."""
    n: int = sum(episode["vlrt"] for episode in told["episodes"])
    causes: Counter[str] = Counter()
    for row in (row for episode in told["episodes"] for row in episode["chains"]):
        causes[row["cause"]] += row["vlrt"]
    threshold_ns: int = told["threshold_ns"]
    most = credit(n, troubles(table), BALANCER in causes, lambda gone: _vlrt(without(table, gone), threshold_ns))
    found = 0
    for cause, vlrt in causes.items():
        found += min(vlrt, *(most.get(part, 0) for part in cause.split(" or ")))
    return min(n, found)


def credit(n: int, kinds: tuple[str, ...], balancer: bool, left: Callable[[set[str]], int]) -> dict[str, int]:
    """Kind → of how many of the n VLRT it may be told; `left` says how many there are without some kinds."""
    none = left(set(kinds)) if kinds else n
    most = {}
    for kind in kinds:
        alone = left(set(kinds) - {kind}) if len(kinds) > 1 else n
        most[kind] = max(n - left({kind}), alone - none, 0)
    most[NONE] = max(none, most.get(NONE, 0))
    return most | ({BALANCER: max(n - left({BALANCER}), 0)} if balancer else {})


def _vlrt(table: Table, threshold_ns: int) -> int:
    with tempfile.TemporaryDirectory(prefix="tailrace-") as folder:
        sim.simulate(from_table(table), Path(folder) / "run")
        requests = Dataset.open(Path(folder) / "run").requests()
        slow = requests.filter(pl.col("end") - pl.col("sent") >= threshold_ns)
        return int(slow.select(pl.len()).collect().item())
