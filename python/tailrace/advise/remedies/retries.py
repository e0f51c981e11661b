"""Clients that give up a request early and repeat it, within a budget."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.advise.remedies.hedging import TIMES
from tailrace.advise.remedies.remedy import Changes, Option, Remedy, sizeless
from tailrace.experiment import Experiment
from tailrace.units import exact_duration

BUDGET = 0.2
"""Finagle's and Envoy's default."""
TRIES = 3
"""Repetitions: the last begins within the second that would make the request very long, unless the timeout is long."""


def _options(experiment: Experiment) -> Iterator[Option]:
    for name, load in experiment.workloads.items():
        if load.retries and load.retry_budget is None:
            words = f"let clients of {name} repeat at most {BUDGET:.0%} of their requests"
            yield sizeless(name, {("workloads", name, "retry_budget"): BUDGET}, words)
        elif not load.retries and not load.timeout and not load.hedge and not load.embedded:
            yield _of(name)


def _of(name: str) -> Option:
    def changes(size: int) -> Changes:
        keys = {
            "timeout": exact_duration(size),
            "retries": TRIES,
            "retry_pause": "0 ns",
            "retry_budget": BUDGET,
            "retried_as_one": True,
        }
        return {("workloads", name, key): value for key, value in keys.items()}

    return Option(
        name,
        TIMES,
        changes,
        lambda size: f"give up requests of {name} after {exact_duration(size)} and repeat at most {BUDGET:.0%} of them",
    )


REMEDY = Remedy(
    "retries",
    _options,
    "code",
    "Repetitions are more load, and servers finish what was given up; only idempotent requests may be repeated.",
    "retry budgets of Finagle, gRPC and Envoy (today's practice)",
)
