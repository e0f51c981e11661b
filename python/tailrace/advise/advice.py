"""The answer: a ranked list of changes with their predicted effect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tailrace.advise import software
from tailrace.advise.outcomes import Outcome
from tailrace.advise.prediction import Prediction
from tailrace.advise.queues import Queues
from tailrace.advise.remedies import Changes, Effort
from tailrace.advise.software import Line
from tailrace.advise.undone import Undone
from tailrace.experiment import Experiment
from tailrace.twin.gate import Compared

HELPS = 0.5
"""Where replications are too few to be sure, a change that removes less than this share is not called a help."""


@dataclass(frozen=True)
class Effect:
    """What the replications of one experiment show."""

    vlrt: Prediction
    failed: Prediction
    harmed: tuple[int, ...]
    """By replication: very long or without an answer."""
    requests: float
    first: Outcome
    """Of the first replication."""

    def harmed_of(self, requests: float) -> tuple[float, ...]:
        """`harmed`, of so many requests. A slower system gets fewer requests from clients that wait for answers, and
        harms fewer for that reason alone."""
        return tuple(count * requests / self.requests if self.requests else requests for count in self.harmed)


@dataclass(frozen=True)
class Surge:
    """A run with more load in its middle third."""

    vlrt: int
    """In the whole run."""
    recovers: bool | None
    """Whether the last sixth of the run is as it is without the surge; None if that could not be compared."""


@dataclass(frozen=True)
class Ranked:
    """One remedy, or a pair, at its sensible size."""

    remedies: tuple[str, ...]
    places: tuple[str, ...]
    words: str
    changes: Changes
    smallest: str
    """The smallest size that suffices, in words; empty where the advised size is the smallest."""
    effort: Effort
    hurts: tuple[str, ...]
    sources: tuple[str, ...]
    effect: Effect
    better: bool | None
    """Whether fewer requests are harmed than without it, by paired replications (95 %); None: they cannot decide."""
    removes: float
    """Share of the harmed requests that it removes, on average."""
    throughput: float
    """Requests as a multiple of those without it."""
    bottleneck: str
    """The tier that drops most of those that dropped nothing before; empty if there is none."""
    surge: Surge | None
    experiment: Experiment
    caution: str = ""
    """What the prediction depends on and the recording does not show, in a sentence."""

    @property
    def of_part(self) -> bool:
        """Whether it was simulated with a part of the episodes alone."""
        return bool(self.effect.first.episodes)

    @property
    def helps(self) -> bool:
        """Whether it is better than nothing as far as the replications show."""
        return self.better is True or (self.better is None and self.removes >= HELPS)


@dataclass(frozen=True)
class Headroom:
    """How much more load the system takes before requests become very long."""

    factor: float | None
    """The smallest tried factor that harms a request; None if none does up to the largest."""
    tried: float
    """The largest tried factor."""
    drops: str
    """The tier that drops most there; empty if none drops."""


@dataclass(frozen=True)
class Advice:
    name: str
    experiment: Experiment
    base: Effect
    ranked: tuple[Ranked, ...]
    """The best first."""
    useless: tuple[tuple[str, int], ...]
    """What was tried on one run and did not reach the ranking, with the requests harmed there."""
    replications: int
    complete: bool
    """False if the time budget ended first."""
    screened: int
    """Requests harmed in the run on which sizes were tried."""
    undone: tuple[Undone, ...] = ()
    """What the time budget left out."""
    headroom: Headroom | None = None
    software: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The software of each tier, for the lines to change."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """Of a recording: where the twin's present values come from, by key of the experiment."""
    notes: tuple[str, ...] = ()
    """What limits the advice, such as what the recording does not show."""
    compared: tuple[Compared, ...] = ()
    """How well the twin repeats the recording; empty for an experiment."""
    queues: Queues | None = None
    """With and without the best change."""

    def lines(self, one: Ranked) -> list[Line]:
        """The lines that make the change."""
        origins = self.origins if self.compared else None
        return software.lines(self.experiment, one.experiment, self.software, origins)

    @property
    def best(self) -> Ranked | None:
        """The first that helps."""
        return next((one for one in self.ranked if one.helps), None)
