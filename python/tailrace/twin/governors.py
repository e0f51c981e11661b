"""Clock rates that follow the load: the governor of a server, where samples of the clock rate show how it decides.

A clock rate that is replayed as it was recorded does not fit a change: with another load in time, the governor would
have set another one. A governor is learnt only if it explains what was sampled: it looks at equal intervals. One bound
of the utilisation divides the looks after which the rate rose from the others, and another those after which it fell.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.ledger.losses import clock
from tailrace.diagnosis.queues import Times
from tailrace.diagnosis.series import Series
from tailrace.diagnosis.view import View
from tailrace.twin.cpu import own_use
from tailrace.twin.structure import Structure
from tailrace.units import exact_duration

LEAST = 5
"""Changes of the clock rate: fewer lie at equal intervals by chance."""
MOST_RATES = 40
"""A processor has a few dozen. More different values are measured, not set."""
PARTS = 8
"""The shortest time between two changes may be so many periods."""
LOOKS_MAX = 2_000_000
"""More than a day has, every 50 ms. A recording with large gaps between its samples could have any number."""
OFF = 0.1
"""A change may be off by a tenth of a period, and by a sample: real governors are late now and then."""
EXPLAINED = 0.9
"""The share of looks that the bounds explain."""
USUAL_UP, USUAL_DOWN = 0.8, 0.5
"""The bounds of Linux' ondemand and of the papers, where the recording leaves them open."""

Uses = NDArray[np.float64]


@dataclass(frozen=True)
class _Sampled:
    hz: Series
    use: Series
    full: float
    changed: Times
    """The samples with another clock rate than the one before."""


@dataclass(frozen=True)
class _Looks:
    use: Uses
    """Utilisation since the look before."""
    before: Times
    """The number of the clock rate, slowest first."""
    after: Times


def of_tiers(view: View, structure: Structure, shared: Collection[str]) -> dict[str, dict[str, Any]]:
    """By tier, the governor of its servers. `shared` are servers that share a node, for which none is learnt."""
    alone = {tier: servers for tier, servers in structure.members.items() if not set(servers) & set(shared)}
    found = {tier: find(view, servers) for tier, servers in alone.items()}
    return {tier: governor for tier, governor in found.items() if governor is not None}


def find(view: View, servers: Sequence[str]) -> dict[str, Any] | None:
    """The keys of `[nodes.NAME.governor]` of servers that have the same; None where the recording shows no governor.
    The clock rate that changed most often tells when they look."""
    sampled = [one for server in servers if (one := _sampled(view, server)) is not None]
    if not sampled:
        return None
    seen = np.unique(np.concatenate([one.hz.value for one in sampled]))
    if seen[0] < 1.0:  # no processor has this clock rate
        return None
    rates = _rates(seen, max(one.full for one in sampled))
    if not 2 <= len(rates) <= MOST_RATES:
        return None
    most = max(sampled, key=lambda one: len(one.changed))
    hz, changed = most.hz, most.changed
    if len(changed) < LEAST:
        return None
    within = np.column_stack((hz.end[changed - 1], hz.end[changed]))
    longest = max(int(one.hz.end[-1]) - view.begin for one in sampled)
    for period, first in _periods(within, hz.interval_ns, max(longest // LOOKS_MAX, 1)):
        bounds = _bounds([_looks(view, one, rates, period, first) for one in sampled], len(rates) - 1)
        if bounds is not None:
            coming = first - (first - view.begin) // period * period
            return {
                "period": exact_duration(period),
                "frequencies": [f"{rate:.0f} Hz" for rate in rates],
                **bounds,
                "first": exact_duration(coming - view.begin or period),
                "start": f"{hz.value[0]:.0f} Hz",
            }
    return None


def _rates(seen: Uses, full: float) -> Uses:
    """The clock rates, slowest first. Those between the fastest that was seen and full speed are as far apart as the
    others."""
    fastest = float(seen[-1])
    if fastest >= full or len(seen) < 2:
        return seen
    steps = round(min(max((full - fastest) / float(np.median(np.diff(seen))), 1), MOST_RATES))
    return np.concatenate((seen[:-1], np.linspace(fastest, full, steps + 1)))


def _sampled(view: View, server: str) -> _Sampled | None:
    hz, use = clock.clock_rate(view, server, view.begin, view.end), own_use(view, server)
    if hz is None or use is None:
        return None
    full = clock.full_rate(view, server, hz)
    if not (np.isfinite(full) and np.isfinite(hz.value).all() and np.isfinite(use.value).all()):
        return None
    return _Sampled(hz, use, full, np.flatnonzero(np.diff(hz.value)) + 1)


def _periods(within: Times, interval: int, least: int) -> Iterator[tuple[int, int]]:
    """Periods from `least` on, and a first look, that put one look into each of these spans; the longest first."""
    middle = within.mean(axis=1)
    shortest = float(np.diff(middle).min())
    for parts in range(1, PARTS + 1):
        period, first = shortest / parts, float(middle[0])
        if period < max(2 * interval, least):
            return
        count = 1
        while count < len(middle) and period > 0:  # the more changes, the better is the period known
            count = min(max(count + 1, count * 11 // 10), len(middle))
            number = np.round((middle[:count] - first) / period)
            period, first = (float(one) for one in np.polyfit(number, middle[:count], 1))
        if period < least:
            continue
        off = np.abs(middle - first - np.round((middle - first) / period) * period)
        if (off <= interval + OFF * period).all():
            yield round(period), round(first)


def _looks(view: View, one: _Sampled, rates: Uses, period: int, first: int) -> _Looks:
    hz, use = one.hz, one.use
    begin = max(view.begin, int(hz.begin[0]), int(use.begin[0]))
    at = np.arange(first - (first - begin) // period * period + period, int(hz.end[-1]) - period, period)
    used = np.concatenate(([0.0], np.cumsum(use.value * (use.end - use.begin))))
    edges = np.append(use.begin[:1], use.end)
    share = (np.interp(at, edges, used) - np.interp(at - period, edges, used)) / period / use.capacity
    before, after = (np.searchsorted(rates, hz.extended(at + way * period // 2)) for way in (-1, 1))
    return _Looks(share, before, after)


def _bounds(parts: Sequence[_Looks], top: int) -> dict[str, Any] | None:
    """The bounds of the utilisation, and how far the rate rises; None if no bounds explain the looks."""
    columns = ("use", "before", "after")
    looks = _Looks(*(np.concatenate([getattr(one, name) for one in parts]) for name in columns))
    step = looks.after - looks.before
    rose, fell = step > 0, step < 0
    at_once = bool((step > 1).any())
    if not (rose.any() and fell.any()) or (step < -1).any() or (at_once and (looks.after[rose] < top).any()):
        return None
    able_up, able_down = looks.before < top, looks.before > 0
    up = _bound(looks.use[able_up], rose[able_up], USUAL_UP)
    down = _bound(-looks.use[able_down], fell[able_down], -USUAL_DOWN)
    if up is None or down is None or -down > up:
        return None
    return {"up": round(min(up, 1.0), 4), "down": round(max(-down, 0.0), 4), "up_at_once": at_once}


def _bound(use: Uses, moved: NDArray[np.bool_], usual: float) -> float | None:
    """The bound from which the rate moves, in the middle between the looks that it divides."""
    candidates = np.unique(use[moved])
    missed, stayed = (np.searchsorted(np.sort(part), candidates) for part in (use[moved], use[~moved]))
    wrong = missed + (~moved).sum() - stayed
    least = int(np.argmin(wrong))
    if wrong[least] > (1.0 - EXPLAINED) * len(use):
        return None
    above, others = float(candidates[least]), use[~moved & (use < candidates[least])]
    return (float(others.max()) + above) / 2 if len(others) else min(usual, above)
