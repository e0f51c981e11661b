"""This is what the origin of a stall can do at its best. Several detectors compare it with the load on the origin."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.causes.case import LONG, Case
from tailrace.diagnosis.evidence import coverage
from tailrace.diagnosis.queues import Rise, levels, rises
from tailrace.diagnosis.series import AT_WORK, Series
from tailrace.diagnosis.spans import Spans, contains, where
from tailrace.diagnosis.view import View
from tailrace.units import MILLISECOND, SECOND

BUSY_LEAST = 0.02
"""A CPU that is used less shows nothing about its capacity, because sampling errors are as large."""
STEP_NS = 10 * MILLISECOND
BEST_NS = 200 * MILLISECOND
"""A server that works at its best keeps this up for so long. In a shorter time, chance has more effect than the
server."""
LEAST_WORK = 0.01
"""Requests that need nothing from a server count together as a hundredth of one request."""


def capacity(case: Case) -> float:
    """Return the visits per second that the origin can answer, at its highest clock rate where that is known. This is
    no less than it answered in the stall, because its CPU may do other work in calm time."""
    used = usual_use(case, case.origin)
    return max(case.stall.throughput_calm / used, case.stall.throughput) if used else best_throughput(case)


def crowded(case: Case) -> float | None:
    """Return the visits per second that the origin answers most of the time with as many inside as in the stall. This
    can be less than calm time suggests: threads may cost time themselves, or requests may by chance need more. Return
    None where the origin's own work did not fill its CPU at its highest clock rate. Return None, too, where it answered
    less than usual although its CPU was full. Something else may then have taken the CPU."""
    begin, end = case.stall.begin, case.stall.end
    own, hz = case.view.series(case.origin, "cpu_busy"), clock_rate(case.view, case.origin, begin, end)
    if case.stall.throughput < case.stall.throughput_calm or not any(busy.at_work(begin, end) for busy in own):
        return None
    if hz is not None and (hz.mean(begin, end) or 0.0) < AT_WORK * full_rate(case.view, case.origin, hz):
        return None
    times = steps(case)[:-1]
    full = times[case.view.own_queue(case.origin, times) >= _long(case)]
    left = case.view.stays[case.origin].departures
    answers = np.searchsorted(left, full + BEST_NS) - np.searchsorted(left, full)
    return float(np.median(answers)) * SECOND / BEST_NS if len(answers) else None


def usual_use(case: Case, server: str) -> float | None:
    """Return the utilisation of a server's CPU in calm time at its highest clock rate, or None where samples cannot
    show it."""
    for busy in case.view.shared_cpu(server) or case.view.series(server, "cpu_busy"):
        used = case.usual(in_cycles(case.view, server, busy, case.stall.begin, case.stall.end)) / busy.capacity
        if used >= BUSY_LEAST:
            return min(used, 1.0)
    return None


def at_work(case: Case, server: str) -> bool:
    """Return whether a server's CPU was full in the stall, by its own work or by that of all servers that share it."""
    used = case.view.series(server, "cpu_busy") + case.view.shared_cpu(server)
    return any(busy.at_work(case.stall.begin, case.stall.end) for busy in used)


def clock_rate(view: View, server: str, begin: int, end: int) -> Series | None:
    """Return the clock rate of a server, its node or its host. If cores are assigned to no server, return the rate of
    the core that was fastest in that time, because others may idle."""
    known = view.series(server, "cpu_hz") or view.around(server, "cpu_hz")
    rates = (hz for hz in known if hz.value.any())
    return max(rates, key=lambda hz: hz.mean(begin, end) or 0.0, default=None)


def full_rate(view: View, server: str, hz: Series) -> float:
    """Return the highest clock rate that was sampled, or the one that is documented as possible. A load may end before
    a governor reaches that rate."""
    said = view.series(server, "cpu_hz_max") or view.around(server, "cpu_hz_max")
    return max(float(each.value.max()) for each in (hz, *said))


def in_cycles(view: View, server: str, busy: Series, begin: int, end: int) -> Series:
    """Return what a CPU would have used at its highest clock rate for the same work. The clock is the one that
    `clock_rate` selects for the time from `begin` to `end`."""
    hz = clock_rate(view, server, begin, end)
    if hz is None:
        return busy
    full = full_rate(view, server, hz)
    return replace(busy, metric="cpu_cycles", value=busy.value * hz.at((busy.begin + busy.end) // 2) / full)


def queue_of(
    case: Case, served: float | NDArray[np.float64], asked: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Return the queue at the end of each of `steps` for a server that answers `served` visits per second. `asked` is
    the load on the origin in each step; by default, it is the number of its clients' requests. The formula is
    q(t + dt) = max(0, q(t) + asked - served·dt) (Lindley), which is the walk less its lowest point so far."""
    came = case.view.asked(case.origin).arrived(steps(case)).astype(np.float64) if asked is None else asked
    walk: NDArray[np.float64] = np.cumsum(came * case.visits_per_request - served * (case.view.step(STEP_NS) / SECOND))
    return walk - np.minimum(np.minimum.accumulate(walk), 0.0)


def steps(case: Case) -> NDArray[np.int64]:
    step = case.view.step(STEP_NS)
    return np.arange(case.view.begin, case.view.end + step, step, dtype=np.int64)


def in_steps(case: Case, series: Series) -> NDArray[np.float64]:
    """Return the value of the samples in the middle of each step."""
    edges = steps(case)
    return series.at((edges[:-1] + edges[1:]) // 2)


def long_rises(
    case: Case, served: float | NDArray[np.float64], asked: NDArray[np.float64] | None = None, each: float = 1.0
) -> tuple[Rise, ...]:
    """Return the stretches in which that queue would have been long, each from where it left its usual length. It is
    followed as the real queue is. `each` is the mean amount of `asked` for one of the requests to the origin."""
    times, queue = steps(case)[1:], queue_of(case, served, asked)
    least = _long(case) * max(each, 1.0)
    typical, high = levels(queue[contains(case.slow.calm, times)])
    rose = rises(times, queue, min(typical, least), min(high, least), case.view.window_ns)
    return tuple(rise for rise in rose if rise.peak > least)


def long_queues(case: Case, served: float | NDArray[np.float64]) -> Spans:
    """Return the time in which that queue would have been long."""
    edges = steps(case)
    return where(edges[:-1], edges[1:], queue_of(case, served) > _long(case), gap=case.view.window_ns)


def _long(case: Case) -> float:
    """Return how many visits make a long queue of the origin."""
    return max(LONG * case.stall.rise.peak, 2.0)


def mean_work(case: Case, server: str) -> float:
    """Return the mean service demand at a server of requests that came in the stall or just before; 1 is usual."""
    edges = np.array([case.stall.begin - case.view.window_ns, case.stall.end])
    came = int(case.view.asked(case.origin).arrived(edges)[0])
    return max(float(case.demand(server).came(edges)[0]), LEAST_WORK) / came if came else 1.0


def queue_lasts(case: Case, served: float | NDArray[np.float64]) -> float:
    """Return the share of the stall for which that queue would have been long."""
    return coverage(long_queues(case, served), case.stall.begin, case.until)


def best_throughput(case: Case) -> float:
    """Return the highest rate of answers of the origin over 200 ms anywhere. The origin can sustain this rate for
    longer than chance allows."""
    step = case.view.step(BEST_NS // 4)
    edges = np.arange(case.view.begin, case.view.end + 4 * step, step, dtype=np.int64)
    answers = np.convolve(case.view.stays[case.origin].departed(edges), np.ones(4), mode="valid")
    return float(answers.max(initial=0)) * SECOND / (4 * step)
