"""Random systems whose clients connect and send nothing: from the recording alone, the diagnosis names these clients,
the twin repeats the recording, and a time limit for them does in the twin what it does in the system."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tailrace import sim, twin
from tailrace.advise.changing import possible
from tailrace.advise.remedies import silence
from tailrace.dataset import Dataset
from tailrace.diagnosis import diagnose
from tailrace.experiment import Experiment, from_table

NAMED = "clients that sent nothing"
MOST = 0.9
NEAR, FEW = 0.2, 10
"""As in benches/advise: a prediction is near if it is off by this share, or by so many requests."""


def drawn(seed: int) -> dict[str, Any]:
    """As many silent clients as workers, or twice as many, every 5 s: some of them never get a worker."""
    dice = random.Random(f"silent clients {seed}")
    workers, wait = dice.choice((2, 4, 8)), dice.choice((1200, 1800, 2500))
    compute = dice.choice((2, 5, 8))
    page: dict[str, Any] = {"compute": f"{compute} ms"}
    web: dict[str, Any] = {"workers": workers, "backlog": dice.choice((8, 32, 64))}
    tiers: dict[str, Any] = {"web": web}
    interactions: dict[str, Any] = {
        "page": {"at": {"web": page}},
        "early": {"silent": True, "at": {"web": {"wait": f"{wait} ms"}}},
    }
    if dice.random() < 0.5:
        tiers["db"] = {"workers": 64}
        web["calls"], page["calls"] = {"db": {}}, {"query": 2}
        interactions["query"] = {"at": {"db": {"compute": "1 ms"}}}
    size = workers * dice.choice((1, 2))
    return {
        "duration": "15 s",
        "ramp": "0 s",
        "seed": seed,
        "sampling": {"interval": "50 ms"},
        "kernel": {"syn": "linux-6.5"},
        "tiers": tiers,
        "interactions": interactions,
        "workloads": {
            "users": {"kind": "poisson", "rate": 300 / compute, "interaction": "page"},
            "browsers": {"kind": "batch", "size": size, "every": "5 s", "first": "2 s", "interaction": "early"},
        },
    }


def cut_off(system: Experiment) -> Experiment:
    """Web closes connections on which nothing comes for 200 ms."""
    [option] = silence.REMEDY.options(system)
    changed = possible(system, option.changes(option.sizes[-1]))
    assert changed is not None
    return changed


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 5, 8])
def test_silent_clients_are_found_repeated_and_cut_off(seed: int, tmp_path: Path) -> None:
    system = from_table(drawn(seed))
    sim.simulate(system, tmp_path / "run")
    run = Dataset.open(tmp_path / "run")
    found = diagnose(run)
    assert found.vlrt > FEW
    named = [row.vlrt for row in found.summary if row.origin == "web" and row.cause == "soft-resource"]
    assert sum(named) >= MOST * found.vlrt
    assert NAMED in str(found.episodes)
    learnt = twin.learn(run)
    gate = twin.gate(learnt, run)
    assert gate.passed, gate.off
    predicted, truth = (sim.count(cut_off(one)).over_1s for one in (learnt.experiment, system))
    assert abs(predicted - truth) <= max(NEAR * truth, FEW)
    assert predicted < 0.5 * found.vlrt
