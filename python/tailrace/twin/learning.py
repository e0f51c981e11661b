"""From a run folder to its twin."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from os import PathLike
from typing import Any

import numpy as np
import polars as pl

from tailrace.dataset import Dataset
from tailrace.diagnosis import tables, vlrt
from tailrace.diagnosis.ledger.account import draw_up
from tailrace.diagnosis.ledger.losses import Seen
from tailrace.diagnosis.ledger.recorded import record
from tailrace.diagnosis.ledger.steps import STEP_NS, Shares
from tailrace.diagnosis.spans import spans
from tailrace.diagnosis.view import View
from tailrace.errors import InputError
from tailrace.twin import (
    adoption,
    clients,
    cpu,
    demands,
    habits,
    idle,
    inference,
    limits,
    machines,
    paths,
    pauses,
    slots,
    stops,
    structure,
    tree,
)
from tailrace.twin.cpu import Cpu
from tailrace.twin.demands import Demands
from tailrace.twin.habits import Habits
from tailrace.twin.limits import Limits, Unknown
from tailrace.twin.machines import Machines
from tailrace.twin.model import Steps, Twin
from tailrace.twin.structure import Structure
from tailrace.twin.tree import Tree
from tailrace.units import MILLISECOND, SECOND, exact_duration

WINDOW_NS = 50 * MILLISECOND
SLUG_CHARACTERS = 60
LEAST_LOST = 0.01
"""Losses are written in hundredths."""


def learn(run: Dataset | str | PathLike[str]) -> Twin:
    """The experiment that repeats a run. Raises InputError for one that holds too little."""
    dataset = run if isinstance(run, Dataset) else Dataset.open(run)
    looked = tables.look(dataset, WINDOW_NS)
    held = slots.find(looked)
    view = inference.infer(looked, held)
    slow = vlrt.find(view, None)
    recorded = record(view, slow, spans([(view.begin, view.end + 1)]))
    if recorded is None or not len(view.requests):
        raise InputError(dataset.path, "it holds no visits of requests to servers", "make it from captures or traces")
    seen = Seen(view, slow, recorded.steps)
    account = draw_up(seen, recorded)
    pause = pauses.find(seen, account)
    account = pauses.without(seen, account, pause)
    account.replay.take_turns()  # the engine's asynchronous servers are event loops
    found = structure.find(view.topology, recorded.servers)
    kinds = tree.grow(recorded, found, pause.kind)
    entries = tuple(name for name in view.requests["server"].cast(pl.String).unique().sort() if name in found.tier)
    roots = adoption.adopt(kinds, recorded, found, entries)
    habit = habits.find(view, found.tier)
    roots = roots[~np.isin(recorded.request[roots], habit.again.to_numpy())]
    latency = limits.latency(account)
    on = machines.find(view, account)
    beside = frozenset(on.shared)
    used = cpu.reconcile(seen, account, beside)
    needs = demands.measure(seen, account, used, found, kinds, roots, latency, beside, pause)
    needs = slots.waiting(needs, {found.tier[name]: one.alone_ns for name, one in held.items() if name in found.tier})
    fits = Limits(view, account, found)
    lost = idle.lost(seen, account, on.without_neighbours(seen, account, used.lost))
    requests = clients.arrivals(view, recorded, found, kinds, needs, roots)
    slug = _slugs(recorded.servers + tuple(requests))
    files = {f"requests-{slug[entry]}.parquet": rows for entry, rows in requests.items()}
    tiers = _tiers(fits, kinds, found, on, machines.weights(seen, account, on), _waiting(needs))
    parts = stops.split(seen, lost, limits.places(found, tiers))
    losses = {
        f"{slug[server]}-{cause}{stops.STOPPED if stopped else ''}.csv": (cause, server, stopped, share)
        for ((cause, server), stopped), share in parts.items()
        if (share >= LEAST_LOST).any()
    }
    table: dict[str, Any] = {
        "description": f"the twin of {dataset.path.name}",
        "duration": exact_duration(view.end - view.begin + 1),
        "ramp": "0 ns",
        "latency": exact_duration(latency),
        "kernel": {"syn": limits.syn(recorded.schedule)},
        "nodes": on.nodes(found),
        "tiers": tiers,
        "interactions": _interactions(kinds, needs),
        "workloads": {
            entry: {"kind": "trace", "entry": entry, "file": file} | _clients(found, entry, entries, habit)
            for entry, file in zip(requests, files, strict=True)
        },
        "stalls": paths.holes(account, found),
        "losses": [
            {"place": found.name[server], "cause": cause, "file": file, "stops": stopped}
            for file, (cause, server, stopped, _) in losses.items()
        ],
    }
    unknowns = (*fits.unknowns, *_unknown_clients(view), *_unknown_cpu(found, used))
    return Twin(
        table=table,
        arrivals=files,
        losses={file: _steps(share) for file, (*_, share) in losses.items()},
        servers=found.name,
        entries=entries,
        demands=tuple(needs.of_kind.values()),
        unknowns=unknowns,
        accounted=used.accounted,
        begin=view.begin,
    )


def _slugs(names: tuple[str, ...]) -> dict[str, str]:
    """For each name a part of a file's name that no other has, on a file system that ignores case."""
    found: dict[str, str] = {}
    used: set[str] = set()
    for number, name in enumerate(dict.fromkeys(names)):
        slug = re.sub(r"[^A-Za-z0-9_-]+", "-", name)[:SLUG_CHARACTERS]
        found[name] = slug if slug.lower() not in used else f"{slug}-{number}"
        used.add(found[name].lower())
    return found


def _steps(share: Shares) -> Steps:
    """The moments at which it changes."""
    rounded = np.round(np.clip(np.append(share, 0.0), 0.0, 1.0), 2)
    changes = np.flatnonzero(np.diff(rounded, prepend=0.0))
    return [(at * STEP_NS / SECOND, float(rounded[at])) for at in changes.tolist()]


def _waiting(needs: Demands) -> frozenset[str]:
    """Tiers with visits that wait without computing."""
    return frozenset(need.tier for need in needs.of_kind.values() if need.wait_ns)


def _tiers(
    fits: Limits, kinds: Tree, found: Structure, on: Machines, weights: Mapping[str, float], waiting: frozenset[str]
) -> dict[str, Any]:
    pairs: dict[str, set[str]] = {tier: set() for tier in found.members}
    for number in kinds.label:
        pairs[kinds.kinds[number].tier] |= {kinds.kinds[callee].tier for callee in kinds.calls_of(number)}
    return {
        tier: fits.tier(tier, tier in waiting)
        | on.of_tier(servers)
        | ({"weight": weights[servers[0]]} if servers[0] in weights else {})
        | {"calls": {callee: fits.calls(tier, callee) for callee in sorted(pairs[tier])}}
        for tier, servers in found.members.items()
    }


def _interactions(kinds: Tree, needs: Demands) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, label in kinds.label.items():
        kind, need = kinds.kinds[number], needs.of_kind[number]
        # All keys: an interaction whose name is one of RUBBoS's would have that one's values for the others.
        work: dict[str, Any] = {
            "compute": exact_duration(round(need.compute_ns)),
            "scv": 0.0,
            "wait": exact_duration(round(need.wait_ns)),
            "interleaved": True,
            "calls": {
                kinds.label[callee]: {
                    "count": float(count),
                    "to": kinds.kinds[callee].tier,
                    **({"parallel": True} if callee in kind.at_once and count > 1 else {}),
                }
                for callee, count in kinds.calls_of(number).items()
            },
        }
        if work["calls"]:
            work["before"] = round(need.before, 4)
        found[label] = {"servlet": kind.interaction or "request", "at": {kind.tier: work}}
    return found


def _clients(found: Structure, entry: str, entries: tuple[str, ...], habit: Habits) -> dict[str, Any]:
    """Visits without a caller at a server that clients do not reach come over connections that are kept."""
    return habit.keys.get(entry, {}) if set(found.members[entry]) & set(entries) else {"kept": True}


def _unknown_clients(view: View) -> Iterator[Unknown]:
    client = view.requests["client"].drop_nulls()
    if len(client) and client.n_unique() < len(client):
        return
    datum = "which requests one client sent, from the log of a load generator or from connections that stay open"
    yield Unknown("whether clients wait for answers", 0, 1, datum)


def _unknown_cpu(found: Structure, used: Cpu) -> Iterator[Unknown]:
    for tier, servers in found.members.items():
        for server in servers:
            if server not in used.sampled:
                datum = f"samples of cpu_busy of {server}, 50 ms apart"
                yield Unknown(f"how much of the time of visits to {server} is CPU time", 0, 1, datum, "cpu", tier)
