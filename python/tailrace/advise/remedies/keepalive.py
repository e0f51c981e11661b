"""Connections that stay open: there is no connection attempt that could be lost.

A synchronous server holds a worker for each open connection of a client, which the simulator does not; so clients keep
their connections only to asynchronous servers. Callers' connections are as many as their pools allow."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.advise.remedies.remedy import Changes, Option, Remedy, calls, sizeless
from tailrace.experiment import Experiment, places, traces
from tailrace.experiment.workloads import Closed, Trace, Workload


def _options(experiment: Experiment) -> Iterator[Option]:
    for name, callee, call in calls(experiment):
        if not call.kept:
            kept: Changes = {("tiers", name, "calls", callee, "kept"): True}
            yield sizeless(f"{name} to {callee}", kept, f"let {name} keep its connections to {callee} open")
    first, *_ = places.entries(experiment)
    for name, load in experiment.workloads.items():
        if not load.kept and come_again(load) and experiment.tiers[load.entry or first].kind == "async":
            kept = {("workloads", name, "kept"): True}
            yield sizeless(name, kept, f"let the clients {name} keep their connections open")


def come_again(load: Workload) -> bool:
    """Whether a client sends a further request, for which its connection can be open. Open arrivals do not."""
    if isinstance(load, Trace):
        known = [client for client in traces.read(load.file).clients if client is not None]
        return len(set(known)) < len(known)
    return isinstance(load, Closed)


REMEDY = Remedy(
    "keepalive",
    _options,
    "setting",
    "Idle connections take memory, and behind a caller a thread each, which is not simulated.",
    "HTTP keep-alive (today's practice)",
)
