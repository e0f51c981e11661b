"""Visits whose caller the recording lost: a call that is nobody's, and a caller that seems to make no call."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.ledger.recorded import Recorded
from tailrace.diagnosis.queues import Times
from tailrace.twin.structure import Structure
from tailrace.twin.tree import Tree

ABOUT = 1.25
"""Calls that are lacking may be a quarter more than those that are nobody's: some were not recorded at all."""
MOST = 0.5


def adopt(tree: Tree, recorded: Recorded, structure: Structure, entries: Collection[str]) -> Times:
    """Kinds of visits that lack calls stand for the commonest of their interaction, as far as calls without a caller
    make up for it. Returns the visits that clients sent, without such calls. A visit is no such call if no caller makes
    calls of its name: a program that was not recorded sent it."""
    roots = np.flatnonzero(recorded.parent < 0)
    tier = np.array([structure.tier[name] for name in recorded.servers])[recorded.server[roots]]
    kept = np.ones(len(roots), dtype=bool)
    names = _names(recorded)
    foreign = ~np.isin(names[roots], np.unique(names[recorded.parent >= 0]))
    for name, servers in structure.members.items():
        orphans = (tier == name) & ~foreign
        if set(servers) & set(entries) or not orphans.any():
            continue
        left = _adopted(tree, name, int(orphans.sum()))
        if left <= MOST * orphans.sum():
            kept &= ~orphans
    return roots[kept]


def _names(recorded: Recorded) -> NDArray[np.int64]:
    """By visit, a number for its server and its name."""
    return np.asarray(recorded.server.astype(np.int64) * len(recorded.names.labels) + recorded.names.number)


def _adopted(tree: Tree, callee: str, orphans: int) -> int:
    """How many calls without a caller are left. Where callers are lost, some of their calls were taken for second calls
    of others: those belong to visits that lack calls, too, as far as they are fewer than the calls without a caller."""
    counts = np.bincount(tree.stands, minlength=len(tree.kinds))
    lacking, doubled = [], []
    for kinds in _by_interaction(tree, counts).values():
        model = max(kinds, key=lambda number: (_calls(tree, number, callee) > 0, counts[number]))
        usual = _calls(tree, model, callee)
        if tree.kinds[model].tier in _below(tree, model):
            continue
        for number in kinds:
            calls = _calls(tree, number, callee)
            missing = int(counts[number]) * (usual - calls)
            if missing > 0:
                lacking.append((calls, number, model, missing))
            elif missing < 0:
                doubled.append((number, model, -missing))
    left, extra = orphans, sum(more for _, _, more in doubled)
    if extra <= orphans < sum(missing for *_, missing in lacking):
        left += extra
        for number, model, _ in doubled:
            tree.replace(number, model)
    for _, number, model, missing in sorted(lacking):
        if missing <= ABOUT * left:
            tree.replace(number, model)
            left = max(left - missing, 0)
    return left


def _by_interaction(tree: Tree, counts: Times) -> dict[tuple[str, str], list[int]]:
    found: dict[tuple[str, str], list[int]] = {}
    for number in np.flatnonzero(counts).tolist():
        kind = tree.kinds[number]
        found.setdefault((kind.tier, kind.interaction), []).append(number)
    return found


def _calls(tree: Tree, number: int, callee: str) -> int:
    return sum(count for kind, count in tree.kinds[number].calls if tree.kinds[kind].tier == callee)


def _below(tree: Tree, number: int) -> set[str]:
    """Tiers that the calls of a kind reach."""
    reached = [kind for kind, _ in tree.kinds[number].calls]
    for kind in reached:  # grows while it is walked
        reached += [callee for callee, _ in tree.kinds[kind].calls if callee not in reached]
    return {tree.kinds[kind].tier for kind in reached}
