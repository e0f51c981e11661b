"""Kinds of visits: those that make the same calls, in full. Of many kinds, rare ones count as a similar one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import polars as pl

from tailrace.diagnosis.ledger.recorded import Recorded
from tailrace.diagnosis.queues import Times
from tailrace.twin import together
from tailrace.twin.structure import Structure

KINDS_MOST = 400
"""Of one interaction at one tier. What rarer ones need is kept in the factors of their requests."""
DEEPEST = 1_000
"""Visits above a visit: more than any system has, and more than a simulated call can be deep."""


@dataclass
class Kind:
    tier: str
    interaction: str
    calls: tuple[tuple[int, int], ...]
    """Kinds of calls, and how many of each, in the order in which visits make them."""
    height: int
    """Of the calls below it; that of a visit without calls is 0."""
    overlaps: frozenset[tuple[int, int]] = frozenset()
    """Kinds of calls that overlap; a kind and itself, if several of its calls do."""


@dataclass
class Tree:
    kinds: list[Kind]
    kind: Times
    """By visit."""
    root: Times
    """By visit, the request of the client at its root."""
    alias: dict[int, int] = field(default_factory=dict)
    """Of rare kinds, that which stands for it."""

    def replace(self, number: int, other: int) -> None:
        """Another kind stands for this one from now on, and for those that it stood for."""
        self.alias |= {rare: other for rare, kept in self.alias.items() if kept == number} | {number: other}

    @property
    def stands(self) -> Times:
        """By visit, the kind that stands for its own."""
        table = np.array([self.alias.get(number, number) for number in range(len(self.kinds))], dtype=np.int64)
        return table[self.kind]

    @cached_property
    def label(self) -> dict[int, str]:
        """Of the kinds that stand for others: a name for the interaction of the twin."""
        found: dict[int, str] = {}
        used: set[str] = set()
        times: Counter[str] = Counter()
        commonest = Counter(self.stands.tolist())
        callees = {callee for kind in self.kinds for callee, _ in kind.calls}
        for number in sorted(commonest, key=lambda number: (number in callees, -commonest[number])):
            kind = self.kinds[number]
            label = name = kind.interaction or "request"
            if label in used:
                label = name = f"{name} at {kind.tier}"
            while label in used:
                times[name] += 1
                label = f"{name} ({times[name] + 1})"
            found[number] = label
            used.add(label)
        return found

    def calls_of(self, number: int) -> dict[int, int]:
        """The calls of a kind, by the kinds that stand for theirs."""
        found: Counter[int] = Counter()
        for callee, count in self.kinds[number].calls:
            found[self.alias.get(callee, callee)] += count
        return dict(found)

    def joined(self, number: int) -> list[list[int]]:
        """The calls of a kind, in their order; those that begin together are one list."""
        pairs = ((self.alias.get(one, one), self.alias.get(other, other)) for one, other in self.kinds[number].overlaps)
        return list(together.groups(list(self.calls_of(number)), frozenset(pairs)))


def grow(recorded: Recorded, structure: Structure, apart: Times) -> Tree:
    """Visits with different numbers in `apart` are of different kinds."""
    parent = recorded.parent
    depth, root = _depths(parent)
    tier = np.array([structure.tier[name] for name in recorded.servers])[recorded.server]
    base = pl.DataFrame({"tier": tier, "name": recorded.names[:], "apart": apart})
    tree = Tree([], np.zeros(len(parent), dtype=np.int64), root)
    for level in range(int(depth.max(initial=0)), -1, -1):
        here, calls = np.flatnonzero(depth == level), np.flatnonzero(depth == level + 1)
        _level(tree, base, here, parent[calls], calls)
    _order_calls(tree, recorded)
    _join_rare(tree)
    orders = {number: list(tree.calls_of(number)) for number in range(len(tree.kinds))}
    for number, pairs in together.overlaps(recorded, tree.stands, orders).items():
        tree.kinds[number].overlaps = pairs
    return tree


def _depths(parent: Times) -> tuple[Times, Times]:
    """How many visits called each, and the first of them. Visits that call each other in a circle are cut somewhere."""
    depth, at = np.zeros(len(parent), dtype=np.int64), np.arange(len(parent), dtype=np.int64)
    for _ in range(DEEPEST):
        called = parent[at] >= 0
        if not called.any():
            break
        depth += called
        at = np.where(called, parent[at], at)
    return depth, at


def _level(tree: Tree, base: pl.DataFrame, here: Times, callers: Times, calls: Times) -> None:
    made = (
        pl.DataFrame({"at": callers, "kind": tree.kind[calls]})
        .sort("at", "kind")
        .group_by("at", maintain_order=True)
        .agg(pl.col("kind").cast(pl.String).str.join(","))
    )
    mine = (
        base[here]
        .with_columns(at=here)
        .join(made, on="at", how="left", maintain_order="left")
        .with_columns(pl.col("kind").fill_null(""))
    )
    key = ["tier", "name", "apart", "kind"]
    known = mine.select(key).unique().sort(key).with_row_index("number")
    numbers = mine.join(known, on=key, how="left", maintain_order="left")["number"]
    tree.kind[here] = numbers.to_numpy().astype(np.int64) + len(tree.kinds)
    for _, tier, name, _, text in known.iter_rows():
        counts = Counter(int(number) for number in text.split(",") if number)
        height = max((tree.kinds[callee].height + 1 for callee in counts), default=0)
        tree.kinds.append(Kind(tier, name, tuple(counts.items()), height))


def _order_calls(tree: Tree, recorded: Recorded) -> None:
    """The calls of a kind in the order of their mean place among the calls of a visit."""
    several = np.array([len(kind.calls) > 1 for kind in tree.kinds])
    calls = np.flatnonzero(recorded.parent >= 0)
    calls = calls[several[tree.kind[recorded.parent[calls]]]]
    made = pl.DataFrame(
        {
            "caller": recorded.parent[calls],
            "kind": tree.kind[recorded.parent[calls]],
            "call": tree.kind[calls],
            "sent": recorded.sent[calls],
        }
    )
    mean = made.with_columns(place=pl.col("sent").rank("ordinal").over("caller")).group_by("kind", "call").mean()
    place = {(kind, call): at for kind, call, at in mean.select("kind", "call", "place").iter_rows()}
    for number, kind in enumerate(tree.kinds):
        kind.calls = tuple(sorted(kind.calls, key=lambda one: (place.get((number, one[0]), 0.0), one[0])))


def _join_rare(tree: Tree) -> None:
    """The kinds beyond the most of an interaction count as the one that comes to each tier as often as they do."""
    counts, visits = np.bincount(tree.kind, minlength=len(tree.kinds)), _visits(tree)
    height = np.array([kind.height for kind in tree.kinds])
    of_base: dict[tuple[str, str], list[int]] = {}
    for number, kind in enumerate(tree.kinds):
        of_base.setdefault((kind.tier, kind.interaction), []).append(number)
    for numbers in of_base.values():
        numbers.sort(key=lambda number: -int(counts[number]))
        kept: list[int] = []
        for number in numbers:
            # what stands for a visit is no higher, so no visit calls itself in the end
            able = np.array(kept, dtype=np.int64)[height[kept] <= height[number]] if len(kept) >= KINDS_MOST else ()
            if not len(able):
                kept.append(number)
                continue
            apart = np.abs(visits[able] - visits[number]).sum(axis=1)
            tree.alias[number] = int(able[int(apart.argmin())])


def _visits(tree: Tree) -> Times:
    """By kind and tier, how often such a visit and its calls come to the tier. A call has a lower number."""
    tiers = {name: at for at, name in enumerate(dict.fromkeys(kind.tier for kind in tree.kinds))}
    found = np.zeros((len(tree.kinds), len(tiers)), dtype=np.int64)
    for number, kind in enumerate(tree.kinds):
        found[number, tiers[kind.tier]] += 1
        for callee, count in kind.calls:
            found[number] += count * found[callee]
    return found
