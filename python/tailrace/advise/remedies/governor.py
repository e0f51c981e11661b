"""A clock rate that follows the load faster, or stays high."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.advise.remedies.remedy import Option, Remedy, relieved
from tailrace.experiment import Experiment
from tailrace.units import MILLISECOND, exact_duration

PERIODS = (100 * MILLISECOND, 50 * MILLISECOND, 10 * MILLISECOND)


def _options(experiment: Experiment) -> Iterator[Option]:
    for name, node in experiment.nodes.items():
        if node.governor:
            period = node.governor.period
            yield _full(name)
            yield _shorten(name, tuple(one for one in PERIODS if one < period))
    yield from relieved(experiment, ("frequency-step",), "keep {} at its full clock rate")


def _full(name: str) -> Option:
    return Option(
        name,
        (None,),
        lambda size: {("nodes", name, "governor"): None},
        lambda size: f"keep {name} at its full clock rate",
    )


def _shorten(name: str, periods: tuple[int, ...]) -> Option:
    return Option(
        name,
        periods,
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
