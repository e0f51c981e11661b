"""Connections that stay open: there is no connection attempt that could be lost."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.advise.remedies.remedy import Changes, Option, Remedy, calls, sizeless
from tailrace.experiment import Experiment


def _options(experiment: Experiment) -> Iterator[Option]:
    for name, callee, call in calls(experiment):
        if not call.kept:
            kept: Changes = {("tiers", name, "calls", callee, "kept"): True}
            yield sizeless(f"{name} to {callee}", kept, f"let {name} keep its connections to {callee} open")
    for name, load in experiment.workloads.items():
        if not load.kept:
            kept = {("workloads", name, "kept"): True}
            yield sizeless(name, kept, f"let the clients {name} keep their connections open")


REMEDY = Remedy(
    "keepalive",
    _options,
    "setting",
    "Idle connections take memory, and in some servers a thread each, which is not simulated.",
    "HTTP keep-alive (today's practice)",
)
