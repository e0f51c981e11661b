"""Servers of a log that are those of other inputs: their requests ended at the same moments."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tailrace import readers
from tailrace.readers.alike import agree
from tailrace.units import MILLISECOND, SECOND

BEGIN = 1_795_193_400
RANDOM = np.random.default_rng(7)


def ends(rate: float, count: int) -> np.ndarray:
    """Moments of a Poisson process, in ns."""
    return (np.cumsum(RANDOM.exponential(1 / rate, count)) * SECOND).astype(np.int64)


@pytest.mark.parametrize("rate", [20, 100, 3000])
def test_the_same_ends_agree_within_a_millisecond(rate: float) -> None:
    one = ends(rate, 2000)
    other = one // MILLISECOND * MILLISECOND + RANDOM.integers(0, 2 * MILLISECOND, len(one))
    assert agree(one, other)
    assert agree(one, np.delete(other, [5, 900, 1500]))


@pytest.mark.parametrize("rate", [20, 100, 3000])
def test_other_ends_do_not_agree(rate: float) -> None:
    one = ends(rate, 2000)
    assert not agree(one, ends(rate, 2000))
    assert not agree(one, one + SECOND)
    assert not agree(one[::2], one)


def test_few_and_regular_ends_prove_nothing() -> None:
    assert not agree(ends(100, 10), ends(100, 10))
    regular = np.arange(2000, dtype=np.int64) * SECOND // 10
    assert not agree(regular, regular)


def span(trace: int, number: int, parent: int, service: str, kind: int, begin: float, end: float) -> dict[str, object]:
    name = [{"key": "service.name", "value": {"stringValue": service}}]
    times = {"startTimeUnixNano": str(round(begin * SECOND)), "endTimeUnixNano": str(round(end * SECOND))}
    above = {"parentSpanId": f"{parent:016x}"} if parent else {}
    one = {"traceId": f"{trace:032x}", "spanId": f"{number:016x}", "name": "GET", "kind": kind, **above, **times}
    return {"resource": {"attributes": name}, "scopeSpans": [{"spans": [one]}]}


def write(folder: Path) -> tuple[Path, Path]:
    """Traces of web, which calls app, and the log of web."""
    traces, lines = list[str](), list[str]()
    for i, moment in enumerate(BEGIN + ends(50, 300) / SECOND, 1):
        took = RANDOM.uniform(0.002, 0.02)
        end, first = moment + took + 0.002, 3 * i
        spans = [
            span(i, first, 0, "web", 2, moment, end),
            span(i, first + 1, first, "web", 3, moment + 0.0005, end - 0.0005),
            span(i, first + 2, first + 1, "app", 2, moment + 0.001, end - 0.001),
        ]
        traces.append(json.dumps({"resourceSpans": spans}))
        lines.append(
            f'- - - [20/Nov/2026:16:50:00 +0000] "GET /items HTTP/1.1" 200 5 msec={end:.3f} rt={end - moment:.3f} '
            f'uct="0.000" urt="{took:.3f}" ua="10.0.0.7:8080"'
        )
    files = folder / "traces.json", folder / "access.log"
    for file, text in zip(files, (traces, lines), strict=True):
        file.write_text("\n".join(text) + "\n")
    return files


def test_a_log_without_a_name_does_not_count_twice(tmp_path: Path) -> None:
    for files in (write(tmp_path), write(tmp_path)[::-1]):
        run = readers.read(*files)
        assert {server.name for server in run.topology.servers} == {"web", "app"}
        assert (run.visits().collect().height, run.requests().collect().height) == (600, 300)
        assert any("its requests are those of app and web" in note for note in run.manifest.notes)


def test_the_addresses_in_a_log_are_servers_of_traces(tmp_path: Path) -> None:
    traces, log = write(tmp_path)
    for name in ("web", "front"):
        run = readers.read(traces, f"{name}={log}")
        assert {server.name for server in run.topology.servers} == {"web", "app", name}
    assert any("10.0.0.7:8080 counts as web" in note for note in run.manifest.notes)


def test_a_name_that_was_given_counts(tmp_path: Path) -> None:
    traces, log = write(tmp_path)
    run = readers.read(traces, f"web={log}", servers={"shop": "10.0.0.7:8080"})
    assert "shop" in {server.name for server in run.topology.servers}
