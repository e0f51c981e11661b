"""Traces: which spans are visits, who called, and which gaps are lost attempts; computed by hand from the files in
tests/golden/readers/traces."""

from __future__ import annotations

import gzip
import json
import re
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from spans_singly import framed, protobuf
from tailrace import readers
from tailrace.dataset import Dataset, Writer
from tailrace.errors import InputError
from tailrace.readers import assembly, spans, spans_clocks, traces
from tailrace.readers.spills import Rows, Scratch
from tailrace.units import MILLISECOND, parse_moment

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

FILES = Path(__file__).parents[1] / "golden" / "readers" / "traces"
T = parse_moment("2026-11-20T16:49:00Z")


def visits(run: Dataset) -> list[tuple[Any, ...]]:
    """Server, caller, sent, arrival and departure in ms after T, lost attempts, and whether it belongs to a request."""
    found = run.visits().sort("sent", "departure", descending=[False, True]).collect()
    ms = (found.select("sent", "arrival", "departure") - T) / MILLISECOND
    names = found.select(pl.col("server", "caller").cast(pl.String))
    return pl.concat([names, ms, found.select("drops", pl.col("request").is_not_null())], how="horizontal").rows()


def read(*names: str) -> Dataset:
    run = readers.read(*(FILES / name for name in names))
    run.validate()
    return run


def test_otlp_in_any_order_gives_the_chain_and_its_lost_attempts() -> None:
    run = read("otlp.jsonl")
    expected = []
    for n, (gap, drops) in enumerate([(0.5, 0), (1003, 1), (1005, 1), (3006, 2), (0.7, 0)], 1):
        b = 100 * n
        expected += [
            ("web", None, b, b, b + gap + 12, 0, True),
            ("app", "web", b + 1, b + 1 + gap, b + gap + 10.5, drops, True),
            ("postgresql", "app", b + 3 + gap, b + 3 + gap, b + gap + 8, 0, True),
        ]
    expected += [("web", None, 900, 900, 910, 0, False), ("web", "web", 950, 950, 960, 0, False)]
    assert visits(run) == sorted(expected, key=lambda visit: (visit[2], -visit[4]))
    statuses = run.visits().filter(pl.col("status") != "ok").collect()
    assert statuses["status"].cast(pl.String).to_list() == ["503"]
    assert run.requests().collect().height == 5
    assert run.lost() == {
        "otlp.jsonl: damaged elements": 1,
        "otlp.jsonl: spans that came twice": 1,
        "otlp.jsonl: spans that end before they begin": 1,
    }
    assert {(call.caller, call.callee) for call in run.topology.calls} == {("web", "app"), ("app", "postgresql")}
    said = " ".join(run.manifest.notes)
    assert "connections that lost attempts (3 in all), which is indirect evidence" in said
    assert "visits whose caller's span is missing: 2" in said


def test_jaeger_and_zipkin_give_the_same_chain() -> None:
    assert visits(read("jaeger.json")) == [
        ("frontend", None, 0, 0, 20, 0, True),
        ("driver", "frontend", 2, 3, 14, 0, True),
        ("redis", "driver", 5, 5, 9, 0, True),
    ]
    assert visits(read("zipkin.json")) == [
        ("frontend", None, 0, 0, 20, 0, True),
        ("backend", "frontend", 2, 3, 14, 0, True),
        ("mysql", "backend", 4, 4, 6, 0, True),
    ]
    names = read("jaeger.json").visits().collect()["interaction"].cast(pl.String).to_list()
    assert sorted(names) == ["GET /dispatch", "GetDriver", "driver.DriverService/FindNearest"]


def test_a_span_in_queue_shows_when_a_worker_took_the_request() -> None:
    """Of the form of OBI and Beyla: `in queue` begins with the server's span, and `processing` follows it."""
    found = read("obi.jsonl").visits().sort("arrival").collect()
    ms = [
        (arrival - T, None if start is None else start - T)
        for arrival, start in found.select("arrival", "start").rows()
    ]
    taken = [(0, 250), (260, None), (400, 401), (406, 436), (500, None), (600, None), (700, None), (800, None)]
    assert ms == [(a * MILLISECOND, None if b is None else b * MILLISECOND) for a, b in taken]
    assert found["server"].cast(pl.String).to_list() == ["web", "mysql", "web", "price", "web", "web", "web", "web"]
    assert "the request of 3 of the 8 visits" in " ".join(read("obi.jsonl").manifest.notes)


def test_waits_for_a_connection_of_a_pool_are_no_visits_and_the_note_says_what_is_carried() -> None:
    run = read("pool.jsonl")
    assert visits(run) == [("shop", None, 0, 0, 500, 0, True), ("mysql", "shop", 420, 420, 480, 0, True)]
    said = " ".join(run.manifest.notes)
    assert "2 spans are waits for a connection of a pool (shop): 401 ms in all, 400 ms at most" in said


def test_the_wait_time_of_a_pool_becomes_samples() -> None:
    samples = readers.read(FILES.parent / "otlpmetrics" / "pool.jsonl").samples().collect()
    found = samples.select(pl.col("place", "metric").cast(pl.String), "interval_ns", "value").sort("place").rows()
    ten = 10_000 * MILLISECOND
    assert [row[:3] for row in found] == [(place, "pool_wait_seconds", ten) for place in ("old", "old", "shop", "shop")]
    assert [row[3] for row in found] == pytest.approx([0.3, 0.0, 0.25, 3.5])


@pytest.mark.parametrize(
    ("attribute", "count", "name"),
    [
        ("http.route", 1, "GET /users/alice"),
        ("url.path", 1, "GET /users/{}"),
        ("url.path", 3, "GET /users/alice"),
    ],
)
def test_a_rare_word_of_a_path_is_kept_if_the_program_calls_it_its_route(
    tmp_path: Path, attribute: str, count: int, name: str
) -> None:
    paths = [*["/users/list"] * 5, *["/users/alice"] * count]
    spans = [
        {
            "traceId": f"{i:032x}", "id": f"{i:016x}", "kind": "SERVER", "timestamp": T // 1000 + i, "duration": 500,
            "localEndpoint": {"serviceName": "web"}, "tags": {"http.method": "GET", attribute: path},
        }
        for i, path in enumerate(paths, 1)
    ]  # fmt: skip
    (tmp_path / "spans.json").write_text(json.dumps(spans))
    found = readers.read(tmp_path / "spans.json").requests().collect()["interaction"].cast(pl.String)
    assert set(found) == {"GET /users/list", name}


def test_a_trace_may_be_spread_over_packed_files(tmp_path: Path) -> None:
    app, web, rest = (FILES / "otlp.jsonl").read_bytes().split(b"\n")
    (tmp_path / "web.json").write_bytes(web + b"\n")
    (tmp_path / "app.json.gz").write_bytes(gzip.compress(app + b"\n" + rest))
    assert visits(readers.read(tmp_path / "web.json", tmp_path / "app.json.gz")) == visits(read("otlp.jsonl"))


def test_what_does_not_fit_into_memory_is_beside_the_run_until_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = readers.read(FILES / "otlp.jsonl", out=tmp_path / "usual")
    in_parts = replace(readers._TRACES, read=partial(traces.read, most=2))
    monkeypatch.setattr(readers, "READERS", (in_parts,))
    readers.read(FILES / "otlp.jsonl", out=tmp_path / "parts")
    assert sorted(file.name for file in (tmp_path / "parts").iterdir()) == sorted(
        file.name for file in usual.path.iterdir()
    )
    for name in ("visits.parquet", "requests.parquet", "topology.toml"):
        assert (tmp_path / "parts" / name).read_bytes() == (usual.path / name).read_bytes()

    def interrupted(writer: Writer, _: object) -> None:
        assert any((writer.folder / "scratch").iterdir())
        raise KeyboardInterrupt

    monkeypatch.setattr(assembly, "add", interrupted)
    with pytest.raises(KeyboardInterrupt):
        readers.read(FILES / "otlp.jsonl", out=tmp_path / "third")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["parts", "usual"]


def otlp(path: Path, gaps_ms: list[float], *, state: str = "", skew_ms: float = 0) -> Path:
    """Requests of web that call app, with these gaps between the client's span and the server's."""
    batches: dict[str, list[dict[str, Any]]] = {"web": [], "app": []}
    for n, gap in enumerate(gaps_ms, 1):
        for service, own, above, kind, begin, end in (
            ("web", 1, "", 2, 0, gap + 20),
            ("web", 2, "01", 3, 1, gap + 19),
            ("app", 3, "02", 2, 2 + gap + skew_ms, gap + 18 + skew_ms),
        ):
            times = (str(T + round((10 * n + moment) * MILLISECOND)) for moment in (begin, end))
            span = dict(zip(("startTimeUnixNano", "endTimeUnixNano"), times, strict=True))
            ids = {"traceId": f"{n:02}", "spanId": f"{own:02}", "parentSpanId": above, "traceState": state}
            batches[service].append({**ids, "name": "x", "kind": kind, **span})
    lines = [
        {
            "resourceSpans": [
                {
                    "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]},
                    "scopeSpans": [{"spans": spans}],
                }
            ]
        }
        for service, spans in batches.items()
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


@pytest.mark.parametrize(
    ("gaps_ms", "drops"),
    [
        ([1003, 1005, 3002, 1001], [1, 1, 2, 1]),
        ([1003, 2005, 3002, 1001], [1, 2, 3, 1]),  # 2 s is only in the linear schedule
        ([1003, 1005, 700, 1400], [0, 0, 0, 0]),  # no schedule: a busy server
        ([1003, 1005], [0, 0]),  # too few to have a shape
    ],
)
def test_long_gaps_are_lost_attempts_only_if_they_have_the_shape_of_a_schedule(
    gaps_ms: list[float], drops: list[int], tmp_path: Path
) -> None:
    found = visits(readers.read(otlp(tmp_path / "t.json", gaps_ms)))
    assert [row[5] for row in found if row[0] == "app"] == drops


def test_clocks_of_hosts_are_aligned_by_causality_and_sampling_is_named(tmp_path: Path) -> None:
    true = visits(readers.read(otlp(tmp_path / "true.json", [1, 3, 2], state="ot=th:8")))
    run = readers.read(otlp(tmp_path / "t.json", [1, 3, 2], state="ot=th:8", skew_ms=-50))
    # A call begins 2 ms after its client's span or later, and ends 1 ms before it, with a slack of 1 ms. The clock of
    # the app is 48 to 52 ms behind, so 50 ms is added.
    moved = [row for row in visits(run) if row[0] == "app"]
    assert moved == [row for row in true if row[0] == "app"]
    said = " ".join(run.manifest.notes)
    assert "the clocks of 1 hosts were aligned" in said
    assert "the largest offset is 50 ms (app), good to 2 ms" in said
    assert "a sampler kept 50.000% of the traces" in said
    assert {server.kept for server in run.topology.servers} == {0.5}
    assert "aligned" not in " ".join(readers.read(tmp_path / "true.json").manifest.notes)


def aligned(calls: list[tuple[str, str, int, int]]) -> spans_clocks.Clocks:
    """From calls in blocks of two, which is as much as is in memory."""
    names = sorted({name for a, b, *_ in calls for name in (a, b)})
    rows = Rows(Scratch(), spans_clocks.CALL, most=2)
    for a, b, least, most in calls:
        rows.add(np.array([(names.index(a), names.index(b), least, most)], spans_clocks.CALL))
    return spans_clocks.aligned(rows, names)


def test_clocks_that_no_offset_satisfies_are_not_moved() -> None:
    ms = MILLISECOND
    assert aligned([("a", "b", -1 * ms, 3 * ms), ("a", "b", -2 * ms, 1 * ms)]).offsets == {}
    drifted = aligned([("a", "b", 40 * ms, 43 * ms), ("a", "b", -43 * ms, -40 * ms)])
    assert (drifted.offsets, drifted.unknown) == ({}, 1)
    chain = aligned([*[("a", "b", 40 * ms, 43 * ms)] * 3, *[("b", "c", 10 * ms, 13 * ms)] * 2])
    assert chain.offsets == {"b": 42 * ms, "c": 54 * ms}  # towards a, which makes the most calls
    many = [("a", "b", -1 * ms, 1 * ms)] * 200 + [("a", "b", 900 * ms, 950 * ms)]
    assert aligned(many).offsets == {}


def test_times_that_a_store_moved_and_traces_chosen_for_their_end_are_named(tmp_path: Path) -> None:
    jaeger = json.loads((FILES / "jaeger.json").read_text())
    jaeger["data"][0]["spans"][0]["warnings"] = ["This span's timestamps were adjusted by 12ms"]
    (tmp_path / "jaeger.json").write_text(json.dumps(jaeger))
    assert "moved the times of 1 spans" in " ".join(readers.read(tmp_path / "jaeger.json").manifest.notes)
    policy = '{"key":"tailsampling.policy","value":{"stringValue":"slow"}},'
    chosen = (
        (FILES / "otlp.jsonl").read_text().replace('"attributes":[{"key":"http', f'"attributes":[{policy}{{"key":"http')
    )
    (tmp_path / "chosen.jsonl").write_text(chosen)
    run = readers.read(tmp_path / "chosen.jsonl")
    assert "tail sampling" in " ".join(run.manifest.notes)
    assert run.requests().collect().height == 5
    assert "visits" not in run.manifest.rows
    assert {(server.kept, server.chosen) for server in run.topology.servers} == {(None, True)}
    (tmp_path / "both.jsonl").write_text(chosen.replace('"spanId"', '"traceState":"ot=th:8","spanId"'))
    said = " ".join(readers.read(tmp_path / "both.jsonl").manifest.notes)
    assert "a sampler kept 50.000% of the traces" in said
    assert "findings scale" not in said


@pytest.mark.parametrize(("state", "kept"), [("ot=th:c", 0.25), ("a=1,ot=p:2;r:10", 0.25), ("ot=p:63", None)])
def test_the_share_of_older_samplers_is_read_as_that_of_newer_ones(
    state: str, kept: float | None, tmp_path: Path
) -> None:
    run = readers.read(otlp(tmp_path / "a.json", [1, 2], state=state))
    assert {server.kept for server in run.topology.servers} == {kept}
    assert spans.kept_share(state, {}) == kept


def test_shares_that_differ_scale_nothing(tmp_path: Path) -> None:
    half, quarter = otlp(tmp_path / "a.json", [1, 2], state="ot=th:8"), otlp(tmp_path / "b.json", [1], state="ot=th:c")
    run = readers.read(half, quarter)
    assert {server.kept for server in run.topology.servers} == {None}
    assert "samplers kept between 25.000% and 50.000% of the traces" in " ".join(run.manifest.notes)


def test_the_share_of_traces_does_not_scale_the_visits_of_an_access_log(tmp_path: Path) -> None:
    """The first of two inputs shows the visits of a server."""
    traces = otlp(tmp_path / "a.json", [1, 2], state="ot=th:8")
    log = f"web={FILES.parent / 'accesslog' / 'nginx-timed.log'}"
    for paths, share in (((traces, log), 0.5), ((log, traces), None)):
        servers = {server.name: server.kept for server in readers.read(*paths).topology.servers}
        assert (servers["web"], servers["app"]) == (share, 0.5)


def test_protobuf_of_the_collector_gives_what_its_json_gives(tmp_path: Path) -> None:
    expected = visits(read("otlp.jsonl"))
    text = (FILES / "otlp.jsonl").read_text()
    messages = protobuf(text)
    lines = [zstd.compress(line.encode()) for line in text.splitlines()]
    for name, content in {
        "proto.bin": framed(messages),
        "proto.bin.gz": gzip.compress(framed(messages)),
        "proto.zst.bin": framed([zstd.compress(message) for message in messages]),
        "proto.frames.bin": framed([zstd.compress(m[:9]) + zstd.compress(m[9:]) for m in messages]),
        "json.zst.bin": framed(lines),
        "one": b"".join(messages),  # protobuf messages one after the other are one message
    }.items():
        (tmp_path / name).write_bytes(content)
        assert visits(readers.read(tmp_path / name)) == expected, name


def test_damaged_protobuf_keeps_what_came_before(tmp_path: Path) -> None:
    good = framed(protobuf((FILES / "otlp.jsonl").read_text()))
    (tmp_path / "cut").write_bytes(good + (500).to_bytes(4, "big") + b"\x0a\x10")
    run = readers.read(tmp_path / "cut")
    assert visits(run) == visits(read("otlp.jsonl"))
    assert "its last message is cut" in " ".join(run.manifest.notes)
    (tmp_path / "long").write_bytes(good + b"\xff\xff\xff\xff" + b"x" * 100)
    assert "is too long, or a length is damaged" in " ".join(readers.read(tmp_path / "long").manifest.notes)
    (tmp_path / "bad").write_bytes(good + framed([b"\x0a\x05ab"]))
    assert readers.read(tmp_path / "bad").lost()["bad: damaged elements"] == 1


def test_a_trace_without_servers_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text('{"resourceSpans":[{"resource":{"attributes":[]},"scopeSpans":[]}]}\n')
    with pytest.raises(InputError, match="no span of a server"):
        readers.read(path)


def tempo(jsonl: str) -> Any:
    """A block of Tempo (vParquet4) with the spans of a file of OTLP JSON, a row for each trace."""
    import pyarrow as pa

    traces: dict[str, list[dict[str, Any]]] = {}
    for line in jsonl.splitlines():
        for batch in json.loads(line)["resourceSpans"] if line.endswith("]}]}]}") else ():
            service = batch["resource"]["attributes"][0]["value"]["stringValue"]
            for span in batch["scopeSpans"][0]["spans"]:
                begin, end = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
                values = [(item["key"], next(iter(item["value"].items()))) for item in span.get("attributes", [])]
                row = {
                    "SpanID": bytes.fromhex(span["spanId"]),
                    "ParentSpanID": bytes.fromhex(span.get("parentSpanId", "")),
                    **{"Name": span["name"], "Kind": span["kind"], "StatusCode": span["status"].get("code", 0)},
                    **{"StartTimeUnixNano": begin, "DurationNano": end - begin},
                    "Attrs": [
                        {
                            "Key": key,
                            "Value": [value] if kind == "stringValue" else [],
                            "ValueInt": [int(value)] if kind == "intValue" else [],
                        }
                        for key, (kind, value) in values
                    ],
                }
                found = traces.setdefault(span["traceId"], [])
                found.append({"Resource": {"ServiceName": service, "Attrs": []}, "ss": [{"Spans": [row]}]})
    return pa.table({"TraceID": [bytes.fromhex(trace) for trace in traces], "rs": list(traces.values())})


def test_blocks_of_tempo_give_what_otlp_gives(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    text = "\n".join(line for line in (FILES / "otlp.jsonl").read_text().splitlines() if "999" not in line)
    kept = "\n".join(line for line in text.splitlines() if line.endswith("]}]}]}"))
    (tmp_path / "otlp.jsonl").write_text(kept)
    pq.write_table(tempo(kept), tmp_path / "data.parquet")
    assert visits(readers.read(tmp_path / "data.parquet")) == visits(readers.read(tmp_path / "otlp.jsonl"))


FLAT = (
    "TraceID,SpanID,ParentID,PodName,OperationName,StartTimeUnixNano,EndTimeUnixNano,Duration\n"
    "t1,a,root,frontend-1,hipstershop.Frontend/Home,{0},{20},20000000\n"
    "t1,b,a,frontend-1,hipstershop.CartService/GetCart,{2},{18},16000000\n"
    "t1,c,b,cart-1,hipstershop.CartService/GetCart,{5},{16},11000000\n"
)


def test_a_flat_table_without_kinds_has_servers_where_the_service_changes(tmp_path: Path) -> None:
    text = re.sub(r"\{(\d+)\}", lambda found: str(T + int(found[1]) * MILLISECOND), FLAT)
    (tmp_path / "spans.csv").write_text(text)
    expected = [("frontend-1", None, 0, 0, 20, 0, True), ("cart-1", "frontend-1", 5, 5, 16, 0, True)]
    assert visits(readers.read(tmp_path / "spans.csv")) == expected
    pl.read_csv(tmp_path / "spans.csv").drop("EndTimeUnixNano").write_parquet(tmp_path / "spans.parquet")
    assert visits(readers.read(tmp_path / "spans.parquet")) == expected


@pytest.mark.parametrize("above", ["root", "", "NULL", "-1", "0000000000000000"])
def test_what_tables_write_where_a_span_has_no_parent(above: str, tmp_path: Path) -> None:
    text = re.sub(r"\{(\d+)\}", lambda found: str(T + int(found[1]) * MILLISECOND), FLAT.replace("root", above))
    (tmp_path / "spans.csv").write_text(text)
    run = readers.read(tmp_path / "spans.csv")
    assert run.requests().collect().height == 1
    assert not any("caller's span is missing" in note for note in run.manifest.notes)


def test_call_graphs_of_alibaba(tmp_path: Path) -> None:
    (tmp_path / "calls.csv").write_text(
        ",traceid,timestamp,rpcid,um,rpctype,dm,interface,rt\n"
        "0,t1,1000,0,(?),http,frontend,home,20\n"
        "1,t1,1003,0.1,frontend,rpc,cart,get,12\n"
        "2,t1,1003,0.1,frontend,rpc,cart,get,-11\n"
        "3,t1,1005,0.1.1,cart,db,(?),read,5\n"
    )
    run = readers.read(tmp_path / "calls.csv")
    start = parse_moment("2000-01-01T00:00:01Z")
    found = run.visits().sort("sent").select(pl.col("server").cast(pl.String), "sent", "departure").collect().rows()
    assert [(server, (a - start) // MILLISECOND, (b - start) // MILLISECOND) for server, a, b in found] == [
        ("frontend", 0, 20),
        ("cart", 3, 15),
    ]
    assert {(call.caller, call.callee) for call in run.topology.calls} == {("frontend", "cart")}
    assert "are dated 2000-01-01" in " ".join(run.manifest.notes)
