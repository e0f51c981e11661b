"""systemd's control of a service, and the files of its control group."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tailrace.advise.software.steps import Line, Step
from tailrace.experiment.tiers import Quota
from tailrace.units import MICROSECOND, exact_duration

NAME, TITLE = "systemd", "systemd"
PER_CENT = (100, 97, 89, 83, 79, 73, 71, 67, 61, 59, 53)
"""Of the period: no two have a common divisor, so their least common multiple is long."""
WEIGHT = 100
"""The default of cpu.weight."""


def lines(step: Step) -> Iterator[Line]:
    line = partial(Line, TITLE, step.tier)
    service = f"{step.tier}.service"
    match step.what:
        case "quota":
            if not step.now or not step.then or _share(step.now) != _share(step.then):
                yield line(service, _share(step.now), _share(step.then))
            if step.now and step.then and step.now.period != step.then.period:
                yield line(service, _period(step.now), _period(step.then))
            if step.spreads:
                yield from _spread(step)
            if step.now and step.then and step.now.burst != step.then.burst:
                now, then = (str(quota.burst // MICROSECOND) for quota in (step.now, step.then))
                yield line("cpu.max.burst", now, then, "microseconds, in the service's control group; since Linux 5.14")
        case "weight":
            weight = min(10_000, max(1, round(WEIGHT * step.then / step.now)))
            yield line(service, f"CPUWeight={WEIGHT}", f"CPUWeight={weight}", "beside neighbours of the default weight")
        case "pin":
            own = f"0-{step.then - 1:.0f}" if step.then > 1 else "0"
            rest = f"{step.then:.0f}-{step.now - 1:.0f}" if step.now - step.then > 1 else f"{step.then:.0f}"
            yield line(service, "", f"AllowedCPUs={own}", "other numbers if CPUs share a core")
            yield line("system.slice, user.slice", "", f"AllowedCPUs={rest}", f"move {service} to a slice of its own")
        case "count":
            yield line(
                service, "", "AllowedCPUs=0-1", "if the further server runs on the same machine: cores of its own"
            )


def _share(quota: Quota | None) -> str:
    return "CPUQuota=" if quota is None else f"CPUQuota={100 * quota.time / quota.period:.0f}%"


def _spread(step: Step) -> Iterator[Line]:
    """A length of its own for each service; the first one keeps its length. Two periods of 100 and 97 ms begin together
    every 9.7 s."""
    note = "another length for each of the services, so that their periods do not begin together"
    for number in range(step.count):
        service = f"{step.tier}{number + 1 if step.count > 1 else ''}.service"
        share = PER_CENT[(step.before + number) % len(PER_CENT)]
        yield Line(TITLE, step.tier, service, _period(step.now), _period(step.now, share), note)


def _period(quota: Quota, per_cent: int = 100) -> str:
    return f"CPUQuotaPeriodSec={exact_duration(quota.period * per_cent // 100).replace(' ', '')}"
