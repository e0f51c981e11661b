"""Changes are tried on a fair part of many episodes, and the best are simulated with all of them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from plans import made, stalled
from tailrace.advise import advise, sampling
from tailrace.advise.advice import Advice
from tailrace.advise.outcomes import NOTHING
from tailrace.advise.prediction import of_part, predict
from tailrace.advise.ranking import _surge, on_all
from tailrace.advise.recordings import twin_of
from tailrace.advise.trials import Trials
from tailrace.dataset import Dataset
from tailrace.experiment import traces
from tailrace.twin import cutting
from tailrace.units import SECOND

STALLED = stalled("210 s", 150, 10, 16, **{"at": "14 s", "for": "500 ms", "every": "20 s"})


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("recorded") / "run"
    return made(STALLED, folder)


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cutting, "LARGE", 1000)
    monkeypatch.setattr(sampling, "ENOUGH", 1000)
    monkeypatch.setattr(sampling, "LEAST", 4)


@pytest.mark.usefixtures("_small")
def test_a_part_stands_for_all_requests_and_is_kept(recorded: Dataset, tmp_path: Path) -> None:
    planned = twin_of(recorded, tmp_path / "twin")
    sample = planned.facts.sample
    assert (len(sample.rest.episodes), sample.of) == (4, 9)
    assert sample.rest.weight == pytest.approx(9 / 4, rel=sampling.FAIR)
    part = sample.part(planned.experiment)
    assert sample.holds(part)
    assert not sample.holds(planned.experiment)
    assert sample.whole(part) == planned.experiment
    counts = [
        len(traces.read(load.file).times) for one in (part, planned.experiment) for load in one.workloads.values()
    ]
    assert counts[0] < 0.7 * counts[1]
    everything = planned.facts.rest.requests + planned.facts.rest.simulated
    assert sample.rest.requests + sample.rest.simulated == pytest.approx(everything, abs=2)
    assert twin_of(recorded, tmp_path / "twin").facts.sample == sample


@pytest.mark.usefixtures("_small")
def test_the_best_change_is_simulated_with_all_episodes_and_the_others_hold_it(
    recorded: Dataset, tmp_path: Path
) -> None:
    found = advise(recorded, tmp_path, replications=3)
    assert found.complete
    assert found.best is not None
    assert not found.best.of_part
    tried = [one for one in found.ranked if one.of_part]
    assert tried, "nothing was tried on a part alone"
    assert any("4 of 9 episodes" in note for note in found.notes)
    facts = twin_of(recorded, tmp_path / "twin").facts
    trials = Trials(tmp_path / "runs", spread=facts.spread, rest=facts.rest, sample=facts.sample)
    held = [
        _holds(one.effect.vlrt.low, one.effect.vlrt.high, _all(found, number, trials))
        for number, one in enumerate(found.ranked)
        if one.of_part
    ]
    assert sum(held) >= 0.8 * len(held)


def _all(found: Advice, number: int, trials: Trials) -> float:
    made = on_all(found.base, found.ranked[number], found.replications, trials)
    assert made is not None
    assert not made.of_part
    return made.effect.vlrt.mean


def _holds(low: float | None, high: float | None, mean: float) -> bool:
    return low is not None and high is not None and low <= mean <= high


def test_the_files_of_a_part_are_none_of_the_twin(tmp_path: Path) -> None:
    """Whatever its entries are called."""
    rows = pl.DataFrame({"time": np.arange(200_000) / 1000})
    names = [f"requests-{entry}.parquet" for entry in ("web", "web-part", "part-web")]
    kept = np.array([[second, second + 2] for second in range(0, 200, 4)]) * SECOND
    twin: Any = SimpleNamespace(kept=kept, arrivals=dict.fromkeys(names, rows), losses={})
    sample = sampling.drawn(twin, np.repeat(kept[:, 0] + SECOND, 9), NOTHING, tmp_path)
    assert set(sample.files) == set(names)
    written = set(sample.files.values())
    assert len(written) == 3
    assert not written & set(names)


def test_a_surge_of_a_part_may_differ_by_the_noise_of_what_was_simulated() -> None:
    def ends_with(count: int, weight: float) -> Any:
        return SimpleNamespace(vlrt=0, parts=[0, count], weight=weight)

    for last, recovers in ((76, True), (84, False)):
        quiet: Any = SimpleNamespace(first=ends_with(40, 4.0))
        assert _surge(quiet, ends_with(last, 4.0)).recovers == recovers


def test_a_recording_of_few_requests_has_no_part(recorded: Dataset, tmp_path: Path) -> None:
    assert not twin_of(recorded, tmp_path / "twin").facts.sample


def test_the_interval_of_a_part_holds_how_much_episodes_differ() -> None:
    alike = of_part([100.0] * 5, 4.0, [20.0] * 5)
    apart = of_part([100.0] * 5, 4.0, [0.0, 0.0, 0.0, 0.0, 100.0])
    assert alike.mean == apart.mean == 400
    assert alike.low is not None
    assert alike.high is not None
    assert apart.low is not None
    assert apart.high is not None
    assert apart.low < alike.low < 400 < alike.high < apart.high
    assert of_part([100.0] * 5, 1.0, [0.0, 0.0, 0.0, 0.0, 100.0]) == predict([100.0] * 5)


def test_the_interval_of_a_part_covers_what_random_episodes_add_up_to() -> None:
    draw = np.random.default_rng(3)
    held = 0
    for _ in range(300):
        episodes = draw.gamma(2.0, 50.0, 40).round()
        chosen = draw.choice(episodes, 10, replace=False)
        one = of_part([float(chosen.sum())] * 5, 4.0, chosen.tolist())
        held += one.low is not None and one.high is not None and one.low <= episodes.sum() <= one.high
    assert held >= 0.85 * 300
