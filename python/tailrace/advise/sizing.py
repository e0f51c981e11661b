"""The sensible size of a remedy: the smallest that removes nearly all that it can remove, and one step of margin."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tailrace.advise.advice import Effect
from tailrace.advise.changing import possible
from tailrace.advise.remedies import Option, Remedy, Size, alike
from tailrace.advise.trials import Trials, replicated
from tailrace.experiment import Experiment

REMOVED = 0.99
"""Share of the harmed requests that a sufficient size removes, of those that the best tried size removes."""
PROMISING = 0.9
"""An option is sized only if its best size leaves at most this share of the harmed requests."""


@dataclass(frozen=True)
class Sized:
    """An option with its chosen size; `smallest` is the smallest sufficient size, before the margin."""

    remedy: Remedy
    option: Option
    size: Size
    smallest: Size
    experiment: Experiment
    harmed: int
    """In the run that the sizes were tried on, of as many requests as there are without it."""

    @property
    def words(self) -> str:
        return self.option.words(self.size)


@dataclass
class _Search:
    remedy: Remedy
    option: Option
    sizes: list[tuple[Size, Experiment]]
    harmed: dict[int, int]
    """By the index of the size."""

    @property
    def best(self) -> int:
        """The mildest of the tried sizes that leave fewest."""
        return min(self.harmed, key=lambda index: (self.harmed[index], index))


def sized(base: Effect, experiment: Experiment, remedies: Iterable[Remedy], trials: Trials) -> list[Sized]:
    """Every option of every remedy that applies, each with its sensible size, tried on the replication of `experiment`
    that harms most."""
    worst = max(range(len(base.harmed)), key=lambda number: base.harmed[number])
    harmed = base.harmed[worst]

    def tried(probes: Sequence[tuple[_Search, int]]) -> bool:
        """Whether all could be tried within the budget."""
        shares = trials.shares([replicated(search.sizes[index][1], worst) for search, index in probes])
        for (search, index), share in zip(probes, shares, strict=True):
            if share is not None:
                search.harmed[index] = round(share * base.requests)
        return None not in shares

    trials.begin_screening()
    single = ((remedy, option) for remedy in remedies for option in remedy.options(experiment))
    searches: list[_Search] = []
    for remedy, option in alike.options(single):
        if trials.screened():  # a system of a thousand servers has very many options
            break
        searches += filter(None, [_open(experiment, remedy, option)])
    trials.planned = trials.done + len(searches)
    tried([(search, len(search.sizes) - 1) for search in searches])
    searches = [search for search in searches if search.harmed]
    # the strongest size may be too much: a long queue makes its requests late
    futile = [search for search in searches if search.harmed[search.best] > PROMISING * harmed]
    tried([(search, len(search.sizes) // 2) for search in futile])
    goals = {id(search): _goal(harmed, search) for search in searches}
    promising = [search for search in searches if search.harmed[search.best] <= PROMISING * harmed]
    while probes := [(one, index) for one in promising if (index := _next(one, goals[id(one)])) is not None]:
        trials.planned = max(trials.planned, trials.done + len(probes))
        if not tried(probes):
            break
    return [_chosen(search, goals[id(search)]) for search in searches]


def _open(experiment: Experiment, remedy: Remedy, option: Option) -> _Search | None:
    sizes = [(size, found) for size in option.sizes if (found := possible(experiment, option.changes(size)))]
    return _Search(remedy, option, sizes, {}) if sizes else None


def _goal(harmed: int, search: _Search) -> int:
    """At most so many harmed requests are left by a sufficient size."""
    least = search.harmed[search.best]
    return least + max(0, int((harmed - least) * (1 - REMOVED)))


def _next(search: _Search, goal: int) -> int | None:
    """The size to try next: bisection below the smallest sufficient size, then the step of margin above it."""
    enough = min(index for index, harmed in search.harmed.items() if harmed <= goal)
    below = max((index for index, harmed in search.harmed.items() if index < enough and harmed > goal), default=-1)
    if enough - below > 1:
        return (enough + below) // 2
    margin = enough + 1
    return margin if margin < len(search.sizes) and margin not in search.harmed else None


def _chosen(search: _Search, goal: int) -> Sized:
    enough = min(index for index, harmed in search.harmed.items() if harmed <= goal)
    margin = enough + 1 if search.harmed.get(enough + 1, goal + 1) <= goal else enough
    size, experiment = search.sizes[margin]
    return Sized(search.remedy, search.option, size, search.sizes[enough][0], experiment, search.harmed[margin])
