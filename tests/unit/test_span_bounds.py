"""Bounds of what is kept of all spans together: pairs of hosts and of servers, and open files."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import numpy as np
import pytest

from tailrace import readers
from tailrace.anonymise.vocabulary import LOSSES
from tailrace.readers import spans_clocks, spans_together
from tailrace.readers.spans_runs import VISIT, Runs
from tailrace.readers.spills import Rows, Scratch
from tailrace.units import MILLISECOND, parse_moment

T = parse_moment("2026-11-20T16:49:00Z")
Calls = list[tuple[int, int, int, int]]


def aligned(calls: Calls, block: int) -> spans_clocks.Clocks:
    rows = Rows(Scratch(), spans_clocks.CALL, most=block)
    for at in range(0, len(calls), block):
        rows.add(np.array(calls[at : at + block], spans_clocks.CALL))
    return spans_clocks.aligned(rows, [f"h{number:04}" for number in range(1000)])


@pytest.mark.parametrize("seed", range(5))
def test_clocks_are_the_same_in_whatever_blocks_calls_come(seed: int) -> None:
    random = Random(seed)
    calls: Calls = []
    for _ in range(2000):
        server, off = random.randrange(1, 12), random.randrange(-2, 3) * MILLISECOND
        calls.append((server // 2, server, 40 * server * MILLISECOND + off, (40 * server + 9) * MILLISECOND + off))
    calls[7] = (0, 1, 10**12, 2 * 10**12)
    whole = aligned(calls, len(calls))
    assert set(whole.offsets) == {f"h{number:04}" for number in range(12)} - {_heaviest(calls)}
    assert aligned(calls, 20) == aligned(calls, 137) == whole


def _heaviest(calls: Calls) -> str:
    clients = [client for client, *_ in calls]
    return f"h{max(sorted(set(clients)), key=clients.count):04}"


@pytest.mark.parametrize("block", [1, 4, 100])
def test_calls_of_further_pairs_of_hosts_are_left_out(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spans_clocks, "CALLS", 2)
    ms = MILLISECOND
    calls = [(0, server, 40 * ms, 43 * ms) for server in (9, 5, 1, 2, 3, 9, 5, 1)]
    found = aligned(calls, block)
    assert set(found.offsets) == {"h0009", "h0005"}
    assert found.left_out == 4


def test_many_hosts_that_call_in_a_row_are_aligned() -> None:
    calls = [(host, host + 1, 40 * MILLISECOND, 43 * MILLISECOND) for host in range(999)]
    assert len(aligned(calls, 100).offsets) == 999


def test_calls_of_further_pairs_of_servers_are_counted_as_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spans_together, "CALLS", 2)
    monkeypatch.setattr(spans_together, "SPAN_TEXTS", 3)
    spans = [_span(1, None, "web")] + [_span(number, 1, f"app{number % 5}") for number in range(2, 12)]
    (tmp_path / "spans.json").write_text(json.dumps(spans))
    run = readers.read(tmp_path / "spans.json")
    run.validate()
    assert len(run.topology.calls) == 2
    lost = run.manifest.lost
    assert lost == {"spans.json: calls between further pairs of servers": 6}
    assert all(LOSSES.fullmatch(what.removeprefix("spans.json: ")) for what in lost)
    assert run.visits().collect().height == len(spans)


def _span(number: int, parent: int | None, service: str) -> dict[str, object]:
    above = {} if parent is None else {"parentId": f"{parent:016x}"}
    return {
        **{"traceId": "1" * 16, "id": f"{number:016x}", "name": "get /x", "kind": "SERVER", **above},
        **{"timestamp": T // 1000 + number, "duration": 1000, "localEndpoint": {"serviceName": service}},
    }


def test_many_runs_need_few_open_files(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    random, runs = np.random.default_rng(1), Runs(Scratch(tmp_path / "scratch"), most=64)
    parts = []
    for part in range(1100):
        rows = np.zeros(5, VISIT)
        rows["departure"], rows["number"] = random.integers(0, 10**4, 5), np.arange(5) + 5 * part
        parts.append(rows)
        runs.add(rows)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened = len(list(Path("/proc/self/fd").iterdir()))  # files of tests that ran before in this process
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(opened + 256, before[0]), before[1]))
    try:
        for _ in range(2):
            found = np.concatenate(list(runs))
            assert np.array_equal(found, np.sort(np.concatenate(parts), order=["departure", "number"]))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert runs.count == len(found)
    assert len(list((tmp_path / "scratch").iterdir())) < 3 * 64


def test_visits_that_come_nearly_in_order_are_one_run(tmp_path: Path) -> None:
    random, runs = np.random.default_rng(1), Runs(Scratch(tmp_path / "scratch"), most=64)
    rows = np.zeros(4_000, VISIT)
    rows["number"] = np.arange(len(rows))
    rows["departure"] = rows["number"] * 10 + random.integers(0, 200, len(rows))
    for first in range(0, len(rows), 100):
        runs.add(rows[first : first + 100])
    found = list(runs)
    assert len(list((tmp_path / "scratch").iterdir())) == 1
    assert max(map(len, found)) <= 64
    order = np.lexsort((rows["number"], rows["departure"]))
    assert np.array_equal(np.concatenate(found), rows[order])
    late = rows[:1].copy()
    runs.add(late)
    assert np.array_equal(
        np.concatenate(list(runs))["departure"], np.sort(np.append(rows["departure"], late["departure"]))
    )
