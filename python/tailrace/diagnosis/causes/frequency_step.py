"""The CPU was still slow when the work came (frequency steps out of phase, DVFS).

What it looks for
    The origin's CPU saturated at a clock rate below its highest: the governor steps up only after its period, while
    the queue already grows (`lightning` 3.2, figure 8).
Evidence needed
    `cpu_hz` of the origin, its node or its host (or of cores, if nothing else is sampled), and `cpu_busy` of the
    origin; `psi_cpu`, too, where others take a little of its CPU.
What it is confused with
    A workload burst that no clock rate could serve: both are compared with full speed, so one of them yields. A slow
    clock in idle time, which is the governor's purpose: only saturated or queued time counts.
    Full at a slow clock, as a CPU often is: it explains the stall all the same if more was asked than it answered.
Thresholds and where they come from
    Slow: under 90 % of the highest rate seen; the paper's CPU has nine steps from 50 to 100 %, so this is one step.
    Full: 90 %, used or waited for, as sampling jitters (`series.AT_WORK`).
"""

from __future__ import annotations

import numpy as np

from tailrace.diagnosis.causes.capacity import capacity, clock_rate
from tailrace.diagnosis.causes.case import Case, Sign
from tailrace.diagnosis.finding import CauseEvidence
from tailrace.diagnosis.series import AT_WORK, Series
from tailrace.diagnosis.spans import contains, union, where
from tailrace.diagnosis.words import rate, share

CAUSE = "frequency-step"
SLOW = 0.9


def detect(case: Case) -> CauseEvidence:
    hz = clock_rate(case)
    if hz is None:
        return case.unknown(CAUSE, f"cpu_hz of {case.origin}'s node")
    highest = float(hz.value.max())
    inside = _inside(case, hz) or highest
    slow = hz.value < SLOW * highest
    busy, waited = (case.view.series(case.origin, metric)[:1] for metric in ("cpu_busy", "psi_cpu"))
    if busy:
        full = union([each.above(AT_WORK * each.capacity) for each in (*busy, *waited)])
        slow &= contains(full, (hz.begin + hz.end) // 2)
    evidence = case.while_queued(where(hz.begin, hz.end, slow, gap=hz.interval_ns // 2))
    what = f"The CPU of {case.origin} ran at {inside / 1e9:.2f} GHz, {share(inside / highest)} of its highest rate"
    numbers = {"cpu_hz_median": inside, "cpu_hz_max": highest}
    at_full_speed = answers_at_full_speed(case, hz)
    but = "that is its full speed" if at_full_speed is None else None
    if at_full_speed is not None and case.demand >= at_full_speed:
        but = f"{rate(case.demand)} were asked of it, and {rate(at_full_speed)} are what it can do at most"
    more = _more_asked_than_answered(case)
    return case.weigh(CAUSE, Sign(evidence, hz.interval_ns, what, hz.place, numbers, but, enough=more))


def answers_at_full_speed(case: Case, hz: Series) -> float | None:
    """What the origin would have answered per second in the stall at its highest clock rate; None where it had that.

    At least what it can do as it usually is: in the first moments of a stall few answers are due at any clock rate.
    """
    now, highest = _inside(case, hz), float(hz.value.max())
    if now is None or now >= SLOW * highest:
        return None
    return max(case.stall.throughput * highest / max(now, 1.0), capacity(case))


def _inside(case: Case, hz: Series) -> float | None:
    """In the stall, or in the part of it that did something to the requests: it may have recovered by a higher rate."""
    rates = (hz.median(case.stall.begin, until) for until in (case.stall.end, case.until))
    return min((each for each in rates if each is not None), default=None)


def _more_asked_than_answered(case: Case) -> bool:
    edges = np.array([case.stall.begin, case.until])
    asked = int(case.view.asked(case.origin).arrived(edges)[0]) * case.visits_per_request
    return asked > int(case.view.stays[case.origin].departed(edges)[0])
