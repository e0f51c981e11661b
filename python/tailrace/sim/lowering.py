"""From an experiment to the engine's plan (`crates/core/src/sim/plan.rs`): only this package turns names into indices.

It is a pure function: equal experiments give equal plans.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from math import ceil
from typing import Any
from uuid import uuid4

from tailrace.experiment import Experiment, losses, places
from tailrace.experiment.kernels import of_resolver, schedule
from tailrace.experiment.machines import Node
from tailrace.experiment.model import AnyStall, Burn, Iowait, Lock, MemoryWait, NoAnswer, PacketLoss, Restart, Slow
from tailrace.experiment.tiers import NAMES, Call, Limit, Tier
from tailrace.experiment.traces import Lowered
from tailrace.sim.programs import Programs
from tailrace.sim.refusals import refuse
from tailrace.sim.workloads import workload

Json = dict[str, Any]

EPOCH = 1_767_225_600_000_000_000
"""Begin of every run: 2026-01-01T00:00:00Z. It is fixed, so that equal seeds give equal bytes."""
NO_LIMIT = 2**32 - 1


@dataclass
class Indices:
    nodes: dict[str, int]
    servers: dict[str, int]
    groups: list[Json] = field(default_factory=list)
    neighbours: dict[tuple[str, float], int] = field(default_factory=dict)


def lower(experiment: Experiment) -> Json:
    """The plan as plain values. Raises UsageError for what the simulator cannot do."""
    refuse(experiment)
    nodes, servers = places.nodes(experiment), places.servers(experiment)
    indices = Indices(
        {name: number for number, name in enumerate(nodes)},
        {server.name: number for number, server in enumerate(servers)},
    )
    cores = places.cores(experiment)
    indices.groups = [_group(experiment, server, cores, indices) for server in servers]
    for (node, weight), name in places.neighbours(experiment).items():
        indices.neighbours[node, weight] = len(indices.groups)
        indices.groups.append({"name": name, "node": indices.nodes[node], "weight": weight, "cores": cores[node]})
    programs = Programs(experiment)
    workloads = [
        workload(experiment, name, load, programs, indices.servers) for name, load in experiment.workloads.items()
    ]
    stalls = _stalls(experiment, indices, programs)
    programs_of = programs.by_tier()  # complete only now, because workloads add the programs that they need
    plan: Json = {
        "seed": experiment.seed,
        "replication": experiment.replication,
        "epoch": EPOCH,
        "duration": experiment.ramp + experiment.duration,
        "record_from": experiment.ramp,
        "sample": experiment.sampling.interval,
        "sample_work": experiment.sampling.cost,
        "latency": experiment.latency,
        "nodes": _nodes(experiment),
        "groups": indices.groups,
        "servers": [_server(experiment, server, cores, indices, programs_of[server.tier]) for server in servers],
        "classes": programs.classes(),
        "programs": programs.programs,
        "workloads": workloads,
        "stalls": stalls,
    }
    if experiment.losses:
        plan["capacities"] = _capacities(experiment, indices)
    if any("factors" in load["arrivals"].get("trace", ()) for load in workloads):
        tiers = list(experiment.tiers)
        plan["tiers"] = 2 * len(tiers)  # as in `traces.plan`
        for lowered, server in zip(plan["servers"], servers, strict=True):
            number = tiers.index(server.tier)
            lowered |= {"tier": number, "first": len(tiers) + number}
    return plan


def text(plan: Json) -> str:
    """A plan as JSON with sorted keys. Recorded requests are most of it, and are written once for all plans that share
    them."""
    shared, workloads = {}, []
    for load in plan["workloads"]:
        trace = load["arrivals"].get("trace")
        if isinstance(trace, Lowered):
            mark = uuid4().hex
            shared[mark] = trace.text
            load = load | {"arrivals": {"trace": mark}}
        workloads.append(load)
    found = json.dumps(plan | {"workloads": workloads}, sort_keys=True)
    for mark, part in shared.items():
        found = found.replace(f'"{mark}"', part)
    return found


def _nodes(experiment: Experiment) -> list[Json]:
    lowered = [_node(name, node, experiment.ramp) for name, node in places.nodes(experiment).items()]
    turns = places.turns(experiment)
    for node in lowered:
        if node["name"] in turns:
            writeback = node["disk"]["writeback"]
            writeback["first"] = turns[node["name"]] if writeback["first"] is None else writeback["first"]
    return lowered


def _node(name: str, node: Node, ramp: int) -> Json:
    lowered: Json = {"name": name, "cores": node.cores, "steal": node.steal}
    if node.governor:
        governor = node.governor
        lowered["governor"] = {
            "period": governor.period,
            "hz": list(governor.frequencies),
            "up": governor.up,
            "down": governor.down,
            "up_at_once": governor.up_at_once,
        }
        if governor.first is not None:
            lowered["governor"]["first"] = governor.first
        if governor.start is not None:
            lowered["governor"]["start"] = governor.frequencies.index(governor.start)
    if node.disk:
        lowered["disk"] = {"bytes_per_second": float(node.disk.bandwidth)}
        if node.disk.writeback:
            writeback = node.disk.writeback
            lowered["disk"]["writeback"] = {
                "period": writeback.period,
                "first": None if writeback.first is None else (ramp + writeback.first) % writeback.period,
                "drawn": writeback.phases == "drawn",
                "expire": writeback.expire,
                "background": writeback.background * node.memory,
                "limit": writeback.limit * node.memory,
                "blocks": writeback.blocks,
            }
        if node.disk.flush:
            flush = node.disk.flush
            lowered["disk"]["flush"] = {
                "period": flush.period,
                "first": (ramp + flush.first) % flush.period,
                "bytes_per_second": float(flush.rate),
                "blocks": flush.blocks,
            }
    return lowered


def _group(experiment: Experiment, server: places.Server, cores: dict[str, float], indices: Indices) -> Json:
    tier = experiment.tiers[server.tier]
    lowered: Json = {
        "name": server.name,
        "node": indices.nodes[server.node],
        "weight": tier.weight,
        "cores": cores[server.name],
    }
    if tier.quota:
        burst = {"burst": tier.quota.burst} if tier.quota.burst else {}
        lowered["quota"] = {"quota": tier.quota.time, "period": tier.quota.period} | burst | _first(experiment, server)
    if tier.inflation:
        curve = tier.inflation
        lowered["inflation"] = {"free": curve.free, "slope": curve.slope, "power": curve.power}
    return lowered


def _first(experiment: Experiment, server: places.Server) -> Json:
    """When the first period of its quota ends: that of the k-th of n servers that divide it, after k/n of it."""
    spread = [one.name for one in places.servers(experiment) if _divides(experiment.tiers[one.tier])]
    quota = experiment.tiers[server.tier].quota
    if quota is None or server.name not in spread:
        return {}
    return {"first": max(quota.period * (spread.index(server.name) + 1) // len(spread), 1)}


def _divides(tier: Tier) -> bool:
    return tier.quota is not None and tier.quota.phases == "even"


def _server(
    experiment: Experiment,
    server: places.Server,
    cores: dict[str, float],
    indices: Indices,
    programs: list[int | None],
) -> Json:
    tier = experiment.tiers[server.tier]
    lowered: Json = {
        "name": server.name,
        "group": indices.servers[server.name],
        "holds": tier.kind != "async",
        "workers": ceil(cores[server.name]) if tier.workers is None else tier.workers,
        "processes": tier.processes,
        "light_queue": tier.light_queue or 0,
        "lightest_first": tier.order == "lightest",
        "backlog": tier.backlog,
        "programs": programs,
        "connectors": [
            _connector(experiment, server.tier, callee, call, indices) for callee, call in tier.calls.items()
        ],
        "log_bytes": float(tier.log),
        "logs": tier.logs,
    }
    if tier.spawn:
        spawn = tier.spawn
        lowered["spawn"] = {
            "processes_max": spawn.processes_max,
            "after": spawn.after,
            "work": spawn.work,
            "retire_after": spawn.retire_after,
        }
    if tier.order == "newest":
        lowered["newest_first"] = True
    if tier.limit:
        lowered["limit"] = _limit(tier.limit)
    if tier.heap:
        lowered["heap"] = _heap(tier, places.server_names(server.tier, tier).index(server.name))
    return lowered


def _limit(limit: Limit) -> Json:
    kind: Json = (
        {"aimd": {"timeout": limit.timeout, "backoff": limit.backoff}}
        if limit.kind == "aimd"
        else {
            "gradient": {
                "tolerance": limit.tolerance,
                "queue": limit.queue,
                "smoothing": limit.smoothing,
                "window": limit.window,
            }
        }
    )
    return {"initial": limit.initial, "min": limit.min, "max": limit.max, "kind": kind}


def _heap(tier: Tier, nth: int) -> Json:
    heap = tier.heap
    assert heap is not None
    lowered: Json = {
        "young_bytes": float(heap.young),
        "bytes_per_visit": float(heap.per_visit),
        "filled": heap.filled[nth % len(heap.filled)],
        "young": {"base": heap.young_collection.base, "per_live": heap.young_collection.per_live},
        "old_every": heap.old_every,
        "old_above": heap.old_above,
        "threads": heap.threads,
    }
    if heap.old_collection:
        lowered["old"] = {"base": heap.old_collection.base, "per_live": heap.old_collection.per_live}
    return lowered


def _connector(experiment: Experiment, caller: str, callee: str, call: Call, indices: Indices) -> Json:
    lowered: Json = {
        "candidates": [indices.servers[name] for name in places.server_names(callee, experiment.tiers[callee])],
        "kept": bool(call.kept),
        "policy": _policy(call),
        "endpoint": _endpoint(places.endpoint(experiment, caller, callee, call), call),
        "syn": schedule(experiment, call.kernel, call.connect_timeout),
    }
    if experiment.tiers[callee].protocol == NAMES:
        lowered |= {"kept": True, "datagrams": True, "syn": of_resolver()}
    recover = places.recover_time(experiment, caller, callee, call)
    if recover and not lowered["kept"]:  # a kept connection never fails
        lowered["recover"] = recover
    if call.hedge:
        lowered["hedge"] = call.hedge
    if call.pool or call.for_visit or call.priority is not None:
        scopes = call.pool_per or ()
        lowered["pool"] = {
            "size": call.pool or NO_LIMIT,
            "per_process": "process" in scopes,
            "per_servlet": "interaction" in scopes,
            "per_candidate": "candidate" in scopes,
            "for_visit": bool(call.for_visit),
            "priority": call.priority,
        }
    return lowered


def _policy(call: Call) -> str | Json:
    if call.policy == "peak_ewma":
        return {"peak_ewma": {"decay": call.decay}}
    if call.policy == "shortest_queue":
        return {"shortest_queue": {"every": call.look_every}}
    return call.policy or "round_robin"


def _endpoint(endpoint: str, call: Call) -> str | Json:
    if endpoint == "original":
        return {"poll": {"step": call.endpoint_step, "timeout": call.endpoint_timeout}}
    return "skip" if endpoint == "modified" else "wait"


def _stalls(experiment: Experiment, indices: Indices, programs: Programs) -> list[Json]:
    """Every injected stall, with each repetition, sorted by begin."""
    lowered: list[Json] = []
    for stall in experiment.stalls:
        begins = range(stall.at, experiment.duration, stall.every or experiment.duration)
        for effect in _effects(experiment, stall, indices, programs):
            lowered += [
                {
                    "begin": experiment.ramp + begin,
                    "end": experiment.ramp + begin + stall.length,
                    "kind": losses.NEIGHBOUR if stall.kind == "burn" else stall.kind,
                    "effect": effect,
                }
                for begin in begins
            ]
    return sorted(lowered, key=lambda stall: int(stall["begin"]))


def _capacities(experiment: Experiment, indices: Indices) -> list[Json]:
    """What recorded losses leave of each server."""
    taken: dict[str, list[losses.Loss]] = {}
    for loss in experiment.losses:
        taken.setdefault(loss.place, []).append(loss)
    found = []
    for place, its in taken.items():
        left = losses.left([losses.read(loss.file) for loss in its], [loss.stops for loss in its])
        steps = [step for step in left if step[0] >= 0]
        times, shares = [experiment.ramp + time for time, _ in steps], [share for _, share in steps]
        found.append({"group": indices.servers[place], "times": times, "left": shares})
    return found


def _effects(experiment: Experiment, stall: AnyStall, indices: Indices, programs: Programs) -> list[Json]:
    if isinstance(stall, Iowait):
        on = places.machines(experiment, stall.place)
        return [{"iowait": {"node": indices.nodes[node], "blocks": stall.blocks}} for node in on]
    if isinstance(stall, Burn):
        on = places.machines(experiment, stall.place)
        groups = [indices.neighbours[node, stall.weight] for node in on]
        return [{"burn": {"group": group, "threads": stall.threads}} for group in groups]
    servers = [indices.servers[name] for name in _servers_of(experiment, stall.place)]
    if isinstance(stall, Lock):
        # An interaction that no workload sends has no class: its visits never come.
        known = (programs.number_of(name) for name in stall.interactions)
        classes = [number for number in known if number is not None]
        never = stall.interactions and not classes
        return [] if never else [{"lock": {"server": server, "classes": classes}} for server in servers]
    if isinstance(stall, Restart):
        return [{"restart": {"server": server}} for server in servers]
    if isinstance(stall, PacketLoss):
        senders = [indices.servers[name] for name in _servers_of(experiment, stall.sender)] if stall.sender else []
        lost = {"senders": senders, "share": stall.share}
        return [{"packet_loss": {"server": server, **lost}} for server in servers]
    if isinstance(stall, NoAnswer):
        return [{"packet_loss": {"server": server, "senders": [], "share": stall.share}} for server in servers]
    # Each server has a group of the same number.
    if isinstance(stall, Slow):
        return [{"slow": {"group": group, "left": stall.left}} for group in servers]
    return [{"memory" if isinstance(stall, MemoryWait) else "freeze": {"group": group}} for group in servers]


def _servers_of(experiment: Experiment, place: str) -> tuple[str, ...]:
    """The server of this name, or all servers of a tier."""
    tier = experiment.tiers.get(place)
    return tuple(places.server_names(place, tier)) if tier else (place,)
