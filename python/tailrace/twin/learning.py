"""From a run folder to its twin."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from os import PathLike
from typing import Any

import numpy as np
import polars as pl

from tailrace.dataset import Dataset
from tailrace.diagnosis import tables, vlrt
from tailrace.diagnosis.ledger.account import Line, draw_up
from tailrace.diagnosis.ledger.losses import Seen
from tailrace.diagnosis.ledger.recorded import Recorded, record
from tailrace.diagnosis.ledger.steps import Shares
from tailrace.diagnosis.ledger.steps import Steps as StepsOfTime
from tailrace.diagnosis.queues import Times
from tailrace.diagnosis.view import View
from tailrace.errors import InputError
from tailrace.twin import (
    adoption,
    cpu,
    cutting,
    demands,
    governors,
    habits,
    idle,
    inference,
    limits,
    machines,
    paths,
    pauses,
    quotas,
    silent,
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
from tailrace.twin.origins import OF_REPEATS, Origins
from tailrace.twin.structure import Structure
from tailrace.twin.tree import Tree
from tailrace.units import MILLISECOND, SECOND, exact_duration

WINDOW_NS = 50 * MILLISECOND
SLUG_CHARACTERS = 60
LEAST_LOST = 0.01
"""Losses are written in hundredths."""

_Loss = tuple[str, str, bool, Shares]
"""A cause, the server that lost capacity to it, whether that stopped its processes, and the share of each step."""


def learn(run: Dataset | str | PathLike[str], *, part: bool = False) -> Twin:
    """The experiment that repeats a run. With `part`, that of a long run sends the requests of its episodes alone, and
    is learnt from these. Raises InputError for a run that holds too little."""
    dataset = run if isinstance(run, Dataset) else Dataset.open(run)
    looked = tables.look(dataset, WINDOW_NS)
    held = slots.find(looked)
    view = inference.infer(looked, held)
    slow = vlrt.find(view, None)
    entries = tuple(name for name in view.requests["server"].cast(pl.String).unique().sort() if name in view.stays)
    kept = cutting.episodes(view, entries) if part else None
    recorded = record(view, slow, cutting.learnt_from(view, kept))
    if recorded is None or not len(view.requests):
        raise InputError(dataset.path, "it holds no visits of requests to servers", "make it from captures or traces")
    seen = Seen(view, slow, recorded.steps)
    account = draw_up(seen, recorded)
    pause = pauses.find(seen, account)
    account = pauses.without(seen, account, pause)
    account.replay.take_turns()  # the engine's asynchronous servers are event loops
    found = structure.find(view.topology, recorded.servers)
    kinds = tree.grow(recorded, found, pause.kind)
    roots = adoption.adopt(kinds, recorded, found, entries)
    habit = habits.find(view, found.tier)
    roots = roots[~np.isin(recorded.request[roots], habit.again.to_numpy())]
    latency = limits.latency(account)
    on = machines.find(view, account)
    beside = frozenset(on.shared)
    used = cpu.reconcile(seen, account, beside)
    needs = demands.measure(seen, account, used, found, kinds, roots, latency, beside, pause)
    needs = slots.waiting(needs, {found.tier[name]: one.alone_ns for name, one in held.items() if name in found.tier})
    fits = Limits(view, account, found, Origins(looked.topology, view))
    governed = governors.of_tiers(view, found, on.shared)
    quota = quotas.of_tiers(view, found, on.cores)
    lost = idle.lost(seen, account, on.without_neighbours(seen, account, used.lost))
    requests = cutting.arrivals(view, recorded, found, kinds, needs, roots, kept)
    requests, silences = silent.apart(recorded, found, kinds, requests, view.begin)
    slug = _slugs(recorded.servers + tuple(requests))
    files = {f"requests-{slug[entry]}.parquet": rows for entry, rows in requests.items()}
    tiers = _tiers(fits, kinds, found, on, machines.weights(seen, account, on), _waiting(needs))
    losses = _losses(slug, stops.split(seen, lost, limits.places(found, tiers)))
    table: dict[str, Any] = {
        "description": f"the twin of {dataset.path.name}",
        "duration": exact_duration(_sends(recorded, roots, view) if kept is None else view.end - view.begin + 1),
        "ramp": "0 ns",
        "latency": exact_duration(latency),
        "kernel": {"syn": limits.syn(recorded.schedule)},
        "nodes": on.nodes(found),
        "tiers": tiers,
        "interactions": _reached(_interactions(kinds, needs) | silences, requests.values()),
        "workloads": _workloads(zip(requests, files, strict=True), found, entries, habit),
        "stalls": paths.holes(account, found, view.begin),
        "losses": _listed(losses, found),
    }
    return Twin(
        table=table,
        arrivals=files,
        losses={file: _steps(recorded.steps, share, view.begin) for file, (*_, share) in losses.items()},
        servers=found.name,
        entries=entries,
        demands=tuple(needs.of_kind.values()),
        origins=fits.origins.of | {"kernel.syn": OF_REPEATS} | quotas.origins(quota),
        unknowns=(*fits.unknowns, *_unknown_clients(view), *_unknown_cpu(found, used)),
        accounted=used.accounted,
        begin=view.begin,
        governors=governed,
        quotas=quota,
        more=_more(used, found, governed, quota),
        kept=kept,
        rest=0 if kept is None else cutting.rest(view, entries, habit.again, kept),
    )


def _sends(recorded: Recorded, roots: Times, view: View) -> int:
    """How long clients send: until the last recorded request was sent. The last answers come later."""
    return int(recorded.steps.lengthened(recorded.sent[roots]).max()) - view.begin + 1


def _more(used: Cpu, found: Structure, governed: Iterable[str], quota: Collection[str]) -> dict[str, float]:
    """By tier, what visits need where clock rates or throttling are not as recorded."""
    each = {tier: used.in_all if tier in quota else used.more for tier in (*governed, *quota)}
    return {tier: max(mine.get(server, 1.0) for server in found.members[tier]) for tier, mine in each.items()}


def _slugs(names: tuple[str, ...]) -> dict[str, str]:
    """For each name a part of a file's name that no other has, on a file system that ignores case."""
    found: dict[str, str] = {}
    used: set[str] = set()
    for number, name in enumerate(dict.fromkeys(names)):
        slug = re.sub(r"[^A-Za-z0-9_-]+", "-", name)[:SLUG_CHARACTERS]
        found[name] = slug if slug.lower() not in used else f"{slug}-{number}"
        used.add(found[name].lower())
    return found


def _losses(slug: Mapping[str, str], parts: Mapping[tuple[Line, bool], Shares]) -> dict[str, _Loss]:
    """File → what it holds. Lines that took next to nothing are left out."""
    return {
        f"{slug[server]}-{cause}{stops.STOPPED if stopped else ''}.csv": (cause, server, stopped, share)
        for ((cause, server), stopped), share in parts.items()
        if (share >= LEAST_LOST).any()
    }


def _listed(losses: Mapping[str, _Loss], found: Structure) -> list[dict[str, Any]]:
    """As `[[losses]]` has them."""
    return [
        {"place": found.name[server], "cause": cause, "file": file, "stops": stopped}
        for file, (cause, server, stopped, _) in losses.items()
    ]


def _steps(steps: StepsOfTime, share: Shares, begin: int) -> Steps:
    """The moments at which it changes, since `begin`. Nothing is lost between two stretches, and after the last."""
    ends = steps.at(steps.shortened(steps.stretches[:, 1] - 1)) + 1
    times = np.insert(steps.begins, ends, steps.stretches[:, 1]) - begin
    rounded = np.round(np.clip(np.insert(share, ends, 0.0), 0.0, 1.0), 2)
    changes = np.flatnonzero(np.diff(rounded, prepend=0.0))
    return list(zip((times[changes] / SECOND).tolist(), rounded[changes].tolist(), strict=True))


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
            "calls": _calls(kinds, number),
        }
        if work["calls"]:
            work["before"] = round(need.before, 4)
        found[label] = {"servlet": kind.interaction or "request", "at": {kind.tier: work}}
    return found


def _calls(kinds: Tree, number: int) -> dict[str, Any]:
    counts, overlaps = kinds.calls_of(number), kinds.kinds[number].overlaps
    return {
        kinds.label[callee]: {
            "count": float(counts[callee]),
            "to": kinds.kinds[callee].tier,
            **({"parallel": True} if (callee, callee) in overlaps and counts[callee] > 1 else {}),
            **({"with_previous": True} if nth else {}),
        }
        for group in kinds.joined(number)
        for nth, callee in enumerate(group)
    }


def _reached(interactions: Mapping[str, Any], requests: Iterable[pl.DataFrame]) -> dict[str, Any]:
    """Those that requests make, at once or by the calls of others."""
    reached = list(dict.fromkeys(name for rows in requests for name in rows["interaction"].unique().sort()))
    for name in reached:  # grows while it is walked
        calls = (call for work in interactions[name]["at"].values() for call in work["calls"])
        reached += [call for call in dict.fromkeys(calls) if call not in reached]
    return {name: one for name, one in interactions.items() if name in reached}


def _workloads(
    files: Iterable[tuple[str, str]], found: Structure, entries: tuple[str, ...], habit: Habits
) -> dict[str, Any]:
    return {
        entry: {"kind": "trace", "entry": entry, "file": file} | _clients(found, entry, entries, habit)
        for entry, file in files
    }


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
