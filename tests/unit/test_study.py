"""Intervals against a table, and runs that are made only once."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from builders import SMALL
from tailrace import dataset, experiment, sim
from tailrace.errors import TailraceError, UsageError
from tailrace.experiment import Experiment
from tailrace.study import runs
from tailrace.study.engines import SIMULATOR, Progress
from tailrace.study.intervals import above, interval, t_975
from tailrace.study.runs import Job, Question, Runs

RATE = Question.of("throughput", {})


@pytest.mark.parametrize(
    ("degrees", "quantile"), [(1, 12.7062), (4, 2.7764), (30, 2.0423), (31, 2.0395), (60, 2.0003), (1000, 1.9623)]
)
def test_students_t_is_that_of_the_tables(degrees: int, quantile: float) -> None:
    assert t_975(degrees) == pytest.approx(quantile, abs=1e-4)


def test_an_interval_is_mean_and_students_t_standard_errors() -> None:
    found = interval([2.0, 4.0, 4.0, 6.0, 9.0])
    # variance 7 (sum of squares 28 over 4), standard error sqrt(7 / 5)
    assert found.mean == 5.0
    assert found.half == pytest.approx(2.7764 * 1.4**0.5 * (28 / 4 / 7) ** 0.5)
    assert found.low == pytest.approx(5.0 - 3.2851, abs=1e-3)


def test_one_replication_has_no_interval_and_equal_ones_an_empty_one() -> None:
    assert interval([3.0]).low is None
    assert interval([3.0, 3.0]).half == 0


@pytest.mark.parametrize(
    ("values", "others", "answer"),
    [([2, 3], [1, 2], True), ([1, 2], [2, 3], False), ([1, 9], [2, 3], None), ([1, 2], [1, 2], False)],
)
def test_above_is_decided_only_by_the_interval_of_differences(
    values: list[float], others: list[float], answer: bool | None
) -> None:
    assert above(values, others) is answer


def jobs_of(kept: Runs, seeds: int = 4, question: Question = RATE) -> list[Job]:
    system = experiment.from_table(SMALL)
    return [kept.ask(system.model_copy(update={"seed": seed}), [question]) for seed in range(seeds)]


def test_a_run_is_made_once_however_often_it_is_asked(tmp_path: Path) -> None:
    kept = Runs(tmp_path)
    first, second = jobs_of(kept), jobs_of(kept, question=Question.of("requests", {}))
    assert kept.make() == 4
    assert [a is b for a, b in zip(first, second, strict=True)] == [True] * 4
    assert all(len(job.answers) == 2 for job in first)
    again = Runs(tmp_path)
    kept_jobs = jobs_of(again)
    assert again.make() == 0
    assert [job.answers for job in kept_jobs] == [job.answers for job in first]


def test_an_interrupted_study_goes_on_where_it_was(tmp_path: Path) -> None:
    def interrupt(done: int, whole: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    kept = Runs(tmp_path)
    jobs_of(kept)
    with pytest.raises(KeyboardInterrupt):
        kept.make(workers=1, progress=interrupt)
    finished = len(list(tmp_path.glob("*.json")))
    assert finished >= 2
    assert [file.suffix for file in tmp_path.iterdir() if file.suffix != ".json"] == [], "half-written"
    again = Runs(tmp_path)
    whole = jobs_of(again)
    assert again.make() == 4 - finished
    undisturbed = Runs(tmp_path / "other")
    others = jobs_of(undisturbed)
    undisturbed.make()
    assert [job.answers for job in whole] == [job.answers for job in others]


def test_a_run_that_a_killed_study_did_not_measure_is_simulated_again(tmp_path: Path) -> None:
    """Its folder alone does not show which requests were answered early."""
    slow = {"page": {"at": {"web": {"compute": "40 ms"}}}}
    system = experiment.from_table({**SMALL, "interactions": slow})
    undisturbed = Runs(tmp_path / "other")
    expected = undisturbed.ask(system, [RATE])
    undisturbed.make()
    again = Runs(tmp_path / "killed")
    found = again.ask(system, [RATE])
    (tmp_path / "killed").mkdir()
    early = sim.simulate(system, tmp_path / "killed" / found.run).early
    assert sum(early.values()) > 0
    assert again.make() == 1
    assert found.answers == expected.answers


def _cut(file: Path) -> None:
    file.write_text(file.read_text()[:-3])


def _link(file: Path) -> None:
    elsewhere = file.parent / "elsewhere"
    elsewhere.write_text(json.dumps(dict.fromkeys(json.loads(file.read_text()), 1.0)))
    file.unlink()
    file.symlink_to(elsewhere)


def _deep(file: Path) -> None:
    file.write_text("[" * 100_000)


@pytest.mark.parametrize("damage", [_cut, _link, _deep])
def test_a_damaged_answer_is_made_again(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    kept = Runs(tmp_path)
    [job] = jobs_of(kept, 1)
    kept.make()
    [file] = tmp_path.glob("*.json")
    damage(file)
    again = Runs(tmp_path)
    [found] = jobs_of(again, 1)
    assert again.make() == 1
    assert found.answers == job.answers


def test_other_code_or_another_plan_is_another_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Runs(tmp_path)
    jobs_of(kept, 1)
    kept.make()
    monkeypatch.setattr(runs, "fingerprint", lambda: "other code")
    changed = Runs(tmp_path)
    jobs_of(changed, 1)
    assert changed.make() == 1


def test_what_cannot_be_measured_stops_the_study_and_keeps_the_rest(tmp_path: Path) -> None:
    kept = Runs(tmp_path)
    jobs_of(kept, 2)
    jobs_of(kept, 1, Question.of("utilisation", {"place": "db"}))
    with pytest.raises(UsageError, match="cpu_busy was not sampled at db"):
        kept.make(workers=1)
    assert not list(tmp_path.glob("*.run*"))


def test_nothing_that_a_thread_still_writes_is_left_after_an_interrupt(tmp_path: Path) -> None:
    """The simulation does not end by itself while the study ends."""
    goes_on, ended, main = threading.Event(), threading.Event(), threading.get_ident()

    def make(experiment: Experiment, folder: Path, progress: Progress) -> None:
        with suppress(TailraceError), dataset.create(folder):
            assert list(tmp_path.iterdir())
            signal.pthread_kill(main, signal.SIGINT)
            goes_on.wait(60)  # without an interrupt, the test fails, and does not wait for ever
        ended.set()

    kept = Runs(tmp_path, replace(SIMULATOR, make=make))
    jobs_of(kept, seeds=1)
    with pytest.raises(KeyboardInterrupt):
        kept.make(workers=1)
    assert not list(tmp_path.iterdir())
    goes_on.set()
    assert ended.wait(60)
