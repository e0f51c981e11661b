"""Spans of traces, read one object at a time: what the columns of the engine must equal."""

from __future__ import annotations

import base64
import json
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from google.protobuf.json_format import ParseDict
from google.protobuf.message import DecodeError
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from tailrace import units
from tailrace.readers import spans_clocks
from tailrace.readers.elements import elements, rows, table, text
from tailrace.readers.elements import number as number_of
from tailrace.readers.naming import Names
from tailrace.readers.source import Found, Source
from tailrace.readers.spans import HOSTS, KINDS, NUMBERED, Span, kept_share, span_of
from tailrace.readers.spans_clocks import Clocks
from tailrace.readers.spills import Rows, Scratch
from tailrace.readers.stays import Stay, Stays
from tailrace.topology import Call, Server, Topology

_NONE, _ROOT, _ORPHAN, _UNKNOWN = -1, -2, -3, -4
_CONTAINERS = ("server", "consumer")
Spans = Iterator[tuple[Span | None, bool]]
"""Spans, and whether a store moved the times of each; None for one without an id, a time or a service."""


@dataclass(frozen=True)
class Form:
    """A form of JSON. `spans` yields those of an element; None for one without an id, a time or a service."""

    opening: re.Pattern[str] | None
    resume: re.Pattern[str]
    spans: Callable[[Any, Names], Spans]


def read(sources: Sequence[Source], form: str) -> tuple[Found, tuple[int, ...]]:
    """What the files of one form show, and what notes count."""
    found, forest, names = Found(), Forest(), Names()
    for source in sources:
        for span, moved in (
            _messages(source, found, names) if form == "frames" else _elements(source, found, form, names)
        ):
            if span is None:
                found.lose("spans without an id, a time or a service", 1)
                continue
            forest.add(span, moved)
    clocks = forest.aligned()
    visits = Visits(forest)
    found.lose("spans that came twice", forest.twice)
    found.lose("spans that end before they begin", forest.backwards)
    visits.stays.into(
        found,
        sources[0].path.name,
        visits=not forest.chosen,
        routes=names.routes,
        schedule=visits.stays.waits.lost()[1],
    )
    starts = visits.starts()
    found.visits = found.visits.changed(
        lambda frame: placed(frame.with_columns(_start_of(frame, starts)), visits.places, "departure", "visit")
    )
    found.requests = found.requests.changed(lambda frame: placed(frame, visits.places, "end", "request"))
    found.topology = visits.topology()
    counts = (visits.orphans, visits.skewed, visits.cycles, forest.moved, forest.chosen, clocks.unknown)
    return found, counts


def _start_of(frame: pl.DataFrame, starts: dict[int, int]) -> pl.Series:
    return pl.Series("start", [starts.get(visit) for visit in frame["visit"].to_list()], pl.Int64)


def placed(frame: pl.DataFrame, places: dict[int, int], end: str, number: str) -> pl.DataFrame:
    """Visits with the places of their spans as numbers, in the order in which they ended."""
    numbers = [name for name in ("visit", "parent", "request") if name in frame.columns]
    replaced = pl.col(numbers).replace(list(places), list(places.values()))
    return frame.with_columns(replaced).sort(end, number)


def _elements(source: Source, found: Found, form: str, names: Names) -> Spans:
    known = FORMS[form]
    for _, element in elements(source, found, known.resume, known.opening):
        yield from known.spans(element, names)


def _messages(source: Source, found: Found, names: Names) -> Spans:
    data, at = source.path.read_bytes(), 0
    while at < len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        message = data[at + 4 : at + 4 + length]
        at += 4 + length
        try:
            if message.lstrip()[:1] == b"{":
                yield from of_otlp(json.loads(message), names)
            else:
                yield from _of_message(TracesData.FromString(message), names)
        except (ValueError, RecursionError, DecodeError):
            found.lose("damaged elements", 1)


def of_otlp(element: Any, names: Names) -> Spans:
    batch = table(element)
    for resource in rows(batch.get("resourceSpans") or batch.get("batches")):
        about = _otlp_values(table(resource.get("resource")).get("attributes"))
        for scope in rows(resource.get("scopeSpans") or resource.get("instrumentationLibrarySpans")):
            for span in rows(scope.get("spans")):
                values = _otlp_values(span.get("attributes"))
                values |= {key: about[key] for key in HOSTS if key in about}
                begin, end = _whole(span.get("startTimeUnixNano")), _whole(span.get("endTimeUnixNano"))
                failed = table(span.get("status")).get("code") in (2, "STATUS_CODE_ERROR")
                kind = _OTLP_KINDS.get(str(span.get("kind")), "")
                ids = (text(span.get("traceId")), text(span.get("spanId")), text(span.get("parentSpanId")))
                kept = kept_share(text(span.get("traceState")) or "", values)
                name = text(about.get("service.name"))
                yield span_of(ids, kind, name, begin, end, text(span.get("name")), values, names, failed, kept), False


_OTLP_KINDS = NUMBERED | {f"SPAN_KIND_{name.upper()}": kind for name, kind in KINDS.items()}


def _otlp_values(attributes: Any) -> dict[str, Any]:
    """Key → value; numbers may be text."""
    return {
        str(item.get("key")): next(iter(table(item.get("value")).values()), None)
        for item in rows(attributes)
    }  # fmt: skip


def _jaeger(element: Any, names: Names) -> Spans:
    trace = table(element)
    processes = table(trace.get("processes"))
    for span in rows(trace.get("spans")):
        process = table(span.get("process") or processes.get(str(span.get("processID"))))
        values = {
            str(tag.get("key")): tag.get("value") for tag in [*rows(process.get("tags")), *rows(span.get("tags"))]
        }
        above = [text(reference.get("spanID")) for reference in rows(span.get("references"))]
        begin, end = _times(span.get("startTime"), span.get("duration"))
        kind = KINDS.get(str(values.get("span.kind")).lower(), "")
        failed = values.get("error") in (True, "true") or values.get("otel.status_code") == "ERROR"
        kept = number_of(values.get("sampler.param")) if values.get("sampler.type") == "probabilistic" else None
        kept = kept_share("", values) if kept is None else kept
        ids = (text(span.get("traceID")), text(span.get("spanID")), above[0] if above else None)
        service = text(process.get("serviceName"))
        warnings = span.get("warnings")
        moved = isinstance(warnings, list) and any(_MOVED.search(str(warning)) for warning in warnings)
        found = span_of(ids, kind, service, begin, end, text(span.get("operationName")), values, names, failed, kept)
        yield found, moved


_MOVED = re.compile(r"timestamps? (?:was|were) adjusted|clock skew adjust(?:ed|ment applied)|adjusted by")
"""Jaeger's warnings. It also warns of a skew for which it adjusted nothing."""


def _zipkin(element: Any, names: Names) -> Spans:
    for span in rows(element if isinstance(element, list) else [element]):
        values = {**table(span.get("tags"))}
        remote = table(span.get("remoteEndpoint"))
        values.setdefault("peer.service", text(remote.get("serviceName")))
        begin, end = _times(span.get("timestamp"), span.get("duration"))
        kind = KINDS.get(str(span.get("kind")).lower(), "")
        ids = (text(span.get("traceId")), text(span.get("id")), text(span.get("parentId")))
        local = table(span.get("localEndpoint"))
        service = text(local.get("serviceName"))
        values.setdefault("ip", text(local.get("ipv4")) or text(local.get("ipv6")))
        yield (
            span_of(ids, kind, service, begin, end, text(span.get("name")), values, names, "error" in values, None),
            False,
        )


def _whole(value: Any) -> int | None:
    digits = text(value)
    return int(digits) if digits is not None and digits.isascii() and digits.isdigit() and len(digits) < 20 else None


def _times(begin: Any, duration: Any) -> tuple[int | None, int | None]:
    """Begin and end, from microseconds."""
    first, took = _micro(begin), _micro(duration)
    return first, first + took if first is not None and took is not None else None


def _micro(value: Any) -> int | None:
    whole = _whole(value)
    return whole * units.MICROSECOND if whole is not None and whole < 10**17 else None


def _of_message(traces: Any, names: Names) -> Spans:
    """The spans of TracesData, or of the body of an export request, which has the same fields."""
    for resource in traces.resource_spans:
        about = _values(resource.resource.attributes)
        service = str(about.get("service.name") or "")
        hosts = {key: about[key] for key in HOSTS if key in about}
        for scope in resource.scope_spans:
            for span in scope.spans:
                values = {**_values(span.attributes), **hosts}
                ids = (span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex() or None)
                begin, end = span.start_time_unix_nano or None, span.end_time_unix_nano or None
                failed = span.status.code == 2
                kind = NUMBERED.get(str(span.kind), "")
                kept = kept_share(span.trace_state, values)
                yield span_of(ids, kind, service, begin, end, span.name, values, names, failed, kept), False


def _values(attributes: Any) -> dict[str, Any]:
    found = {}
    for item in attributes:
        which = item.value.WhichOneof("value")
        if which in ("string_value", "int_value", "double_value", "bool_value"):
            found[item.key] = getattr(item.value, which)
    return found


FORMS = {
    "otlp": Form(None, re.compile(r'\{\s*"(?:resourceSpans|batches)"\s*:'), of_otlp),
    "jaeger": Form(re.compile(r'"data"\s*:\s*\['), re.compile(r'\{\s*"traceID"\s*:\s*"[^"]*"\s*,\s*"spans"'), _jaeger),
    "zipkin": Form(re.compile(r"\A[\s\ufeff]*\["), re.compile(r'\{\s*"(?:traceId|id|parentId)"\s*:'), _zipkin),
}


class Forest:
    """All spans, by number, and the keys by which they name each other."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.places = array("q")
        """The place of each among all spans that end after they begin."""
        self._count = 0
        self.servers: dict[tuple[str, str], int] = {}
        self.others: dict[tuple[str, str], int] = {}
        self.twice = self.backwards = self.moved = self.chosen = 0
        self._containers = array("q")
        self.shares: set[float] = set()
        """The shares of traces that samplers kept."""

    def add(self, span: Span, moved: bool) -> None:
        if span.end < span.begin:
            self.backwards += 1
            return
        self._count += 1
        self.shares |= {span.kept} - {None}
        known = self.servers if span.kind == "server" else self.others
        if known.setdefault((span.trace, span.id), len(self.spans)) != len(self.spans):
            self.twice += 1
            return
        self.moved += moved
        self.chosen += span.chosen
        self.spans.append(span)
        self.places.append(self._count - 1)
        self._containers.append(_UNKNOWN)

    def aligned(self) -> Clocks:
        """The offsets of the hosts' clocks, after they were applied to all spans."""
        calls = list(self._calls())
        names = sorted({name for client, server, *_ in calls for name in (client, server)})
        rows = Rows(Scratch(), spans_clocks.CALL)
        for client, server, *bounds in calls:
            rows.add(np.array([(names.index(client), names.index(server), *bounds)], spans_clocks.CALL))
        clocks = spans_clocks.aligned(rows, names)
        if clocks.offsets:
            for number, span in enumerate(self.spans):
                if offset := clocks.offsets.get(span.host or span.service):
                    self.spans[number] = replace(span, begin=span.begin + offset, end=span.end + offset)
        return clocks

    def _calls(self) -> Iterator[tuple[str, str, int, int]]:
        """The calls from a client's span to that of a server, which must lie inside of it."""
        for number, span in enumerate(self.spans):
            above = self.above(number) if span.kind == "server" else _NONE
            if above != _NONE and self.spans[above].kind == "client":
                client = self.spans[above]
                hosts = (client.host or client.service, span.host or span.service)
                if hosts[0] != hosts[1]:
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


class Visits:
    """The visits that a forest of spans shows."""

    def __init__(self, forest: Forest) -> None:
        self.forest = forest
        self.stays = Stays()
        self.numbers = array("q", [_NONE]) * len(forest.spans)
        """Span → its visit."""
        self.places: dict[int, int] = {}
        """Visit → the place of its span."""
        self.requests: dict[int | None, int | None] = {}
        """Visit → the outermost visit above it, if that is a request."""
        self.calls: Counter[tuple[str, str]] = Counter()
        self.count: Counter[str] = Counter()
        self.skewed = self.orphans = self.cycles = 0
        self.remote: set[str] = set()
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
            caller=caller, wait_ns=span.begin - sent, parent=parent, request=self.requests.get(parent, -1), entry=entry,
        )  # fmt: skip
        visit = self.stays.add(stay)
        if visit is None:
            return
        self.requests[visit] = visit if entry else self.requests.get(parent, -1)
        self.numbers[number], self.places[visit] = visit, self.forest.places[number]
        self.count[span.service] += 1
        if caller is not None and caller != span.service and parent is not None:
            self.calls[caller, span.service] += 1

    def _seen_by_caller(self, number: int) -> None:
        """The visit of a server without spans of its own, as its client saw it."""
        span = self.forest.spans[number]
        parent = self._caller(number)
        if parent is None or span.peer is None:
            return
        stay = Stay(
            span.peer,
            span.begin,
            span.begin,
            span.end,
            span.status,
            span.interaction,
            span.service,
            parent=parent,
            request=self.requests.get(parent, -1),
        )
        if (visit := self.stays.add(stay)) is not None:
            self.places[visit] = self.forest.places[number]
            self.remote.add(span.peer)
            self.count[span.peer] += 1
            self.calls[span.service, span.peer] += 1

    def starts(self) -> dict[int, int]:
        """Visit → when a worker took it: the end of the one span `in queue` that begins with it."""
        ends: dict[int, list[int]] = {}
        for number, span in enumerate(self.forest.spans):
            above = self.forest.above(number) if span.waits_for == "worker" else _NONE
            if above == _NONE:
                continue
            server = self.forest.spans[above]
            fits = server.kind == "server" and server.service == span.service
            fits = fits and server.begin == span.begin and span.end <= server.end
            ends.setdefault(self.numbers[above], []).append(span.end if fits else _NONE)
        return {visit: each[0] for visit, each in ends.items() if len(each) == 1 and visit != _NONE != each[0]}

    def topology(self) -> Topology:
        calls = sorted(pair for pair in self.calls if pair[0] in self.count)
        chosen, shares = self.forest.chosen > 0, self.forest.shares
        same = next(iter(shares)) if len(shares) == 1 and not chosen else None
        kept = same if same is not None and 0 < same < 1 else None
        return Topology(
            servers=tuple(Server(name=name, kept=kept, chosen=chosen or None) for name in sorted(self.count)),
            calls=tuple(
                Call(caller=caller, callee=callee, visits_mean=self.calls[caller, callee] / self.count[caller])
                for caller, callee in calls
            ),
        )


def protobuf(jsonl: str) -> list[bytes]:
    """The messages of a file of OTLP JSON as protobuf."""
    messages = []
    for line in jsonl.splitlines():
        try:
            batch = json.loads(line)
        except ValueError:
            continue
        for span in [s for r in batch["resourceSpans"] for c in r["scopeSpans"] for s in c["spans"]]:
            for key, length in (("traceId", 32), ("spanId", 16), ("parentSpanId", 16)):
                if span.get(key):
                    span[key] = base64.b64encode(bytes.fromhex(span[key].rjust(length, "0"))).decode()
        messages.append(ParseDict(batch, TracesData(), ignore_unknown_fields=True).SerializeToString())
    return messages


def framed(messages: list[bytes]) -> bytes:
    return b"".join(len(message).to_bytes(4, "big") + message for message in messages)
