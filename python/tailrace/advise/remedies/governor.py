"""A clock rate that follows the load faster, or stays high."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.advise.remedies.remedy import Option, Remedy, relieved, sizeless
from tailrace.experiment import Experiment
from tailrace.units import MILLISECOND, exact_duration

PERIODS = (100 * MILLISECOND, 50 * MILLISECOND, 10 * MILLISECOND)
FULL = "keep {} at its full clock rate"


def _options(experiment: Experiment) -> Iterator[Option]:
    for name, node in experiment.nodes.items():
        if node.governor:
            yield sizeless(name, {("nodes", name, "governor"): None}, FULL.format(name))
            yield _shorten(name, node.governor.period)
    yield from relieved(experiment, ("frequency-step",), FULL)


def _shorten(name: str, now: int) -> Option:
    return Option(
        name,
        tuple(period for period in PERIODS if period < now),
        lambda size: {("nodes", name, "governor", "period"): exact_duration(size)},
        lambda size: f"let the governor of {name} look every {exact_duration(size)}",
    )


REMEDY = Remedy(
    "governor",
    _options,
    "setting",
    "The machine needs more power.",
    "lightning 3.2 and 4 (shorter governor period)",
)
