"""systemd's control of a service, and the files of its control group."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tailrace.advise.software.steps import Line, Step
from tailrace.experiment.tiers import Quota
from tailrace.units import MICROSECOND, exact_duration

NAME, TITLE = "systemd", "systemd"
WEIGHT = 100
"""The default of cpu.weight."""


def lines(step: Step) -> Iterator[Line]:
    line = partial(Line, TITLE, step.tier)
    service = f"{step.tier}.service"
    match step.what:
        case "quota":
            yield line(service, _share(step.now), _share(step.then))
            if step.now and step.then and step.now.period != step.then.period:
                yield line(service, _period(step.now), _period(step.then))
            if step.now and step.then and step.now.burst != step.then.burst:
                now, then = (str(quota.burst // MICROSECOND) for quota in (step.now, step.then))
                yield line("cpu.max.burst", now, then, "microseconds, in the service's control group; since Linux 5.14")
        case "weight":
            weight = min(10_000, max(1, round(WEIGHT * step.then / step.now)))
            yield line(service, f"CPUWeight={WEIGHT}", f"CPUWeight={weight}", "beside neighbours of the default weight")
        case "count":
            yield line(
                service, "", "AllowedCPUs=0-1", "if the further server runs on the same machine: cores of its own"
            )


def _share(quota: Quota | None) -> str:
    return "CPUQuota=" if quota is None else f"CPUQuota={100 * quota.time / quota.period:.0f}%"


def _period(quota: Quota) -> str:
    return f"CPUQuotaPeriodSec={exact_duration(quota.period).replace(' ', '')}"
