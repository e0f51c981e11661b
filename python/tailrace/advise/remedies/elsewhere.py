"""Clients that send an unanswered request a second time to a further replica of the first tier."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.advise.remedies.hedging import TIMES
from tailrace.advise.remedies.remedy import Changes, Option, Remedy
from tailrace.advise.remedies.replica import replicated
from tailrace.experiment import Experiment, places
from tailrace.units import exact_duration


def _options(experiment: Experiment) -> Iterator[Option]:
    first, *_ = places.entries(experiment)
    for name, load in experiment.workloads.items():
        if not load.hedge and not load.embedded:
            times = tuple(time for time in TIMES if not load.timeout or time < load.timeout)
            yield _of(experiment, name, load.entry or first, times)


def _of(experiment: Experiment, name: str, entry: str, times: tuple[int, ...]) -> Option:
    count = max(experiment.tiers[entry].count, 2)
    more = replicated(experiment, entry, count) if experiment.tiers[entry].count < count else {}

    def changes(size: int) -> Changes:
        load = ("workloads", name)
        return {(*load, "hedge"): exact_duration(size), (*load, "hedge_elsewhere"): True} | more

    return Option(
        name,
        times,
        changes,
        lambda size: (
            f"send requests of {name} again after {exact_duration(size)}, to another of {count} servers of {entry}"
        ),
    )


REMEDY = Remedy(
    "elsewhere",
    _options,
    "machine",
    "It costs a machine where there is no replica yet, and only idempotent requests may be sent twice.",
    "lightning 4 (hedging to another replica); Dean and Barroso, The Tail at Scale, 2013",
)
