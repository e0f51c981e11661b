"""Clients that send an unanswered request a second time and take the first answer."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.advise.remedies.remedy import Option, Remedy
from tailrace.experiment import Experiment
from tailrace.units import MILLISECOND, exact_duration

TIMES = tuple(time * MILLISECOND for time in (800, 400, 200, 100))


def _options(experiment: Experiment) -> Iterator[Option]:
    for name, load in experiment.workloads.items():
        if not load.hedge and not load.embedded:
            yield _of(name, tuple(time for time in TIMES if not load.timeout or time < load.timeout))


def _of(name: str, times: tuple[int, ...]) -> Option:
    return Option(
        name,
        times,
        lambda size: {("workloads", name, "hedge"): exact_duration(size)},
        lambda size: f"send requests of {name} a second time after {exact_duration(size)}",
    )


REMEDY = Remedy(
    "hedging",
    _options,
    "code",
    "Each repetition is more load, which makes an overload worse; only idempotent requests may be sent twice.",
    "lightning 4 (hedging); Dean and Barroso, The Tail at Scale, 2013",
)
