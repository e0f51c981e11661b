"""Spans inside a server's that are named after locks; by hand, in milliseconds after T."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tailrace import readers
from tailrace.dataset import Dataset
from tailrace.readers import spans_locks
from tailrace.units import MILLISECOND

T = 1_795_193_340_000
SERVER, CLIENT, INTERNAL = 2, 3, 1
Inner = tuple[str, int, int]


def read(folder: Path, inner: list[Inner], calling: bool = False) -> Dataset:
    """Three requests of `shop` from 0 to 100 ms, each with these spans inside, and perhaps a call in the first."""
    spans: list[dict[str, Any]] = []
    for number in (1, 2, 3):
        rows = [("GET /", SERVER, 0, 100, 0), *((name, INTERNAL, begin, end, 1) for name, begin, end in inner)]
        rows += [("SELECT", CLIENT, inner[0][1] + 1, inner[0][2] - 1, 2)] if calling else []
        for own, (name, kind, begin, end, above) in enumerate(rows, 1):
            spans.append(
                {
                    **{"traceId": f"{number:032x}", "spanId": f"{number * 64 + own:016x}", "kind": kind, "name": name},
                    "parentSpanId": f"{number * 64 + above:016x}" if above else "",
                    "startTimeUnixNano": str((T + number * 1000 + begin) * MILLISECOND),
                    "endTimeUnixNano": str((T + number * 1000 + end) * MILLISECOND),
                    "attributes": [{"key": "peer.service", "value": {"stringValue": "db"}}] if kind == CLIENT else [],
                }
            )
    service = {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]}
    text = json.dumps({"resourceSpans": [{"resource": service, "scopeSpans": [{"spans": spans}]}]})
    (folder / "t.json").write_text(text + "\n")
    run = readers.read(folder / "t.json")
    run.validate()
    return run


def waits(run: Dataset) -> list[tuple[object, ...]]:
    if not run.manifest.rows.get("events"):
        return []
    times = ((pl.col("begin") // MILLISECOND - T) % 1000, (pl.col("end") // MILLISECOND - T) % 1000)
    names = pl.col("place", "kind").cast(pl.String)
    return run.events().sort("begin").select(names, *times).collect().rows()


def notes(run: Dataset) -> str:
    return " ".join(run.manifest.notes)


def test_waits_for_locks_are_events_of_the_server(tmp_path: Path) -> None:
    run = read(tmp_path, [("acquire lock", 10, 60), ("render page", 60, 90)])
    assert waits(run) == [("shop", "lock_wait", 10, 60)] * 3
    assert "3 spans are waits for a lock, up to 50 ms, which is no work of the server" in notes(run)
    assert run.manifest.rows["visits"] == 3


def test_work_and_short_waits_are_none(tmp_path: Path) -> None:
    run = read(tmp_path, [("render page", 10, 60), ("block the user", 60, 90), ("acquire lock", 90, 94)])
    assert waits(run) == []
    assert "lock" not in notes(run)


def test_a_section_may_hold_the_lock_so_the_note_says_both(tmp_path: Path) -> None:
    run = read(tmp_path, [("synchronized section", 10, 60)])
    assert waits(run) == []
    assert "3 spans are named after locks: their visits waited for the lock or held it" in notes(run)


def test_a_span_with_a_call_inside_is_no_wait(tmp_path: Path) -> None:
    run = read(tmp_path, [("acquire lock", 10, 60)], calling=True)
    assert waits(run) == []
    assert run.manifest.rows["visits"] == 6


@pytest.mark.parametrize(
    ("name", "lock", "wait"),
    [
        ("ReentrantLock.lock", True, True),
        ("inventoryLock.tryLock", True, True),
        ("wait for mutex", True, True),
        ("Semaphore.acquire", True, True),
        ("synchronized", True, False),
        ("update under lock", True, False),
        ("unblock clock", False, False),
        ("acquire token", False, False),
    ],
)
def test_names_of_locks(name: str, lock: bool, wait: bool) -> None:
    assert (spans_locks.names_lock(name), spans_locks.names_wait(name)) == (lock, wait)
