"""Simulating many experiments within a time budget: the outcome of each run in numbers.

All experiments of one replication have the same seed, so their clients send the same requests (common random numbers).
Finished runs are kept in a folder, so advice that was interrupted continues where it stopped.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any, TypeVar

from tailrace import sim, whole
from tailrace.advise.outcomes import NOTHING, Outcome, Rest, outcome, questions
from tailrace.advise.sampling import ALL, Sample
from tailrace.advise.undone import Undone
from tailrace.endings import crew
from tailrace.errors import TailraceError
from tailrace.experiment import Experiment
from tailrace.experiment.workloads import Trace
from tailrace.study.runs import Question, Runs, identity

SCREENING = 0.5
"""The part of the remaining time in which sizes are tried, so that the best can be compared in the rest."""

NUDGES = (0.0, -0.01, 0.01, -0.005, 0.005)
"""Relative changes of the demand in replications of a twin; the gate of twins allows for one percent."""

Progress = Callable[[int, int], None]
Answer = TypeVar("Answer")


@dataclass
class Trials:
    """`seconds` is the time budget; None: unlimited. Runs that would begin after it are not made, except the first."""

    folder: Path
    seconds: float | None = None
    workers: int | None = None
    progress: Progress | None = None
    spread: float = 0.0
    """How much every count may be off because the experiment is only like the real system, as a share."""
    rest: Rest = NOTHING
    """Recorded requests that the experiment does not send."""
    sample: Sample = ALL
    """A part of the episodes: experiments with its requests alone stand for those with all."""
    planned: int = 0
    """Runs that are expected in all; the caller raises it as it learns more."""
    done: int = field(default=0, init=False)
    cut: bool = field(default=False, init=False)
    """Whether the budget ended before everything was tried."""
    undone: list[Undone] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self._runs = Runs(self.folder)
        self._stop = threading.Event()
        self._end = self._screened = time.monotonic() + (inf if self.seconds is None else self.seconds)
        self._at_once = self.workers or os.cpu_count() or 1

    def outcomes(self, experiments: Sequence[Experiment]) -> list[Outcome | None]:
        """The outcome of each; None where the budget had ended."""
        return self._in_batches(experiments, self._measured, self._end)

    def replications(self, experiment: Experiment, numbers: Iterable[int]) -> list[Outcome]:
        """The outcomes of these replications; fewer if the budget ended."""
        found = self.outcomes([replicated(experiment, number) for number in numbers])
        return [outcome for outcome in found if outcome is not None]

    def asked(self, experiment: Experiment, questions: Sequence[Question]) -> list[Any] | None:
        """Answers of one run; None if the budget had ended."""
        if self._over(self._end):
            return None
        job = self._runs.ask(experiment, questions)
        self._runs.make(self.workers)
        return [job.answers[question.key] for question in questions]

    def shares(self, experiments: Sequence[Experiment]) -> list[float | None]:
        """Only the share of requests that each run harms, which is found about twice as fast. It is a share because a
        slower system gets fewer requests from clients that wait for answers."""
        return self._in_batches(experiments, self._counted, self._screened)

    def _in_batches(
        self, experiments: Sequence[Experiment], answer: Callable[[Sequence[Experiment]], list[Answer]], end: float
    ) -> list[Answer | None]:
        found: list[Answer | None] = []
        for start in range(0, len(experiments), self._at_once):
            batch = experiments[start : start + self._at_once]
            if self._over(end):
                found += [None] * len(batch)
            else:
                found += answer(batch)
                self._advance(len(batch))
        return found

    def begin_screening(self) -> None:
        """From now on, sizes are tried for `SCREENING` of the time that is left."""
        left = self._end - time.monotonic()
        self._screened = time.monotonic() + SCREENING * max(left, 0.0)

    def leave(self, work: str, changes: Sequence[str]) -> None:
        """Note work that the budget does not allow for these changes."""
        if changes:
            self.undone.append(Undone(work, tuple(changes)))

    def screened(self) -> bool:
        """Whether the time for trying sizes has ended; the caller then leaves something out."""
        return self._over(self._screened)

    def _over(self, end: float) -> bool:
        over = self.done > 0 and time.monotonic() > end
        self.cut = self.cut or over
        return over

    def _advance(self, count: int) -> None:
        self.done += count
        self.planned = max(self.planned, self.done)
        if self.progress:
            self.progress(self.done, self.planned)

    def _measured(self, batch: Sequence[Experiment]) -> list[Outcome]:
        rests = list(map(self.rest_of, batch))
        asked = [questions(experiment, rest).values() for experiment, rest in zip(batch, rests, strict=True)]
        jobs = list(map(self._runs.ask, batch, asked))
        self._runs.make(self.workers)
        return [outcome(job.experiment, job.answers, rest) for job, rest in zip(jobs, rests, strict=True)]

    def rest_of(self, experiment: Experiment) -> Rest:
        """What the experiment does not send."""
        return self.sample.rest if self.sample.holds(experiment) else self.rest

    def _counted(self, batch: Sequence[Experiment]) -> list[float]:
        # threads are enough: the engine releases the interpreter's lock
        with crew(self._at_once) as pool:
            try:
                return list(pool.map(self._count, batch))
            except BaseException:
                self._stop.set()
                raise

    def _go_on(self, done: int, whole: int) -> None:
        """Ends a simulation that nobody waits for any more."""
        if self._stop.is_set():
            raise TailraceError("stopped, because another run failed or the advice was interrupted")

    def _count(self, experiment: Experiment) -> float:
        file = self.folder / f"{identity(sim.text(sim.lower(experiment)))}.count.json"
        kept = _kept(file)
        if kept is not None:
            return kept
        made = sim.count(experiment, progress=self._go_on)
        rest = self.rest_of(experiment)
        requests = rest.weight * made.requests + rest.requests
        share = rest.weight * (made.over_1s + made.failed) / requests if requests else 1.0
        self.folder.mkdir(parents=True, exist_ok=True)
        whole.write(file, json.dumps(share).encode())
        return share


def replicated(experiment: Experiment, number: int) -> Experiment:
    """The same experiment with the seed of a replication. Nothing is drawn in a twin, whose requests and work are
    recorded: there a replication has slightly more or less demand, within what a recording leaves open."""
    changes: dict[str, Any] = {"seed": experiment.seed + number}
    if all(isinstance(load, Trace) for load in experiment.workloads.values()):
        factor = 1.0 + NUDGES[number % len(NUDGES)]
        changes["tiers"] = {
            name: tier.model_copy(update={"demand_factor": tier.demand_factor * factor})
            for name, tier in experiment.tiers.items()
        }
    return experiment.model_copy(update=changes)


def _kept(file: Path) -> float | None:
    """The count of an earlier run; a damaged file is made again."""
    try:
        found: Any = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return float(found) if isinstance(found, int | float) else None
