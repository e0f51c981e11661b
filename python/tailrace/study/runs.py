"""A store of runs: each run is made once, measured, and its answers are kept by the hash of everything they depend on.

```text
runs/<hash>.json   answers of one run: each question with its number or series; written completely or not at all
runs/<hash>.run/   the run folder: of the simulator only during measurement, of real servers permanently
```

An answer's hash covers the plan and the code that runs and measures it, so a stored answer is always valid. A run of
real servers is found by its plan alone: changed code measures the same run again. A study that was killed continues
where it stopped: finished runs are read, and the others are made.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, as_completed, wait
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, get_args

from tailrace import _core, dataset, whole
from tailrace.dataset import Dataset, is_run
from tailrace.endings import crew
from tailrace.engines import Mapping as Workers
from tailrace.engines import answers
from tailrace.errors import InputError, TailraceError, UsageError, cannot_write
from tailrace.experiment import Experiment
from tailrace.study import diagnosed, drawn, episodes, measures
from tailrace.study.engines import SIMULATOR, Engine, Progress
from tailrace.study.measured import Measured
from tailrace.toml import nearest, wrong_name
from tailrace.untrusted import read_inside

CODE = ("dataset", "timeline", "sim", "study")
"""Modules whose code decides a run's answers, besides the engine; the experiment is in the plan."""
OTHERS: dict[str, Callable[..., Any]] = {
    "histogram": drawn.histogram,
    "series": drawn.series,
    "diagnosis": diagnosed.diagnosis,
}
"""Answers that are more than one number."""


@dataclass(frozen=True)
class Question:
    """A measure, a drawing or the diagnosis by name, with its named values as JSON."""

    name: str
    values: str

    @classmethod
    def of(cls, name: str, values: Mapping[str, Any]) -> Question:
        return cls(name, json.dumps(values, sort_keys=True))

    @property
    def key(self) -> str:
        return f"{self.name} {self.values}"


@dataclass
class Job:
    """One run and the questions about it. Answers are by `Question.key`."""

    experiment: Experiment
    run: str
    """The name of its run folder."""
    questions: set[Question] = field(default_factory=set)
    answers: dict[str, Any] = field(default_factory=dict)
    name: str = ""
    """Its name in errors."""

    @property
    def missing(self) -> set[Question]:
        return {question for question in self.questions if question.key not in self.answers}

    def asked(self) -> list[Question]:
        """The questions without an answer, in the order in which their answers are kept."""
        return sorted(self.missing, key=lambda question: question.key)


Jobs = Sequence[tuple[str, Job]]
"""Each with its key."""
Finish = Callable[[str, Job], None]
"""Keeps the answers of a job."""
GRACE_S = 0.5
"""After an interrupt, so long simulations have to end by themselves."""


class Runs:
    """All runs of a study; a run that several figures need is made once."""

    def __init__(self, folder: Path, engine: Engine = SIMULATOR) -> None:
        self.folder = folder
        self.engine = engine
        self._jobs: dict[str, Job] = {}

    def ask(self, experiment: Experiment, questions: Iterable[Question], name: str = "") -> Job:
        """The job of this run, with these questions added. Its answers exist after `make`, which uses `name` in
        errors."""
        plan = self.engine.plan(experiment)
        key = identity(plan)
        run = f"{_hash(plan) if self.engine.measures else key}.run"
        job = self._jobs.setdefault(key, Job(experiment, run, answers=_kept(self.folder / f"{key}.json"), name=name))
        job.questions.update(questions)
        return job

    def make(self, workers: int | None = None, progress: Progress | None = None, cluster: Workers | None = None) -> int:
        """Make the runs that lack an answer, on all cores unless the engine allows fewer, or on a cluster's workers;
        returns how many.

        `progress(finished, all)` counts runs, or hundredths of runs if one takes minutes. After any error, finished
        runs are kept, and no half-written file remains.
        """
        todo = [(key, job) for key, job in self._jobs.items() if job.missing]
        done = len(self._jobs) - len(todo)
        parts = 100 if self.engine.measures else 1

        def tell(share: float = 0.0) -> None:
            if progress:
                progress(done * parts + int(share * parts), len(self._jobs) * parts)

        tell()
        if not todo:
            return 0
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise cannot_write(self.folder, error) from error

        def finish(key: str, job: Job) -> None:
            nonlocal done
            _keep(self.folder / f"{key}.json", job.answers)
            done += 1
            tell()

        if cluster is None:
            self._here(todo, workers, tell, finish)
        else:
            self._there(todo, cluster, finish)
        return len(todo)

    def _here(self, todo: Jobs, workers: int | None, tell: Callable[[float], None], finish: Finish) -> None:
        stop = threading.Event()
        # threads are enough: the engine and Polars release the interpreter's lock
        with crew(self.engine.at_once or workers or os.cpu_count() or 1, finishes=self.engine.measures) as pool:
            jobs: dict[Future[None], tuple[str, Job]] = {}
            try:
                for key, job in todo:
                    jobs[pool.submit(self._answer, job, tell, stop)] = key, job
                for finished in as_completed(jobs):
                    finished.result()
                    finish(*jobs[finished])
            except KeyboardInterrupt:
                stop.set()
                wait(jobs, timeout=GRACE_S)
                for _, job in todo:
                    self._clear(job, written=True)
                raise
            finally:
                stop.set()

    def _there(self, todo: Jobs, cluster: Workers, finish: Finish) -> None:
        """The same answers from the workers of a cluster; only the simulator runs there."""
        tasks = [(job.name or key, job.experiment, job.asked(), fingerprint()) for key, job in todo]
        for number, found in answers(cluster, simulated, tasks):
            key, job = todo[number]
            job.answers.update(found)
            finish(key, job)

    def _answer(self, job: Job, tell: Callable[[float], None], stop: threading.Event) -> None:
        def go_on(done: int, whole: int) -> None:
            if stop.is_set():
                raise TailraceError("stopped, because another run failed or the study was interrupted")
            if self.engine.measures:
                tell(done / whole)

        try:
            self._clear(job)  # from a study that was killed while measuring: the folder may be incomplete
            job.answers.update(answered(self.engine, job.experiment, self.folder / job.run, job.asked(), go_on))
        except UsageError as error:
            error.where = error.where or job.name
            raise
        finally:
            self._clear(job)

    def _clear(self, job: Job, *, written: bool = False) -> None:
        """Remove the run folder of a job, unless it is a measurement. With `written`, remove what is being written of
        it, too."""
        if not self.engine.measures:
            dataset.remove(self.folder / job.run)
            if written:
                dataset.abandon(self.folder / job.run)


def answered(
    engine: Engine, experiment: Experiment, folder: Path, questions: Iterable[Question], progress: Progress
) -> dict[str, Any]:
    """The answers about a run, which is made in `folder` unless it is there."""
    early: Mapping[str, int] = {}
    if not is_run(folder):
        early = engine.early(engine.make(experiment, folder, progress))
    made = Dataset.open(folder)
    begin = engine.begin(made, experiment)
    run = Measured(made, experiment, begin, begin + experiment.duration, early)
    return {question.key: _ask(run, question) for question in questions}


def simulated(task: tuple[int, tuple[str, Experiment, list[Question], str]]) -> tuple[int, dict[str, Any]]:
    """What a worker of a cluster does: one run, of which only the answers are kept."""
    number, (name, experiment, questions, code) = task
    if code != fingerprint():
        raise InputError(name, "a worker has another Tailrace than this machine", "install the same one everywhere")
    with tempfile.TemporaryDirectory(prefix="tailrace-") as folder:
        try:
            return number, answered(SIMULATOR, experiment, Path(folder) / "run", questions, lambda done, whole: None)
        except UsageError as error:
            error.where = error.where or name
            raise


def check(name: str, values: Mapping[str, Any], where: str) -> str | None:
    """Return a sentence about the first error in a measure's values, or None. `where` precedes the name of a value."""
    if name not in measures.MEASURES:
        return wrong_name(f"{where}measure", name, measures.MEASURES, "measure")
    parameters = list(inspect.signature(measures.MEASURES[name].compute).parameters.values())[1:]
    takes = [parameter.name for parameter in parameters]
    for given in values:
        if given not in takes:
            return f"{where}{given} is not for {name}, which takes {', '.join(takes)}{nearest(given, takes)}"
    for parameter in parameters:
        if parameter.default is parameter.empty and parameter.name not in values:
            return f"{where}{parameter.name} is missing: {name} needs it"
    for key in ("when", "meets"):
        found = episodes.problem(values[key], f"{where}{key}") if key in values else None
        if found:
            return found
    if not 0 <= values.get("percentile", 0) <= 100:
        return f"{where}percentile must be from 0 to 100, got {values['percentile']:g}"
    if values.get("window", 1) <= 0:
        return f"{where}window must be above 0"
    known = get_args(measures.Statistic)
    if values.get("statistic", "") not in ("", *known):
        return wrong_name(f"{where}statistic", values["statistic"], known, "statistic")
    return drawn.problem(values["series"], values.get("interaction"), where) if "series" in values else None


@cache
def fingerprint(modules: tuple[str, ...] = CODE) -> str:
    """The hash of these modules and of the engine: the code that decides an answer."""
    package = Path(__file__).parents[1]
    digest = hashlib.sha256()
    files = [file for module in modules for file in sorted((package / module).rglob("*.py"))]
    for file in [Path(str(_core.__file__)), *files]:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def identity(plan: str) -> str:
    """The name of a run: of its plan, and of the code that decides its answers."""
    return _hash(f"{fingerprint()}\n{plan}")


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _ask(run: Measured, question: Question) -> Any:
    values = json.loads(question.values)
    if question.name in OTHERS:
        return OTHERS[question.name](run, **values)
    return measures.MEASURES[question.name].compute(run, **values)


def _kept(file: Path) -> dict[str, Any]:
    """Answers of an earlier study. A damaged file, and what is not a file, is made again."""
    try:
        answers = json.loads(read_inside(file))
    except (InputError, ValueError, RecursionError):
        return {}
    return answers if isinstance(answers, dict) else {}


def _keep(file: Path, answers: dict[str, Any]) -> None:
    whole.write(file, json.dumps(answers).encode())
