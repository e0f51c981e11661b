"""The twin of a recording: an experiment that repeats it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tailrace import experiment, sim, twin
from tailrace.dataset import Dataset
from tailrace.units import SECOND

CHAIN: dict[str, Any] = {
    "duration": "12 s",
    "ramp": "2 s",
    "tiers": {
        "web": {"software": "apache", "calls": ["app"], "workers": 30, "backlog": 20},
        "app": {"software": "tomcat", "calls": ["db"]},
        "db": {"software": "mysql"},
    },
    "workloads": {"steady": {"clients": 1400, "think": "2 s", "think_max": "0 ns"}},
    "stalls": [{"kind": "slow", "place": "db", "at": "5 s", "for": "500 ms", "left": 0.05}],
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Three tiers; the database is slow for half a second, and the web server drops requests."""
    folder = tmp_path_factory.mktemp("recorded") / "run"
    sim.simulate(experiment.from_table(CHAIN), folder)
    return Dataset.open(folder)


@pytest.fixture(scope="module")
def learnt(run: Dataset) -> twin.Twin:
    return twin.learn(run)


def test_a_twin_repeats_its_recording(run: Dataset, learnt: twin.Twin) -> None:
    gate = twin.gate(learnt, run)
    assert len(gate.recorded.vlrt) > 50
    assert gate.passed, gate.off


def test_what_is_written_runs_like_the_twin(learnt: twin.Twin, tmp_path: Path) -> None:
    path = learnt.write(tmp_path / "twin")
    again = sim.count(experiment.read(path.parent))
    assert again.drops == sim.count(learnt.experiment).drops


def test_without_the_loss_nothing_is_very_slow(learnt: twin.Twin) -> None:
    whole = learnt.experiment.model_copy(update={"losses": ()})
    assert sim.count(learnt.experiment).over_1s > 50
    assert sim.count(whole).over_1s == 0


def test_demands_are_those_of_the_system(learnt: twin.Twin) -> None:
    web = [need for need in learnt.demands if need.tier == "web"]
    mean = sum(need.compute_ns * need.visits for need in web) / sum(need.visits for need in web)
    assert mean == pytest.approx(270_000, rel=0.05)  # `rubbos.web`
    assert all(need.error_ns < need.compute_ns for need in web)


def test_clients_that_wait_for_answers_are_chained(learnt: twin.Twin) -> None:
    [rows] = learnt.arrivals.values()
    follows = rows["think"].is_not_null()
    assert follows.mean() > 0.5  # type: ignore[operator]
    assert rows.filter(follows)["think"].mean() == pytest.approx(2 * SECOND / 1e9, rel=0.2)
