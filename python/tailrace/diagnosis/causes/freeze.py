"""The server stood still: it was stopped or suspended, or a lock or a frozen file system blocked all of it.

What it looks for
    The queue is full, the origin sends no answer and uses no CPU, and nothing else that was sampled explains it. Events
    of kind `freeze` are a sign, too.
Evidence needed
    The detector needs `cpu_busy` of the origin. `tasks_stopped` shows that the origin was stopped. Its own `psi_cpu` or
    `tasks_runnable` shows that it waited for no CPU. Samples of the other ways to lose the CPU (`cpu_throttled`,
    `cpu_steal`, I/O) make the evidence firmer.
What it is confused with
    All workers of a server can wait, for example for a lock. Such a server uses no CPU and sends no answers either.
    Only the states of its threads (`tasks_stopped`, `tasks_runnable`, `tasks_blocked`) distinguish the two.
    Slow statements can hold all workers or connections. A request that is served then takes as long as usual
    (`service`).
    A neighbour or a quota leaves *some* CPU and some answers. Work of higher priority on all CPUs that the origin may
    use leaves none. The origin's own `psi_cpu` shows this. Without `psi_cpu` there are two signs: the host's CPUs are
    full, or another place fills the CPUs to which the origin is pinned. In both cases they are usually not full.
    Waiting for I/O shows in `psi_io` or iowait. Idle time without load has an empty queue.
Thresholds and where they come from
    CPU use is under 5 % of the usual, and meanwhile answers are under 10 %. The edges of sampling intervals leave this
    much when the real value is zero.
    The freeze lasts while no request is answered, because those edges hide when it began and when it was over.
"""

from __future__ import annotations

import numpy as np

from tailrace.diagnosis.causes.case import Case, Sign
from tailrace.diagnosis.finding import CauseEvidence
from tailrace.diagnosis.millibottleneck import FROZEN, LIMITS
from tailrace.diagnosis.series import AT_WORK, Series
from tailrace.diagnosis.spans import Spans, clip, length, spans, union
from tailrace.diagnosis.words import rate, share
from tailrace.units import MILLISECOND, SECOND

CAUSE = "freeze"
EXPLAINED_BY = ("cpu_iowait", "cpu_steal", "cpu_throttled", "disk_busy", "psi_io", "psi_memory")


def detect(case: Case) -> CauseEvidence:
    stall = case.stall
    told = [t for place, t in case.view.events_of("freeze") if case.view.means(place, case.origin)]
    if told:
        return case.weigh(CAUSE, Sign(union(told), MILLISECOND, f"A freeze of {case.origin} is recorded"))
    own = case.view.series(case.origin, "cpu_busy")
    if not own:
        return case.unknown(CAUSE, f"cpu_busy of {case.origin}")
    series = own[0]
    inside, usual = case.inside(series), case.usual(series)
    what = (
        f"{case.origin} used {share(inside)} of a core (usually {share(usual)}) and answered {rate(stall.throughput)}"
    )
    # A server that waits for something else also uses no CPU for a while, but it answers.
    without_cpu = series.below(FROZEN * usual).tolist()
    silent = spans([part for part in without_cpu if _answered(case, spans([part])) <= FROZEN * 2])
    but = None
    if case.tasks is not None and case.tasks.were_stopped:
        what += f"; {share(case.tasks.stopped)} of the time its threads were stopped"
    if not stall.has("frozen"):
        but = "it did run"
    elif not length(clip(silent, stall.begin, stall.end)):
        but = "it did answer"
    elif case.tasks is not None and case.tasks.slept:
        but = "its threads were not stopped: they slept, and waited for something"
    else:
        but = _explained(case)
    evidence = case.while_queued(_while_nobody_left(case, silent, series.interval_ns)) if but is None else spans([])
    numbers = {"cpu_busy": inside, "cpu_busy_calm": usual, "throughput_per_s": stall.throughput}
    return case.weigh(CAUSE, Sign(evidence, series.interval_ns, what, numbers=numbers, place=series.place, but=but))


def _while_nobody_left(case: Case, silent: Spans, interval: int) -> Spans:
    """Extend each span to the last answer before it and the first answer after it, by at most one sampling interval.
    Samples at the edges contain what the server used while it still ran, or when it ran again."""
    left = case.view.stays[case.origin].departures
    last = np.append(-interval, left)[np.searchsorted(left, silent[:, 0], "right")]
    first = np.append(left, np.iinfo(np.int64).max)[np.searchsorted(left, silent[:, 1])]
    begins, ends = np.maximum(last, silent[:, 0] - interval), np.minimum(first, silent[:, 1] + interval)
    return spans(np.column_stack((begins, ends)))


def _explained(case: Case) -> str | None:
    """Return what else kept the origin from running."""
    for resource in case.stall.resources:
        if resource.saturated and resource.metric in EXPLAINED_BY:
            return f"{resource.why[0].lower()}{resource.why[1:]}"
    waited = case.waited_for_cpu
    if waited is not None:
        return f"it waited for a CPU {share(waited)} of the time" if waited >= LIMITS["psi_cpu"] else None
    for series, cpus, said in _around(case):
        used, usual = case.inside(series), case.usual(series)
        if usual < AT_WORK * cpus <= used:
            return f"{said} ({share(used)}, usually {share(usual)}): it may have waited for one"
    return None


def _around(case: Case) -> list[tuple[Series, int, str]]:
    """Return the places that may have had all CPUs that the origin may use. Each row has the series, the number of
    those CPUs and the words for it."""
    host, own = case.view.of_host(case.origin, "cpu_busy"), case.cpus_of(case.origin)
    whole = [(host, 1, f"all CPUs of {host.place} were in use")] if host is not None else []
    pinned = [
        (series, len(own), f"{case.called(place)} used all CPUs that {case.origin} may use")
        for (place, metric), series in case.view.samples.items()
        if metric == "cpu_busy" and (cpus := case.cpus_of(place)) and cpus <= own
    ]
    return whole + pinned


def _answered(case: Case, without_cpu: Spans) -> float:
    """Return the throughput in the part of the stall in which the origin used no CPU, divided by the usual one."""
    inside = clip(without_cpu, case.stall.begin, case.stall.end)
    departures = case.view.stays[case.origin].departures
    answered = int((departures.searchsorted(inside[:, 1]) - departures.searchsorted(inside[:, 0])).sum())
    usual = case.stall.throughput_calm * length(inside) / SECOND
    return answered / usual if usual > 0 else 0.0
