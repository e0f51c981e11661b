"""A server lacks capacity only while it has something to do and a worker for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ledgers import drawn_up, shares
from plans import made
from tailrace.diagnosis.ledger.account import _workers_wait

Table = dict[str, Any]


def held(workers: int) -> Table:
    """Reports hold the workers of app while they wait for a second in db. Meanwhile the governor lowers the clock of
    app, which has nothing to do."""
    return {
        "seed": 2,
        "duration": "14 s",
        "ramp": "3 s",
        "sampling": {"interval": "50 ms"},
        "tiers": {
            "web": {"workers": 300, "backlog": 128, "calls": ["app"]},
            "app": {"workers": workers, "backlog": 300, "calls": ["db"]},
            "db": {"workers": 300},
        },
        "nodes": {"app": {"governor": {"period": "200 ms", "frequencies": ["1 GHz", "3 GHz"], "up": 0.9, "down": 0.3}}},
        "interactions": {
            "page": {"at": {"web": {"compute": "0.5 ms", "calls": {"query": 1}}}},
            "query": {"at": {"app": {"compute": "2 ms", "calls": {"select": 1}}}},
            "select": {"at": {"db": {"compute": "0.5 ms"}}},
            "report": {"at": {"web": {"compute": "0.1 ms", "calls": {"collect": 1}}}},
            "collect": {"at": {"app": {"compute": "0.1 ms", "calls": {"sum": 1}}}},
            "sum": {"at": {"db": {"compute": "0.5 ms", "wait": "1 s"}}},
        },
        "workloads": {
            "users": {"kind": "poisson", "rate": 250, "interaction": "page", "entry": "web"},
            "reports": {
                "kind": "batch",
                "size": 40,
                "first": "7 s",
                "every": "20 s",
                "interaction": "report",
                "entry": "web",
            },
        },
    }


@pytest.mark.parametrize("workers", [40, 80], ids=["all workers", "half of the workers"])
def test_a_server_whose_workers_all_wait_for_calls_lacks_nothing(tmp_path: Path, workers: int) -> None:
    seen, _, account = drawn_up(made(held(workers), tmp_path / "run"))
    waits = _workers_wait(seen, "app", workers)
    assert waits.sum() > 50 if workers == 40 else not waits.any()
    assert not account.taken_of("app")[waits].any()


def waiting_loop() -> Table:
    """A job sends 20 pages at once. Each of them blocks the event loop of db for 0.8 s without computing, so the
    governor lowers the clock."""
    return {
        "seed": 3,
        "duration": "30 s",
        "ramp": "3 s",
        "sampling": {"interval": "50 ms"},
        "tiers": {"web": {"workers": 2000, "backlog": 128, "calls": ["db"]}, "db": {"kind": "async", "backlog": 2000}},
        "nodes": {"db": {"governor": {"period": "200 ms", "frequencies": ["1 GHz", "3 GHz"], "up": 0.9, "down": 0.3}}},
        "interactions": {
            "page": {"at": {"web": {"compute": "0.5 ms", "calls": {"select": 1}}}},
            "select": {"at": {"db": {"compute": "3 ms"}}},
            "report": {"at": {"web": {"compute": "0.1 ms", "calls": {"sum": 1}}}},
            "sum": {"at": {"db": {"compute": "0.5 ms", "wait": "0.8 s"}}},
        },
        "workloads": {
            "users": {"kind": "closed", "clients": 300, "think": "2 s", "start": "thinking", "interaction": "page"},
            "reports": {"kind": "batch", "size": 20, "first": "7 s", "every": "40 s", "interaction": "report"},
        },
    }


def test_a_low_clock_takes_nothing_from_an_event_loop_that_waits(tmp_path: Path) -> None:
    found = shares(made(waiting_loop(), tmp_path / "run"))
    assert "lock" not in found
    assert found["workload-burst"] > 0.9
