"""Headroom of a system without very long requests: at how many times its load they begin."""

from __future__ import annotations

from collections import Counter

from tailrace.advise import loads
from tailrace.advise.advice import Headroom
from tailrace.advise.outcomes import Outcome
from tailrace.advise.trials import Trials
from tailrace.experiment import Experiment

STEPS = tuple(step / 10 for step in range(11, 31))
"""Factors of the load: up to three times, in steps of a tenth."""


def headroom(experiment: Experiment, replications: int, trials: Trials) -> Headroom | None:
    """The smallest factor that harms a request in any replication, by bisection. None if the budget ended before any
    could be tried."""
    lowest, known = -1, len(STEPS)
    harmful: list[Outcome] = []
    step = len(STEPS) - 1
    while known - lowest > 1:
        more = loads.scaled(experiment, STEPS[step], trials.folder)
        outcomes = trials.replications(more, range(replications))
        if not outcomes:
            break
        if any(outcome.harmed for outcome in outcomes):
            known, harmful = step, outcomes
        else:
            lowest = step
        step = (lowest + known) // 2
    if known == len(STEPS):
        return Headroom(None, STEPS[lowest], "") if lowest >= 0 else None
    return Headroom(STEPS[known], STEPS[-1], _dropper(harmful))


def _dropper(outcomes: list[Outcome]) -> str:
    drops = sum((Counter(outcome.drops) for outcome in outcomes), Counter[str]())
    return drops.most_common(1)[0][0] if drops.total() else ""
