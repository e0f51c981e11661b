"""What visits need of their servers: the work that the ledger's replay measures, split into CPU time and waiting by the
utilisation law."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.ledger.account import Account
from tailrace.diagnosis.ledger.losses import Seen
from tailrace.diagnosis.ledger.steps import STEP_NS
from tailrace.diagnosis.queues import Times
from tailrace.twin.structure import Structure
from tailrace.twin.tree import Tree

Works = NDArray[np.float64]

LEAST_WAIT = 0.05
"""A smaller part of a visit's work is within what samples err by: a tick of 1 ms in 20."""


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
    """Tier → by request of a client, what it needs there as a multiple of what its kind needs."""
    cpu_share: Mapping[str, float | None]
    """Tier → the part of the visits' work that was CPU time; None where CPU use was not sampled."""


def measure(seen: Seen, account: Account, structure: Structure, tree: Tree, roots: Times, latency: int) -> Demands:
    before, work = (np.empty(len(account.recorded.parent)) for _ in range(2))
    account.replay.works(before, work)
    calls = np.bincount(account.recorded.parent[account.recorded.parent >= 0], minlength=len(work))
    shares = {tier: _cpu_share(seen, account, servers) for tier, servers in structure.members.items()}
    if latency:  # an answer is under way for so long after it left, and the caller does not compute meanwhile
        work = np.maximum(work - calls * latency, before)
    of_kind = _of_kinds(tree, shares, before, work)
    return Demands(of_kind, _factors(tree, structure, of_kind, shares, work, roots), shares)


def _cpu_share(seen: Seen, account: Account, servers: tuple[str, ...]) -> float | None:
    """CPU time over the work of visits, in calm time: less than all of it where visits also wait for something else."""
    used = worked = 0.0
    calm = seen.steps.covered(seen.slow.calm) > 0.5
    for server in servers:
        own = [series for series in seen.view.series(server, "cpu_busy") if seen.view.is_own(series.place, server)]
        if not own:
            return None
        number = account.recorded.number[server]
        used += float(seen.at(own[0])[calm].sum()) * STEP_NS * account.replay.cores[number]
        worked += float(np.array(account.replay.busy(number))[calm].sum())
    return used / worked if worked > 0.0 else None


def _of_kinds(tree: Tree, shares: Mapping[str, float | None], before: Works, work: Works) -> dict[int, Demand]:
    stands, size = tree.stands, len(tree.kinds)
    count = np.bincount(stands, minlength=size)
    sums = [np.bincount(stands, weights=values, minlength=size) for values in (work, work * work, before)]
    found = {}
    for number in np.flatnonzero(count).tolist():
        n, kind = int(count[number]), tree.kinds[number]
        mean, squares, first = (float(each[number]) / n for each in sums)
        share = min(shares[kind.tier] or 1.0, 1.0)
        share = 1.0 if share > 1.0 - LEAST_WAIT else share
        error = (max(squares - mean * mean, 0.0) / n) ** 0.5
        part = min(first / mean, 1.0) if mean > 0.0 else 1.0
        found[number] = Demand(kind.tier, kind.interaction, n, mean * share, error * share, mean * (1.0 - share), part)
    return found


def _factors(
    tree: Tree,
    structure: Structure,
    of_kind: Mapping[int, Demand],
    shares: Mapping[str, float | None],
    work: Works,
    roots: Times,
) -> dict[str, Works]:
    """The work of all visits of a request at a tier, over the mean work of its kind there."""
    tiers = list(structure.members)
    whole = _totals(tree, of_kind, tiers)
    tier = np.array([tiers.index(kind.tier) for kind in tree.kinds])[tree.kind]
    place = np.full(len(work), -1)
    place[roots] = np.arange(len(roots))
    at = place[tree.root]
    known = at >= 0
    cell = at[known] * len(tiers) + tier[known]
    done = np.bincount(cell, weights=work[known], minlength=len(roots) * len(tiers)).reshape(len(roots), len(tiers))
    due = whole[tree.stands[roots]]
    factor = np.where(due > 0.0, done / np.where(due > 0.0, due, 1.0), 1.0)
    return {name: factor[:, number] for number, name in enumerate(tiers)}


def _totals(tree: Tree, of_kind: Mapping[int, Demand], tiers: list[str]) -> Works:
    """By kind and tier, the mean work of such a visit and all its calls."""
    found = np.zeros((len(tree.kinds), len(tiers)))
    for number in sorted(of_kind, key=lambda number: tree.kinds[number].height):
        own = of_kind[number]
        found[number, tiers.index(own.tier)] += own.compute_ns + own.wait_ns
        for callee, count in tree.calls_of(number).items():
            found[number] += count * found[callee]
    return found
