"""A time limit for clients that connect and send nothing, so that they hold no worker for long."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.advise.remedies.remedy import Changes, Option, Remedy
from tailrace.experiment import Experiment
from tailrace.units import MILLISECOND, exact_duration

TIMES = tuple(time * MILLISECOND for time in (10_000, 5_000, 2_000, 1_000, 500, 200))


def _options(experiment: Experiment) -> Iterator[Option]:
    waits: dict[str, dict[str, int]] = {}
    for name, interaction in experiment.interactions.items():
        for tier, work in interaction.at.items():
            if interaction.silent and work.wait:
                waits.setdefault(tier, {})[name] = work.wait
    for tier, each in waits.items():
        yield _of(tier, each)


def _of(tier: str, waits: dict[str, int]) -> Option:
    def changes(size: int) -> Changes:
        longer = [name for name, wait in waits.items() if wait > size]
        return {("interactions", name, "at", tier, "wait"): exact_duration(size) for name in longer}

    return Option(
        tier,
        tuple(time for time in TIMES if time < max(waits.values())),
        changes,
        lambda size: f"let {tier} close connections on which clients send nothing for {exact_duration(size)}",
    )


REMEDY = Remedy(
    "silence",
    _options,
    "setting",
    "Clients with a slow connection may be cut off before their request is whole.",
    "request header timeouts of Apache, nginx and HAProxy (today's practice)",
)
