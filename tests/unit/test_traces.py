"""Traces: which spans are visits, who called, and which gaps are lost attempts; computed by hand from the files in
tests/golden/readers/traces."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tailrace import readers
from tailrace.dataset import Dataset
from tailrace.errors import InputError
from tailrace.units import MILLISECOND, parse_moment

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
    assert "lost attempts (3 in all), which is indirect evidence" in said
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
    assert sorted(names) == ["GET /{}", "GetDriver", "driver.DriverService/FindNearest"]


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


def test_other_clocks_and_sampling_are_named(tmp_path: Path) -> None:
    run = readers.read(otlp(tmp_path / "t.json", [1, 1, 1], state="ot=th:8", skew_ms=-50))
    assert [row[2] == row[3] for row in visits(run) if row[0] == "app"] == [True] * 3
    said = " ".join(run.manifest.notes)
    assert "calls that lie outside of their client's span: 3" in said
    assert "a sampler kept 50.000% of the traces" in said


def test_a_trace_without_servers_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text('{"resourceSpans":[{"resource":{"attributes":[]},"scopeSpans":[]}]}\n')
    with pytest.raises(InputError, match="no span of a server"):
        readers.read(path)
