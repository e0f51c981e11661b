"""The sensible size of a remedy: the smallest that removes nearly all that it can remove, and one step of margin."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

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
    harmed: dict[int, int] = field(default_factory=dict)
    """By the index of the size."""
    goal: int = 0
    """A sufficient size leaves at most so many harmed requests."""

    @property
    def strongest(self) -> str:
        """The change of the largest size, in words."""
        return self.option.words(self.sizes[-1][0])

    @property
    def least(self) -> int:
        """What the best of the tried sizes leaves."""
        return min(self.harmed.values())

    @property
    def enough(self) -> int:
        """The smallest of the tried sizes that suffice."""
        return min(index for index, harmed in self.harmed.items() if harmed <= self.goal)

    def next(self) -> int | None:
        """The size to try next: bisection below the smallest sufficient size, then the step of margin above it."""
        enough = self.enough
        below = max((index for index in self.harmed if index < enough), default=-1)
        if enough - below > 1:
            return (enough + below) // 2
        margin = enough + 1
        return margin if margin < len(self.sizes) and margin not in self.harmed else None

    def chosen(self) -> Sized:
        enough = self.enough
        margin = enough + 1 if self.harmed.get(enough + 1, self.goal + 1) <= self.goal else enough
        size, experiment = self.sizes[margin]
        return Sized(self.remedy, self.option, size, self.sizes[enough][0], experiment, self.harmed[margin])


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
    skipped: list[str] = []
    for remedy, option in alike.options(single):
        if trials.screened():  # a system of a thousand servers has very many options
            skipped += [option.words(size) for size in option.sizes[-1:]]
            continue
        sizes = [(size, found) for size in option.sizes if (found := possible(experiment, option.changes(size)))]
        if sizes:
            searches.append(_Search(remedy, option, sizes))
    trials.planned = trials.done + len(searches)
    tried([(search, len(search.sizes) - 1) for search in searches])
    trials.leave("try {}", skipped + [search.strongest for search in searches if not search.harmed])
    searches = [search for search in searches if search.harmed]
    # the strongest size may be too much: a long queue makes its requests late
    tried([(search, len(search.sizes) // 2) for search in searches if search.least > PROMISING * harmed])
    for search in searches:
        search.goal = search.least + max(0, int((harmed - search.least) * (1 - REMOVED)))
    promising = [search for search in searches if search.least <= PROMISING * harmed]
    while probes := [(search, index) for search in promising if (index := search.next()) is not None]:
        trials.planned = max(trials.planned, trials.done + len(probes))
        if not tried(probes):
            trials.leave("find the sensible size of {}", [search.strongest for search, _ in probes])
            break
    return [search.chosen() for search in searches]
