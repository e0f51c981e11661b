"""A limit of the requests inside a server that adapts to their response times: what comes above it is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tailrace.advise.remedies.remedy import Option, Remedy
from tailrace.experiment import Experiment
from tailrace.units import MILLISECOND, exact_duration

TIMEOUTS = tuple(time * MILLISECOND for time in (1000, 500, 200, 100, 50))
"""From VLRT's own second down to what a quick page takes."""
TOLERANCES = (3.0, 2.0, 1.5, 1.1)
"""Around the default, 1.5."""


def _options(experiment: Experiment) -> Iterator[Option]:
    for name, tier in experiment.tiers.items():
        if not tier.limit:
            yield _aimd(name)
            yield _gradient(name)


def _aimd(name: str) -> Option:
    return _adaptive(
        name,
        TIMEOUTS,
        lambda size: {"kind": "aimd", "timeout": exact_duration(size)},
        lambda size: f"below its limit by answers within {exact_duration(size)} (AIMD)",
    )


def _gradient(name: str) -> Option:
    return _adaptive(
        name,
        TOLERANCES,
        lambda size: {"kind": "gradient", "tolerance": size},
        lambda size: f"below its limit by answers within {size:g} times their mean (gradient)",
    )


def _adaptive(name: str, sizes: tuple[Any, ...], table: Callable[[Any], Any], words: Callable[[Any], str]) -> Option:
    return Option(
        name,
        sizes,
        lambda size: {("tiers", name, "limit"): table(size)},
        lambda size: f"keep the requests inside {name} {words(size)}, and refuse more",
    )


REMEDY = Remedy(
    "limit",
    _options,
    "setting",
    "Requests above the limit fail: users see an error page instead of a slow one.",
    "AIMD and Gradient2 of concurrency-limits, Envoy's adaptive concurrency (today's practice)",
)
