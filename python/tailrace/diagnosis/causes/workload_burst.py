"""More requests came than the system can serve: a burst, not a stall.

What it looks for
    The queue that a server at full speed would have had: it grows by what is asked of the origin and shrinks by what
    the origin can do, q(t + dt) = max(0, q(t) + asked - capacity·dt) (Lindley). Where that queue is long, a burst alone
    explains the stall; where it is empty while the real one is long, something held the origin up.
Evidence needed
    Requests with the time they were sent; nothing else. CPU samples make it firmer.
What it is confused with
    Repeated packets that come back together after a stall: requests are counted once, when first sent.
    A stall: it fills the real queue, not that of a server at full speed. A slow clock (`frequency_step`): a burst that
    full speed would have served is not the cause. A load that is too high all the time: then more came than usual at
    no time.
Thresholds and where they come from
    Half more than usual and four standard deviations of a Poisson stream in the step in which it began, or over the
    stall: a step of chance (1 in 30,000) is no burst. Long: a quarter of the origin's own queue in the stall, for
    the rest may wait for what the burst was pushed back from.
    Capacity by the utilisation law, X / U in calm time; without CPU samples the most that was answered over 0.2 s.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.causes import frequency_step
from tailrace.diagnosis.causes.capacity import capacity, clock_rate
from tailrace.diagnosis.causes.case import Case, Sign
from tailrace.diagnosis.finding import CauseEvidence
from tailrace.diagnosis.spans import where
from tailrace.diagnosis.words import rate
from tailrace.units import MILLISECOND, SECOND

CAUSE = "workload-burst"
MORE = 1.5
DEVIATIONS = 4
LONG = 0.25
STEP_NS = 10 * MILLISECOND


def detect(case: Case) -> CauseEvidence:
    stall, view = case.stall, case.view
    if len(view.sent) == 0:
        return case.unknown(CAUSE, "when the clients sent their requests")
    edges = np.arange(view.begin, view.end + STEP_NS, STEP_NS, dtype=np.int64)
    asked = view.asked(case.origin).arrived(edges).astype(np.float64) * case.visits_per_request
    queue = _queue_at_full_speed(asked, capacity(case) * STEP_NS / SECOND)
    # It may come on top of a queue that was already a little longer than usual.
    evidence = where(edges[:-1], edges[1:], queue > max(LONG * stall.rise.peak, 2.0), gap=view.window_ns)
    what = (
        f"{rate(stall.arrivals)} were sent {case.when(stall.begin, stall.end)} (usually {rate(stall.arrivals_calm)}), "
        f"and {stall.origin} answered {rate(stall.throughput)}"
    )
    numbers = {
        "arrivals_per_s": stall.arrivals,
        "arrivals_calm_per_s": stall.arrivals_calm,
        "throughput_per_s": stall.throughput,
        "capacity_per_s": capacity(case),
    }
    return case.weigh(CAUSE, Sign(evidence, STEP_NS, what, numbers=numbers, but=_but(case)))


def _queue_at_full_speed(asked: NDArray[np.float64], served: float) -> NDArray[np.float64]:
    """q = max(0, q + asked - served) step by step: the walk less its lowest point so far."""
    walk: NDArray[np.float64] = np.cumsum(asked - served)
    return walk - np.minimum(np.minimum.accumulate(walk), 0.0)


def _but(case: Case) -> str | None:
    if not _more_came(case):
        return "that is no burst"
    hz = clock_rate(case)
    at_full_speed = None if hz is None else frequency_step.answers_at_full_speed(case, hz)
    if at_full_speed is not None and case.demand < at_full_speed:
        return f"at its full clock rate it would have answered {rate(at_full_speed)}"
    return None


def _more_came(case: Case) -> bool:
    """Over the stall, or in the window around its begin: the queue of a batch rises at once."""
    stall, window = case.stall, case.view.window_ns
    for begin, end in ((stall.begin, stall.end), (stall.begin - window, stall.begin + window)):
        came = int(case.view.asked(case.origin).arrived(np.array([begin, end]))[0])
        expected = stall.arrivals_calm * (end - begin) / SECOND
        if came > max(MORE * expected, expected + DEVIATIONS * max(expected, 1.0) ** 0.5):
            return True
    return False
