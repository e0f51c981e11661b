"""Clients that give up a request early and do not repeat it."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.advise.remedies.hedging import TIMES
from tailrace.advise.remedies.remedy import Option, Remedy
from tailrace.experiment import Experiment
from tailrace.units import exact_duration


def _options(experiment: Experiment) -> Iterator[Option]:
    for name, load in experiment.workloads.items():
        if not load.retries and not load.embedded:
            yield _of(name, tuple(time for time in TIMES if not load.timeout or time < load.timeout))


def _of(name: str, times: tuple[int, ...]) -> Option:
    return Option(
        name,
        times,
        lambda size: {("workloads", name, "timeout"): exact_duration(size)},
        lambda size: f"give up requests of {name} after {exact_duration(size)}",
    )


REMEDY = Remedy(
    "timeout",
    _options,
    "setting",
    "Requests that take longer fail: users see an error page instead of a slow one, and servers finish them anyway.",
    "request timeouts of Envoy and nginx (today's practice)",
)
