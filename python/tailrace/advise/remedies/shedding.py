"""A concurrency limit at a caller: calls beyond it are refused at once instead of waiting."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.advise.remedies.remedy import POWERS, Option, Remedy, calls
from tailrace.experiment import Experiment
from tailrace.experiment.tiers import Call


def _options(experiment: Experiment) -> Iterator[Option]:
    for name, callee, call in calls(experiment):
        if experiment.tiers[callee].count == 1 and call.kept and experiment.tiers[name].kind != "async":
            yield _of(name, callee, call)


def _of(name: str, callee: str, call: Call) -> Option:
    most = call.pool or POWERS[-1]
    at = ("tiers", name, "calls", callee)
    return Option(
        f"{name} to {callee}",
        tuple(size for size in POWERS[2:10] if size <= most),
        lambda size: {(*at, "endpoint"): "modified", (*at, "pool"): size},
        lambda size: f"let {name} have at most {size} calls to {callee}, and refuse more",
    )


REMEDY = Remedy(
    "shedding",
    _options,
    "setting",
    "Requests beyond the limit fail: users see an error page instead of a slow one.",
    "mod_proxy's and Envoy's limits; fixed limits of concurrency-limits (today's practice)",
)
