"""The CPU quota of the server's group was used up, and the kernel made it wait (throttling).

What it looks for
    `cpu_throttled` of the origin (share of time in which its runnable threads were held back) is high in the stall.
Evidence needed
    It needs `cpu_throttled` of the origin or its node (cgroup `cpu.stat`, throttled time per interval).
What it is confused with
    A neighbour, steal and a frozen process withhold CPU, too: only this counter shows a quota.
    Light throttling all the time is common and harmless: it is not more frequent in stalls, and the requests make no
    long queue (`capacity.queue_of`) with what the quota left. If they make one, and would make none without a quota,
    the quota explains the stall, however often it throttles when few requests come.
    A burst may be more than any CPU could serve, with a quota or without.
    A collection uses the quota up: hardly any request is answered in the time that is left.
Thresholds and where they come from
    The quota must take a tenth of the time (see `series.TAKEN`). Hardly any request means less than half of what is
    usual in as much time, because a server with a queue answers at least as many as usual. The kernel hands a quota out
    anew every 100 ms (its default, `cpu.cfs_period_us`). A group that runs for the first half of each period and waits
    for the second is throttled all along, although every other sample of 50 ms shows nothing.
"""

from __future__ import annotations

from tailrace.diagnosis import settle
from tailrace.diagnosis.causes.capacity import capacity, in_steps, queue_lasts
from tailrace.diagnosis.causes.case import COVERAGE, Case, Sign
from tailrace.diagnosis.finding import CauseEvidence
from tailrace.diagnosis.series import TAKEN
from tailrace.diagnosis.spans import spans
from tailrace.diagnosis.words import rate, share
from tailrace.units import MILLISECOND

CAUSE = "cpu-quota"
PERIOD_NS = 100 * MILLISECOND
"""`cpu.cfs_period_us` and the second number of `cpu.max` are 100,000 unless they are set (Linux, sched-bwc)."""


def detect(case: Case) -> CauseEvidence:
    throttled = case.view.series(case.origin, "cpu_throttled")
    if not throttled:
        wanted = None if settle.has_no_quota(case.view, case.origin) else f"cpu_throttled of {case.origin}"
        return case.unknown(CAUSE, wanted, f"a quota of {case.origin} or of a control group that contains it")
    series = max(throttled, key=lambda s: s.mean(case.stall.begin, case.stall.end) or 0.0)
    inside, usual = series.mean(case.stall.begin, case.stall.end) or 0.0, case.usual(series)
    evidence = spans(series.above(max((inside + usual) / 2, TAKEN)), gap=PERIOD_NS)
    what = f"The kernel held {case.origin} back for {share(inside)} of the time (usually {share(usual)}): CPU quota"
    most = capacity(case)
    as_it_was, without = queue_lasts(case, most * (1.0 - in_steps(case, series))), queue_lasts(case, most)
    but = None if inside >= TAKEN else "that is too little to stall it"
    if but is None and without >= COVERAGE:
        but = f"its load is more than the {rate(most)} that it can serve without a quota"
    if but is None and case.stall.throughput_ratio * 2 < 1.0 - inside:
        but = f"that left {share(1.0 - inside)} of the time, in which it answered hardly any requests"
    enough = as_it_was - without >= COVERAGE
    numbers = {"cpu_throttled": inside, "cpu_throttled_calm": usual}
    return case.weigh(CAUSE, Sign(evidence, series.interval_ns, what, series.place, numbers, but, enough))
