"""What a balancer does when a candidate's connections are all in use, and how long it polls."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.advise.remedies.remedy import Changes, Option, Remedy, calls, sizeless
from tailrace.experiment import Experiment, places
from tailrace.units import MILLISECOND, exact_duration

TIMEOUTS = (200 * MILLISECOND, 100 * MILLISECOND)
"""How long a candidate is polled before it is given up; mod_jk polls every 100 ms."""


def _options(experiment: Experiment) -> Iterator[Option]:
    for name, callee, call in calls(experiment):
        if experiment.tiers[callee].count < 2 or not call.kept:
            continue
        endpoint = places.endpoint(experiment, name, callee, call)
        if endpoint != "modified":
            skip: Changes = {("tiers", name, "calls", callee, "endpoint"): "modified"}
            words = f"let {name} try the next {callee} when the connections to one are all in use"
            yield sizeless(f"{name} to {callee}", skip, words)
        if endpoint == "original":
            yield _poll(name, callee, tuple(time for time in TIMEOUTS if time < call.endpoint_timeout))


def _poll(name: str, callee: str, times: tuple[int, ...]) -> Option:
    return Option(
        f"{name} to {callee}",
        times,
        lambda size: {("tiers", name, "calls", callee, "endpoint_timeout"): exact_duration(size)},
        lambda size: f"let {name} give up a busy {callee} after {exact_duration(size)}",
    )


REMEDY = Remedy(
    "mechanism",
    _options,
    "setting",
    "When all candidates are busy, requests fail instead of waiting.",
    "balancers IV-B (modified get_endpoint)",
)
