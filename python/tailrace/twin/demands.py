"""What visits need of their servers: the CPU time that they got while they were at work, and the time that they neither
computed nor called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.ledger.account import Account
from tailrace.diagnosis.ledger.losses import Seen
from tailrace.diagnosis.queues import Times
from tailrace.experiment.traces import FACTOR, FIRST
from tailrace.twin.cpu import Cpu
from tailrace.twin.pauses import Pauses
from tailrace.twin.structure import Structure
from tailrace.twin.tree import Tree

Works = NDArray[np.float64]

STRETCHED = 10.0
"""Others on its node make a visit wait for less than ten times its CPU time, unless the node is 90 % busy."""
FACTOR_MOST = 1e6
"""A request that needs more than a million times the mean of its kind was not measured."""
LEAST_WAIT = 0.05
"""A smaller part of a visit's time is within what samples err by: a tick of 1 ms in 20."""


@dataclass(frozen=True)
class Demand:
    """The service demand of one kind of visits."""

    tier: str
    interaction: str
    visits: int
    compute_ns: float
    """Mean CPU time of a visit."""
    error_ns: float
    """Its standard error."""
    wait_ns: float
    """Mean time of a visit that uses no CPU and is spent in no call."""
    before: float
    """The share of its computing before its first call."""


@dataclass(frozen=True)
class Demands:
    of_kind: Mapping[int, Demand]
    factor: Mapping[str, Works]
    """Column of the requests (`factor.TIER`, `first.TIER`) → by request of a client, what it needs there over what its
    kind needs: before the first call, and for the rest, or for all of a visit without calls."""


def measure(
    seen: Seen,
    account: Account,
    cpu: Cpu,
    structure: Structure,
    tree: Tree,
    roots: Times,
    latency: int,
    beside: frozenset[str],
    pauses: Pauses,
) -> Demands:
    """`beside` are servers that share a node: what they wait for is mostly the CPU, which they wait for in the twin,
    too. Of visits with a pause, it is all that they waited for."""
    recorded = account.recorded
    before, stayed = _works(account, account.capacity)
    before, work = _works(account, cpu.rate)
    calls = np.bincount(recorded.parent[recorded.parent >= 0], minlength=len(work))
    # The caller does not compute while an answer is under way, which the CPU time knows already.
    under_way = calls * float(latency)
    unsampled = np.array([name not in cpu.sampled for name in recorded.servers])[recorded.server]
    work = np.where(unsampled, np.maximum(work - under_way, before), work)
    last = np.searchsorted(recorded.steps.edges, recorded.departure) - 1
    calm = seen.calm[np.clip(last, 0, len(recorded.steps) - 1)]
    waited = np.where(unsampled, 0.0, stayed - work - under_way)
    paused = pauses.waited
    waits = _waits(tree, np.where(paused, pauses.lasts, waited), np.where(paused, pauses.lasts, stayed), calm | paused)
    of_kind = _of_kinds(tree, waits, before, work)
    stretched = {structure.tier[server] for server in beside}
    for number, need in of_kind.items():
        if need.tier in stretched and need.wait_ns < STRETCHED * need.compute_ns:
            of_kind[number] = replace(need, wait_ns=0.0)
    return Demands(of_kind, _factors(tree, structure, of_kind, before, work, roots))


def _works(account: Account, rate: Works) -> tuple[Works, Works]:
    """What each visit got at these rates: before its first call, and as a whole."""
    account.replay.measure(np.ascontiguousarray(rate))
    before, whole = (np.empty(len(account.recorded.parent)) for _ in range(2))
    account.replay.works(before, whole)
    return before, whole


def _waits(tree: Tree, waited: Works, stayed: Works, calm: NDArray[np.bool_]) -> Works:
    """By kind, the mean time that visits neither computed nor called: in calm time, where any came then."""
    size = len(tree.kinds)
    usual = calm | (np.bincount(tree.stands[calm], minlength=size) == 0)[tree.stands]
    stands = tree.stands[usual]
    count = np.maximum(np.bincount(stands, minlength=size), 1)
    wait = np.bincount(stands, weights=waited[usual], minlength=size) / count
    whole = np.bincount(stands, weights=stayed[usual], minlength=size) / count
    found: Works = np.where(wait > LEAST_WAIT * whole, wait, 0.0)
    return found


def _of_kinds(tree: Tree, waits: Works, before: Works, work: Works) -> dict[int, Demand]:
    stands, size = tree.stands, len(tree.kinds)
    count = np.bincount(stands, minlength=size)
    sums = [np.bincount(stands, weights=values, minlength=size) for values in (work, work * work, before)]
    found = {}
    for number in np.flatnonzero(count).tolist():
        n, kind = int(count[number]), tree.kinds[number]
        mean, squares, first = (float(each[number]) / n for each in sums)
        error = (max(squares - mean * mean, 0.0) / n) ** 0.5
        part = min(first / mean, 1.0) if mean > 0.0 else 1.0
        found[number] = Demand(kind.tier, kind.interaction, n, mean, error, float(waits[number]), part)
    return found


def _factors(
    tree: Tree,
    structure: Structure,
    of_kind: Mapping[int, Demand],
    before: Works,
    work: Works,
    roots: Times,
) -> dict[str, Works]:
    """The work of all visits of a request at a tier, over the mean work of its kind there: before their first calls,
    and the rest."""
    tiers = list(structure.members)
    calls = np.array([bool(kind.calls) for kind in tree.kinds])[tree.stands]
    first = np.where(calls, np.minimum(before, work), 0.0)
    # of calls whose caller was lost, nothing is known; what visits did not get, they do not need
    some = _by_request(tree, tiers, np.ones(len(work)), roots) > 0.0
    found: dict[str, Works] = {}
    for prefix, part, is_first in ((FACTOR, work - first, False), (FIRST, first, True)):
        done = _by_request(tree, tiers, part, roots)
        due = _totals(tree, of_kind, tiers, is_first)[tree.stands[roots]]
        known = some & (due > 0.0)
        factor = np.clip(np.where(known, done / np.where(known, due, 1.0), 1.0), 0.0, FACTOR_MOST)
        found |= {
            f"{prefix}{name}": factor[:, number]
            for number, name in enumerate(tiers)
            if not is_first or due[:, number].any()  # a tier that calls no other has no first work
        }
    return found


def _by_request(tree: Tree, tiers: list[str], work: Works, roots: Times) -> Works:
    """By request and tier, the sum over its visits there."""
    tier = np.array([tiers.index(kind.tier) for kind in tree.kinds])[tree.kind]
    place = np.full(len(work), -1)
    place[roots] = np.arange(len(roots))
    at = place[tree.root]
    known = at >= 0
    cell = at[known] * len(tiers) + tier[known]
    done = np.bincount(cell, weights=work[known], minlength=len(roots) * len(tiers))
    return np.asarray(done.reshape(len(roots), len(tiers)))


def _totals(tree: Tree, of_kind: Mapping[int, Demand], tiers: list[str], first: bool) -> Works:
    """By kind and tier, the mean work of such a visit and all its calls: before the first calls, or the rest."""
    found = np.zeros((len(tree.kinds), len(tiers)))
    for number in sorted(of_kind, key=lambda number: tree.kinds[number].height):
        own, calls = of_kind[number], tree.calls_of(number)
        before = own.before if calls else 0.0
        found[number, tiers.index(own.tier)] += own.compute_ns * (before if first else 1.0 - before)
        for callee, count in calls.items():
            found[number] += count * found[callee]
    return found
