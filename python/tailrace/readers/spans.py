"""Spans of traces in JSON: OTLP (the Collector's file exporter, Tempo's API), Jaeger, and Zipkin v2.

```text
{"resourceSpans": [{"resource": {…}, "scopeSpans": [{"spans": [{"traceId": …, "kind": 2, …}]}]}]}      one a line
{"data": [{"traceID": …, "spans": [{"references": […], "startTime": µs, …}], "processes": {"p1": …}}]}
[{"traceId": …, "id": …, "parentId": …, "kind": "SERVER", "timestamp": µs, "localEndpoint": {…}}]
```
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from tailrace import units
from tailrace.readers.elements import elements, number, rows, table, text
from tailrace.readers.naming import Names, folded, words_of
from tailrace.readers.source import Found, Source

Kind = Literal["server", "client", "consumer", "producer", ""]
Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Span:
    """`id` and `parent` are unique together with `trace`; in Zipkin's, a client and its server may share them."""

    trace: str
    id: str
    parent: str | None
    kind: Kind
    service: str
    begin: int
    end: int
    interaction: str | None
    status: str
    peer: str | None
    """Of a client: what it calls, if the span says so."""
    kept: float | None = None
    """The share of traces that a sampler kept."""
    host: str = ""
    """Whose clock its times are of; empty: that of its service."""
    moved: bool = False
    """The store of the traces moved its times, because clocks differ."""
    chosen: bool = False
    """Its trace was kept for what happened in it (tail sampling)."""


@dataclass(frozen=True)
class Form:
    """A form of JSON. `spans` yields those of an element; None for one without an id, a time or a service."""

    seen: re.Pattern[str]
    opening: re.Pattern[str] | None
    resume: re.Pattern[str]
    spans: Callable[[Any, Names], Iterator[Span | None]]


def form_of(head: str) -> Form | None:
    return next((form for form in _FORMS if form.seen.search(head)), None)


def read(source: Source, found: Found, form: Form, names: Names) -> Iterator[Span | None]:
    for _, element in elements(source, found, form.resume, form.opening):
        yield from form.spans(element, names)


def of_otlp(element: Any, names: Names) -> Iterator[Span | None]:
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
                yield span_of(ids, kind, name, begin, end, text(span.get("name")), values, names, failed, kept)


HOSTS = ("k8s.node.name", "host.name", "hostname", "host.id", "service.instance.id", "ip")
"""Attributes that name a clock, the best first."""
KINDS: dict[str, Kind] = {"server": "server", "client": "client", "producer": "producer", "consumer": "consumer"}
NUMBERED: dict[str, Kind] = {"2": "server", "3": "client", "4": "producer", "5": "consumer"}
"""The numbers of OTLP for the kinds."""
_OTLP_KINDS = NUMBERED | {f"SPAN_KIND_{name.upper()}": kind for name, kind in KINDS.items()}


def _otlp_values(attributes: Any) -> dict[str, Any]:
    """Key → value; numbers may be text."""
    return {
        str(item.get("key")): next(iter(table(item.get("value")).values()), None)
        for item in rows(attributes)
    }  # fmt: skip


_THRESHOLD = re.compile(r"(?:^|,)\s*ot=(?:[^,]*;)?th:([0-9a-f]{1,14})(?:;|,|$)")


def kept_share(state: str, values: Values) -> float | None:
    """The probability in a trace state, where OpenTelemetry writes the share of traces that were dropped, in 56 bits;
    else that in the attributes."""
    match = _THRESHOLD.search(state)
    return 1 - int(match[1].ljust(14, "0"), 16) / 2**56 if match else number(values.get("sampling.probability"))


def _jaeger(element: Any, names: Names) -> Iterator[Span | None]:
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
        kept = number(values.get("sampler.param")) if values.get("sampler.type") == "probabilistic" else None
        ids = (text(span.get("traceID")), text(span.get("spanID")), above[0] if above else None)
        service = text(process.get("serviceName"))
        warnings = span.get("warnings")
        moved = isinstance(warnings, list) and any(_MOVED.search(str(warning)) for warning in warnings)
        found = span_of(ids, kind, service, begin, end, text(span.get("operationName")), values, names, failed, kept)
        yield replace(found, moved=True) if found and moved else found


_MOVED = re.compile(r"timestamps? (?:was|were) adjusted|clock skew adjust(?:ed|ment applied)|adjusted by")
"""Jaeger's warnings. It also warns of a skew for which it adjusted nothing."""


def _zipkin(element: Any, names: Names) -> Iterator[Span | None]:
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
        yield span_of(ids, kind, service, begin, end, text(span.get("name")), values, names, "error" in values, None)


def span_of(
    ids: tuple[str | None, str | None, str | None],
    kind: Kind,
    service: str | None,
    begin: int | None,
    end: int | None,
    name: str | None,
    values: Values,
    names: Names,
    failed: bool,
    kept: float | None,
) -> Span | None:
    """A span; None without an id, a time or a service. `ids` are those of the trace, of the span and of its parent."""
    trace, own, parent = ids
    if not trace or not own or not service or begin is None or end is None:
        return None
    parent = None if parent is None or not parent.strip("0") or parent == own else parent
    interaction, status, peer = _interaction(name, values, names), _status(values, failed), _peer(values)
    host = _first(values, *HOSTS) or ""
    chosen = any(key in values for key in _TAIL_SAMPLED)
    return Span(trace, own, parent, kind, service, begin, end, interaction, status, peer, kept, host, chosen=chosen)


_TAIL_SAMPLED = ("tailsampling.policy", "tailsampling.composite_policy", "tailsampling.cached_decision")
"""Attributes that the Collector's tail_sampling processor sets."""


def _first(values: Values, *keys: str) -> str | None:
    """The value of the first of these keys that is there: conventions were renamed."""
    return next((found for key in keys if (found := text(values.get(key)))), None)


_RPC = re.compile(r"[\w.$]{1,100}/\w{1,100}")
_REQUEST = re.compile(r"([A-Z]{3,8}) (\S+)")


def _interaction(name: str | None, values: Values, names: Names) -> str | None:
    method = _first(values, "http.request.method", "http.method")
    route = _first(values, "http.route")
    path = route or _first(values, "url.path", "http.target", "http.path", "url.full", "http.url")
    if method and path:
        found = names.of(method.upper(), path)
        if route:
            names.routes.add(found)
        return found
    rpc = f"{_first(values, 'rpc.service') or ''}/{_first(values, 'rpc.method') or ''}"
    if _RPC.fullmatch(rpc):
        return rpc
    operation = _first(values, "db.operation.name", "db.operation")
    if operation:
        of = _first(values, "db.collection.name", "db.sql.table", "db.namespace", "db.name") or ""
        return f"{folded(operation)} {folded(of)}".strip()
    if name and (request := _REQUEST.fullmatch(name)):
        return names.of(request[1], request[2])
    if name and _RPC.fullmatch(name.lstrip("/")) and all(folded(word) == word for word in re.split(r"[./]", name)):
        return name.lstrip("/")
    return words_of(name)


def _status(values: Values, failed: bool) -> str:
    code = _first(values, "http.response.status_code", "http.status_code") or ""
    if len(code) == 3 and code.isascii() and code.isdigit():
        return "ok" if code < "400" else code
    rpc = _first(values, "rpc.grpc.status_code", "rpc.response.status_code") or "0"
    if rpc != "0" and rpc.isascii() and rpc.isdigit() and len(rpc) < 4:
        return f"error-{rpc}"
    return "error" if failed else "ok"


def _peer(values: Values) -> str | None:
    return _first(
        values, "peer.service", "server.address", "net.peer.name", "db.system.name", "db.system", "messaging.system"
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


_FORMS = (
    Form(
        re.compile(r'\A[\s\ufeff]*\{\s*"(?:resourceSpans|batches)"\s*:'),
        None,
        re.compile(r'\{\s*"(?:resourceSpans|batches)"\s*:'),
        of_otlp,
    ),
    Form(
        re.compile(r'\A[\s\ufeff]*\{[\s\S]{0,200}?"data"\s*:\s*\[\s*\{[\s\S]{0,2000}?"(?:traceID|spans)"\s*:'),
        re.compile(r'"data"\s*:\s*\['),
        re.compile(r'\{\s*"traceID"\s*:\s*"[^"]*"\s*,\s*"spans"'),
        _jaeger,
    ),
    Form(
        re.compile(r'\A[\s\ufeff]*\[[\s\[]*\{[\s\S]{0,2000}?"traceId"\s*:'),
        re.compile(r"\A[\s\ufeff]*\["),
        re.compile(r'\{\s*"(?:traceId|id|parentId)"\s*:'),
        _zipkin,
    ),
)
