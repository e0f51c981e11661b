"""Forms of trace files that differ from those of the page and the exporter: without an envelope, or one a line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from polars.testing import assert_frame_equal

from tailrace import readers
from tailrace.errors import InputError

FILES = Path(__file__).parents[1] / "golden" / "readers" / "traces"
BEGIN, TOOK = 1_795_193_340_000_000_000, 20_000_000


def same(one: Path, other: Path) -> None:
    """Both files show the same visits, whatever the ids of their traces."""
    runs = [readers.read(file) for file in (one, other)]
    assert_frame_equal(*(run.visits().drop("visit", "parent").collect() for run in runs))
    assert runs[0].manifest.rows == runs[1].manifest.rows


def test_a_list_of_jaegers_traces_and_its_third_api(tmp_path: Path) -> None:
    traces = json.loads((FILES / "jaeger.json").read_text())["data"]
    (tmp_path / "list.json").write_text(json.dumps(traces))
    same(FILES / "jaeger.json", tmp_path / "list.json")
    lines = [line for line in (FILES / "otlp.jsonl").read_text().splitlines() if _is_json(line)]
    (tmp_path / "otlp.jsonl").write_text("\n".join(lines))
    (tmp_path / "third.json").write_text("".join(f'{{"result": {line}}}\n' for line in lines))
    same(tmp_path / "otlp.jsonl", tmp_path / "third.json")


def test_a_span_of_zipkin_in_each_line(tmp_path: Path) -> None:
    spans = json.loads((FILES / "zipkin.json").read_text())
    flat = [span for each in spans for span in (each if isinstance(each, list) else [each])]
    (tmp_path / "lines.json").write_text("".join(json.dumps(span) + "\n" for span in flat))
    same(FILES / "zipkin.json", tmp_path / "lines.json")
    whole = readers.read(tmp_path / "lines.json").manifest.rows
    (tmp_path / "lines.json").write_text('{"traceId": "1"' + (tmp_path / "lines.json").read_text())
    damaged = readers.read(tmp_path / "lines.json")
    assert damaged.lost()
    assert damaged.manifest.rows["visits"] >= whole["visits"] - 1


def test_the_first_version_of_zipkin_is_refused_by_name(tmp_path: Path) -> None:
    span = {"traceId": "1", "id": "2", "name": "get", "annotations": [{"value": "sr", "timestamp": 1}]}
    (tmp_path / "v1.json").write_text(json.dumps([[span]]))
    with pytest.raises(InputError, match="first version of Zipkin"):
        readers.read(tmp_path / "v1.json")


def _is_json(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False
