"""Clocks of the hosts of traces, aligned by causality: a server's span lies inside the span of its client.

```text
client  ├────────────────────────┤  cb … ce           cb ≤ sb + θ  and  se + θ ≤ ce
server          ├──────────┤        sb … se           so  cb - sb ≤ θ ≤ ce - se  for every call between two hosts
```
All calls of two hosts together leave an interval for θ, by which the server's clock is behind the client's. If it holds
0, the clocks agree. If not, the middle of the interval is taken. A hundredth of the calls may break the rule, because a
span may outlive its client's (a timeout of the client) or may be damaged. If no θ satisfies the others, the clocks
drifted or the spans are not nested, and nothing is moved. The calls of the first `CALLS` pairs of hosts are compared.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tailrace.bounds import CALLS
from tailrace.readers.spills import Rows
from tailrace.units import MILLISECOND

CALL = np.dtype([("client", "u4"), ("server", "u4"), ("least", "i8"), ("largest", "i8")])
"""The numbers of the hosts of a client and of its server, and the least and the largest θ of the call in ns."""
_PAIR = ("first", "second")
_BROKEN_MAX = 0.01
SLACK_NS = MILLISECOND
"""A server may end its span this much after its client: the answer is sent before the span ends."""


@dataclass(frozen=True)
class Clocks:
    """What to add to the times of each host; `unknown` are pairs that no offset satisfies."""

    offsets: Mapping[str, int]
    widest_ns: int
    """Half of the widest interval that was left to an offset: its error."""
    unknown: int
    left_out: int = 0
    """Calls between pairs of hosts beyond the largest number of pairs."""


def aligned(calls: Rows, names: Sequence[str]) -> Clocks:
    """The offsets, towards the host that makes the most calls, among those that are connected with each other. Calls
    are read in blocks: first they are counted, and then only the bounds that decide are kept."""
    rank = np.argsort(np.argsort(np.array(names, dtype=object), kind="stable"))
    weight, counts = Counter[str](), pl.DataFrame(schema=dict.fromkeys(_PAIR, pl.UInt32) | {"count": pl.UInt32})
    left_out = 0
    for block in _bounds(calls, rank):
        for host, count in block.group_by("client").len().iter_rows():
            weight[names[host]] += count
        of_block = block.group_by(_PAIR, maintain_order=True).agg(count=pl.len().cast(pl.UInt32))
        counts = pl.concat([counts, of_block]).group_by(_PAIR, maintain_order=True).agg(pl.col("count").sum())
        left_out += int(counts["count"][CALLS:].sum())
        counts = counts.head(CALLS)
    spared = counts.select(*_PAIR, spared=(pl.col("count") * _BROKEN_MAX).floor())
    lows, highs = _ends(calls, rank, spared)
    edges, unknown = list[tuple[int, str, str, int]](), 0
    bounds = (
        lows.group_by(_PAIR).agg(pl.col("low").min()).join(highs.group_by(_PAIR).agg(pl.col("high").max()), on=_PAIR)
    )
    for first, second, lowest, highest in bounds.iter_rows():
        if lowest > highest:
            unknown += 1
            continue
        offset = 0 if lowest <= 0 <= highest else (lowest + highest) // 2
        edges.append(((highest - lowest) // 2, names[first], names[second], offset))
    return replace(_towards_the_first(edges, weight, unknown), left_out=left_out)


def _bounds(calls: Rows, rank: NDArray[np.int64]) -> Iterator[pl.DataFrame]:
    """The two hosts of each call in the order of their names, and the bounds of the offset of the second."""
    for block in calls.blocks():
        client, server = block["client"], block["server"]
        least, largest = block["least"], block["largest"] + SLACK_NS
        ordered = rank[client] < rank[server]
        yield pl.DataFrame(
            {
                "client": client.copy(),
                "first": np.where(ordered, client, server),
                "second": np.where(ordered, server, client),
                "low": np.where(ordered, least, -largest),
                "high": np.where(ordered, largest, -least),
            }
        )


def _ends(calls: Rows, rank: NDArray[np.int64], spared: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The largest low bounds and the smallest high bounds of each pair: the hundredth that may be broken, and the next
    one, which decides. Of each block these are found first; they wait until they are as many as those known, so that a
    row is ranked a few times only, however many blocks there are."""
    pair = dict.fromkeys(_PAIR, pl.UInt32)
    known = {name: pl.DataFrame(schema=pair | {name: pl.Int64}) for name in ("low", "high")}
    waiting = dict.fromkeys(known, 0)
    rest: dict[str, list[pl.DataFrame]] = {name: [] for name in known}
    for block in _bounds(calls, rank):
        for name in known:
            rest[name].append(_deciding(block.select(*_PAIR, name), name, spared))
            waiting[name] += len(rest[name][-1])
            if waiting[name] >= len(known[name]):
                known[name] = _deciding(pl.concat([known[name], *rest[name]]), name, spared)
                waiting[name], rest[name] = 0, []
    low, high = (_deciding(pl.concat([known[name], *rest[name]]), name, spared) for name in known)
    return low, high


def _deciding(rows: pl.DataFrame, name: str, spared: pl.DataFrame) -> pl.DataFrame:
    """The outermost bounds of each pair that is not left out, one more than may be broken."""
    place = pl.col(name).rank("ordinal", descending=name == "low").over(_PAIR)
    return rows.join(spared, on=_PAIR).filter(place <= pl.col("spared") + 1).drop("spared")


def _towards_the_first(edges: list[tuple[int, str, str, int]], weight: Mapping[str, int], unknown: int) -> Clocks:
    """Offsets along the edges, the most certain first."""
    neighbours: dict[str, list[tuple[int, str, int]]] = defaultdict(list)
    group = {host: [host] for _, first, second, _ in edges for host in (first, second)}
    widest = 0
    for error, first, second, offset in sorted(edges):
        small, large = sorted((group[first], group[second]), key=len)
        if small is large:
            continue
        large += small
        group.update(dict.fromkeys(small, large))
        neighbours[first].append((error, second, offset))
        neighbours[second].append((error, first, -offset))
        widest = max(widest, error) if offset else widest
    offsets: dict[str, int] = {}
    for host in sorted(group, key=lambda name: (-weight[name], name)):
        if host in offsets:
            continue
        offsets[host], waiting = 0, [host]
        while waiting:
            here = waiting.pop()
            for _, other, offset in neighbours[here]:
                if other not in offsets:
                    offsets[other] = offsets[here] + offset
                    waiting.append(other)
    return Clocks({host: offset for host, offset in offsets.items() if offset}, widest, unknown)
