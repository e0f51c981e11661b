"""Slow visits are inside several servers at once. Only one of these is where the others waited for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ledgers import drawn_up, shares
from plans import made
from tailrace.dataset import Dataset

Table = dict[str, Any]


def _reports(folder: Path, report: Table, *, each: int, app: int, db: int, rate: int) -> Dataset:
    """Record web → app → db, where so many reports come at once, and db does for each what `report` says."""
    plan = {
        "seed": 5,
        "duration": "16 s",
        "ramp": "3 s",
        "sampling": {"interval": "50 ms"},
        "tiers": {
            "web": {"kind": "sync", "workers": 60, "backlog": 32, "calls": {"app": {"kept": False, "pool": 0}}},
            "app": {"kind": "sync", "workers": app, "backlog": 16, "calls": {"db": {"kept": False, "pool": 0}}},
            "db": {"kind": "sync", "workers": db, "backlog": 32},
        },
        "interactions": {
            "page": {"at": {"web": {"compute": "0.5 ms", "calls": {"query": 1}}}},
            "query": {"at": {"app": {"compute": "1 ms", "calls": {"select": 1}}}},
            "select": {"at": {"db": {"compute": "1 ms"}}},
            "web report": {"at": {"web": {"compute": "0.1 ms", "calls": {"ask": 1}}}},
            "ask": {"at": {"app": {"compute": "0.1 ms", "calls": {"report": 1}}}},
            "report": {"at": {"db": report}},
        },
        "workloads": {
            "users": {"kind": "poisson", "rate": rate, "interaction": "page", "entry": "web"},
            "reports": {"kind": "batch", "size": each, "first": "6 s", "every": "5 s", "interaction": "web report"}
            | {"entry": "web"},
        },
    }
    return made(plan, folder)


def _lines(run: Dataset) -> set[tuple[str, str]]:
    _, _, found = drawn_up(run)
    return set(found.losses)


def test_visits_that_fill_the_cpu_behind_are_own_work_there(tmp_path: Path) -> None:
    run = _reports(tmp_path / "run", {"compute": "0.4 s", "scv": 0}, each=6, app=8, db=40, rate=200)
    found = shares(run)
    assert ("own-work", "db") in _lines(run)
    assert found["own-work"] > 0.0
    assert "soft-resource" not in found


def test_visits_that_wait_behind_hold_the_places_in_front(tmp_path: Path) -> None:
    run = _reports(tmp_path / "run", {"compute": "1 ms", "wait": "2 s"}, each=8, app=8, db=40, rate=200)
    assert ("soft-resource", "app") in _lines(run)
    assert shares(run)["soft-resource"] >= 0.45


def test_a_server_with_a_free_place_lost_none(tmp_path: Path) -> None:
    free = _reports(tmp_path / "free", {"compute": "1 ms", "wait": "1.2 s"}, each=9, app=60, db=16, rate=20)
    full = _reports(tmp_path / "full", {"compute": "1 ms", "wait": "1.2 s"}, each=9, app=60, db=9, rate=20)
    assert ("soft-resource", "db") not in _lines(free)
    assert ("soft-resource", "db") in _lines(full)
