"""CPU quotas of servers, where samples show what a server may use when its quota runs out.

A quota that is replayed as the time that it withheld does not fit a change: with another load in time, it would run out
at other moments. In stretches in which it ran out period after period, the server used all that it may use, so its CPU
use there is the quota. It is learnt only if these stretches agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.ledger.losses.quota import PERIOD_NS
from tailrace.diagnosis.series import TAKEN
from tailrace.diagnosis.view import View
from tailrace.twin.cpu import COARSEST_NS, in_cpus, own_use
from tailrace.twin.structure import Structure
from tailrace.units import MICROSECOND, exact_duration

OF_SAMPLES = "inferred from samples of cpu_throttled and cpu_busy"
LONGER = (1, 2, 5, 10)
"""Periods that are tried, in units of Linux' default. A shorter one looks in samples like that of their interval."""
ALIKE = 0.1
"""Ticks of 10 ms and the edges of samples hide a tenth of the use in some periods."""
AGREE = 0.8
"""The share of these samples whose stretch uses as much as most do."""
LEAST = 5
"""Periods in all: fewer may be those of a burst with a short queue, which does not use all of its last period."""
REPEATS = 0.5
"""Samples of throttling that repeat with the period correlate; those of a steady one differ by less than this."""

ROUNDED = 10 * MICROSECOND
"""Of the time of a quota: a ten-thousandth of Linux' default period, and less than samples show."""

Values = NDArray[np.float64]


def of_tiers(view: View, structure: Structure, cores: Mapping[str, float]) -> dict[str, dict[str, Any]]:
    """By tier, the keys of `[tiers.NAME.quota]` of its servers. `cores` are those of each server's node."""
    found = {tier: find(view, servers, cores) for tier, servers in structure.members.items()}
    return {tier: quota for tier, quota in found.items() if quota is not None}


def origins(tiers: Iterable[str]) -> dict[str, str]:
    """By key of the experiment, where these quotas come from."""
    return {f"tiers.{tier}.quota": OF_SAMPLES for tier in tiers}


def find(view: View, servers: Sequence[str], cores: Mapping[str, float]) -> dict[str, Any] | None:
    """The quota of servers that have the same; None where the recording does not show it."""
    stretches = [one for server in servers for one in _stretches(view, server, cores[server])]
    if not stretches:
        return None
    size = np.array([len(used) for used, _, _ in stretches])
    mean = np.array([float(used.mean()) for used, _, _ in stretches])
    interval = max(interval for _, _, interval in stretches)
    usual = float(np.median(np.repeat(mean, size)))
    near = np.abs(mean - usual) <= ALIKE * usual
    if usual <= 0.0 or size[near].sum() < max(AGREE * size.sum(), LEAST * PERIOD_NS / interval):
        return None
    period = _period([held for _, held, _ in stretches], interval)
    allowed = float(np.average(mean[near], weights=size[near]))
    return {"time": exact_duration(round(allowed * period / ROUNDED) * ROUNDED), "period": exact_duration(period)}


def _stretches(view: View, server: str, cores: float) -> Iterator[tuple[Values, Values, int]]:
    """Of each stretch in which the quota ran out again and again, without its first and last period: the use in cores
    and the throttled share of each sample, and the interval of samples, ns."""
    throttled, used = next(iter(view.series(server, "cpu_throttled")), None), own_use(view, server)
    if throttled is None or used is None or max(throttled.interval_ns, used.interval_ns) > COARSEST_NS:
        return
    held = np.nan_to_num(throttled.extended((used.begin + used.end) // 2))
    use = np.nan_to_num(used.value) * (1.0 if in_cpus(view, used) else cores)
    on = np.flatnonzero(held >= TAKEN)
    period = max(round(PERIOD_NS / used.interval_ns), 1)
    for run in np.split(on, np.flatnonzero(np.diff(on) > period) + 1):
        first, last = (int(run[0]) + period, int(run[-1]) + 1 - period) if len(run) else (0, 0)
        whole = (last - first) // period * period
        if whole > 0:
            yield use[first : first + whole], held[first : first + whole], used.interval_ns


def _period(held: Sequence[Values], interval: int) -> int:
    """The shortest of the usual lengths with which the throttled share repeats; Linux' default if none does."""
    longest = max(held, key=len)
    if longest.std() < REPEATS * longest.mean():
        return min(interval, PERIOD_NS)
    for times in LONGER:
        lag = round(times * PERIOD_NS / interval)
        if 2 * lag <= len(longest) and _correlation(longest[:-lag], longest[lag:]) >= REPEATS:
            return times * PERIOD_NS
    return PERIOD_NS


def _correlation(one: Values, other: Values) -> float:
    spread = float(one.std() * other.std())
    return float(((one - one.mean()) * (other - other.mean())).mean()) / spread if spread > 0.0 else 0.0
