"""Applies the changes of an advice to an experiment on real servers, and measures what they leave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tailrace.advise.advising import advise
from tailrace.advise.changing import changed
from tailrace.advise.claims import Claim
from tailrace.advise.outcomes import Outcome, outcome, questions
from tailrace.advise.remedies import Changes
from tailrace.advise.remedies.asynchronous import COUNTERPARTS
from tailrace.advise.trials import Progress
from tailrace.advise.writing import write
from tailrace.errors import TailraceError, UsageError
from tailrace.experiment import Experiment, places
from tailrace.study.engines import TESTBED, Engine
from tailrace.study.runs import Runs
from tailrace.testbed import doctor
from tailrace.testbed.ledger import InUseError
from tailrace.testbed.refusals import refuse

RUNS, ADVICE = "runs", "advice"
NAMED = ("tiers", "workloads")
"""Tables in which a change may not add a name."""
Refuse = Callable[[Experiment], None]


@dataclass(frozen=True)
class Measured:
    """A claim beside what was measured."""

    claim: Claim
    found: Outcome | None
    """None if it could not be applied."""
    why: str = ""
    """Why it could not."""

    @property
    def holds(self) -> bool | None:
        return None if self.found is None else self.claim.holds(self.found.vlrt)


@dataclass
class Proof:
    """Measurements of one experiment. They are kept in `folder`, and are not made again."""

    experiment: Experiment
    folder: Path
    engine: Engine = TESTBED
    refuse: Refuse = refuse

    def measured(self, experiment: Experiment, progress: Progress | None = None) -> tuple[Outcome, Path]:
        """What happened, and the run folder."""
        runs = Runs(self.folder / RUNS, self.engine)
        job = runs.ask(experiment, questions(experiment).values())
        runs.make(progress=progress)
        return outcome(experiment, job.answers), self.folder / RUNS / job.run

    def advise(self, progress: Progress | None = None, **how: Any) -> Path:
        """Measure the experiment as it is, and write advice on that recording. Returns the folder of the advice."""
        _, run = self.measured(self.experiment, progress)
        found = advise(run, self.folder / ADVICE, name=run.name, **how)
        write(found, self.folder / ADVICE)
        return self.folder / ADVICE

    def prove(self, claims: Sequence[Claim], best: int, progress: Progress | None = None) -> list[Measured]:
        """The claim about no change and the first `best` claims that can be applied, with what was measured; between
        them those that cannot."""
        rows: list[Measured] = []
        for claim in claims:
            if sum(row.found is not None for row in rows) > best:
                break
            try:
                rows.append(Measured(claim, self.measured(self._with(claim), progress)[0]))
            except InUseError:  # says nothing of the change
                raise
            except TailraceError as error:
                rows.append(Measured(claim, None, error.found))
        return rows

    def _with(self, claim: Claim) -> Experiment:
        """Raises a TailraceError if the experiment has no such part, or real servers cannot do it."""
        if ("losses",) in claim.changes and not self.experiment.losses:
            raise UsageError("it takes away what the recording lacked, and the experiment does not say what took it")
        changes = applied(claim.changes, self.experiment)
        for path in changes:
            known = getattr(self.experiment, path[0]) if path[0] in NAMED else path
            if path[1:2] and path[1] not in known:
                raise UsageError(f"the experiment has no {'.'.join(path[:2])}")
        found = changed(self.experiment, changes)
        self.refuse(found)
        return found


def applied(changes: Changes, experiment: Experiment) -> Changes:
    """The same changes in the terms of the experiment that was recorded. A twin has one workload for each tier that
    clients reach, named by it, and knows no software: there an asynchronous tier is one of another kind."""
    found = dict(changes)
    first, *_ = places.entries(experiment)
    for path, value in changes.items():
        if path[0] == "workloads" and path[1] in experiment.tiers and path[1] not in experiment.workloads:
            del found[path]
            reaching = (name for name, load in experiment.workloads.items() if (load.entry or first) == path[1])
            found |= {("workloads", name, *path[2:]): value for name in reaching}
        tier = experiment.tiers.get(path[1]) if path[0] == "tiers" else None
        if tier is not None and path[2:] == ("kind",) and value == "async" and tier.software in COUNTERPARTS:
            found[path] = None  # the default of the software
            found["tiers", path[1], "software"] = COUNTERPARTS[tier.software]
            found |= {("tiers", path[1], "calls", callee, "policy"): None for callee in tier.calls}
    return found


def ready() -> None:
    """Raises UsageError that says what this machine lacks."""
    if lacking := doctor.missing(doctor.examine()):
        raise UsageError(lacking)
