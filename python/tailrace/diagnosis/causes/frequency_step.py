"""The CPU was still slow when the work came (frequency steps out of phase, DVFS).

What it looks for
    The origin's CPU saturated at a clock rate below its highest: the governor steps up only after its period, while
    the queue already grows (`lightning` 3.2, figure 8).
Evidence needed
    `cpu_hz` of the origin or its node (or of cores, if nothing else is sampled), and `cpu_busy` of the origin;
    `psi_cpu`, too, where others take a little of its CPU.
What it is confused with
    A workload burst that no clock rate could serve: both are compared with full speed, so one of them yields. A slow
    clock in idle time, which is the governor's purpose: only saturated or queued time counts.
Thresholds and where they come from
    Slow: under 90 % of the highest rate seen; the paper's CPU has nine steps from 50 to 100 %, so this is one step.
    Full: 90 %, used or waited for, as sampling jitters (`millibottleneck.AT_WORK`).
"""

from __future__ import annotations

from tailrace.diagnosis.causes.capacity import capacity
from tailrace.diagnosis.causes.case import Case, Sign
from tailrace.diagnosis.finding import CauseEvidence
from tailrace.diagnosis.millibottleneck import AT_WORK
from tailrace.diagnosis.series import Series
from tailrace.diagnosis.spans import contains, union, where
from tailrace.diagnosis.words import rate, share

CAUSE = "frequency-step"
SLOW = 0.9


def detect(case: Case) -> CauseEvidence:
    # Of cores that nobody assigned to a server, the fastest: another core may idle at a low rate.
    rates = case.view.series(case.origin, "cpu_hz") or case.view.elsewhere("cpu_hz")
    if not rates:
        return case.unknown(CAUSE, f"cpu_hz of {case.origin}'s node")
    hz = max(rates, key=lambda series: series.mean(case.stall.begin, case.stall.end) or 0.0)
    highest = float(hz.value.max())
    inside = hz.median(case.stall.begin, case.stall.end) or highest
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
    return case.weigh(CAUSE, Sign(evidence, hz.interval_ns, what, numbers=numbers, place=hz.place, but=but))


def answers_at_full_speed(case: Case, hz: Series) -> float | None:
    """What the origin would have answered per second in the stall at its highest clock rate; None where it had that.

    At least what it can do as it usually is: in the first moments of a stall few answers are due at any clock rate.
    """
    now, highest = hz.median(case.stall.begin, case.stall.end), float(hz.value.max())
    if now is None or now >= SLOW * highest:
        return None
    return max(case.stall.throughput * highest / max(now, 1.0), capacity(case))
