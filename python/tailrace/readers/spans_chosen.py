"""Whether traces were kept for how they ended or how long they took.

A set in which every request failed holds errors alone, or everything failed then: its shape is the same, so it never
shows how many requests a server held. For durations, the shape is proof; see below.

Whether traces were kept for how long they took, by the shape of their durations alone: a tail sampler without
attributes, or a search for slow traces, cuts the distribution off.

```text
requests │      ┃█▆▅                 sharp: nearly none are below the edge X, and many just above it
         │      ┃███▆▄▂▂▁            broad: so X is no usual duration
         └──────┸──────────▶         shared by the interactions, and not a floor of any part of the requests
                X
```
A sampler may also keep a random share of the fast ones (a policy beside that for slow ones). Then the edge is above
them, as the mode of requests that lost a packet is; but these have a part that lasts as long as the delay.

A program that always waits for X has such an edge as well. There, the longest call of each request or the rest of the
request lasts at least as long as their share of X. In traces that were cut off, either part may be short, and only
their sum has an edge. Requests without calls do not distinguish the two, so they prove nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tailrace.readers.spans_columns import Numbers
from tailrace.readers.spills import Table
from tailrace.units import MILLISECOND

if TYPE_CHECKING:
    from tailrace._core import FoundVisits

_MOST = 1 << 16
"""So many requests are examined: 2 MB."""
_LEAST, _LEAST_OF_EACH, _KINDS = 200, 50, 2
"""Requests of all interactions and of each, and interactions, without which there is no verdict."""
_STRAYS = 0.1
"""A sampler may keep so many of the fast ones by chance."""
_NEAR, _NEAR_LEAST, _STEP = 1.1, 30, 20
"""From the edge to 1.1 of it are so many requests, and 20 times as many as from 0.91 of it to the edge."""
_DIFFERENT = 10
"""So many different durations are near the edge: a coarse clock has fewer."""
_SAME, _SAME_MOST = 1.01, 0.2
"""At most so many take the same time as the edge: a program that fills up to X has more."""
_DENSEST = 0.5
"""From the edge to 1.1 of it are so many times the requests of the next step of this width: of a distribution that was
not cut off, the lower end rises by more."""
_BROAD = 1.2
"""A quarter of the requests take so many times the edge."""
_FLOOR, _LOW = 0.7, 0.02
"""The low quantiles of both parts of the requests together are at most so many times the edge; in a program that
waits for X, they are X."""
_STEP_BESIDE = 8
"""Beside a random share, so many times as many are just above the edge as just below: one in eight of them at most
would be there without the sampler. A sampler that keeps a share of 5 % makes the step 20 times, less the slope."""
_SINGLE = 900 * MILLISECOND
"""Near the edge there are requests of which neither part has most of the edge (`_FLOOR`) or lasts so long. A lost
packet, a stop or a timeout is in one part as a whole, and a connection that lost a packet waits for a second (RFC 6298,
section 2.1), less what clocks are wrong by."""
_SPREAD, _SPREAD_LEAST = 3, 10
"""They are so many times those just below the edge, and so many: without a sampler, about as many would be just above
it as just below, whatever else made requests slow."""
_COLUMNS = np.dtype([("took", "i8"), ("longest", "i8"), ("interaction", "u4"), ("server", "u4")])


class Shape:
    """The requests that succeeded, with their longest call, and how many failed."""

    def __init__(self) -> None:
        self._rows: list[Table] = []
        self._left = _MOST
        self._succeeded = 0
        self._failed = Counter[tuple[int, int]]()

    def add(self, visits: FoundVisits, ok: int) -> None:
        """Add the requests of a part; `ok` is the number of the status."""
        if not self._left:
            return
        found, succeeded, failed = visits.requests(ok, self._left)
        if not self._succeeded:
            self._failed.update({(server, interaction): count for server, interaction, count in failed})
        self._succeeded += succeeded
        tops = pl.DataFrame(found)
        self._left -= tops.height
        if tops.height:
            rows = np.empty(tops.height, _COLUMNS)
            for name in tops.columns:
                rows[name] = tops[name].to_numpy()
            self._rows.append(rows)

    def errors_alone(self) -> int:
        """How many requests there are if all of them failed; 0 if one succeeded, or if they are too few or too much
        alike to show a choice."""
        often = [count for count in self._failed.values() if count >= _LEAST_OF_EACH]
        requests = self._failed.total()
        return requests if not self._succeeded and requests >= _LEAST and len(often) >= _KINDS else 0

    def edge(self) -> Edge | None:
        """The duration below which traces were left out; None if the durations do not prove that any were."""
        rows = np.concatenate([np.empty(0, _COLUMNS), *self._rows])
        both = rows["server"].astype(np.uint64) << np.uint64(32) | rows["interaction"]
        return edge(rows["took"], rows["longest"], both)


@dataclass(frozen=True)
class Edge:
    at: int
    """In ns."""
    below: int
    """Requests that took less."""
    requests: int


def edge(took: Numbers, longest: Numbers, kind: NDArray[np.uint64]) -> Edge | None:
    """The edge of durations in ns, if they prove one. `longest` is the longest call of each request, 0 without any."""
    _, number, count = np.unique(kind, return_inverse=True, return_counts=True)
    often = np.flatnonzero(count >= _LEAST_OF_EACH)
    if len(took) < _LEAST or len(often) < _KINDS:
        return None
    in_order = np.sort(took)
    at = _steepest(in_order)
    if at is not None and all(_has_edge(took[number == each], longest[number == each], at) for each in often):
        return Edge(at, int((took < at).sum()), len(took))
    for beyond in (False, True):
        at = _steepest(in_order, _STEP_BESIDE, beyond_strays=beyond)
        if at is not None and _beside_a_share(took, longest, number, at):
            return Edge(at, int((took < at).sum()), len(took))
    return None


def _beside_a_share(took: Numbers, longest: Numbers, number: NDArray[np.intp], at: int) -> bool:
    """Whether all requests from the edge on were kept, and a random share of the others: those from the edge on have
    the shape of a set that was cut off, and no single delay made them so long."""
    slow = took >= at
    of_each = np.bincount(number[slow])
    often = np.flatnonzero(of_each >= _LEAST_OF_EACH)
    if len(often) < _KINDS:
        return False
    for each in often:
        own, calls = took[number == each], longest[number == each]
        below = int(((own >= at / _NEAR) & (own < at)).sum())
        near = (own >= at) & (own < at * _NEAR)
        largest = np.maximum(calls, own - calls)[near & (calls > 0)]
        if near.sum() < _STEP_BESIDE * below or not _has_edge(own[own >= at], calls[own >= at], at):
            return False
        if (largest <= min(_FLOOR * at, _SINGLE)).sum() < max(_SPREAD_LEAST, _SPREAD * below):
            return False
    return True


def edge_alone(took: Numbers, kind: NDArray[np.uint64]) -> Edge | None:
    """The same for requests without known parts. A program that always waits for so long has such an edge, too."""
    _, number, count = np.unique(kind, return_inverse=True, return_counts=True)
    often = np.flatnonzero(count >= _LEAST_OF_EACH)
    if len(took) < _LEAST or len(often) < _KINDS:
        return None
    at = _steepest(np.sort(took))
    if at is None or not all(_begins_at(took[number == each], at) for each in often):
        return None
    return Edge(at, int((took < at).sum()), len(took))


def _steepest(took: Numbers, step: int = _STEP, *, beyond_strays: bool = False) -> int | None:
    """The edge of sorted durations: one of the first, or of the others, with the fewest just below and the most just
    above it; None if there is no such edge."""
    strays = int(_STRAYS * len(took)) + 1
    first = took[strays:] if beyond_strays else took[:strays]
    if not len(first):
        return None
    from_here = np.searchsorted(took, first)
    below = from_here - np.searchsorted(took, first / _NEAR)
    above = np.searchsorted(took, first * _NEAR) - from_here
    further = np.searchsorted(took, first * _NEAR**2) - from_here - above
    best = int((above - step * below).argmax())
    if best == len(first) - 1 and not beyond_strays:
        return None  # More of them are below the edge.
    at = int(first[best])
    here = slice(int(from_here[best]), int(from_here[best] + above[best]))
    sharp = above[best] >= max(_NEAR_LEAST, step * int(below[best]), _DENSEST * int(further[best]))
    return at if at > 0 and sharp and len(np.unique(took[here])) >= _DIFFERENT else None


def _has_edge(took: Numbers, longest: Numbers, at: int) -> bool:
    """Whether the durations of one interaction are broad, begin at the edge, and have parts that do not."""
    if not _begins_at(took, at):
        return False
    calling = (longest > 0) & (took >= at)
    if calling.sum() < _LEAST_OF_EACH:
        return False
    rest = np.maximum(took - longest, 0)[calling]
    return bool(np.quantile(longest[calling], _LOW) + np.quantile(rest, _LOW) <= _FLOOR * at)


def _begins_at(took: Numbers, at: int) -> bool:
    """Whether the durations of one interaction are broad and begin at the edge."""
    below, same, near = (int((took < limit).sum()) for limit in (at, at * _SAME, at * _NEAR))
    if below > 2 * _STRAYS * len(took) or near == below or same - below > _SAME_MOST * len(took):
        return False
    return bool(np.quantile(took, 0.75) >= _BROAD * at)
