"""What spans of traces say: OpenTelemetry's names of attributes, old and new, and what Tailrace makes of their values.

The engine finds the spans in files of OTLP, Jaeger and Zipkin (crates/core/src/spans), and gives back the texts of the
attributes that `PLAN` lists. Readers of tables make a `Span` of each row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tailrace.readers.elements import number, text
from tailrace.readers.naming import Names, folded, words_of

Kind = Literal["server", "client", "consumer", "producer", "by service", ""]
"""`by service`: a server if the span above is of another service or missing."""
Waits = Literal["worker", "connection", ""]
"""What an inner span is the wait for; else empty."""
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
    chosen: bool = False
    """Its trace was kept for what happened in it (tail sampling)."""
    waits_for: Waits = ""


KINDS: dict[str, Kind] = {"server": "server", "client": "client", "producer": "producer", "consumer": "consumer"}
NUMBERED: dict[str, Kind] = {"2": "server", "3": "client", "4": "producer", "5": "consumer"}
"""The numbers of OTLP for the kinds."""
HOSTS = ("k8s.node.name", "host.name", "hostname", "host.id", "service.instance.id", "ip")
"""Attributes that name a clock, the best first."""
_METHOD = ("http.request.method", "http.method")
_ROUTE = ("http.route",)
_PATH = ("url.path", "http.target", "http.path", "url.full", "http.url")
_RPC_SERVICE, _RPC_METHOD = ("rpc.service",), ("rpc.method",)
_OPERATION = ("db.operation.name", "db.operation")
_COLLECTION = ("db.collection.name", "db.sql.table", "db.namespace", "db.name")
_HTTP_STATUS = ("http.response.status_code", "http.status_code")
_RPC_STATUS = ("rpc.grpc.status_code", "rpc.response.status_code")
_PEER = ("peer.service", "server.address", "net.peer.name", "db.system.name", "db.system", "messaging.system")
_TAIL_SAMPLED = ("tailsampling.policy", "tailsampling.composite_policy", "tailsampling.cached_decision")
"""Attributes that the Collector's tail_sampling processor sets."""
_QUEUED = ("in queue",)
"""Names of inner spans that last until a worker takes the request: those of OBI and Beyla."""
_CONNECTION = (".getConnection", "pg-pool.connect", "pool.acquire", "prisma:engine:connection")
"""How the names of spans end that last until a pool gives a connection: `HikariDataSource.getConnection` of
OpenTelemetry's instrumentation of data sources in Java, those of node-postgres, of otelpgx for Go, and of Prisma. Some
of them call themselves clients, but nobody answers them."""
_LABELS = ((_METHOD, _ROUTE), (_METHOD, _PATH))
_OTHERWISE = (_RPC_SERVICE, _RPC_METHOD, _OPERATION, _COLLECTION)
_OUTCOME = (_HTTP_STATUS, _RPC_STATUS)
PLAN = json.dumps(
    {
        "labels": _LABELS,
        "otherwise": _OTHERWISE,
        "outcome": _OUTCOME,
        "peer": _PEER,
        "host": HOSTS,
        "chosen": _TAIL_SAMPLED,
        "queued": _QUEUED,
        "connection": _CONNECTION,
    }
)
_SEPARATOR = "\x1f"
"""Between the parts of what the engine gives back."""


def interaction_of_label(label: str, names: Names) -> str | None:
    """The interaction of the attributes that the engine joined into a label: the number of the alternative of `PLAN`,
    and its parts."""
    number, *parts = label.split(_SEPARATOR)
    chosen = _LABELS[int(number)] if int(number) < len(_LABELS) else (*_OTHERWISE, ("name",))
    values = {keys[0]: part for keys, part in zip(chosen, parts, strict=True) if part}
    return _interaction(values.get("name"), values, names)


def status_of_outcome(outcome: str) -> str:
    """The status of the attributes that the engine joined: whether the span failed, and the codes."""
    failed, *parts = outcome.split(_SEPARATOR)
    return _status({keys[0]: part for keys, part in zip(_OUTCOME, parts, strict=True)}, failed == "1")


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
    interaction, status, peer = _interaction(name, values, names), _status(values, failed), _first(values, *_PEER)
    host = _first(values, *HOSTS) or ""
    chosen = any(key in values for key in _TAIL_SAMPLED)
    waits_for = _waits_for(name or "", kind)
    kind = "" if waits_for == "connection" else kind
    return Span(trace, own, parent, kind, service, begin, end, interaction, status, peer, kept, host, chosen, waits_for)


def _waits_for(name: str, kind: Kind) -> Waits:
    name = name.lower()
    if not kind and name in _QUEUED:
        return "worker"
    return "connection" if kind in ("", "client") and name.endswith(tuple(map(str.lower, _CONNECTION))) else ""


_OURS = re.compile(r"(?:^|,)\s*ot=([^,]*)")
_SHARE = re.compile(r"[0-9a-f]{1,14}")
_EXPONENT = re.compile(r"[0-9]{1,2}")
_NO_EXPONENT = 63
"""It stands for a trace that represents no other, so it has no share."""


def kept_share(state: str, values: Values) -> float | None:
    """The probability in a trace state; else that in the attributes."""
    share = _share_in_state(state)
    return number(values.get("sampling.probability")) if share is None else share


def _share_in_state(state: str) -> float | None:
    """OpenTelemetry writes the share of traces that were dropped, in 56 bits: `ot=th:8` is a half. Older samplers wrote
    the exponent of a power of a half: `ot=p:2` is a quarter."""
    ours = _OURS.search(state)
    told = dict(part.split(":", 1) for part in ours[1].split(";") if ":" in part) if ours else {}
    if "th" in told:
        return 1 - int(told["th"].ljust(14, "0"), 16) / 2**56 if _SHARE.fullmatch(told["th"]) else None
    exponent = int(told["p"]) if _EXPONENT.fullmatch(told.get("p", "")) else _NO_EXPONENT
    return 0.5**exponent if exponent < _NO_EXPONENT else None


def _first(values: Values, *keys: str) -> str | None:
    """The value of the first of these keys that is there: conventions were renamed."""
    return next((found for key in keys if (found := text(values.get(key)))), None)


_RPC = re.compile(r"[\w.$]{1,100}/\w{1,100}")
_REQUEST = re.compile(r"([A-Z]{3,8}) (\S+)")


def _interaction(name: str | None, values: Values, names: Names) -> str | None:
    method, route = _first(values, *_METHOD), _first(values, *_ROUTE)
    path = route or _first(values, *_PATH)
    if method and path:
        found = names.of(method.upper(), path)
        if route:
            names.routes.add(found)
        return found
    rpc = f"{_first(values, *_RPC_SERVICE) or ''}/{_first(values, *_RPC_METHOD) or ''}"
    if _RPC.fullmatch(rpc):
        return rpc
    operation = _first(values, *_OPERATION)
    if operation:
        return f"{folded(operation)} {folded(_first(values, *_COLLECTION) or '')}".strip()
    if name and (request := _REQUEST.fullmatch(name)):
        return names.of(request[1], request[2])
    if name and _RPC.fullmatch(name.lstrip("/")) and all(folded(word) == word for word in re.split(r"[./]", name)):
        return name.lstrip("/")
    return words_of(name)


def _status(values: Values, failed: bool) -> str:
    code = _first(values, *_HTTP_STATUS) or ""
    if len(code) == 3 and code.isascii() and code.isdigit():
        return "ok" if code < "400" else code
    rpc = _first(values, *_RPC_STATUS) or "0"
    if rpc != "0" and rpc.isascii() and rpc.isdigit() and len(rpc) < 4:
        return f"error-{rpc}"
    return "error" if failed else "ok"
