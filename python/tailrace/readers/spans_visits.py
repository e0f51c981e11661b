"""The visits that linked spans show: a server span becomes a visit, and the client span of its caller shows when it was
sent.

```text
client span   ├──────────────────────────────┤        sent ── its begin
server span               ├────────────────┤          arrival, departure
              └─ the gap: connecting, the accept queue, waiting for a thread; 1, 3, 7 s of it are lost attempts
`in queue`                ├───┤                       start ── its end
```
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailrace.readers import spans_clocks
from tailrace.readers.spans_columns import CLIENT, ROOT, SERVER, Linked, Numbers
from tailrace.readers.spans_runs import VISIT
from tailrace.readers.spills import Table
from tailrace.readers.stays import possible_times, topmost

_NONE = -1
ORPHAN, WITH_ROOT = 1, 2
"""Values of `entry`: an outermost visit whose caller is missing, and one whose trace has its root."""


@dataclass(frozen=True)
class Part:
    """The visits of a part, and what is counted besides. `calls` are the numbers of callers and servers."""

    visits: Table
    remote: Table
    """Those of servers without spans of their own, as their clients saw them."""
    calls: Table
    damaged: int
    skewed: int
    orphans: int


def of(spans: Linked, nameable: NDArray[np.bool_]) -> Part:
    """The visits of linked spans; those with impossible times or names are left out."""
    servers, skewed, orphans = _of_servers(spans, nameable)
    numbers: Numbers = np.full(len(spans.kind), _NONE)
    numbers[servers.span] = np.arange(len(servers.span))
    remote = _seen_by_callers(spans, numbers, nameable)
    parent = np.concatenate([servers.parent, remote.parent])
    top = topmost(np.where(parent >= 0, parent, np.arange(len(parent))))
    rows = np.concatenate([servers.rows, remote.rows])
    rows["parent"] = np.where(parent >= 0, rows["number"][parent], _NONE)
    rows["top"], rows["entry"] = rows["number"][top], rows["entry"][top]
    visits, remote_rows = rows[: len(servers.span)], rows[len(servers.span) :]
    visits["start"] = _starts(spans)[servers.span]
    called = (visits["caller"] != 0) & (visits["caller"] != visits["server"]) & (servers.parent != _NONE)
    return Part(
        rows,
        remote_rows,
        np.concatenate([visits[called], remote_rows])[["caller", "server"]],
        servers.damaged + remote.damaged,
        skewed,
        orphans,
    )


@dataclass(frozen=True)
class _Rows:
    """Possible visits, with their spans, and the visits that contain them as numbers in the rows of servers."""

    rows: Table
    span: Numbers
    parent: Numbers
    damaged: int


def _of_servers(spans: Linked, nameable: NDArray[np.bool_]) -> tuple[_Rows, int, int]:
    """The visits of servers and consumers, each after the one that contains it; how many calls lie outside of their
    client's span; and how many visits lack the span of their caller."""
    order = spans.order
    above, container = spans.above[order], spans.container[order]
    is_server, has_above = spans.kind[order] == SERVER, above >= 0
    begin, end = spans.begin[order], spans.end[order]
    by_client = is_server & has_above & (spans.kind[above] == CLIENT)
    inside = (spans.begin[above] <= begin) & (end <= spans.end[above] + spans_clocks.SLACK_NS)
    sent = np.where(by_client & inside, spans.begin[above], begin)
    caller = np.where(is_server & has_above, spans.service[above], 0)
    rows = _rows(spans, order, sent, spans.service[order], caller)
    possible = _possible(rows, nameable)
    own = np.cumsum(possible) - 1
    numbers: Numbers = np.full(len(spans.kind), _NONE)
    numbers[order[possible]] = own[possible]
    parent = np.where(container >= 0, numbers[np.maximum(container, 0)], _NONE)
    # A cycle is cut at the visit that comes first.
    parent = np.where(is_server & (parent < own), parent, _NONE)
    alone = is_server & (parent == _NONE)
    rows["entry"] = np.where(alone, np.where(container == ROOT, WITH_ROOT, ORPHAN), 0)
    found = _Rows(rows[possible], order[possible], parent[possible], int((~possible).sum()))
    return found, int((by_client & ~inside).sum()), int((alone & (container != ROOT)).sum())


def _seen_by_callers(spans: Linked, numbers: Numbers, nameable: NDArray[np.bool_]) -> _Rows:
    """The visits of servers without spans of their own, as their clients saw them."""
    servers = spans.kind == SERVER
    called = np.zeros(len(spans.kind), dtype=bool)
    called[spans.above[servers & (spans.above >= 0)]] = True
    parent = np.where(spans.container >= 0, numbers[np.maximum(spans.container, 0)], _NONE)
    with_peer = (spans.peer != 0) & (spans.peer != spans.service)
    seen = np.flatnonzero((spans.kind == CLIENT) & ~called & with_peer & (parent != _NONE))
    rows = _rows(spans, seen, spans.begin[seen], spans.peer[seen], spans.service[seen])
    possible = _possible(rows, nameable)
    return _Rows(rows[possible], seen[possible], parent[seen][possible], int((~possible).sum()))


def _rows(spans: Linked, span: Numbers, sent: Numbers, server: Numbers, caller: Numbers) -> Table:
    rows = np.zeros(len(span), VISIT)
    rows["number"], rows["sent"], rows["server"], rows["caller"] = spans.number[span], sent, server, caller
    rows["arrival"], rows["departure"] = spans.begin[span], spans.end[span]
    rows["interaction"], rows["status"] = spans.interaction[span], spans.status[span]
    rows["start"] = _NONE
    return rows


def _starts(spans: Linked) -> Numbers:
    """When a worker took the request of each server's span: at the end of the span `in queue`, which begins together
    with the server's. If there are two of these, the moment is unknown."""
    starts: Numbers = np.full(len(spans.kind), _NONE)
    inner = np.flatnonzero(spans.queued & (spans.above >= 0))
    above = spans.above[inner]
    fits = (spans.kind[above] == SERVER) & (spans.service[above] == spans.service[inner])
    fits &= (spans.begin[above] == spans.begin[inner]) & (spans.end[inner] <= spans.end[above])
    fits &= np.bincount(above, minlength=len(starts))[above] == 1
    starts[above[fits]] = spans.end[inner[fits]]
    return starts


def _possible(rows: Table, nameable: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which rows can be visits; `nameable` are the texts that may name a server."""
    possible: NDArray[np.bool_] = rows["server"] != 0
    possible &= possible_times(rows["sent"], rows["arrival"], rows["departure"])
    for name in ("server", "caller"):
        possible &= nameable[rows[name]]
    return possible
