"""More threads or processes, or fewer."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.advise.remedies.remedy import Option, Remedy, larger, smaller
from tailrace.experiment import Experiment


def _options(experiment: Experiment) -> Iterator[Option]:
    for name, tier in experiment.tiers.items():
        if tier.kind != "async" and tier.workers:
            yield _of(name, tier.workers, "raise", larger(tier.workers, 5))
            yield _of(name, tier.workers, "lower", smaller(tier.workers))


def _of(name: str, now: int, verb: str, sizes: tuple[int, ...]) -> Option:
    return Option(
        name,
        sizes,
        lambda size: {("tiers", name, "workers"): size},
        lambda size: f"{verb} the workers of {name} from {now} to {size}",
    )


REMEDY = Remedy(
    "workers",
    _options,
    "setting",
    "More workers need memory and let more requests through at once to the servers behind; fewer make requests wait.",
    "rpc-vs-async V-E (2000 threads); average 4.2 and heuristic iii (soft resources)",
)
