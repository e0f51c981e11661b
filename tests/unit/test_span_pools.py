"""Waits for a connection of a pool, from spans of drivers; by hand, in milliseconds after T."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tailrace import readers
from tailrace.dataset import Dataset
from tailrace.readers import spans_pools
from tailrace.units import MILLISECOND

T = 1_795_193_340_000
SERVER, CLIENT, INTERNAL = 2, 3, 1


def request(number: int, begin: int, got: int, end: int, wait: tuple[str, int], opens: bool = False) -> list[Any]:
    """A request of `web` that waits from `begin` for one of its connections to `db`, and uses it from `got` on."""
    name, kind = wait
    spans = [
        (1, None, SERVER, "GET /", begin, end),
        (2, 1, kind, name, begin, got),
        (3, 1, CLIENT, "SELECT", got, end),
    ]
    if opens:
        spans.append((4, 2, CLIENT, "connect", begin, got))
    return [
        {
            **{"traceId": f"{number:032x}", "spanId": f"{number * 8 + own:016x}", "kind": kind, "name": name},
            "parentSpanId": f"{number * 8 + above:016x}" if above else "",
            "startTimeUnixNano": str((T + start) * MILLISECOND),
            "endTimeUnixNano": str((T + stop) * MILLISECOND),
            "attributes": [{"key": "peer.service", "value": {"stringValue": "db"}}] if kind == CLIENT else [],
        }
        for own, above, kind, name, start, stop in spans
    ]


def read(folder: Path, spans: list[list[Any]]) -> Dataset:
    service = {"attributes": [{"key": "service.name", "value": {"stringValue": "web"}}]}
    lines = [json.dumps({"resourceSpans": [{"resource": service, "scopeSpans": [{"spans": some}]}]}) for some in spans]
    (folder / "t.json").write_text("\n".join(lines))
    return readers.read(folder / "t.json")


def waiting(run: Dataset) -> dict[int, float]:
    """How many waited, by milliseconds after T."""
    if not run.manifest.rows.get("samples"):
        return {}
    rows = run.samples().filter(pl.col("metric").cast(pl.String) == "pool_waiting").select("time", "value").collect()
    return {time // MILLISECOND - T: value for time, value in rows.iter_rows()}


def two_at_a_time(wait: tuple[str, int], opens: bool = False) -> list[list[Any]]:
    """Two connections, each taken for 3 s; four more requests wait for them until then."""
    first = [request(n, 1000, 1001, 4000, wait) for n in (1, 2)]
    return [*first, *(request(n, 1010 + n * 100, 4000 + n, 4050 + n, wait, opens) for n in (3, 4))]


@pytest.mark.parametrize(
    "wait",
    [
        ("HikariDataSource.getConnection", INTERNAL),
        ("pg-pool.connect", CLIENT),
        ("pool.acquire", CLIENT),
        ("prisma:engine:connection", INTERNAL),
    ],
)
def test_a_pool_that_was_seen_full_has_its_size_and_who_waited(tmp_path: Path, wait: tuple[str, int]) -> None:
    run = read(tmp_path, two_at_a_time(wait))
    found = waiting(run)
    assert {at: found[at] for at in (1300, 1350, 1400, 1450, 4000, 4050)} == dict(
        zip((1300, 1350, 1400, 1450, 4000, 4050), (0, 1, 1, 2, 2, 0), strict=True)
    )
    [pool] = run.topology.pools
    assert (pool.caller, pool.callee, pool.size) == ("web", "db", 2)
    assert run.manifest.rows["visits"] == 8  # the span of a wait does not count, whatever kind it says


def test_a_wait_that_opens_a_connection_does_not_show_a_full_pool(tmp_path: Path) -> None:
    run = read(tmp_path, two_at_a_time(("pg-pool.connect", CLIENT), opens=True))
    assert waiting(run) == {}
    assert run.topology.pools == ()


def test_short_waits_show_nothing(tmp_path: Path) -> None:
    wait = "HikariDataSource.getConnection", INTERNAL
    run = read(tmp_path, [request(n, n * 50 - 2, n * 50 + 2, n * 50 + 40, wait) for n in range(1, 100)])
    assert waiting(run) == {}


def test_a_sample_of_the_traces_shows_no_pool(tmp_path: Path) -> None:
    spans = two_at_a_time(("HikariDataSource.getConnection", INTERNAL))
    for one in (span for some in spans for span in some):
        one["traceState"] = "ot=th:8"
    run = read(tmp_path, spans)
    assert waiting(run) == {}
    assert run.topology.pools == ()


def test_without_room_for_all_no_wait_lasts_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spans_pools, "_MOST", 10)
    waits, service = spans_pools.Open(), np.zeros(4, dtype=np.int64)
    begin = np.arange(4) * spans_pools.STEP
    for late in (0, 100):
        waits.add(service, service, begin + late * spans_pools.STEP, begin + (late + 10) * spans_pools.STEP)
    assert waits.left_out == 4
    assert sum(waits.changes[0, 0].values()) == 0
