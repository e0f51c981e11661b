"""Removes troubles from the table that describes an experiment.

The name of a trouble is the causes that a diagnosis may report for it ("log-flush or writeback" where the recording
cannot distinguish the two). For a trouble that no monitor records, the right cause is `unknown`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tailrace.experiment import from_table, places, traces
from tailrace.experiment.reading import to_table
from tailrace.score.figures import TIE
from tailrace.score.stalls import BALANCER, BURST, CAUSES, FREQUENCY, NEIGHBOUR, OVERHEAD, QUOTA, SOFT
from tailrace.units import MILLISECOND, SECOND, exact_duration, parse_duration

Table = dict[str, Any]
HEAVY_NS = 100 * MILLISECOND
"""No page of the papers computes for a tenth of this at any tier."""
UNLIMITED = 10_000
"""More workers than any system here has requests inside."""


def complete(table: Mapping[str, Any]) -> Table:
    """The table with every default value, which the removals need."""
    return to_table(from_table(table))


def troubles(table: Table) -> tuple[str, ...]:
    """The troubles of a complete table: its stalls, and everything that a removal would change."""
    found = {trouble(stall) for stall in table["stalls"]}
    return tuple(sorted(found | {cause for cause in REMOVALS if without(table, {cause}) != table}))


def without(table: Table, gone: Iterable[str]) -> Table:
    """A complete table without these troubles; the order of the removals is that of `REMOVALS`."""
    left, names = copy.deepcopy(table), set(gone)
    left["stalls"] = [stall for stall in left["stalls"] if trouble(stall) not in names]
    for cause, remove in (REMOVALS | SHAPES).items():
        if cause in names:
            remove(left)
    return left


def trouble(stall: Table) -> str:
    kind: str = stall["kind"]
    return TIE.join(sorted(CAUSES.get(kind, {kind})))


def _collections(table: Table) -> None:
    for tier in table["tiers"].values():
        tier.pop("heap", None)


def _quotas(table: Table) -> None:
    for tier in table["tiers"].values():
        tier.pop("quota", None)


def _governors(table: Table) -> None:
    for node in table["nodes"].values():
        node.pop("governor", None)


def _of_disks(key: str) -> Callable[[Table], None]:
    def remove(table: Table) -> None:
        for node in table["nodes"].values():
            node.get("disk", {}).pop(key, None)

    return remove


def _bursts(table: Table) -> None:
    """The same number of requests arrives evenly; workloads that come for a part of the run are removed."""
    loads = table["workloads"]
    for name in [name for name, load in loads.items() if _comes_in_addition(load, table)]:
        if len(loads) > 1:
            del loads[name]
    for name in loads:
        loads[name] = _evenly(loads[name], table)


def _comes_in_addition(load: Table, table: Table) -> bool:
    begins = "begin" in load and parse_duration(load["begin"]) > 0
    ends = "end" in load and parse_duration(load["end"]) < parse_duration(table["duration"])
    return load["kind"] == "batch" or begins or ends


def _evenly(load: Table, table: Table) -> Table:
    if load["kind"] == "modulated":
        stays = [parse_duration(stay) for stay in load["stays"]]
        rate = sum(per_second(rate) * stay for rate, stay in zip(load["rates"], stays, strict=True)) / sum(stays)
        rest = {key: value for key, value in load.items() if key not in ("kind", "rates", "stays")}
        return rest | {"kind": "poisson", "rate": rate}
    if load["kind"] == "trace":
        requests = traces.read(load["file"])
        times, names = requests.times, requests.names
        rest = {key: value for key, value in load.items() if key not in ("kind", "file")}
        rest |= {"mix": {name: names.count(name) for name in set(names)}} if names else {}
        return rest | {"kind": "poisson", "rate": len(times) / (parse_duration(table["duration"]) / SECOND)}
    if load["kind"] == "closed":
        return load | {"index_of_dispersion": 1.0, "start": "thinking"}
    return load


def per_second(rate: Any) -> float:
    return float(str(rate).removesuffix("/s"))


def _own_work(table: Table) -> None:
    """No visit computes for longer than `HEAVY_NS`."""
    for interaction in table["interactions"].values():
        for work in interaction["at"].values():
            if parse_duration(work["compute"]) > HEAVY_NS:
                work["compute"] = exact_duration(HEAVY_NS)


def _retries(table: Table) -> None:
    """Clients send each request once."""
    for load in table["workloads"].values():
        load |= {"retries": 0, "hedge": "0 ns"}


def _neighbours(table: Table) -> None:
    """Systems that share a machine get machines of their own."""
    for name, home in _beside(table).items():
        named = table["tiers"][name]["node"]
        table["tiers"][name]["node"] = []
        own = {key: value for key, value in table["nodes"].get(home, {}).items() if key in ("cores", "memory")}
        if own:
            table["nodes"][name] = own
        used = {node for tier in table["tiers"].values() for node in tier["node"]} | set(table["tiers"])
        for node in set(named) - used:
            table["nodes"].pop(node, None)


def _beside(table: Table) -> dict[str, str]:
    """Each tier that runs on a machine of another system's tier, and the node (or tier) that names the machine."""
    ways = _ways(table)
    servers = places.servers(from_table(table))
    found: dict[str, str] = {}
    for number, server in enumerate(servers):
        # The first server in the file, or one without a `node` of its own, belongs there.
        first = next((one for one in servers if one.node == server.node and not table["tiers"][one.tier]["node"]), None)
        home = first or next(one for one in servers if one.node == server.node)
        apart = server.tier not in ways[home.tier] and home.tier not in ways[server.tier]
        if apart and number and table["tiers"][server.tier]["node"]:
            found[server.tier] = home.tier if first else server.node
    return found


def _ways(table: Table) -> dict[str, set[str]]:
    """Each tier with all that it calls, directly or through others."""
    found = {}
    for name in table["tiers"]:
        way = [name]
        for one in way:  # The list grows during the iteration.
            way += [callee for callee in table["tiers"][one]["calls"] if callee not in way]
        found[name] = set(way)
    return found


def _balancers(table: Table) -> None:
    """Calls go to the candidates in turn, and skip one whose connections are all in use."""
    for tier in table["tiers"].values():
        for callee, call in tier["calls"].items():
            if table["tiers"][callee]["count"] > 1:
                call |= {"policy": "round_robin", "endpoint": "modified"}


def _overheads(table: Table) -> None:
    """Each request costs the same, however many run at the same time."""
    for tier in table["tiers"].values():
        tier.pop("inflation", None)


def _limits(table: Table) -> None:
    """Any number of workers, and no pools."""
    for tier in table["tiers"].values():
        if tier["kind"] != "async":
            tier["workers"] = UNLIMITED
        for call in tier["calls"].values():
            call |= {"pool": 0, "kept": False, "for_visit": False, "pool_per": []}


REMOVALS: dict[str, Callable[[Table], None]] = {
    "garbage-collection": _collections,
    QUOTA: _quotas,
    FREQUENCY: _governors,
    "log-flush": _of_disks("flush"),
    "writeback": _of_disks("writeback"),
    BURST: _bursts,
    NEIGHBOUR: _neighbours,
    "own-work": _own_work,
}
"""How each trouble other than an injected stall is removed."""
SHAPES: dict[str, Callable[[Table], None]] = {
    BALANCER: _balancers,
    SOFT: _limits,
    OVERHEAD: _overheads,
    "retries": _retries,
}
"""Properties of a system that are not troubles. They are removed only if the diagnosis reports them."""
