"""A count that is predicted from replications: its mean and the interval in which one more run lies in 90 of 100 cases.

Counts of very long requests come in clusters, so they vary more than Poisson counts and are skewed. On the scale of
Anscombe's transform, y = √(x + 3/8), a Poisson count has a standard deviation of 1/2 whatever its mean (Biometrika 35,
1948). There the interval is Student's prediction interval for one further value, mean ± t · s · √(1 + 1/n), with s at
least 1/2: n equal counts, such as n zeros, do not mean that the next one is the same.

Where the experiment is the twin of a recording, the twin is off by some share of the recorded count, and the interval
is wider by this share at both ends. Where the prediction depends on something that the recording does not show, the
interval holds the ends of its range, too (`reaching`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tailrace.study.intervals import of_one_more, t_95

POISSON_DEVIATION = 0.5
"""Of a Poisson count on Anscombe's scale."""


@dataclass(frozen=True)
class Prediction:
    """`low` and `high` are None for a single replication."""

    mean: float
    low: float | None
    high: float | None
    replications: tuple[float, ...]


def predict(counts: Sequence[float], spread: float = 0.0) -> Prediction:
    """Raises ValueError without counts."""
    n = len(counts)
    if not n:
        raise ValueError("a prediction needs at least one replication")
    mean = math.fsum(counts) / n
    if n == 1:
        return Prediction(mean, None, None, tuple(counts))
    low, high = of_one_more(counts, POISSON_DEVIATION)
    low, high = low * max(0.0, 1.0 - spread), high * (1.0 + spread)
    return Prediction(mean, min(float(math.floor(low)), mean), max(float(math.ceil(high)), mean), tuple(counts))


def of_part(found: Sequence[float], weight: float, episodes: Sequence[float], spread: float = 0.0) -> Prediction:
    """The same, where each count is that of a part of the episodes and stands for `weight` times as many. `episodes`
    are the means of the single ones, if they are known: the interval also holds how much episodes differ, which those
    that were left out may do, too (Cochran, Sampling Techniques, 2.6)."""
    one = predict(found, spread)
    n = len(episodes)
    half = 0.0
    if n > 1:
        middle = math.fsum(episodes) / n
        variance = math.fsum((count - middle) ** 2 for count in episodes) / (n - 1)
        half = t_95(n - 1) * math.sqrt(variance * n * max(1 - 1 / weight, 0.0))
    mean = weight * one.mean
    counts = tuple(weight * count for count in one.replications)
    if one.low is None or one.high is None:
        return Prediction(mean, None, None, counts)
    low, high = (weight * math.hypot(end - one.mean, half) for end in (one.low, one.high))
    return Prediction(mean, max(float(math.floor(mean - low)), 0.0), float(math.ceil(mean + high)), counts)


def reaching(one: Prediction, count: float, spread: float = 0.0) -> Prediction:
    """The same prediction, with an interval that also holds that of as many replications with this count: what would
    be, if something unknown is otherwise."""
    other = predict([count] * len(one.replications), spread)
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return one
    return replace(one, low=min(one.low, other.low), high=max(one.high, other.high))
