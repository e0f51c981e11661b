"""Blocks of Tempo as vParquet5, whose attributes are partly in columns that only `meta.json` names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tailrace import readers
from tailrace.dataset import Dataset
from tailrace.units import MILLISECOND, parse_moment

T = parse_moment("2026-11-20T16:49:00Z")
META = {
    "format": "vParquet5",
    "dedicatedColumns": [
        {"s": "resource", "n": "k8s.node.name"},
        {"n": "http.request.method"},
        {"n": "http.response.status_code", "t": "int"},
        {"s": "event", "n": "exception.message"},
        {"n": "url.path"},
    ],
}


def span(own: str, above: str, kind: int, at: tuple[int, int], texts: list[str], codes: list[int]) -> dict[str, Any]:
    dedicated = {f"String{i:02}": [text] for i, text in enumerate(texts, 1)} or {"String01": []}
    return {
        "SpanID": own.encode(),
        "ParentSpanID": above.encode(),
        "Name": "a request",
        "Kind": kind,
        "StatusCode": 0,
        "StartTimeUnixNano": T + at[0] * MILLISECOND,
        "DurationNano": (at[1] - at[0]) * MILLISECOND,
        "Attrs": [{"Key": "peer.service", "IsArray": False, "Value": ["app"], "ValueInt": []}] if kind == 3 else [],
        "DedicatedAttributes": {**dedicated, "Int01": codes},
    }


def block(path: Path, kinds: tuple[int, int, int] = (2, 3, 2)) -> Path:
    """Three traces of a web server that calls another one; the second call was answered with 503."""
    traces = []
    for number, code in enumerate((200, 503, 200)):
        at = number * 100
        web = [
            span("web00000", "", kinds[0], (at, at + 50), ["GET", "/page"], [code]),
            span("call0000", "web00000", kinds[1], (at + 5, at + 40), [], []),
        ]
        app = [span("app00000", "call0000", kinds[2], (at + 10, at + 30), ["GET", "/item"], [code])]
        batches = [
            {
                "Resource": {"ServiceName": name, "Attrs": [], "DedicatedAttributes": {"String01": [node]}},
                "ss": [{"Spans": spans, "SpanCount": len(spans)}],
            }
            for name, node, spans in (("web", "node1", web), ("app", "node2", app))
        ]
        traces.append({"TraceID": bytes([number + 1] * 16), "ServiceStats": [], "rs": batches})
    path.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(traces), path / "data.parquet")
    (path / "meta.json").write_text(json.dumps(META))
    return path / "data.parquet"


def visits(run: Dataset) -> list[tuple[object, ...]]:
    names = pl.col("server", "caller", "interaction", "status").cast(pl.String)
    times = ((pl.col("sent") - T) // MILLISECOND, (pl.col("departure") - T) // MILLISECOND)
    return run.visits().sort("sent").select(names, *times).collect().rows()


def test_attributes_in_columns_of_their_own_have_the_names_that_meta_json_gives(tmp_path: Path) -> None:
    run = readers.read(block(tmp_path / "block"))
    run.validate()
    assert visits(run) == [
        ("web", None, "GET /page", "ok", 0, 50),
        ("app", "web", "GET /item", "ok", 5, 30),
        ("web", None, "GET /page", "503", 100, 150),
        ("app", "web", "GET /item", "503", 105, 130),
        ("web", None, "GET /page", "ok", 200, 250),
        ("app", "web", "GET /item", "ok", 205, 230),
    ]
    assert not any("meta.json" in note for note in run.manifest.notes)


@pytest.mark.parametrize("meta", [None, "{", '{"dedicatedColumns": [{"s": ["x"], "n": 1}, 7]}', "[" * 100_000])
def test_without_a_readable_meta_json_names_are_unknown_and_a_note_says_so(tmp_path: Path, meta: str | None) -> None:
    path = block(tmp_path / "block")
    path.with_name("meta.json").unlink()
    if meta is not None:
        path.with_name("meta.json").write_text(meta)
    run = readers.read(path)
    assert [(row[0], row[3]) for row in visits(run)] == [("web", "ok"), ("app", "ok")] * 3
    assert any("columns without a name (Int01, String01, String02)" in note for note in run.manifest.notes)


def test_spans_without_any_kind_are_servers_where_the_service_changes(tmp_path: Path) -> None:
    run = readers.read(block(tmp_path / "block", kinds=(0, 0, 0)))
    assert [row[:2] for row in visits(run)] == [("web", None), ("app", "web")] * 3
