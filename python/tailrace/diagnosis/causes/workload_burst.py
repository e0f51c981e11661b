"""More requests came than the system can serve: this is a burst, not a stall.

What it looks for
    It looks at the queue that a server at full speed would have had. This queue grows by the requests that the origin
    receives, and it shrinks by what the origin, or a server behind it, can serve (`capacity.queue_of`). Where this
    queue is long, a burst alone explains the stall. Where it is empty while the real one is long, something held the
    origin up. If the requests do not explain the stall by their number, they are weighed by their service demand
    (`demand`): a few more requests of a heavy interaction fill a server.
Evidence needed
    It needs requests with the time they were sent, and nothing else. CPU samples make it firmer. To weigh the requests,
    it needs CPU samples, visits, and names of interactions.
What it is confused with
    Retransmissions come back together after a stall: requests are counted once, when they are first sent.
    Lost packets that come back may have filled the queue already when a batch comes. If most of the requests were sent
    with the batch, the stall is examined from then on.
    A stall fills the real queue, not that of a server at full speed. With a slow clock (`frequency_step`), a burst that
    full speed would have served is not the cause. If the load is too high all the time, at no time more came than
    usual.
Thresholds and where they come from
    More than usual (`queues.is_more`) must have come in the step in which the stall began, over the stall, or while the
    queue of a wave grew. If the wave filled a CPU, the excess need only be more than chance. Two requests that a client
    sends for the same thing at once count as one. A request that a client sends again after it gave up counts anew.
    A queue is long from `case.LONG` on. Its rise begins where it left its usual length, as for a real queue.
    Capacity follows from the utilisation law, X / U in calm time. Without CPU samples it is the most that was answered
    over 0.2 s. If that explains nothing, it is what the origin answered with as many requests inside and a full CPU:
    threads may cost time themselves.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.causes.capacity import (
    STEP_NS,
    at_work,
    capacity,
    crowded,
    in_steps,
    long_rises,
    mean_work,
    steps,
    usual_use,
)
from tailrace.diagnosis.causes.case import COVERAGE, Case, Sign
from tailrace.diagnosis.demand import Demand
from tailrace.diagnosis.finding import CauseEvidence
from tailrace.diagnosis.queues import MORE, Rise, is_more
from tailrace.diagnosis.series import TAKEN
from tailrace.diagnosis.spans import Spans, contains, length, spans, union
from tailrace.diagnosis.waiting import per_second
from tailrace.diagnosis.words import rate
from tailrace.units import SECOND

CAUSE = "workload-burst"
WAVE_NS = SECOND // 2
"""Arrivals that last for less time are counted around their begin."""


def detect(case: Case) -> CauseEvidence:
    if len(case.view.sent) == 0:
        return case.unknown(CAUSE, "when the clients sent their requests")
    case = _since_it_came(case)
    limit, most, in_each = _narrowest(case)
    queued = long_rises(case, in_each)
    by_requests = _told(case, limit, most, queued, _more_came(case, limit, queued))
    most_crowded = crowded(case) if by_requests.verdict != "found" and limit == case.origin else None
    if most_crowded is not None and most_crowded < most:
        queued = long_rises(case, most_crowded)
        by_crowd = _told(case, limit, most_crowded, queued, _more_came(case, limit, queued))
        by_requests = by_crowd if by_crowd.verdict == "found" else by_requests
    if by_requests.verdict == "found" or len(case.demand().names) < 2:
        return by_requests
    limit, most, in_each = _narrowest(case, weighed=True)
    if not at_work(case, limit):
        return by_requests
    demand = case.demand(limit)
    queued = long_rises(case, in_each, demand.came(steps(case)), mean_work(case, limit))
    which = _more_of_one(case, queued, demand)
    by_work = _told(case, limit, most, queued, which is not None, which)
    return by_work if by_work.verdict == "found" else by_requests


def _told(
    case: Case, limit: str, most: float, queued: tuple[Rise, ...], more: bool, which: str | None = None
) -> CauseEvidence:
    """Weigh when the queue would have been long, and whether more came than usual. `which` names the interaction of
    which more came."""
    stall = case.stall
    what = (
        f"{rate(stall.arrivals)} were sent {case.when(stall.begin, stall.end)} (usually {rate(stall.arrivals_calm)}), "
        f"and {stall.origin} answered {rate(stall.throughput)}"
    )
    what += "" if limit == case.origin else f", for {limit} behind it is full at {rate(most)}"
    what += f"; {which}" if which else ""
    numbers = {
        "arrivals_per_s": stall.arrivals,
        "arrivals_calm_per_s": stall.arrivals_calm,
        "throughput_per_s": stall.throughput,
        "capacity_per_s": most,
    }
    when = spans([(rise.begin, rise.end) for rise in queued])
    but, after = None if more else "that is no burst", _worked_off(case, when)
    sign = Sign(when, STEP_NS, what, limit, numbers, but=but, after=after)
    return _while_packets_were_lost(case).weigh(CAUSE, sign)


def _while_packets_were_lost(case: Case) -> Case:
    """End the stall at the last loss if all requests lost packets. The time of each arrival is known to the nanosecond,
    and a delay at a server behind this one after that caused no loss."""
    stall = case.stall
    if stall.over is None or stall.over <= stall.begin:
        return case
    return replace(case, stall=replace(stall, end=min(stall.end, max(stall.over, stall.begin + 2 * STEP_NS))))


def _worked_off(case: Case, queued: Spans) -> Spans:
    """Return the parts of these queues that outlast the stall in which they began. A server with little spare capacity
    works for a long time on what came at once."""
    stalls = union([case.stalls, spans([(case.stall.begin, case.stall.end)])])
    begin = np.minimum(queued[:, 0] + case.view.window_ns, queued[:, 1] - 1)
    rows = contains(stalls, begin)
    ends = stalls[np.searchsorted(stalls[:, 0], begin[rows], "right") - 1, 1]
    return spans(np.column_stack((ends, queued[rows, 1])))


def _since_it_came(case: Case) -> Case:
    """Let the stall begin when more requests came than usual, if most of the requests were sent in that window. Other
    requests, which were lost before and came back, may have been there already. This does not apply to a server that
    something else held up."""
    sent = case.slow.requests["sent"].to_numpy()[case.cluster.rows]
    window, stall = case.view.window_ns, case.stall
    first = np.searchsorted(sent, sent - window, "right")
    together = np.arange(len(sent)) - first + 1
    last = int(np.argmax(together))
    begin, until = int(sent[first[last]]), int(sent[last]) + window
    if begin <= stall.begin or together[last] < COVERAGE * len(sent):
        return case
    if case.throttled(case.origin) >= TAKEN or any(r.saturated and r.metric != "cpu_busy" for r in stall.resources):
        return case
    if not _is_more(case, begin, until):
        return case
    return replace(case, stall=replace(stall, begin=begin, end=max(stall.end, until)))


def _narrowest(case: Case, weighed: bool = False) -> tuple[str, float, float | NDArray[np.float64]]:
    """Return the server that limits the origin, and how many visits per second the origin can answer then, on average
    and in each step. It is the origin or a server behind it that had a full CPU or a used-up quota in the stall.
    Requests that the origin holds back with a limit of its own still wait for that server. A quota takes no capacity
    when no job waits."""
    behind = [] if case.stall.has("cpu_busy") else sorted(case.view.downstream_of(case.origin))
    left = {server: 1.0 - case.throttled(server) for server in behind}
    full = [s for s in behind if at_work(case, s) or left[s] <= 1.0 - TAKEN]
    most = {s: case.stall.throughput_calm / used for s in full if (used := usual_use(case, s))}
    served = {server: left[server] * full_speed for server, full_speed in most.items()}
    served[case.origin] = capacity(case)
    limit = min(served, key=lambda s: served[s] / (mean_work(case, s) if weighed else 1.0))
    quota = case.view.series(limit, "cpu_throttled") if limit in most else ()
    in_each = most[limit] * (1.0 - in_steps(case, quota[0])) if quota else served[limit]
    return limit, served[limit], in_each


def _more_came(case: Case, limit: str, queued: tuple[Rise, ...]) -> bool:
    grew = _grew(case, queued)
    # A load that fills a CPU while its queue grows exceeds the capacity; it need not be half more than usual.
    least = 1.0 if at_work(case, limit) else MORE
    if grew is not None and _is_more(case, *grew, least):
        return True
    return any(_is_more(case, *when) for when in _when_it_came(case, queued))


def _is_more(case: Case, begin: int, end: int, least: float = MORE) -> bool:
    """Return whether clients wanted more than usual. A hedged request counts only once, because a stall causes it."""
    wanted, calm = case.view.wanted(case.origin), length(case.slow.calm)
    first, last = np.searchsorted(wanted, (begin, end)).tolist()
    expected = per_second(wanted, case.slow) * (end - begin) / SECOND
    return is_more(last - first, expected, (end - begin) / calm if calm else 0.0, least)


def _more_of_one(case: Case, queued: tuple[Rise, ...], demand: Demand) -> str | None:
    """Name an interaction of which more requests came than usual. Among all requests the excess may hardly show."""
    grew = _grew(case, queued)
    for begin, end in _when_it_came(case, queued) + ([grew] if grew else []):
        for name, came, usual in demand.more(begin, end):
            lasts, all_along = (end - begin) / SECOND, end == case.stall.end
            when = "" if all_along else f" {case.when(begin, end)}"
            return f"{rate(came / lasts)} of them were {name}{when} (usually {rate(usual / lasts)})"
    return None


def _when_it_came(case: Case, queued: tuple[Rise, ...]) -> list[tuple[int, int]]:
    """Return the intervals in which more may have come. These are the stall, and the window around its begin, because
    the queue of a batch rises at once. The window around the begin of the queue that explains the stall is another,
    because a batch may come through servers that do not wait for others."""
    stall, window = case.stall, case.view.window_ns
    rose = [rise for rise in queued if rise.begin <= stall.begin < rise.end]
    around = [(begin - window, begin + window) for begin in (stall.begin, *(rise.begin for rise in rose))]
    return [(stall.begin, stall.end), *around]


def _grew(case: Case, queued: tuple[Rise, ...]) -> tuple[int, int] | None:
    """Return when the queue of a wave grew. It is the queue that covers more of the stall than others."""
    begin, end = case.stall.begin, case.stall.end
    within = [rise for rise in queued if rise.begin < end and begin < rise.end]
    main = max(within, key=lambda rise: min(rise.end, end) - max(rise.begin, begin), default=None)
    return (main.begin, main.peak_at) if main is not None and main.peak_at - main.begin >= WAVE_NS else None
