"""Servers that send a call without an answer a second time, to another candidate, and take the first answer."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.advise.remedies.hedging import TIMES
from tailrace.advise.remedies.remedy import Option, Remedy, calls
from tailrace.experiment import Experiment
from tailrace.units import exact_duration


def _options(experiment: Experiment) -> Iterator[Option]:
    """Where a visit keeps its connection, a second call could not go out."""
    for name, callee, call in calls(experiment):
        if experiment.tiers[callee].count > 1 and not call.hedge and not call.for_visit:
            yield _of(name, callee)


def _of(name: str, callee: str) -> Option:
    return Option(
        f"{name} to {callee}",
        TIMES,
        lambda size: {("tiers", name, "calls", callee, "hedge"): exact_duration(size)},
        lambda size: f"let {name} send a call again after {exact_duration(size)}, to another server of {callee}",
    )


REMEDY = Remedy(
    "between",
    _options,
    "code",
    "Each repetition is more load for the servers behind; only idempotent calls may be sent twice.",
    "lightning 4 (hedging to another replica); hedged requests of gRPC and Envoy (today's practice)",
)
