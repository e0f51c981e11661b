"""More requests came than the system can serve: a burst, not a stall.

What it looks for
    The queue that a server at full speed would have had: it grows by what is asked of the origin and shrinks by what
    the origin, or a server behind it, can do (`capacity.queue_of`). Where that queue is long, a burst alone explains
    the stall; where it is empty while the real one is long, something held the origin up. If that is not so of
    requests, they are weighed by what they ask for (`demand`): of a heavy interaction few more fill a server.
Evidence needed
    Requests with the time they were sent; nothing else. CPU samples make it firmer. To weigh them: these, visits, and
    names of interactions.
What it is confused with
    Repeated packets that come back together after a stall: requests are counted once, when first sent.
    What lost packets that come back have filled already when a batch comes: most of the requests were sent with the
    batch, so the stall is looked at from then on.
    A stall: it fills the real queue, not that of a server at full speed. A slow clock (`frequency_step`): a burst that
    full speed would have served is not the cause. A load that is too high all the time: then more came than usual at
    no time.
Thresholds and where they come from
    More than usual (`queues.is_more`) in the step in which it began, over the stall, or while the queue of a wave grew,
    where it need only be no chance if it filled a CPU; what clients ask twice at once is one, what they ask again after
    they gave up is not. Long: `case.LONG`; from where it left its usual length, as a real queue is followed.
    Capacity by the utilisation law, X / U in calm time; without CPU samples the most that was answered over 0.2 s. If
    that explains nothing, what it answered with as many inside, its CPU full: threads may cost time themselves.
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
"""What comes for less long is seen around its begin."""


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
    """By when there would have been a long queue, and whether more came than usual; `which` says of what."""
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
    """Until the last loss, if all requests lost packets: who came is known by the nanosecond, and what a server behind
    this one did with them later had nobody refused."""
    stall = case.stall
    if stall.over is None or stall.over <= stall.begin:
        return case
    return replace(case, stall=replace(stall, end=min(stall.end, max(stall.over, stall.begin + 2 * STEP_NS))))


def _worked_off(case: Case, queued: Spans) -> Spans:
    """What lasts after the stall that it began in: a server with little to spare works long on what came at once."""
    stalls = union([case.stalls, spans([(case.stall.begin, case.stall.end)])])
    begin = np.minimum(queued[:, 0] + case.view.window_ns, queued[:, 1] - 1)
    rows = contains(stalls, begin)
    ends = stalls[np.searchsorted(stalls[:, 0], begin[rows], "right") - 1, 1]
    return spans(np.column_stack((ends, queued[rows, 1])))


def _since_it_came(case: Case) -> Case:
    """The stall from when on more came than usual, if most of the requests were sent in that window: others, that were
    lost before and came back, may have been there already. Not of a server that something else held up by then."""
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
    """Who had a full CPU or a used up quota in the stall, the origin or else servers behind it, and how many visits per
    second the origin can answer then, on average and in each step: what it holds back with a limit of its own waits for
    them all the same. A quota takes nothing when no job waits."""
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
    # What fills a CPU while its queue grows is more than it can do, and need not be half more than usual.
    least = 1.0 if at_work(case, limit) else MORE
    if grew is not None and _is_more(case, *grew, least):
        return True
    return any(_is_more(case, *when) for when in _when_it_came(case, queued))


def _is_more(case: Case, begin: int, end: int, least: float = MORE) -> bool:
    """Than usual, of what clients wanted: what they ask twice at once is what a stall makes them do."""
    wanted, calm = case.view.wanted(case.origin), length(case.slow.calm)
    first, last = np.searchsorted(wanted, (begin, end)).tolist()
    expected = per_second(wanted, case.slow) * (end - begin) / SECOND
    return is_more(last - first, expected, (end - begin) / calm if calm else 0.0, least)


def _more_of_one(case: Case, queued: tuple[Rise, ...], demand: Demand) -> str | None:
    """Of an interaction more may come than usual that hardly counts among all."""
    grew = _grew(case, queued)
    for begin, end in _when_it_came(case, queued) + ([grew] if grew else []):
        for name, came, usual in demand.more(begin, end):
            lasts, all_along = (end - begin) / SECOND, end == case.stall.end
            when = "" if all_along else f" {case.when(begin, end)}"
            return f"{rate(came / lasts)} of them were {name}{when} (usually {rate(usual / lasts)})"
    return None


def _when_it_came(case: Case, queued: tuple[Rise, ...]) -> list[tuple[int, int]]:
    """Over the stall, or in the window around its begin, for the queue of a batch rises at once; or when the queue that
    explains it began, for a batch may come through servers that wait for nobody."""
    stall, window = case.stall, case.view.window_ns
    rose = [rise for rise in queued if rise.begin <= stall.begin < rise.end]
    around = [(begin - window, begin + window) for begin in (stall.begin, *(rise.begin for rise in rose))]
    return [(stall.begin, stall.end), *around]


def _grew(case: Case, queued: tuple[Rise, ...]) -> tuple[int, int] | None:
    """When the queue of a wave grew: the one that covers more of the stall than others."""
    begin, end = case.stall.begin, case.stall.end
    within = [rise for rise in queued if rise.begin < end and begin < rise.end]
    main = max(within, key=lambda rise: min(rise.end, end) - max(rise.begin, begin), default=None)
    return (main.begin, main.peak_at) if main is not None and main.peak_at - main.begin >= WAVE_NS else None
