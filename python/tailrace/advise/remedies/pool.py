"""More connections of a caller to a callee, or fewer."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.advise.remedies.remedy import Option, Remedy, calls, larger, smaller
from tailrace.experiment import Experiment


def _options(experiment: Experiment) -> Iterator[Option]:
    for name, callee, call in calls(experiment):
        if call.pool:
            yield _of(name, callee, call.pool, "raise", larger(call.pool, 5))
            yield _of(name, callee, call.pool, "lower", smaller(call.pool))


def _of(name: str, callee: str, now: int, verb: str, sizes: tuple[int, ...]) -> Option:
    return Option(
        f"{name} to {callee}",
        sizes,
        lambda size: {("tiers", name, "calls", callee, "pool"): size},
        lambda size: f"{verb} the pool from {name} to {callee} from {now} to {size}",
    )


REMEDY = Remedy(
    "pool",
    _options,
    "setting",
    "More connections move the waiting into the callee, which needs a worker for each; fewer move it to the caller.",
    "average heuristic iii (fewer connections); rpc-vs-async V-B",
)
