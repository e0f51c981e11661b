"""Clocks of the hosts of traces, aligned by causality: a server's span lies inside the span of its client.

```text
client  ├────────────────────────┤  cb … ce           cb ≤ sb + θ  and  se + θ ≤ ce
server          ├──────────┤        sb … se           so  cb - sb ≤ θ ≤ ce - se  for every call between two hosts
```
All calls of two hosts together leave an interval for θ, by which the server's clock is behind the client's. If it holds
0, the clocks agree. If not, the middle of the interval is taken. A hundredth of the calls may break the rule, because a
span may outlive its client's (a timeout of the client) or may be damaged. If no θ satisfies the others, the clocks
drifted or the spans are not nested, and nothing is moved.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailrace.units import MILLISECOND

Calls = tuple[str, str, NDArray[np.int64], NDArray[np.int64]]
"""Host of the clients, host of the servers, and the least and the largest θ of each call in ns."""
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


def aligned(calls: Iterable[Calls]) -> Clocks:
    """The offsets, towards the host that makes the most calls, among those that are connected with each other."""
    bounds: dict[tuple[str, str], tuple[list[NDArray[np.int64]], list[NDArray[np.int64]]]] = defaultdict(
        lambda: ([], [])
    )
    weight: dict[str, int] = defaultdict(int)
    for client, server, least, largest in calls:
        if client == server:
            continue
        weight[client] += len(least)
        first, second = sorted((client, server))
        largest = largest + SLACK_NS
        low, high = (least, largest) if first == client else (-largest, -least)
        bounds[first, second][0].append(low)
        bounds[first, second][1].append(high)
    edges, unknown = list[tuple[int, str, str, int]](), 0
    for (first, second), (lows, highs) in bounds.items():
        lowest, highest = _without_broken(np.concatenate(lows), np.concatenate(highs))
        if lowest > highest:
            unknown += 1
            continue
        offset = 0 if lowest <= 0 <= highest else (lowest + highest) // 2
        edges.append(((highest - lowest) // 2, first, second, offset))
    return _towards_the_first(edges, weight, unknown)


def _without_broken(lows: NDArray[np.int64], highs: NDArray[np.int64]) -> tuple[int, int]:
    """The interval that all calls but a hundredth leave at either end."""
    spared = int(len(lows) * _BROKEN_MAX)
    return int(np.sort(lows)[-1 - spared]), int(np.sort(highs)[spared])


def _towards_the_first(edges: list[tuple[int, str, str, int]], weight: Mapping[str, int], unknown: int) -> Clocks:
    """Offsets along the edges, the most certain first."""
    neighbours: dict[str, list[tuple[int, str, int]]] = defaultdict(list)
    group = {host: host for _, first, second, _ in edges for host in (first, second)}
    widest = 0
    for error, first, second, offset in sorted(edges):
        a, b = group[first], group[second]
        if a == b:
            continue
        group = {host: a if name == b else name for host, name in group.items()}
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
