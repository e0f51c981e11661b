"""The visits that linked spans show: a server span becomes a visit, and the client span of its caller shows when it was
sent.

```text
client span   ├──────────────────────────────┤        sent ── its begin
server span               ├────────────────┤          arrival, departure
              └─ the gap: connecting, the accept queue, waiting for a thread; 1, 3, 7 s of it are lost attempts
```
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailrace.readers import attempts, spans_clocks
from tailrace.readers.spans_columns import CLIENT, ROOT, SERVER, Linked, Numbers
from tailrace.readers.stays import Stays
from tailrace.topology import Call, Server, Topology

_NONE = -1


class Visits:
    def __init__(self, spans: Linked) -> None:
        self.spans = spans
        self.stays = Stays()
        self.numbers: Numbers = np.full(len(spans.kind), _NONE)
        """Span → its visit."""
        self.waits: dict[int, int] = {}
        self.calls: Counter[tuple[str, str]] = Counter()
        self.count: Counter[str] = Counter()
        self.skewed = self.orphans = 0
        self.remote: set[str] = set()
        servers = spans.kind == SERVER
        self.orphans_enter = not bool((spans.container[servers] == ROOT).any())
        self._of_servers(spans.order)
        called = np.zeros(len(spans.kind), dtype=bool)
        called[spans.above[servers & (spans.above >= 0)]] = True
        seen = (spans.kind == CLIENT) & ~called & (spans.peer != 0) & (spans.peer != spans.service)
        self._seen_by_callers(np.flatnonzero(seen & (self._container_visits() != _NONE)))

    def _container_visits(self) -> Numbers:
        """The visit that contains each span."""
        container = self.spans.container
        return np.where(container >= 0, self.numbers[np.maximum(container, 0)], _NONE)

    def _of_servers(self, order: Numbers) -> None:
        """Add the visits of these spans, each after the one that contains it."""
        spans = self.spans
        above = spans.above[order]
        is_server, has_above = spans.kind[order] == SERVER, above >= 0
        begin, end = spans.begin[order], spans.end[order]
        by_client = is_server & has_above & (spans.kind[above] == CLIENT)
        inside = (spans.begin[above] <= begin) & (end <= spans.end[above] + spans_clocks.SLACK_NS)
        self.skewed = int((by_client & ~inside).sum())
        sent = np.where(by_client & inside, spans.begin[above], begin)
        caller = np.where(is_server & has_above, spans.service[above], 0)
        rows = _Rows(sent, begin, end, spans.service[order], caller, spans.interaction[order], spans.status[order])
        possible, codes = self._possible(rows)
        own = np.cumsum(possible) - 1
        self.numbers[order[possible]] = own[possible]
        parent = self._container_visits()[order]
        # A cycle is cut at the visit that comes first.
        parent = np.where(is_server & (parent < own), parent, _NONE)
        alone = is_server & (parent == _NONE)
        root = alone & (spans.container[order] == ROOT)
        self.orphans = int((alone & ~root).sum())
        self._add(rows, possible, codes, parent, root | (alone & self.orphans_enter))
        gaps = begin - sent
        long = np.flatnonzero(possible & (gaps >= attempts.LONG_NS))
        self.waits = dict(zip(own[long].tolist(), gaps[long].tolist(), strict=True))
        self._count_calls(rows, possible & (caller != 0) & (caller != rows.server) & (parent != _NONE))

    def _seen_by_callers(self, seen: Numbers) -> None:
        """Add the visits of servers without spans of their own, as their clients saw them."""
        spans = self.spans
        begin, end, peer = spans.begin[seen], spans.end[seen], spans.peer[seen]
        rows = _Rows(begin, begin, end, peer, spans.service[seen], spans.interaction[seen], spans.status[seen])
        possible, codes = self._possible(rows)
        self._add(rows, possible, codes, self._container_visits()[seen], np.zeros(len(seen), dtype=bool))
        self.remote = {spans.texts[server] for server in np.unique(peer[possible]).tolist()}
        self._count_calls(rows, possible)

    def _possible(self, rows: _Rows) -> tuple[NDArray[np.bool_], list[Numbers]]:
        """Which rows can be visits, and the numbers that their texts have there."""
        possible = self.stays.possible(rows.sent, rows.arrival, rows.departure) & (rows.server != 0)
        columns = (rows.server, rows.interaction, rows.caller, rows.status)
        used = np.unique(np.concatenate([column[possible] for column in columns]))
        codes = np.full(len(self.spans.texts), _NONE)
        codes[used] = self.stays.codes([self.spans.texts[i] for i in used.tolist()])
        coded = [codes[column] for column in columns]
        return possible & (np.min(coded, axis=0) != _NONE), coded

    def _add(
        self, rows: _Rows, possible: NDArray[np.bool_], codes: list[Numbers], parent: Numbers, entry: NDArray[np.bool_]
    ) -> None:
        nothing = np.zeros(len(parent), dtype=np.int64)
        numbers = {
            "sent": rows.sent, "arrival": rows.arrival, "departure": rows.departure, "drops": nothing,
            "parent": parent, "bytes_out": nothing + _NONE, "downstream_ns": nothing + _NONE, "entry": entry,
        }  # fmt: skip
        self.stays.add_coded({name: column[possible] for name, column in numbers.items()}, [c[possible] for c in codes])
        self.stays.damaged += int((~possible).sum())
        for server, count in _counts(rows.server[possible]):
            self.count[self.spans.texts[server]] += count

    def _count_calls(self, rows: _Rows, counted: NDArray[np.bool_]) -> None:
        texts = self.spans.texts
        for pair, count in _counts(rows.caller[counted] * len(texts) + rows.server[counted]):
            caller, server = divmod(pair, len(texts))
            self.calls[texts[caller], texts[server]] += count

    def lost_attempts(self) -> int:
        """Set the lost attempts that gaps show, if nearly all long gaps lie at the times of a kernel."""
        times = attempts.schedule(self.waits.values())
        return self.stays.lost_attempts(self.waits) if attempts.fits(self.waits.values(), times) else 0

    def topology(self) -> Topology:
        calls = sorted(pair for pair in self.calls if pair[0] in self.count)
        return Topology(
            servers=tuple(Server(name=name) for name in sorted(self.count)),
            calls=tuple(
                Call(caller=caller, callee=callee, visits_mean=self.calls[caller, callee] / self.count[caller])
                for caller, callee in calls
            ),
        )


@dataclass(frozen=True)
class _Rows:
    """Times, and the numbers of texts; 0 is none."""

    sent: Numbers
    arrival: Numbers
    departure: Numbers
    server: Numbers
    caller: Numbers
    interaction: Numbers
    status: Numbers


def _counts(column: Numbers) -> list[tuple[int, int]]:
    values, counts = np.unique(column, return_counts=True)
    return list(zip(values.tolist(), counts.tolist(), strict=True))
