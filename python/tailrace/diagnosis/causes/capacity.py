"""What the origin of a stall can do at its best, which several detectors compare with what was asked of it."""

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
"""A CPU that is used less tells nothing of its capacity: sampling errors are as large."""
STEP_NS = 10 * MILLISECOND
BEST_NS = 200 * MILLISECOND
"""What a server does at its best it does for so long: shorter, and chance does more than the server."""
LEAST_WORK = 0.01
"""Of requests that ask nothing of a server: a hundredth of one."""


def capacity(case: Case) -> float:
    """Visits per second that the origin can answer, at its highest clock rate where that is known: no less than it did
    in the stall, for what its CPU does in calm time may be other work."""
    used = usual_use(case, case.origin)
    return max(case.stall.throughput_calm / used, case.stall.throughput) if used else best_throughput(case)


def crowded(case: Case) -> float | None:
    """Visits per second that the origin answers with as many inside as in the stall, most of the time: threads may cost
    time themselves, or requests ask for more by chance, so that it can do less than calm time lets expect. None where
    its CPU was not full by its own work at its highest clock rate, or where it answered less than usual all the same:
    something else may have taken it."""
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
    """Share of what a server's CPU can do that it does in calm time; None where samples cannot tell."""
    for busy in case.view.shared_cpu(server) or case.view.series(server, "cpu_busy"):
        used = case.usual(in_cycles(case.view, server, busy, case.stall.begin, case.stall.end)) / busy.capacity
        if used >= BUSY_LEAST:
            return min(used, 1.0)
    return None


def at_work(case: Case, server: str) -> bool:
    """Whether a server's CPU was full in the stall, by its own work or by that of all who share it."""
    used = case.view.series(server, "cpu_busy") + case.view.shared_cpu(server)
    return any(busy.at_work(case.stall.begin, case.stall.end) for busy in used)


def clock_rate(view: View, server: str, begin: int, end: int) -> Series | None:
    """Of a server, its node or its host; of cores that nobody assigned to a server the fastest in that time: others may
    idle."""
    known = view.series(server, "cpu_hz") or view.around(server, "cpu_hz")
    rates = (hz for hz in known if hz.value.any())
    return max(rates, key=lambda hz: hz.mean(begin, end) or 0.0, default=None)


def full_rate(view: View, server: str, hz: Series) -> float:
    """The highest clock rate that was sampled, or the one that is said to be possible: a load may end before a governor
    gets there."""
    said = view.series(server, "cpu_hz_max") or view.around(server, "cpu_hz_max")
    return max(float(each.value.max()) for each in (hz, *said))


def in_cycles(view: View, server: str, busy: Series, begin: int, end: int) -> Series:
    """What a CPU would have used at its highest clock rate for the same work; the clock is chosen by that time."""
    hz = clock_rate(view, server, begin, end)
    if hz is None:
        return busy
    full = full_rate(view, server, hz)
    return replace(busy, metric="cpu_cycles", value=busy.value * hz.at((busy.begin + busy.end) // 2) / full)


def queue_of(
    case: Case, served: float | NDArray[np.float64], asked: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """The queue at the end of each of `steps` that a server would have had who answers `served` visits per second, by
    what was `asked` of the origin in each, by default its clients' requests: q(t + dt) = max(0, q(t) + asked -
    served·dt) (Lindley), which is the walk less its lowest point so far."""
    came = case.view.asked(case.origin).arrived(steps(case)).astype(np.float64) if asked is None else asked
    walk: NDArray[np.float64] = np.cumsum(came * case.visits_per_request - served * (case.view.step(STEP_NS) / SECOND))
    return walk - np.minimum(np.minimum.accumulate(walk), 0.0)


def steps(case: Case) -> NDArray[np.int64]:
    step = case.view.step(STEP_NS)
    return np.arange(case.view.begin, case.view.end + step, step, dtype=np.int64)


def in_steps(case: Case, series: Series) -> NDArray[np.float64]:
    """What the samples say in the middle of each step."""
    edges = steps(case)
    return series.at((edges[:-1] + edges[1:]) // 2)


def long_rises(
    case: Case, served: float | NDArray[np.float64], asked: NDArray[np.float64] | None = None, each: float = 1.0
) -> tuple[Rise, ...]:
    """Stretches in which that queue would have been long, each from where it left its usual length: it is followed as
    the real one is. What is `asked` is so much for `each` of the requests that make the origin's own."""
    times, queue = steps(case)[1:], queue_of(case, served, asked)
    least = _long(case) * max(each, 1.0)
    typical, high = levels(queue[contains(case.slow.calm, times)])
    rose = rises(times, queue, min(typical, least), min(high, least), case.view.window_ns)
    return tuple(rise for rise in rose if rise.peak > least)


def long_queues(case: Case, served: float | NDArray[np.float64]) -> Spans:
    """When that queue would have been long."""
    edges = steps(case)
    return where(edges[:-1], edges[1:], queue_of(case, served) > _long(case), gap=case.view.window_ns)


def _long(case: Case) -> float:
    """How many make a long queue of the origin."""
    return max(LONG * case.stall.rise.peak, 2.0)


def mean_work(case: Case, server: str) -> float:
    """What a request that came in the stall, or just before, asks of a server, 1 being usual."""
    edges = np.array([case.stall.begin - case.view.window_ns, case.stall.end])
    came = int(case.view.asked(case.origin).arrived(edges)[0])
    return max(float(case.demand(server).came(edges)[0]), LEAST_WORK) / came if came else 1.0


def queue_lasts(case: Case, served: float | NDArray[np.float64]) -> float:
    """For what share of the stall that queue would have been long."""
    return coverage(long_queues(case, served), case.stall.begin, case.until)


def best_throughput(case: Case) -> float:
    """The most the origin answered per second over 200 ms anywhere: what it can do for longer than chance allows."""
    step = case.view.step(BEST_NS // 4)
    edges = np.arange(case.view.begin, case.view.end + 4 * step, step, dtype=np.int64)
    answers = np.convolve(case.view.stays[case.origin].departed(edges), np.ones(4), mode="valid")
    return float(answers.max(initial=0)) * SECOND / (4 * step)
