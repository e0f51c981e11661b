"""Queues over time with and without the best change, and how many requests at once the bottleneck serves best.

Two tiers are shown: the one that drops most, and the deepest one behind it whose queue is long while that one drops.
The second is where a push-back wave begins, and its concurrency decides how many requests are answered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import median
from typing import Any

from tailrace.advise.outcomes import Outcome
from tailrace.advise.trials import Trials, replicated
from tailrace.experiment import Experiment
from tailrace.study.runs import Question
from tailrace.units import MILLISECOND

WINDOW = 50 * MILLISECOND
"""Millibottlenecks last tens to hundreds of milliseconds."""
POINTS = 300
"""Points of a line: more than one for each four pixels of a page cannot be told apart."""
TIERS_MAX = 16
"""Tiers behind the one that drops whose queues are examined; the papers' deepest system has four."""
ENOUGH = 0.95
"""The knee is the lowest concurrency with this share of the highest rate of answers."""
LEAST_WINDOWS = 5
"""A mean over fewer windows says nothing."""

Values = tuple[float, ...]


@dataclass(frozen=True)
class Queue:
    """The longest queue of a server of the tier in each window."""

    tier: str
    window: int
    now: Values
    after: Values


@dataclass(frozen=True)
class Knee:
    """Answers a second by the number of requests inside a server of the tier, in powers of two."""

    tier: str
    points: tuple[tuple[int, float], ...]
    """From so many requests up to the next power, and the mean rate."""

    @property
    def at(self) -> int:
        most = max(rate for _, rate in self.points)
        return next(inside for inside, rate in self.points if rate >= ENOUGH * most)


@dataclass(frozen=True)
class Queues:
    lines: tuple[Queue, ...]
    """The tier that drops most, and the deepest one whose queue is long then; only one if they are the same."""
    knee: Knee | None
    """Of the last; None if its concurrency hardly varies."""


def queues(now: Experiment, after: Experiment, first: Outcome, trials: Trials) -> Queues | None:
    """From the first replication of both; None if the time budget does not allow them, or nothing is dropped."""
    dropper = max(first.drops, key=lambda tier: first.drops[tier], default="")
    if not first.drops.get(dropper):
        return None
    window = max(WINDOW, -(-now.duration // POINTS))
    tiers = _behind(now, dropper)[:TIERS_MAX]
    asked = [_series("queue", tier, now, window) for tier in tiers]
    answers = trials.asked(replicated(now, 0), [*asked, _series("drops", dropper, now, window)])
    if answers is None:
        return None
    *longest, drops = map(_highest, answers)
    found = dict(zip(tiers, longest, strict=True))
    shown = list(dict.fromkeys((dropper, _deepest(found, dropper, drops))))
    changed = trials.asked(replicated(after, 0), [_series("queue", tier, after, window) for tier in shown])
    if changed is None:
        return None
    lines = tuple(Queue(tier, window, found[tier], _highest(one)) for tier, one in zip(shown, changed, strict=True))
    return Queues(lines, _knee(now, shown[-1], trials))


def _series(name: str, tier: str, experiment: Experiment, window: int) -> Question:
    values = {"series": name, "place": tier, "begin": 0, "end": experiment.duration, "window": window}
    return Question.of("series", values)


def _behind(experiment: Experiment, tier: str) -> list[str]:
    """The tier and those that its requests reach, the nearest first."""
    found = [tier]
    for one in found:  # grows during the loop
        found += [callee for callee in experiment.tiers[one].calls if callee not in found]
    return found


def _highest(lines: Sequence[Mapping[str, Any]]) -> Values:
    """By window, over all servers of a tier."""
    if not lines:
        return ()
    return tuple(
        max((value or 0.0) for value in values) for values in zip(*(line["values"] for line in lines), strict=True)
    )


def _deepest(found: Mapping[str, Values], dropper: str, drops: Values) -> str:
    """The last tier whose queue is longer than chance explains in most windows with drops: by more than three standard
    deviations of a Poisson count. Tiers behind a stalled one are idle then, and get their requests later."""
    during = [k for k, lost in enumerate(drops) if lost]
    deepest = dropper
    for tier, values in found.items():
        usual = median([value for value in values if value] or [0.0])  # a twin may be idle between episodes
        if values and during and median(values[k] for k in during) > usual + 3 * sqrt(usual + 1):
            deepest = tier
    return deepest


def _knee(experiment: Experiment, tier: str, trials: Trials) -> Knee | None:
    asked = [_series(name, tier, experiment, WINDOW) for name in ("queue_mean", "throughput")]
    answers = trials.asked(replicated(experiment, 0), asked)
    if answers is None:
        return None
    rates: dict[int, list[float]] = {}
    for inside, answered in zip(*answers, strict=True):
        for many, rate in zip(inside["values"], answered["values"], strict=True):
            if many is not None and rate is not None and many >= 1:
                rates.setdefault(1 << (int(many).bit_length() - 1), []).append(rate)
    points = tuple(
        (inside, sum(all_of) / len(all_of)) for inside, all_of in sorted(rates.items()) if len(all_of) >= LEAST_WINDOWS
    )
    return Knee(tier, points) if len(points) > 1 else None
