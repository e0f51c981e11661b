"""A longer accept queue: it holds what comes during a stall."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.advise.remedies.remedy import Option, Remedy, connects, larger
from tailrace.experiment import Experiment


def _options(experiment: Experiment) -> Iterator[Option]:
    return (_of(name, tier.backlog) for name, tier in experiment.tiers.items() if connects(experiment, name))


def _of(name: str, now: int) -> Option:
    return Option(
        name,
        larger(now),
        lambda size: {("tiers", name, "backlog"): size},
        lambda size: f"raise the backlog of {name} from {now} to {size}",
    )


REMEDY = Remedy(
    "backlog",
    _options,
    "setting",
    "Requests wait in the queue instead of being dropped; clients with a timeout may give up before they are served.",
    "rpc-vs-async III; lightning 4",
)
