"""Bursts: requests beyond the usual number, and beyond what the clients that pause would send."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ledgers import shares
from plans import made
from tailrace.diagnosis.ledger import bursts
from tailrace.diagnosis.ledger.steps import STEP_NS

S, MS = 1_000_000_000, 1_000_000


def test_a_burst_is_more_than_chance_makes_of_the_usual() -> None:
    random = np.random.default_rng(1)
    usual = np.sort(random.uniform(0, 30 * S, 6000)).astype(np.int64)
    counts, two = np.bincount(usual // STEP_NS, minlength=3000), np.full(3000, 2.0)
    assert bursts._stretches(counts, two, bursts.FEWEST) == [], "chance alone"
    counts[1000] += 200
    (found,) = bursts._stretches(counts, two, bursts.FEWEST)
    assert found[0] <= 1000 < found[1]
    batch = np.concatenate((np.arange(20) * 5 * MS, np.full(200, 50 * MS)))
    gone = bursts._without_turn(np.sort(batch), two)
    assert 180 <= len(gone) <= 205


def surging(**clients: object) -> dict[str, object]:
    """700 clients of web and db pause for 2 s in the mean, and db can serve 500/s."""
    return {
        "seed": 4,
        "duration": "40 s",
        "ramp": "3 s",
        "tiers": {
            "web": {"kind": "async", "backlog": 16, "calls": {"db": {"kept": False, "pool": 0}}},
            "db": {"kind": "sync", "workers": 40, "backlog": 16},
        },
        "interactions": {
            "page": {"at": {"web": {"compute": "0.5 ms", "calls": {"query": 1}}}},
            "query": {"at": {"db": {"compute": "2 ms"}}},
        },
        "workloads": {"users": {"clients": 700, "think": "2 s", "interaction": "page", "entry": "web"} | clients},
    }


def test_clients_that_pause_shorter_are_a_burst_although_many_wait_and_send_nothing(tmp_path: Path) -> None:
    found = shares(made(surging(index_of_dispersion=400), tmp_path / "run"))
    assert found["workload-burst"] >= 0.8


def test_clients_that_wait_for_a_server_that_stopped_are_no_burst(tmp_path: Path) -> None:
    stop = {"kind": "freeze", "place": "db", "at": "8 s", "every": "11 s", "for": "0.8 s"}
    found = shares(made(surging() | {"stalls": [stop]}, tmp_path / "run"))
    assert found["freeze"] >= 0.9
    assert "workload-burst" not in found
