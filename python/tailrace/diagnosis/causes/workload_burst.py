"""More requests came than the system can serve: a burst, not a stall.

What it looks for
    Arrivals well above the usual from the onset on, above what the origin answers at full speed, while the origin
    answers as fast as ever and (where sampled) saturates its CPU because of them.
Evidence needed
    Requests with the time they were sent; nothing else. CPU samples make it firmer.
What it is confused with
    Repeated packets that come back together after a stall: requests are counted once, when first sent.
    A stall: there throughput collapses and arrivals stay. A slow clock (`frequency_step`): a burst that full speed
    would have served is not the cause. A pool that is too small (`soft_resource`): no hardware is saturated.
Thresholds and where they come from
    Half more than usual and four standard deviations of a Poisson stream: a window of chance (1 in 30,000) is no burst.
    Demand above the most that the origin ever answered over 0.2 s: a burst below it can be served (utilisation law).
"""

from __future__ import annotations

import numpy as np

from tailrace.diagnosis.causes.case import Case
from tailrace.diagnosis.causes.frequency_step import SLOW
from tailrace.diagnosis.finding import CauseEvidence
from tailrace.diagnosis.spans import where
from tailrace.diagnosis.words import rate
from tailrace.units import MILLISECOND, SECOND

CAUSE = "workload-burst"
MORE = 1.5
DEVIATIONS = 4


def detect(case: Case) -> CauseEvidence:
    stall, view = case.stall, case.view
    if len(view.sent) == 0:
        return case.unknown(CAUSE, "when the clients sent their requests")
    step = int(min(max(view.window_ns, 10 / max(stall.arrivals_calm, 1e-9) * SECOND), SECOND))
    # Steps counted from the onset, so that a burst of the length of a few steps is not smeared over one more.
    first = stall.begin - (stall.begin - view.begin) // step * step
    edges = np.arange(first, view.end + step, step, dtype=np.int64)
    expected = stall.arrivals_calm * step / SECOND
    limit = max(MORE * expected, expected + DEVIATIONS * expected**0.5)
    evidence = where(edges[:-1], edges[1:], view.in_flight.arrived(edges) > limit)
    what = (
        f"{rate(stall.arrivals)} were sent {case.when(stall.begin, stall.end)} (usually {rate(stall.arrivals_calm)}), "
        f"and {stall.origin} answered {rate(stall.throughput)}"
    )
    numbers = {
        "arrivals_per_s": stall.arrivals,
        "arrivals_calm_per_s": stall.arrivals_calm,
        "throughput_per_s": stall.throughput,
    }
    return case.weigh(CAUSE, evidence, step, what=what, numbers=numbers, but=_but(case))


def _but(case: Case) -> str | None:
    stall = case.stall
    if stall.arrivals < MORE * stall.arrivals_calm:
        return "that is no burst"
    if stall.kind == "collapse":
        return "its throughput collapsed, which a burst alone does not do"
    busy = [r for r in stall.resources if r.metric == "cpu_busy"]
    if busy and not any(r.saturated for r in stall.resources):
        return "no hardware was saturated by it"
    best = best_throughput(case)
    if demand(case) < best:
        return f"{case.origin} answered {rate(best)} at other times"
    for hz in case.view.series(case.origin, "cpu_hz"):
        now, highest = hz.median(stall.begin, stall.end) or 0.0, float(hz.value.max())
        full_speed = stall.throughput * highest / max(now, 1.0)
        if now < SLOW * highest and demand(case) < full_speed:
            return f"at its full clock rate it would have answered {rate(full_speed)}"
    return None


def demand(case: Case) -> float:
    """Visits asked of the origin per second in the stall: arrivals times its usual visits per request."""
    per_request = case.stall.throughput_calm / max(case.stall.arrivals_calm, 1e-9)
    return case.stall.arrivals * per_request


def best_throughput(case: Case) -> float:
    """The most the origin answered per second over 200 ms anywhere: what it can do for longer than chance allows."""
    span = 200 * MILLISECOND
    edges = np.arange(case.view.begin, case.view.end + span, span // 4, dtype=np.int64)
    answers = np.convolve(case.view.stays[case.origin].departed(edges), np.ones(4), mode="valid")
    return float(answers.max(initial=0)) * SECOND / span
