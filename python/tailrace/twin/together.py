"""Calls that visits of a kind make at the same time.

```text
A ──────               A and B overlap: they begin together.
B ────────────────     B and C overlap, but A and C do not: C follows. So it is taken to follow B, too.
C         ──────────
```
A visit may make some of its calls at once, and others one after another. Most visits of a kind decide for it: a call
that waits for a connection may be sent when the others are back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tailrace.diagnosis.ledger.recorded import Recorded
from tailrace.diagnosis.queues import Times

MOSTLY = 0.5
ENOUGH = 1_000
"""Visits of a kind that are looked at."""
FEW_APART = 32
"""Of kinds that are further apart among the calls of a visit, no overlap is looked for."""

Pairs = dict[int, frozenset[tuple[int, int]]]
"""By kind, the kinds of its calls that overlap; a kind and itself, if several calls of it do."""


def overlaps(recorded: Recorded, stands: Times, orders: Mapping[int, list[int]]) -> Pairs:
    """`stands` is the kind of each visit, and `orders` the kinds of the calls that a kind makes, in their order."""
    calls = np.flatnonzero(recorded.parent >= 0)
    seen = _some(stands)
    calls = calls[seen[recorded.parent[calls]]]
    order = calls[np.lexsort((recorded.sent[calls], recorded.parent[calls]))]
    made = pl.DataFrame(
        {
            "visit": recorded.parent[order],
            "kind": stands[recorded.parent[order]],
            "call": stands[order],
            "sent": recorded.sent[order],
            "back": recorded.back[order],
        }
    )
    found: dict[int, set[tuple[int, int]]] = {}
    for number, one, other in (*_of_one_kind(made), *_of_two(made, stands[seen], orders)):
        found.setdefault(number, set()).add((one, other))
    return {number: frozenset(pairs) for number, pairs in found.items()}


def _some(stands: Times) -> NDArray[np.bool_]:
    """Of each kind at least `ENOUGH` visits, spread evenly, if there are so many."""
    order = np.argsort(stands, kind="stable")
    counts = np.bincount(stands)
    begins = np.cumsum(counts) - counts
    place = np.arange(len(stands)) - begins[stands[order]]
    found = np.empty(len(stands), dtype=np.bool_)
    found[order] = place % np.maximum(counts // ENOUGH, 1)[stands[order]] == 0
    return found


def groups(calls: list[int], pairs: frozenset[tuple[int, int]]) -> Iterator[list[int]]:
    """The calls in order; those that begin together are one list. Each overlaps all others of its list."""
    group: list[int] = []
    for call in calls:
        if group and not all((before, call) in pairs or (call, before) in pairs for before in group):
            yield group
            group = []
        group.append(call)
    if group:
        yield group


def _of_one_kind(made: pl.DataFrame) -> Iterator[tuple[int, int, int]]:
    again = made.with_columns(before=pl.col("back").shift(1).over("visit", "call")).drop_nulls("before")
    of_visits = again.group_by("visit", "kind", "call").agg((pl.col("sent") < pl.col("before")).any().alias("overlaps"))
    share = of_visits.group_by("kind", "call").agg(pl.col("overlaps").mean())
    for number, call in share.filter(pl.col("overlaps") > MOSTLY).select("kind", "call").sort("kind", "call").rows():
        yield number, call, call


def _of_two(made: pl.DataFrame, stands: Times, orders: Mapping[int, list[int]]) -> Iterator[tuple[int, int, int]]:
    """A stretch of a visit in which some call is always under way has a number of its own; few have several kinds."""
    latest = pl.col("back").cum_max().shift(1).over("visit")
    stretch = (pl.col("sent") >= latest).fill_null(True).cum_sum()
    under_way = (
        made.with_columns(stretch=stretch)
        .group_by("stretch", "kind", "call", "visit")
        .agg(pl.col("sent").min(), pl.col("back").max())
    )
    under_way = under_way.filter(pl.len().over("stretch") > 1)
    place = {(number, call): at for number, calls in orders.items() for at, call in enumerate(calls)}
    keys = under_way.select("kind", "call").rows()
    under_way = under_way.with_columns(place=pl.Series([place.get(key, 0) for key in keys], dtype=pl.Int64))
    under_way = under_way.sort("stretch", "place", "call")
    visits, seen = Counter(stands.tolist()), Counter[tuple[int, int, int]]()
    for apart in range(1, FEW_APART + 1):
        before = [
            pl.col(name).shift(apart).over("stretch").alias(f"{name} before") for name in ("call", "sent", "back")
        ]
        pairs = under_way.with_columns(before).drop_nulls("call before")
        if pairs.is_empty():
            break
        both = pairs.filter((pl.col("sent") < pl.col("back before")) & (pl.col("sent before") < pl.col("back")))
        counts = both.group_by("kind", "call before", "call").agg(pl.col("visit").n_unique())
        seen.update({(number, one, other): count for number, one, other, count in counts.rows()})
    for (number, one, other), count in sorted(seen.items()):
        if count > MOSTLY * visits[number]:
            yield number, one, other
