"""On which episodes changes are tried, and the best of these changes with all episodes."""

from __future__ import annotations

from dataclasses import replace

from tailrace.advise.advice import Advice, Effect, Ranked
from tailrace.advise.cautions import cautious
from tailrace.advise.facts import Facts
from tailrace.advise.ranking import effect, on_all, ranked
from tailrace.advise.trials import Trials
from tailrace.experiment import Experiment

BEST = 3
"""So many of the changes that help are simulated with all episodes."""


def tried_on(experiment: Experiment, base: Effect, replications: int, trials: Trials) -> tuple[Experiment, Effect]:
    """The experiment that changes are tried on, and what is harmed in it without a change: that with a part of the
    episodes, if there is one in which requests are harmed."""
    if trials.sample:
        part = trials.sample.part(experiment)
        made = trials.replications(part, range(replications))
        if any(one.harmed for one in made):
            return part, effect(made, trials.spread)
    return experiment, base


def settled(advice: Advice, facts: Facts, trials: Trials) -> list[Ranked]:
    """The changes of an advice with their cautions, of which the best are simulated with all episodes."""
    found = cautious(advice.ranked, facts, advice.experiment, trials)
    while left := [one for one in [one for one in found if one.helps][:BEST] if one.of_part]:
        made = on_all(advice.base, left[0], advice.replications, trials)
        if made is None or made.surge is None:
            trials.leave("simulate {} with all episodes", [one.words for one in left])
        if made is None:
            break
        again = cautious([made], facts, advice.experiment, trials)
        found = ranked([*(one for one in found if one is not left[0]), *again])
    return [replace(one, experiment=trials.sample.whole(one.experiment)) for one in found]
