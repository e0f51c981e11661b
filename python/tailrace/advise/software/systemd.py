"""systemd's control of a service, and the files of its control group."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.advise.software.steps import Line, Step
from tailrace.experiment.tiers import Quota
from tailrace.units import exact_duration

NAME, TITLE = "systemd", "systemd"
WEIGHT = 100
"""The default of cpu.weight."""


def lines(step: Step) -> Iterator[Line]:
    def line(now: str, then: str, note: str = "") -> Line:
        return Line(TITLE, step.tier, f"{step.tier}.service", now, then, note)

    match step.what:
        case "quota":
            yield from _quota(step, line(_share(step.now), _share(step.then)))
        case "weight":
            weight = min(10_000, max(1, round(WEIGHT * step.then / step.now)))
            yield line(f"CPUWeight={WEIGHT}", f"CPUWeight={weight}", "beside neighbours of the default weight")
        case "count":
            yield line("", "AllowedCPUs=0-1", "if the further server runs on the same machine: cores of its own")


def _quota(step: Step, first: Line) -> Iterator[Line]:
    yield first
    if step.then is None:
        return
    if step.now is not None and step.now.period != step.then.period:
        now = f"CPUQuotaPeriodSec={_time(step.now.period)}"
        yield Line(TITLE, step.tier, first.file, now, f"CPUQuotaPeriodSec={_time(step.then.period)}")
    note = "lets unused time of earlier periods be used; Tailrace does not simulate it"
    yield Line(TITLE, step.tier, "cpu.max.burst", "0", str(step.then.time // 1_000), note)


def _share(quota: Quota | None) -> str:
    return "CPUQuota=" if quota is None else f"CPUQuota={100 * quota.time / quota.period:.0f}%"


def _time(ns: int) -> str:
    return exact_duration(ns).replace(" ", "")
