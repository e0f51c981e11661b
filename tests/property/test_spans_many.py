"""Spans that the engine cuts into columns give what reading them one object at a time gives."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import spans_singly
from tailrace.dataset import Writer
from tailrace.errors import InputError
from tailrace.readers import spans_parts, traces
from tailrace.readers.source import Found, Source
from tailrace.units import MILLISECOND, parse_moment

T = parse_moment("2026-11-20T16:49:00Z")
SERVICES = ("web", "app", "cart", "é\x1f")
ATTRIBUTES: tuple[tuple[str, Any], ...] = (
    *(("http.request.method", "GET"), ("http.method", "post"), ("http.route", "/users/{id}"), ("url.path", "/a/7?x=1")),
    *(("url.full", "http://h/x#y"), ("rpc.service", "shop.Cart"), ("rpc.method", "Get"), ("rpc.service", "no rpc")),
    *(("db.operation", "SELECT"), ("db.sql.table", "users"), ("http.status_code", 503), ("http.status_code", "200")),
    *(("rpc.grpc.status_code", 14), ("peer.service", "db"), ("server.address", "web"), ("host.name", "h1")),
    *(("host.name", ""), ("ip", "10.0.0.3"), ("error", True), ("error", "false"), ("sampling.probability", 0.25)),
    *(("other", "x" * 50), ("http.route", None), ("url.path", ["/x"]), ("hostname", "h2"), ("span.kind", "Server")),
)
STATES = ("", "a=b,ot=p:8;th:c", "ot=th:x", "a=b, ot=r:10;p:2", "ot=p:63")
WAITS = ("in queue", "HikariDataSource.getConnection")
COUNTED = (
    "caller's span is missing: {}",
    "outside of their client's span: {}",
    "such a cycle is cut",
    "moved the times of {} spans",
    "tail sampling",
    "between {} pairs of hosts",
)
"""What notes say of each of the counts."""
DAMAGE = (
    *(
        ('"', ""),
        ("}", ""),
        ("[", "[["),
        (",", ",,"),
        ("1", "\x01"),
        (":", ": "),
        ("null", "nul"),
        ('"kind"', '"KIND"'),
    ),
    *(
        ("17951", "-17951"),
        ("true", "TRUE"),
        ("a", "\\u00e4"),
        ("0", "0.5"),
        ("spans", "spans\\ud83d"),
        ("{", "\ufeff{"),
    ),
)


def span(random: Random, number: int) -> dict[str, Any]:
    """A span with ids of which some are shared, missing, or form cycles."""
    begin = T + number * MILLISECOND + random.choice((0, 0, 10**9, -(10**9)))
    return {
        "trace": f"{random.randrange(1, 6):032x}",
        "id": f"{random.choice((number, number, random.randrange(1, 30))):016x}",
        "parent": random.choice(("", "0" * 16, f"{random.randrange(1, 40):016x}", f"{max(1, number - 1):016x}")),
        "kind": random.randrange(0, 7),
        "name": random.choice(("GET /x/1", "shop.Cart/Get", "some work", "", "7")),
        "begin": begin,
        "end": begin + random.choice((0, 5, 20, 1003, -1)) * MILLISECOND,
        "attributes": random.sample(ATTRIBUTES, random.randrange(0, 6)),
    }


def with_waits(random: Random, spans: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Some of the spans become waits inside the span before them."""
    for above, one in pairwise(spans):
        if random.random() < 0.2:
            end = random.choice((above["begin"], above["end"], above["end"] + MILLISECOND))
            one |= {"trace": above["trace"], "parent": above["id"], "begin": above["begin"], "end": end}
            one |= {"name": random.choice(WAITS), "kind": 1, "attributes": []}
    return spans


def any_value(value: Any) -> Any:
    kinds = {bool: "boolValue", int: "intValue", float: "doubleValue", str: "stringValue"}
    kind = kinds.get(type(value))
    return {} if kind is None else {kind: str(value) if kind == "intValue" else value}


def kind_in(random: Random, one: dict[str, Any], *kinds: Any) -> Any:
    return "internal" if one["name"] in WAITS else random.choice(kinds)


def otlp(random: Random, spans: list[dict[str, Any]]) -> dict[str, Any]:
    about = [("service.name", random.choice(SERVICES)), *random.sample(ATTRIBUTES, random.randrange(0, 3))]

    def pairs(attributes: list[tuple[str, Any]]) -> list[dict[str, Any]]:
        return [{"key": key, "value": any_value(value)} for key, value in attributes]

    found = [
        {
            **{"traceId": one["trace"], "spanId": one["id"], "parentSpanId": one["parent"], "name": one["name"]},
            **{"kind": kind_in(random, one, one["kind"], "SPAN_KIND_SERVER", "SPAN_KIND_CLIENT")},
            **{"startTimeUnixNano": str(one["begin"]), "endTimeUnixNano": random.choice((one["end"], str(one["end"])))},
            **{"attributes": pairs(one["attributes"]), "traceState": random.choice(STATES)},
            **{"status": random.choice(({}, {"code": 2}, {"code": "STATUS_CODE_ERROR"}))},
        }
        for one in spans
    ]
    resource = {"resource": {"attributes": pairs(about)}, "scopeSpans": [{"scope": {"name": "]}"}, "spans": found}]}
    return {"resourceSpans": [dict(reversed(resource.items())) if random.random() < 0.3 else resource]}


def jaeger(random: Random, spans: list[dict[str, Any]]) -> dict[str, Any]:
    def tags(attributes: list[tuple[str, Any]]) -> list[dict[str, Any]]:
        return [{"key": key, "value": value} for key, value in attributes]

    found = [
        {
            **{"traceID": one["trace"], "spanID": one["id"], "operationName": one["name"]},
            **{"references": [{"refType": "CHILD_OF", "spanID": one["parent"]}] if one["parent"] else []},
            **{"startTime": one["begin"] // 1000, "duration": (one["end"] - one["begin"]) // 1000},
            **{"processID": random.choice(("p1", "p2", "p3"))},
            **{"tags": tags([("span.kind", kind_in(random, one, "server", "client", "x")), *one["attributes"]])},
            **{"warnings": random.choice((None, [], ["clock skew adjustment applied"], ["clock skew is large", 7]))},
        }
        for one in spans
    ]
    processes = {
        f"p{i}": {"serviceName": random.choice(SERVICES), "tags": tags(random.sample(ATTRIBUTES, 2))} for i in (1, 2)
    }
    return {"traceID": spans[0]["trace"], "spans": found, "processes": processes}


def zipkin(random: Random, spans: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            **{"traceId": one["trace"], "id": one["id"], "parentId": one["parent"], "name": one["name"]},
            **{"timestamp": one["begin"] // 1000, "duration": (one["end"] - one["begin"]) // 1000},
            **{"kind": kind_in(random, one, "SERVER", "CLIENT", "CONSUMER", "x")},
            **{"localEndpoint": {"serviceName": random.choice(SERVICES), "ipv4": random.choice(("10.0.0.1", None))}},
            **{"remoteEndpoint": random.choice((None, {"serviceName": "db"}))},
            **{"tags": {key: value for key, value in one["attributes"] if isinstance(value, str)}},
        }
        for one in spans
    ]


def text(random: Random, form: str) -> str:
    spans = with_waits(random, [span(random, number) for number in range(1, 60)])
    parts = [spans[at : at + 6] for at in range(0, len(spans), 6)]
    if form == "otlp":
        return "\n".join(json.dumps(otlp(random, part), ensure_ascii=random.random() < 0.5) for part in parts)
    if form == "jaeger":
        return json.dumps({"data": [jaeger(random, part) for part in parts], "total": 0})
    lists = [zipkin(random, part) for part in parts]
    return json.dumps(lists if random.random() < 0.5 else [one for some in lists for one in some])


def damaged(random: Random, whole: str) -> str:
    for _ in range(random.choice((0, 0, 1, 3))):
        at, (old, new) = random.randrange(100, len(whole)), random.choice(DAMAGE)
        whole = whole[:at] + whole[at:].replace(old, new, 1)
    return whole if random.random() < 0.8 else whole[: random.randrange(200, len(whole))]


def assert_same(file: Path, form: str) -> None:
    singly, counts = spans_singly.read([Source(file)], form)
    expected = sum(frame.height for frame in [*singly.visits, *singly.requests])
    if not expected:
        with pytest.raises(InputError, match="no span of a server"):
            traces.read([Source(file)])
        return
    many = traces.read([Source(file)])
    assert many.lost == singly.lost
    # The simple reader knows no pools: `test_span_pools.py` tests these.
    assert many.topology.model_copy(update={"pools": ()}) == singly.topology
    for own, other in ((many.visits, singly.visits), (many.requests, singly.requests)):
        assert bool(own) == bool(other)
        if other:
            frame, found = pl.concat(own), pl.concat(other)
            assert_frame_equal(frame, found.select(frame.columns), categorical_as_str=True)
    said = " ".join(many.notes)
    for count, words in zip(counts, COUNTED, strict=True):
        assert (words.format(count) in said) == (count > 0), said


@pytest.mark.parametrize("form", ["otlp", "jaeger", "zipkin"])
@pytest.mark.parametrize("seed", range(12))
def test_json_with_damage(form: str, seed: int, tmp_path: Path) -> None:
    random = Random(f"{form} {seed}")
    file = tmp_path / "spans.json"
    file.write_text(damaged(random, text(random, form)))
    assert_same(file, form)


@pytest.mark.parametrize("seed", range(6))
def test_protobuf(seed: int, tmp_path: Path) -> None:
    random = Random(f"protobuf {seed}")
    messages = spans_singly.protobuf(text(random, "otlp").replace("SPAN_KIND_SERVER", "2"))
    (tmp_path / "spans").write_bytes(spans_singly.framed(messages))
    assert_same(tmp_path / "spans", "frames")


def split(random: Random, file: Path, form: str, folder: Path) -> list[Source]:
    """The lines of a file in several files, some of them twice; or the whole file twice."""
    lines = file.read_bytes().splitlines(keepends=True)
    parts = [lines[at::3] for at in range(3)] if form == "otlp" and len(lines) > 6 else [lines, lines]
    parts[0] += random.sample(parts[1], len(parts[1]) // 4)
    for number, part in enumerate(parts):
        (folder / f"{number}.json").write_bytes(b"".join(part))
    return [Source(folder / f"{number}.json") for number in range(len(parts))]


def tables(found: Found, folder: Path) -> dict[str, bytes]:
    folder.mkdir()
    writer = Writer(folder)
    writer.write_ordered("visits", found.visits)
    writer.write_ordered("requests", found.requests)
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.mark.parametrize("form", ["otlp", "jaeger", "zipkin"])
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("most", [1, 7])
def test_many_parts_give_what_one_gives_to_the_byte(form: str, seed: int, most: int, tmp_path: Path) -> None:
    """Of damaged files, of traces that are spread over files, and of spans that come twice."""
    random = Random(f"{form} {seed} parts")
    (tmp_path / "spans.json").write_text(damaged(random, text(random, form)))
    sources = split(random, tmp_path / "spans.json", form, tmp_path)
    sources = [replace(source, scratch=tmp_path / "scratch") for source in sources]
    try:
        one = traces.read(sources)
    except InputError as error:
        with pytest.raises(InputError, match=re.escape(str(error))):
            traces.read(sources, most)
        return
    assert not (tmp_path / "scratch").exists()
    many = traces.read(sources, most)
    assert (tmp_path / "scratch").exists()
    assert (many.lost, many.notes, many.topology) == (one.lost, one.notes, one.topology)
    assert tables(many, tmp_path / "many") == tables(one, tmp_path / "one")


def test_a_trace_with_too_many_spans_keeps_the_first_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spans_parts, "TRACE_SPANS", 20)
    random = Random(7)
    spans = [{**span(random, number), "trace": f"{1 if number < 90 else number:032x}"} for number in range(1, 100)]
    (tmp_path / "spans.json").write_text(json.dumps(jaeger(random, spans)).join(('{"data": [', "]}")))
    found = traces.read([Source(tmp_path / "spans.json")], most=5)
    assert found.lost["spans of traces that have too many"] > 20
    assert any("its further ones were left out" in note for note in found.notes)
