"""Advice for a recording or an experiment: what is done, in order."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from os import PathLike
from pathlib import Path

from tailrace import experiment as experiments
from tailrace.advise import software as server_software
from tailrace.advise.advice import Advice
from tailrace.advise.headroom import headroom
from tailrace.advise.queues import queues
from tailrace.advise.ranking import finals, pairs, present, ranked
from tailrace.advise.recordings import Planned, twin_of
from tailrace.advise.remedies import REMEDIES
from tailrace.advise.settling import settled, tried_on
from tailrace.advise.sizing import sized
from tailrace.advise.trials import Progress, Trials
from tailrace.dataset import Dataset, is_run
from tailrace.experiment import Experiment

REPLICATIONS = 5
SATURATED = 0.5
"""Where more than this share of the recorded requests is very long, servers were saturated for most of the time."""
MORE_REQUESTS = (
    "most recorded requests are very long: clients that wait for answers would send more after a change, and the twin "
    "does not, so the counts may be too low"
)


def advise(
    source: Experiment | Dataset | str | PathLike[str],
    out: str | PathLike[str] | None = None,
    *,
    name: str | None = None,
    software: Mapping[str, str] | None = None,
    replications: int = REPLICATIONS,
    seconds: float | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Advice:
    """Rank all remedies that apply to an experiment, or to the twin of a recording. `source` may also be the path of
    either. `software` names that of tiers, as `{"app": "tomcat,hikaricp"}`.

    Runs are kept in `out`/runs, and the twin in `out`/twin: advice that was interrupted continues there. After
    `seconds`, which count while the twin is learnt, too, no further run begins, and the advice says that it is
    incomplete. Raises RefusedError if the twin does not repeat the recording.
    """
    begun = time.monotonic()
    with ExitStack() as stack:
        folder = Path(out or stack.enter_context(tempfile.TemporaryDirectory(prefix="tailrace-")))
        planned, called = _planned(source, folder)
        chosen = server_software.chosen(
            planned.experiment, software or {}, planned.facts.protocols, planned.facts.programs
        )
        left = None if seconds is None else max(seconds - (time.monotonic() - begun), 0.0)
        known = planned.facts
        trials = Trials(folder / "runs", left, workers, progress, known.spread, known.rest, known.sample)
        found = _advise(planned.experiment, name or called, replications, trials)
        notes = planned.facts.notes
        if planned.facts.compared and found.base.vlrt.mean > SATURATED * found.base.requests:
            notes = (MORE_REQUESTS, *notes)
        found = replace(found, ranked=tuple(settled(found, planned.facts, trials)))
        best = found.best
        lines = queues(found.experiment, best.experiment, found.base.first, trials) if best else None
        return replace(
            found,
            complete=not trials.cut,
            software=chosen,
            notes=notes,
            origins=planned.facts.origins,
            compared=planned.facts.compared,
            queues=lines,
            undone=tuple(trials.undone),
        )


def _planned(source: Experiment | Dataset | str | PathLike[str], folder: Path) -> tuple[Planned, str]:
    """What is advised on, and what it is called."""
    if isinstance(source, Experiment):
        return Planned(source), "the experiment"
    if isinstance(source, Dataset) or is_run(Path(source)):
        run = source if isinstance(source, Dataset) else Dataset.open(source)
        return twin_of(run, folder / "twin"), run.path.name
    return Planned(experiments.read(source)), str(source)


def _advise(experiment: Experiment, name: str, replications: int, trials: Trials) -> Advice:
    trials.planned = replications
    base = present(experiment, replications, trials)
    replications = len(base.harmed)
    if not any(base.harmed):
        room = headroom(experiment, replications, trials)
        return Advice(name, experiment, base, (), (), replications, not trials.cut, 0, headroom=room)
    tried, on = tried_on(experiment, base, replications, trials)
    found = sized(on, tried, REMEDIES, trials)
    singles = finals(on, found, replications, trials)
    both = pairs(on, tried, singles, found, replications, trials)
    best = ranked([*singles, *both])
    in_ranking = {one.words for one in best}
    useless = tuple((one.words, one.harmed) for one in found if one.words not in in_ranking)
    return Advice(name, experiment, base, tuple(best), useless, replications, not trials.cut, max(on.harmed))
