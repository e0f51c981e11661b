"""The twin of a long recording sends the requests of its episodes alone, and shows the same as the whole twin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from plans import made, stalled
from tailrace import twin
from tailrace.advise import recordings
from tailrace.advise.changing import changed
from tailrace.advise.outcomes import NOTHING, Rest
from tailrace.advise.prediction import Prediction, predict
from tailrace.advise.trials import Trials
from tailrace.dataset import Dataset
from tailrace.diagnosis.ledger.steps import Steps
from tailrace.diagnosis.spans import inside, length, spans
from tailrace.experiment import Experiment, traces
from tailrace.twin import Twin, cutting
from tailrace.units import SECOND

STALLED = stalled("90 s", 300, 20, 20, **{"at": "20 s", "for": "600 ms", "every": "45 s"})
CHANGES: dict[str, dict[tuple[str, ...], Any]] = {
    "none": {},
    "enough": {("tiers", "web", "backlog"): 1024},
    "half": {("tiers", "web", "backlog"): 60},
    "worse": {("tiers", "web", "workers"): 4},
}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Dataset, Twin]:
    folder = tmp_path_factory.mktemp("recorded") / "run"
    run = made(STALLED, folder)
    return run, twin.learn(run)


@pytest.fixture
def part(recorded: tuple[Dataset, Twin], monkeypatch: pytest.MonkeyPatch) -> Twin:
    monkeypatch.setattr(cutting, "LARGE", 1000)
    return twin.learn(recorded[0], part=True)


def test_a_twin_of_few_requests_is_whole(recorded: tuple[Dataset, Twin]) -> None:
    run, whole = recorded
    some = twin.learn(run, part=True)
    assert some.kept is None
    assert {file: rows.rows() for file, rows in some.arrivals.items()} == {
        file: rows.rows() for file, rows in whole.arrivals.items()
    }


def test_the_part_holds_all_very_slow_requests_and_the_calm_before_and_after(
    recorded: tuple[Dataset, Twin], part: Twin
) -> None:
    run, whole = recorded
    assert part.kept is not None
    assert length(part.kept) < 0.6 * 90 * SECOND
    asked = run.requests().collect()
    slow = asked.filter(pl.col("end") - pl.col("sent") >= SECOND)["sent"].to_numpy() - part.begin
    assert len(slow) > 50
    rows = inside(part.kept, slow)
    assert (rows >= 0).all()
    for row in np.unique(rows):
        begin, end = part.kept[row]
        assert slow[rows == row].min() - begin >= cutting.BEFORE_NS
        assert end - slow[rows == row].max() >= cutting.AFTER_NS
    sent = sum(map(len, part.arrivals.values()))
    assert sent + part.rest == len(asked)
    # In the twin of the whole recording, clients that wait for answers go on after their last request.
    assert sum(map(len, whole.arrivals.values())) >= len(asked)


def test_what_is_learnt_of_the_part_is_that_of_the_whole(recorded: tuple[Dataset, Twin], part: Twin) -> None:
    whole = recorded[1]
    for same in ("tiers", "nodes", "kernel", "losses", "latency"):
        assert part.table[same] == whole.table[same], same
    assert part.losses.keys() == whole.losses.keys()
    frozen = "app-freeze-stopped.csv"
    assert part.losses[frozen] == whole.losses[frozen]
    for own, its in zip(part.demands, whole.demands, strict=False):
        assert own.compute_ns == pytest.approx(its.compute_ns, rel=0.02)
    assert part.table["interactions"].keys() == whole.table["interactions"].keys()


def test_moments_on_the_shortened_clock_come_back() -> None:
    steps = Steps.of(spans([(1 * SECOND, 3 * SECOND), (10 * SECOND, 11 * SECOND)]))
    times = np.array([1, 2, 10, 10.5]) * SECOND
    assert steps.lengthened(steps.shortened(times.astype(np.int64))).tolist() == times.tolist()


def test_the_first_request_of_a_client_in_an_episode_is_sent_at_its_time(part: Twin) -> None:
    [load] = part.experiment.workloads.values()
    found = traces.read(load.file)  # type: ignore[union-attr]
    assert part.kept is not None
    rows = inside(part.kept, np.array(found.times))
    last: dict[int | None, int] = {}
    follows = 0
    for client, think, row in zip(found.clients, found.thinks, rows.tolist(), strict=True):
        if last.get(client) != row:
            assert think is None
        follows += think is not None
        last[client] = row
    assert follows > len(found.times) / 3


def test_the_gate_says_the_same_of_the_part_and_of_the_whole(recorded: tuple[Dataset, Twin], part: Twin) -> None:
    run, whole = recorded
    some, every = twin.gate(part, run), twin.gate(whole, run)
    assert (some.passed, every.passed) == (True, True), [*some.off, *every.off]
    assert len(some.recorded.vlrt) == len(every.recorded.vlrt)
    assert [row.what for row in some.rows] == [row.what for row in every.rows]
    assert some.recorded.answered < 0.7 * every.recorded.answered


def test_predictions_are_the_same_within_noise(recorded: tuple[Dataset, Twin], part: Twin, tmp_path: Path) -> None:
    run, whole = recorded
    rest = recordings.rest_of(part, run)
    for name, changes in CHANGES.items():
        every, requests, _ = _predicted(changed(whole.experiment, changes), NOTHING, tmp_path)
        some, also, histogram = _predicted(changed(part.experiment, changes), rest, tmp_path)
        assert every.low is not None
        assert every.high is not None
        assert every.low <= some.mean <= every.high, (name, every, some)
        assert abs(also - requests) <= 0.01 * requests, name
        assert abs(sum(histogram) - also) <= 0.01 * requests, name


def _predicted(experiment: Experiment, rest: Rest, folder: Path) -> tuple[Prediction, float, list[int]]:
    found = Trials(folder / "runs", rest=rest).replications(experiment, range(3))
    return predict([one.vlrt for one in found]), float(np.mean([one.requests for one in found])), found[0].histogram


def test_a_percentile_of_all_is_a_lower_one_of_the_slow_part() -> None:
    assert NOTHING.percentile(99.9) == 99.9
    assert Rest(9000, 1000).percentile(99.9) == pytest.approx(99.0)
    assert Rest(9_999_000, 1000).percentile(99.9) == 99.9  # the rest alone decides it
