"""The server stood still: stopped, suspended, or all of it blocked on a lock or a frozen file system.

What it looks for
    A full queue, no answer, and no CPU used, while nothing else that was sampled explains it. Or events of kind
    `freeze`.
Evidence needed
    `cpu_busy` of the origin. `tasks_stopped` tells that it was stopped, and its own `psi_cpu` or `tasks_runnable` that
    it waited for no CPU. The other ways to lose the CPU
    (`cpu_throttled`, `cpu_steal`, I/O) make it firmer where they were sampled.
What it is confused with
    A server whose workers all wait, for a lock say: it uses no CPU and answers nothing either. Only the states of its
    threads (`tasks_stopped`, `tasks_runnable`, `tasks_blocked`) tell them apart.
    Slow statements that hold all workers or connections: who is served then takes as long as usual (`service`).
    A neighbour or a quota: both leave *some* CPU and some answers. Work of higher priority on all CPUs that it may use
    leaves none: its own `psi_cpu` tells; without, the host's are full, or somebody fills those it is pinned to, and
    usually not. Waiting for I/O: `psi_io` or iowait tells. Idle time without load: the queue is empty.
Thresholds and where they come from
    CPU under 5 % of the usual, and meanwhile answers under 10 %: what the edges of sampling intervals leave of none.
    It lasts while nobody is answered, for those edges hide when it began, and when it was over.
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
    # Who waits for something else uses no CPU for a while, too, and answers.
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
    """From the last answer before to the first after, for a sampling interval at most: samples at the edges hold what
    the server used when it still ran, or ran again."""
    left = case.view.stays[case.origin].departures
    last = np.append(-interval, left)[np.searchsorted(left, silent[:, 0], "right")]
    first = np.append(left, np.iinfo(np.int64).max)[np.searchsorted(left, silent[:, 1])]
    begins, ends = np.maximum(last, silent[:, 0] - interval), np.minimum(first, silent[:, 1] + interval)
    return spans(np.column_stack((begins, ends)))


def _explained(case: Case) -> str | None:
    """What else kept it from running."""
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
    """Who may have had all CPUs that the origin may use: with how many they are, and the words for it."""
    host, own = case.view.of_host(case.origin, "cpu_busy"), case.cpus_of(case.origin)
    whole = [(host, 1, f"all CPUs of {host.place} were in use")] if host is not None else []
    pinned = [
        (series, len(own), f"{case.called(place)} used all CPUs that {case.origin} may use")
        for (place, metric), series in case.view.samples.items()
        if metric == "cpu_busy" and (cpus := case.cpus_of(place)) and cpus <= own
    ]
    return whole + pinned


def _answered(case: Case, without_cpu: Spans) -> float:
    """Throughput in the part of the stall in which it used no CPU, over the usual."""
    inside = clip(without_cpu, case.stall.begin, case.stall.end)
    departures = case.view.stays[case.origin].departures
    answered = int((departures.searchsorted(inside[:, 1]) - departures.searchsorted(inside[:, 0])).sum())
    usual = case.stall.throughput_calm * length(inside) / SECOND
    return answered / usual if usual > 0 else 0.0
