"""The CPU was still slow when the work came (frequency steps out of phase, DVFS).

What it looks for
    The origin's CPU saturated at a clock rate below its highest: the governor steps up only after its period, while
    the queue already grows (`lightning` 3.2, figure 8).
Evidence needed
    `cpu_hz` of the origin or its node (or of cores, if nothing else is sampled), and `cpu_busy` of the origin.
What it is confused with
    A workload burst that no clock rate could serve: `workload_burst` compares the burst with full speed. A slow clock
    in idle time, which is the governor's purpose: only saturated or queued time counts.
Thresholds and where they come from
    Slow: under 90 % of the highest rate seen; the paper's CPU has nine steps from 50 to 100 %, so this is one step.
"""

from __future__ import annotations

from tailrace.diagnosis.causes.case import Case, Sign
from tailrace.diagnosis.finding import CauseEvidence
from tailrace.diagnosis.spans import contains, where
from tailrace.diagnosis.words import share

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
    busy = case.view.series(case.origin, "cpu_busy")
    if busy:
        full = busy[0].above(0.9 * busy[0].capacity)
        slow &= contains(full, (hz.begin + hz.end) // 2)
    evidence = case.while_queued(where(hz.begin, hz.end, slow, gap=hz.interval_ns // 2))
    what = f"The CPU of {case.origin} ran at {inside / 1e9:.2f} GHz, {share(inside / highest)} of its highest rate"
    numbers = {"cpu_hz_median": inside, "cpu_hz_max": highest}
    fast = None if inside < SLOW * highest else "that is its full speed"
    return case.weigh(CAUSE, Sign(evidence, hz.interval_ns, what, numbers=numbers, place=hz.place, but=fast))
