"""Connections that stay open: there is no connection attempt that could be lost."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.advise.remedies.remedy import Option, Remedy, calls
from tailrace.experiment import Experiment


def _options(experiment: Experiment) -> Iterator[Option]:
    for name, callee, call in calls(experiment):
        if not call.kept:
            yield _call(name, callee)
    for name, load in experiment.workloads.items():
        if not load.kept:
            yield _client(name)


def _call(name: str, callee: str) -> Option:
    return Option(
        f"{name} to {callee}",
        (None,),
        lambda size: {("tiers", name, "calls", callee, "kept"): True},
        lambda size: f"let {name} keep its connections to {callee} open",
    )


def _client(name: str) -> Option:
    return Option(
        name,
        (None,),
        lambda size: {("workloads", name, "kept"): True},
        lambda size: f"let the clients {name} keep their connections open",
    )


REMEDY = Remedy(
    "keepalive",
    _options,
    "setting",
    "Idle connections take memory, and in some servers a thread each, which is not simulated.",
    "HTTP keep-alive (today's practice)",
)
