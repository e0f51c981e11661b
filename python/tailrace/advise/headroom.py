"""Headroom of a system without very long requests: at how many times its load they begin."""

from __future__ import annotations

from tailrace.advise import loads
from tailrace.advise.advice import Headroom
from tailrace.advise.outcomes import Outcome
from tailrace.advise.trials import Trials, replicated
from tailrace.experiment import Experiment

STEPS = tuple(step / 10 for step in range(11, 31))
"""Factors of the load: up to three times, in steps of a tenth."""


def headroom(experiment: Experiment, replications: int, trials: Trials) -> Headroom | None:
    """The smallest factor with VLRT in any replication, by bisection. None if the load cannot be scaled, or if the
    budget ended."""
    if not loads.scalable(experiment):
        return None
    tried: dict[int, list[Outcome]] = {}

    def harmed(step: int) -> bool | None:
        more = loads.scaled(experiment, STEPS[step])
        found = trials.outcomes([replicated(more, number) for number in range(replications)])
        tried[step] = [outcome for outcome in found if outcome is not None]
        return any(outcome.harmed for outcome in tried[step]) if tried[step] else None

    low, high = -1, len(STEPS) - 1
    answer = harmed(high)
    if answer is None:
        return None
    if not answer:
        return Headroom(None, STEPS[high], "")
    while high - low > 1:
        middle = (low + high) // 2
        answer = harmed(middle)
        if answer is None:
            break
        low, high = (low, middle) if answer else (middle, high)
    return Headroom(STEPS[high], STEPS[-1], _dropper(tried[high]))


def _dropper(outcomes: list[Outcome]) -> str:
    drops: dict[str, int] = {}
    for outcome in outcomes:
        for tier, lost in outcome.drops.items():
            drops[tier] = drops.get(tier, 0) + lost
    most = max(drops, key=lambda tier: drops[tier], default="")
    return most if drops.get(most) else ""
