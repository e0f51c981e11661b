"""Traces: a server span becomes a visit, and the client span of its caller shows when it was sent.

```text
client span   ├──────────────────────────────┤        sent ── its begin
server span               ├────────────────┤          arrival, departure
              └─ the gap: connecting, the accept queue, waiting for a thread; 1, 3, 7 s of it are lost attempts
```
Spans come in any order and in several files, which are read together. A span whose parent is missing is a visit without
a caller; cycles, and spans that end before they begin, are counted and left out.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tailrace import units
from tailrace.errors import InputError
from tailrace.readers import attempts, room, spans, spans_clocks, spans_otlp, spans_tables
from tailrace.readers.naming import Names
from tailrace.readers.source import Found, Source, text_head
from tailrace.readers.spans import Span
from tailrace.readers.spans_clocks import Clocks
from tailrace.readers.stays import Stay, Stays
from tailrace.topology import Call, Server, Topology

_NONE, _ROOT, _ORPHAN, _UNKNOWN = -1, -2, -3, -4
"""In place of the number of a span. `_ROOT`: there is none, because its topmost span has no parent. `_ORPHAN`: there is
none, because a parent is missing. `_UNKNOWN`: it was not looked for yet."""
_CONTAINERS = ("server", "consumer")


def sniff(name: str, head: bytes) -> bool:
    return not head.startswith(b"PAR1") and _spans_of(head) is not None


def sniff_further(source: Source) -> bool:
    """Whether a Parquet file contains spans, which its beginning does not show."""
    return source.head().startswith(b"PAR1") and spans_tables.is_parquet(source)


Spans = Callable[[Source, Found, Names], Iterator[Span | None]]


def _spans_of(head: bytes) -> Spans | None:
    """What reads the spans of a file that begins so."""
    text = text_head(head)
    form = spans.form_of(text) if text is not None else None
    if form is not None:
        return lambda source, found, names: spans.read(source, found, form, names)
    if head.startswith(b"PAR1"):
        return spans_tables.read_parquet
    if text is not None and spans_tables.is_table(text):
        return spans_tables.read_csv
    return spans_otlp.read if spans_otlp.is_otlp(head) else None


def together(source: Source) -> str:
    """All traces of one call: a trace may be spread over files."""
    return "traces"


def read(sources: Sequence[Source]) -> Found:
    found, forest, names = Found(), _Forest(), Names()
    for source in sources:
        spans_in = _spans_of(source.head())
        if spans_in is None:
            raise InputError(source.path, "it holds no spans", "docs/reference/readers.md lists what is read")
        for span in spans_in(source, found, names):
            if span is None:
                found.lose("spans without an id, a time or a service", 1)
                continue
            forest.add(span)
            if forest.full:
                found.filled(source.path.name, forest.most, "spans")
                break
    name = sources[0].path.name
    clocks = forest.aligned()
    visits = _Visits(forest)
    if not len(visits.stays):
        raise InputError(
            sources[0].path, "there is no span of a server in it", "docs/reference/readers.md lists what is read"
        )
    found.lose("spans that came twice", forest.twice)
    found.lose("spans that end before they begin", forest.backwards)
    lost = visits.lost_attempts()
    visits.stays.into(found, name, visits=not forest.chosen, routes=names.routes)
    found.attempts = "indirectly"
    found.topology = visits.topology()
    found.notes += [f"{name}: {note}" for note in [*visits.notes(lost), *_about_clocks(forest, clocks)]]
    return found


class _Forest:
    """All spans, by number, and the keys by which they name each other."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.servers: dict[tuple[str, str], int] = {}
        self.others: dict[tuple[str, str], int] = {}
        self.twice = self.backwards = self.moved = self.chosen = 0
        self._containers = array("q")
        self.most = room.spans()

    @property
    def full(self) -> bool:
        return len(self.spans) >= self.most

    def add(self, span: Span) -> None:
        if span.end < span.begin:
            self.backwards += 1
            return
        known = self.servers if span.kind == "server" else self.others
        if known.setdefault((span.trace, span.id), len(self.spans)) != len(self.spans):
            self.twice += 1
            return
        self.moved += span.moved
        self.chosen += span.chosen
        self.spans.append(span)
        self._containers.append(_UNKNOWN)

    def aligned(self) -> Clocks:
        """The offsets of the hosts' clocks, after they were applied to all spans."""
        clocks = spans_clocks.aligned(self._calls())
        if clocks.offsets:
            for number, span in enumerate(self.spans):
                if offset := clocks.offsets.get(span.host or span.service):
                    self.spans[number] = replace(span, begin=span.begin + offset, end=span.end + offset)
        return clocks

    def _calls(self) -> Iterator[spans_clocks.Call]:
        """The calls from a client's span to that of a server, which must lie inside of it."""
        for number, span in enumerate(self.spans):
            above = self.above(number) if span.kind == "server" else _NONE
            if above != _NONE and self.spans[above].kind == "client":
                client = self.spans[above]
                hosts = (client.host or client.service, span.host or span.service)
                yield *hosts, client.begin - span.begin, client.end - span.end

    def above(self, number: int) -> int:
        """The parent of a span, or _NONE. A server may share its client's id; others follow the server of an id."""
        span = self.spans[number]
        if span.kind == "server" and (shared := self.others.get((span.trace, span.id))) is not None:
            return shared
        if span.parent is None:
            return _NONE
        key = (span.trace, span.parent)
        first, second = (self.others, self.servers) if span.kind == "server" else (self.servers, self.others)
        return first.get(key, second.get(key, _NONE))

    def container(self, number: int) -> int:
        """The nearest span of a server or consumer above a span; else _ROOT, or _ORPHAN, as for those that are above
        themselves."""
        path, found = list[int](), self._containers[number]
        while found == _UNKNOWN:
            path.append(number)
            self._containers[number] = _ORPHAN
            above = self.above(number)
            if above == _NONE:
                found = _ROOT if self.spans[number].parent is None else _ORPHAN
            elif self.spans[above].kind in _CONTAINERS:
                found = above
            else:
                number, found = above, self._containers[above]
        for each in path:
            self._containers[each] = found
        return found


def _about_clocks(forest: _Forest, clocks: Clocks) -> list[str]:
    said = []
    if forest.moved:
        said.append(
            f"the store of these traces moved the times of {forest.moved} spans, because it assumed that clocks "
            "differ; their true times are unknown"
        )
    if clocks.offsets:
        largest = max(clocks.offsets.items(), key=lambda item: abs(item[1]))
        said.append(
            f"the clocks of {len(clocks.offsets)} hosts were aligned, because calls lay outside of their clients' "
            f"spans; the largest offset is {units.format_duration(abs(largest[1]))} ({largest[0]}), good to "
            f"{units.format_duration(clocks.widest_ns)}"
        )
    if clocks.unknown:
        said.append(
            f"between {clocks.unknown} pairs of hosts, no offset of the clocks puts the calls inside of their clients' "
            "spans, so these clocks were not aligned"
        )
    if forest.chosen:
        said.append(
            "these traces were kept for what happened in them (tail sampling), so they do not show how many requests a "
            "server held: there are requests and no visits"
        )
    return said


class _Visits:
    """The visits that a forest of spans shows."""

    def __init__(self, forest: _Forest) -> None:
        self.forest = forest
        self.stays = Stays()
        self.numbers = array("q", [_NONE]) * len(forest.spans)
        """Span → its visit."""
        self.waits: dict[int, int] = {}
        self.calls: Counter[tuple[str, str]] = Counter()
        self.count: Counter[str] = Counter()
        self.skewed = self.orphans = self.cycles = 0
        self.remote: set[str] = set()
        self.kept = min((span.kept for span in forest.spans if span.kept is not None), default=None)
        called = {forest.above(i) for i, span in enumerate(forest.spans) if span.kind == "server"}
        whole = any(forest.container(i) == _ROOT for i, span in enumerate(forest.spans) if span.kind == "server")
        self.orphans_enter = not whole
        for number, span in enumerate(forest.spans):
            if span.kind in _CONTAINERS and self.numbers[number] == _NONE:
                self._visit(number)
        for number, span in enumerate(forest.spans):
            if span.kind == "client" and number not in called and span.peer and span.peer != span.service:
                self._seen_by_caller(number)

    def _visit(self, number: int) -> None:
        """Add the visit of a server span after those that contain it."""
        waiting = {number: None}
        while (number := self.forest.container(number)) >= 0 and self.numbers[number] == _NONE:
            if number in waiting:
                self.cycles += 1
                break
            waiting[number] = None
        for each in reversed(waiting):
            self._add(each)

    def _caller(self, number: int) -> int | None:
        """The visit that contains a span."""
        container = self.forest.container(number)
        visit = self.numbers[container] if container >= 0 else _NONE
        return visit if visit != _NONE else None

    def _add(self, number: int) -> None:
        span, above = self.forest.spans[number], self.forest.above(number)
        client = self.forest.spans[above] if above != _NONE else None
        sent, parent, entry, caller = span.begin, None, False, None
        if span.kind == "server":
            parent = self._caller(number)
            root = parent is None and self.forest.container(number) == _ROOT
            self.orphans += parent is None and not root
            entry = root or (parent is None and self.orphans_enter)
            caller = client.service if client is not None else None
        if client is not None and client.kind == "client" and span.kind == "server":
            if client.begin <= span.begin and span.end <= client.end + spans_clocks.SLACK_NS:
                sent = client.begin
            else:
                self.skewed += 1
        stay = Stay(
            span.service, sent, span.begin, span.end, span.status, span.interaction,
            caller=caller, parent=parent, entry=entry,
        )  # fmt: skip
        visit = self.stays.add(stay)
        if visit is None:
            return
        self.numbers[number] = visit
        self.count[span.service] += 1
        if span.begin - sent >= attempts.LONG_NS:
            self.waits[visit] = span.begin - sent
        if caller is not None and caller != span.service and parent is not None:
            self.calls[caller, span.service] += 1

    def _seen_by_caller(self, number: int) -> None:
        """The visit of a server without spans of its own, as its client saw it."""
        span = self.forest.spans[number]
        parent = self._caller(number)
        if parent is None or span.peer is None:
            return
        stay = Stay(
            span.peer, span.begin, span.begin, span.end, span.status, span.interaction, span.service, parent=parent
        )
        if self.stays.add(stay) is not None:
            self.remote.add(span.peer)
            self.count[span.peer] += 1
            self.calls[span.service, span.peer] += 1

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

    def notes(self, lost: int) -> list[str]:
        said = [
            "a server's span begins after its accept queue and the wait for a thread; both lie in the gap between the "
            "client's span and the server's"
        ]
        if lost:
            said.append(attempts.note("nearly all long gaps between a client's span and the server's are", lost))
        if self.kept is not None and self.kept < 1:
            said.append(
                f"a sampler kept {self.kept:.3%} of the traces: queue lengths count these alone, and are too small"
            )
        else:
            said.append("if a sampler dropped traces, queue lengths are too small by as much")
        if self.orphans:
            become = (
                "count as requests, because no trace has its root" if self.orphans_enter else "belong to no request"
            )
            said.append(f"visits whose caller's span is missing: {self.orphans}; they {become}")
        if self.skewed:
            said.append(
                f"calls that lie outside of their client's span: {self.skewed}; when these were sent is unknown"
            )
        if self.cycles:
            said.append("some spans are above themselves; such a cycle is cut")
        if self.remote:
            said.append(f"visits of {', '.join(sorted(self.remote)[:12])} are as their callers saw them")
        return said
