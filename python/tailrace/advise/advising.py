"""Advice for an experiment: what is done, in order."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path

from tailrace.advise.advice import Advice
from tailrace.advise.headroom import headroom
from tailrace.advise.ranking import finals, pairs, present, ranked
from tailrace.advise.remedies import REMEDIES
from tailrace.advise.sizing import sized
from tailrace.advise.trials import Progress, Trials
from tailrace.experiment import Experiment

REPLICATIONS = 5


def advise(
    experiment: Experiment,
    name: str = "the experiment",
    out: Path | None = None,
    *,
    replications: int = REPLICATIONS,
    seconds: float | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Advice:
    """Rank all remedies that apply. Runs are kept in `out`/runs. After `seconds` no further run begins, and the advice
    says that it is incomplete."""
    with ExitStack() as stack:
        folder = out or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tailrace-")))
        return _advise(experiment, name, replications, Trials(folder / "runs", seconds, workers, progress))


def _advise(experiment: Experiment, name: str, replications: int, trials: Trials) -> Advice:
    trials.planned = replications
    base = present(experiment, replications, trials)
    replications = len(base.harmed)
    if not any(base.harmed):
        room = headroom(experiment, replications, trials)
        return Advice(name, experiment, base, (), (), replications, not trials.cut, 0, room)
    found = sized(base, experiment, REMEDIES, trials)
    singles = finals(base, found, replications, trials)
    both = pairs(base, experiment, singles, found, replications, trials)
    best = ranked([*singles, *both])
    in_ranking = {one.words for one in best}
    useless = tuple((one.words, one.harmed) for one in found if one.words not in in_ranking)
    return Advice(name, experiment, base, tuple(best), useless, replications, not trials.cut, max(base.harmed))
