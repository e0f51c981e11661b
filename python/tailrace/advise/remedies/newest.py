"""The newest request first: under overload its client still waits for the answer."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.advise.remedies.remedy import Option, Remedy, sizeless
from tailrace.experiment import Experiment


def _options(experiment: Experiment) -> Iterator[Option]:
    for name, tier in experiment.tiers.items():
        if tier.order == "arrival" and (tier.workers or tier.kind == "async"):
            yield sizeless(name, {("tiers", name, "order"): "newest"}, f"serve the newest request first in {name}")


REMEDY = Remedy(
    "newest",
    _options,
    "code",
    "Requests that came before a stall wait until all later ones are served.",
    "adaptive LIFO: Maurer, Fail at Scale, ACM Queue 13, 2015 (today's practice)",
)
