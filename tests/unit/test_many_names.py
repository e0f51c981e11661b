"""Requests with more names than a file may have: none is lost, the common names stay, and the rest are `(other)`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tailrace import readers
from tailrace.dataset import Dataset
from tailrace.readers import spans_columns, stays
from tailrace.readers.accesslog_texts import Table, Texts
from tailrace.units import MILLISECOND, parse_moment

T = parse_moment("2026-11-20T16:49:00Z")
MOST = 20
VOWELS = "aeiou"
RARE = [f"load {first}{second}nt" for first in ("b", "d", "f", "g", "l", "m") for second in VOWELS]
"""Each comes once, before the common one."""
COMMON = "save basket"
NAMES = [*RARE, *[COMMON] * 10]


def otlp(path: Path) -> Path:
    spans = [
        {
            **{"traceId": f"{n:032x}", "spanId": f"{n:016x}", "name": name, "kind": 2},
            **{"startTimeUnixNano": str(at(n)), "endTimeUnixNano": str(at(n) + MILLISECOND)},
        }
        for n, name in enumerate(NAMES, 1)
    ]
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "web"}}]}
    return written(path, {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": spans}]}]})


def jaeger(path: Path) -> Path:
    traces = [
        {
            "traceID": f"{n:x}",
            "spans": [
                {
                    **{"traceID": f"{n:x}", "spanID": f"{n:x}", "operationName": name, "references": []},
                    **{"startTime": at(n) // 1000, "duration": 1000, "processID": "p"},
                    "tags": [{"key": "span.kind", "type": "string", "value": "server"}],
                }
            ],
            "processes": {"p": {"serviceName": "web", "tags": []}},
        }
        for n, name in enumerate(NAMES, 1)
    ]
    return written(path, {"data": traces})


def zipkin(path: Path) -> Path:
    spans = [
        {
            **{"traceId": f"{n:x}", "id": f"{n:x}", "kind": "SERVER", "name": name},
            **{"timestamp": at(n) // 1000, "duration": 1000, "localEndpoint": {"serviceName": "web"}},
        }
        for n, name in enumerate(NAMES, 1)
    ]
    return written(path, spans)


def flat(path: Path) -> Path:
    """As ClickHouse writes the exporter's table."""
    rows = [
        {
            **{"Timestamp": at(n), "TraceId": f"{n:032x}", "SpanId": f"{n:016x}", "ParentSpanId": ""},
            **{"SpanName": name, "SpanKind": "Server", "ServiceName": "web", "Duration": MILLISECOND},
        }
        for n, name in enumerate(NAMES, 1)
    ]
    path = path.with_suffix(".csv")
    pl.DataFrame(rows).write_csv(path)
    return path


def written(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content))
    return path


def at(number: int) -> int:
    return T + number * 10 * MILLISECOND


def counted(run: Dataset) -> dict[str, int]:
    name = pl.col("interaction").cast(pl.String)
    return dict(run.visits().group_by(name).len().collect().iter_rows())


@pytest.mark.parametrize("form", [otlp, jaeger, zipkin, flat])
@pytest.mark.parametrize("texts", [1 << 18, len(RARE)], ids=["names", "texts"])
def test_a_name_after_too_many_others_loses_no_visit(
    form: Callable[[Path], Path], texts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If not even the texts fit, the names that came last are `(other)`."""
    path = form(tmp_path / "traces.json")
    whole = counted(readers.read(path))
    assert whole[COMMON] == 10
    assert len(whole) == len(RARE) + 1
    for module in (stays, spans_columns):
        monkeypatch.setattr(module, "NAMES", MOST)
    monkeypatch.setattr(spans_columns, "SPAN_TEXTS", texts)
    run = readers.read(path)
    found = counted(run)
    assert sum(found.values()) == len(NAMES)
    assert len(found) <= MOST
    assert found.get(COMMON, 0) == (10 if texts > len(RARE) else 0)
    assert found["(other)"] == len(NAMES) - sum(whole[name] for name in found.keys() - {"(other)"})
    [note] = [note for note in run.manifest.notes if "(other)" in note]
    assert f"{found['(other)']} visits" in note
    assert not run.manifest.lost


def test_a_log_with_too_many_names_loses_no_visit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        f'10.0.0.{n % 9} - - [20/Nov/2026:16:49:00 +0000] "GET /{name.replace(" ", "/")} HTTP/1.1" 200 5 "-" "-" 0.010'
        for n, name in enumerate([name for name in NAMES for _ in range(3)])
    ]
    (tmp_path / "access.log").write_text("\n".join(lines) + "\n")
    whole = readers.read(tmp_path / "access.log")
    assert whole.manifest.rows["requests"] == len(lines)
    monkeypatch.setattr(stays, "NAMES", MOST)
    for texts in (1 << 18, len(RARE)):
        monkeypatch.setitem(stays._MOST, "interaction", texts)
        run = readers.read(tmp_path / "access.log")
        assert run.manifest.rows == whole.manifest.rows
        names = run.requests().select(pl.col("interaction").cast(pl.String).unique()).collect().to_series()
        assert len(names) <= MOST
        assert "(other)" in names
        assert any("(other)" in note for note in run.manifest.notes)


@pytest.mark.parametrize("form", [otlp, jaeger, zipkin, flat])
def test_long_names_together_have_a_bound_and_lose_no_visit(
    form: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = form(tmp_path / "traces.json")
    for module in (stays, spans_columns):
        monkeypatch.setattr(module, "NAMES_CHARACTERS", 200)
    run = readers.read(path)
    found = counted(run)
    assert sum(found.values()) == len(NAMES)
    assert 0 < sum(map(len, found.keys() - {"(other)"})) <= 200
    [note] = [note for note in run.manifest.notes if "(other)" in note]
    assert f"{found['(other)']} visits" in note
    assert not run.manifest.lost


def test_the_bound_of_all_names_holds_in_both_ways_to_add_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    added = [stays.Stay("web", T, T, T + n, "ok", interaction=f"{n:040}") for n in range(10)]
    monkeypatch.setattr(stays, "NAMES_CHARACTERS", 200)
    some = stays.Stays()
    assert [some.add(one) for one in added] == list(range(10))
    assert some.nameless == 6
    columns = {name: np.full(10, T) for name in ("sent", "arrival", "departure")}
    texts = {name: Texts.same("web", 10) for name in ("server", "caller", "status")}
    texts["interaction"] = Texts(np.arange(10), Table([one.interaction for one in added]))
    assert not stays.Stays().add_all([stays.Many(columns, texts)])


def test_a_server_after_too_many_others_is_no_other_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A visit of a server without a name is left out, and counted."""
    lines = otlp(tmp_path / "traces.json").read_text()
    many = [lines.replace('"web"', f'"web-{n}"').replace('"traceId": "0', f'"traceId": "{n}') for n in range(3)]
    (tmp_path / "traces.json").write_text("\n".join(many))
    monkeypatch.setattr(spans_columns, "NAMES", 2)
    run = readers.read(tmp_path / "traces.json")
    assert run.manifest.rows["visits"] == 2 * len(NAMES)
    assert run.manifest.lost == {"traces.json: requests with impossible times or names": len(NAMES)}
