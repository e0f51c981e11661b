"""A larger CPU quota, the same in shorter periods or with a burst, periods of several servers at different times, or
none."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.advise.remedies.remedy import Changes, Option, Remedy, relieved, sizeless
from tailrace.experiment import Experiment
from tailrace.experiment.tiers import Quota
from tailrace.units import MILLISECOND, exact_duration

FACTORS = (1.25, 1.5, 2.0, 3.0, 4.0)
PERIODS = (50 * MILLISECOND, 20 * MILLISECOND, 10 * MILLISECOND, 5 * MILLISECOND)
BURSTS = (0.25, 0.5, 1.0)
"""Of the quota; Linux allows no more."""
NONE = "remove the CPU quota of {}"


def _options(experiment: Experiment) -> Iterator[Option]:
    for name, tier in experiment.tiers.items():
        if tier.quota:
            yield _raise(name, tier.quota)
            yield _shorten(name, tier.quota)
            yield _burst(name, tier.quota)
            yield sizeless(name, {("tiers", name, "quota"): None}, NONE.format(name))
    yield from _spread(experiment)
    yield from relieved(experiment, ("cpu-quota",), NONE)


def _spread(experiment: Experiment) -> Iterator[Option]:
    """Servers whose periods begin at once are throttled at once, and a balancer has nobody else to ask."""
    having = [name for name, tier in experiment.tiers.items() if tier.quota and tier.quota.phases == "together"]
    if sum(experiment.tiers[name].count for name in having) > 1:
        changes: Changes = {("tiers", name, "quota", "phases"): "even" for name in having}
        words = f"begin the quota periods of the servers of {' and '.join(having)} at different times"
        yield sizeless(", ".join(having), changes, words)


def _raise(name: str, now: Quota) -> Option:
    cores = now.time / now.period
    return Option(
        name,
        FACTORS,
        lambda size: {("tiers", name, "quota", "time"): exact_duration(round(now.time * size))},
        lambda size: f"raise the CPU quota of {name} from {cores:.3g} to {cores * size:.3g} cores",
    )


def _shorten(name: str, now: Quota) -> Option:
    return Option(
        name,
        tuple(period for period in PERIODS if period < now.period),
        lambda size: {
            ("tiers", name, "quota", "period"): exact_duration(size),
            ("tiers", name, "quota", "time"): exact_duration(round(now.time * size / now.period)),
        },
        lambda size: f"give {name} its CPU quota in periods of {exact_duration(size)}",
    )


def _burst(name: str, now: Quota) -> Option:
    return Option(
        name,
        tuple(share for share in BURSTS if share * now.time > now.burst),
        lambda size: {("tiers", name, "quota", "burst"): exact_duration(round(now.time * size))},
        lambda size: f"let {name} use {size:.0%} more CPU quota in a period after it used less",
    )


REMEDY = Remedy(
    "quota",
    _options,
    "setting",
    "Others on the machine get less CPU time while it runs.",
    "CFS bandwidth control (today's practice)",
)
