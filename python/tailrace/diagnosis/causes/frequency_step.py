"""The CPU was still slow when the work came (frequency steps out of phase, DVFS).

What it looks for
    The origin's CPU is saturated at a clock rate below its highest. The governor steps up only after its period, while
    the queue already grows (`lightning` 3.2, figure 8).
Evidence needed
    It needs `cpu_hz` of the origin, its node or its host (or of cores, if nothing else is sampled), and `cpu_busy` of
    the origin. Where other servers take a little of its CPU, it also needs `psi_cpu`.
What it is confused with
    A workload burst may be more than any clock rate can serve: both causes are compared with full speed, so only one
    of them is found. A slow clock in idle time is the governor's purpose: only saturated or queued time counts.
    A CPU is often full at a slow clock. This still explains the stall if the requests make a long queue
    (`capacity.queue_of`) at the recorded clock rates, and none at full speed.
Thresholds and where they come from
    The clock is slow under 90 % of the highest rate seen, or of `cpu_hz_max`. The paper's CPU has nine steps from 50 to
    100 %, so this is one step.
    The CPU is full from 90 % on, used or waited for, as sampling jitters (`series.AT_WORK`).
"""

from __future__ import annotations

from tailrace.diagnosis.causes.capacity import capacity, clock_rate, full_rate, in_steps, queue_lasts
from tailrace.diagnosis.causes.case import COVERAGE, Case, Sign
from tailrace.diagnosis.finding import CauseEvidence
from tailrace.diagnosis.series import AT_WORK, Series
from tailrace.diagnosis.spans import contains, union, where
from tailrace.diagnosis.words import rate, share

CAUSE = "frequency-step"
SLOW = 0.9


def detect(case: Case) -> CauseEvidence:
    hz = clock_rate(case.view, case.origin, case.stall.begin, case.stall.end)
    if hz is None:
        return case.unknown(CAUSE, f"cpu_hz of {case.origin}'s node")
    highest = full_rate(case.view, case.origin, hz)
    inside = _inside(case, hz) or highest
    slow = hz.value < SLOW * highest
    busy = case.view.shared_cpu(case.origin) or case.view.series(case.origin, "cpu_busy")[:1]
    waited = case.view.series(case.origin, "psi_cpu")[:1]
    if busy:
        full = union([each.above(AT_WORK * each.capacity) for each in (*busy, *waited)])
        slow &= contains(full, (hz.begin + hz.end) // 2)
    evidence = case.while_queued(where(hz.begin, hz.end, slow, gap=hz.interval_ns // 2))
    what = f"The CPU of {case.origin} ran at {inside / 1e9:.2f} GHz, {share(inside / highest)} of its highest rate"
    numbers = {"cpu_hz_median": inside, "cpu_hz_max": highest}
    most = capacity(case)
    as_it_was = queue_lasts(case, most * in_steps(case, hz) / highest)
    at_full_speed = queue_lasts(case, most)
    but = None
    if inside >= SLOW * highest:
        but = "that is its full speed"
    elif at_full_speed >= COVERAGE:
        but = f"its load is more than the {rate(most)} that it can serve at most"
    enough = as_it_was - at_full_speed >= COVERAGE
    return case.weigh(CAUSE, Sign(evidence, hz.interval_ns, what, hz.place, numbers, but, enough))


def _inside(case: Case, hz: Series) -> float | None:
    """Return the clock rate in the stall, or in the part of it that affected the requests. A higher rate may have ended
    the stall."""
    rates = (hz.median(case.stall.begin, until) for until in (case.stall.end, case.until))
    return min((each for each in rates if each is not None), default=None)
