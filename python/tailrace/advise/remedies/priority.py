"""Light requests first."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.advise.remedies.remedy import Option, Remedy, calls, sizeless
from tailrace.experiment import Experiment

WAITING = (16, 8, 4, 2, 1, 0)
"""Light requests that may hold or await a connection before heavy ones have to wait; mildest first."""


def _options(experiment: Experiment) -> Iterator[Option]:
    for name, callee, call in calls(experiment):
        if call.kept and call.priority is None:
            yield _at_pool(name, callee)
    for name, tier in experiment.tiers.items():
        if tier.order == "arrival" and tier.workers:
            yield sizeless(name, {("tiers", name, "order"): "lightest"}, f"serve light requests first in {name}")


def _at_pool(name: str, callee: str) -> Option:
    return Option(
        f"{name} to {callee}",
        WAITING,
        lambda size: {("tiers", name, "calls", callee, "priority"): size},
        lambda size: f"let {name} call {callee} for light requests first, while more than {size} of them wait",
    )


REMEDY = Remedy(
    "priority",
    _options,
    "code",
    "Heavy requests wait longer, and under sustained load they may starve.",
    "average 5 (cross-tier priority, heuristic i)",
)
