"""Step 4 finds the millibottleneck, the short time in which a resource of the origin could not serve its requests.

Visits alone show *when*. The origin's own queue grows while its throughput collapses (something took the resource
away), or while its throughput stays as high as ever (more requests came than it can serve). Samples show *which
resource*. The recovery is not part of the stall: a server that works off its backlog saturates its CPU too, but after
the stall and because of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis import settle
from tailrace.diagnosis.finding import Finding, Number, Verdict
from tailrace.diagnosis.overflow import Overflow
from tailrace.diagnosis.queues import Rise, Times, every
from tailrace.diagnosis.series import AT_WORK, TAKEN, Series
from tailrace.diagnosis.service import held_by_calls, holds_nobody, waits_for_connections
from tailrace.diagnosis.spans import Spans, spans
from tailrace.diagnosis.view import View
from tailrace.diagnosis.vlrt import Cluster, Slow
from tailrace.diagnosis.waiting import ANSWERS_PER_STEP, COLLAPSED, STEP_NS, Usual, per_second, since_it_waits
from tailrace.diagnosis.words import clock, duration, listing, rate, share
from tailrace.units import MILLISECOND, SECOND

RECOVERED = 0.9
"""A collapse lasts until throughput is back at 90 % of the usual. With a limit of 70 %, a server that works at 70 %
would enter and leave the stall by chance."""
STARVED = 0.8
"""CPU is withheld up to this share of the usual use. A server with a queue uses more than usual unless it cannot."""
HELD_UP = 3
"""A server at two thirds of its CPU works off a backlog in twice the time in which the backlog built up:
use / (1 - use). If it works for longer without answers, this work is the stall itself."""
FROZEN = 0.05
"""A server that uses at most this share of its usual CPU uses none: the rest is measurement error."""
RESOURCES = ("cpu_busy", "cpu_iowait", "cpu_steal", "cpu_throttled", "disk_busy")
"""These metrics show which resource a server lacked."""
WITHHELD = ("cpu_steal", "cpu_throttled", "cpu_iowait", "psi_io")
"""These metrics show what a server waited for, if it did not work although CPU was free."""

Kind = Literal["collapse", "overload"]


@dataclass(frozen=True)
class Resource:
    """This shows a resource of the origin in the stall, compared with calm time."""

    metric: str
    place: str
    inside: float
    calm: float
    saturated: bool
    why: str


@dataclass(frozen=True)
class Stall:
    """A stall is the interval in which the origin did not keep up. `begin` is the moment when its own queue rose."""

    origin: str
    begin: int
    end: int
    kind: Kind
    rise: Rise
    throughput: float
    """The origin sent so many answers per second in the stall."""
    throughput_calm: float
    arrivals: float
    """The clients sent so many requests per second in the stall (each is counted once)."""
    arrivals_calm: float
    resources: tuple[Resource, ...]
    sampled: Literal["yes", "coarse", "no"]
    finding: Finding
    felt: int = 0
    """The stall first affected a request at this time: the first packet was lost, or the shortest very slow request had
    waited for half of its response time."""
    over: int | None = None
    """The last packet was lost at this time. It is known only if all very slow requests lost packets; otherwise it is
    None."""

    def has(self, metric: str) -> bool:
        return any(r.metric == metric and r.saturated for r in self.resources)

    @property
    def throughput_ratio(self) -> float:
        return self.throughput / self.throughput_calm if self.throughput_calm > 0 else 1.0


def find(view: View, slow: Slow, overflows: tuple[Overflow, ...], known: Usual) -> tuple[Stall | None, ...]:
    return tuple(_of_cluster(view, slow, overflow, known) for overflow in overflows)


def elsewhere(
    view: View, slow: Slow, overflows: tuple[Overflow, ...], stalls: tuple[Stall | None, ...], known: Usual
) -> tuple[Overflow, ...]:
    """Return the overflows. If no resource of an origin is saturated, the next origin with a saturated resource
    replaces it: where two queues rise slowly, chance decides which rises first. Limits on workers and connections count
    too."""
    return tuple(
        _yields_to(view, slow, overflow, known, stall) if stall is not None and _idled(stall) else overflow
        for overflow, stall in zip(overflows, stalls, strict=True)
    )


def _yields_to(view: View, slow: Slow, overflow: Overflow, known: Usual, idle: Stall) -> Overflow:
    limited = _uses_up_a_limit(view, idle)
    for other in overflow.others:
        stall = _of_cluster(view, slow, other, known)
        if stall is None:
            continue
        if any(r.saturated for r in stall.resources) or (not limited and _uses_up_a_limit(view, stall)):
            return other
    return overflow


def _uses_up_a_limit(view: View, stall: Stall) -> bool:
    """Return whether all its workers were in use for most of the time, or a request waited for a connection."""
    begin, end, known = stall.begin, stall.end, view.topology.server(stall.origin)
    if known is not None and known.workers:
        busy = (series.median(begin, end) or 0.0 for series in view.series(stall.origin, "workers_busy"))
        if any(used >= known.workers for used in busy):
            return True
    return waits_for_connections(view, stall.origin, begin, end)


def _idled(stall: Stall) -> bool:
    """Return whether the samples show no saturated resource, or the stall was over before it affected a request. Such a
    stall is too early for samples to show anything."""
    seen = stall.sampled == "yes" or (stall.kind == "collapse" and stall.end <= stall.felt)
    return seen and not any(r.saturated for r in stall.resources)


def nothing_found(view: View, cluster: Cluster) -> Finding:
    """Return the finding of this step if there is no origin to search."""
    sentence = "There is no origin in which to look for a saturated resource."
    if view.stays:
        return Finding("millibottleneck", "absent", sentence, None, cluster.begin, cluster.end)
    sentence = "Without visits to servers there is no origin in which to look for a saturated resource."
    return Finding("millibottleneck", "unknown", sentence, missing=settle.visits(None))


def _of_cluster(view: View, slow: Slow, overflow: Overflow, known: Usual) -> Stall | None:
    origin, rise = overflow.origin, overflow.rise
    if origin is None or rise is None:
        return None
    kind, end = _interval(view, origin, rise, per_second(view.stays[origin].departures, slow))
    if kind == "collapse" and not held_by_calls(view, origin, rise.begin, end):
        # A server behind it that stalled meanwhile may still hold it up when its own stall is over.
        end = since_it_waits(view, known, origin, rise.begin, end, view.window_ns) or end
        end = _until_at_work(view, origin, rise.begin, end)
    return replace(until(view, slow, origin, rise, kind, end), felt=overflow.felt, over=overflow.over)


def until(view: View, slow: Slow, origin: str, rise: Rise, kind: Kind, end: int) -> Stall:
    """Return the stall from the rise of the origin's queue to `end`."""
    usual = per_second(view.stays[origin].departures, slow)
    lasted = (end - rise.begin) / SECOND
    edges = np.array([rise.begin, end])
    throughput = float(view.stays[origin].departed(edges)[0]) / lasted
    arrivals = float(view.asked(origin).arrived(edges)[0]) / lasted
    held_up = throughput < COLLAPSED * usual
    resources, sampled = _resources(view, slow, origin, rise.begin, end, held_up)
    saturated = {r.metric for r in resources if r.saturated}
    without_cpu = saturated and saturated <= {"frozen", "cpu_withheld"}
    if without_cpu and any(free(view, origin, rise.begin, end) for free in (holds_nobody, held_by_calls)):
        # Nothing kept it from the CPU: the visits that hold its workers do not need any.
        kind, (resources, sampled) = "overload", _resources(view, slow, origin, rise.begin, end, held_up=False)
    stall = Stall(
        origin,
        rise.begin,
        end,
        kind,
        rise,
        throughput,
        usual,
        arrivals,
        per_second(view.asked(origin).arrivals, slow),
        resources,
        sampled,
        _NOT_YET,
    )
    return replace(stall, finding=_finding(view, stall))


_NOT_YET = Finding("millibottleneck", "unknown", "")


def _interval(view: View, origin: str, rise: Rise, usual: float) -> tuple[Kind, int]:
    """Return the kind and the end of a stall. If throughput collapsed, the stall lasts until throughput recovers.
    Otherwise it lasts until the system's queue stops growing and the origin's queue has shrunk to a half."""
    step = int(min(max(view.window_ns, ANSWERS_PER_STEP / max(usual, 1e-9) * SECOND), SECOND))
    edges = np.arange(rise.begin, max(rise.end, rise.begin + step) + step, step, dtype=np.int64)
    answers = view.stays[origin].departed(edges)
    share_of_usual = answers / max(usual * step / SECOND, 1e-9)
    last = _run_of(share_of_usual)
    if last is not None and (edges[last + 1] - rise.begin) * 2 >= min(rise.peak_at - rise.begin, SECOND):
        return "collapse", _edge(view, origin, int(edges[last]), step, usual)
    times: Times = every(rise.begin, rise.end + 1, STEP_NS)
    waiting = (view.asked(origin) if len(view.sent) else view.stays[origin]).queue(times)
    peak = int(times[int(np.argmax(waiting))]) if len(times) else rise.end
    return "overload", max(peak, _half_served(view, origin, rise), rise.begin + view.window_ns)


def _until_at_work(view: View, origin: str, begin: int, end: int) -> int:
    """Return the end of a collapse, or the moment when the origin is back at work. Requests that share a CPU are
    answered late. So a server that works off its backlog at full speed is no longer held up, though it gives no answers
    for a while (`HELD_UP`). A garbage collector works at full speed too, but it saturates the CPU during the whole
    stall, or from soon after the queue rose."""
    for series in view.cpu_of_way[origin]:
        inside = (series.end > begin) & (series.begin < end)
        idle = np.flatnonzero(inside & (series.value < AT_WORK * series.capacity))
        if len(idle) and series.interval_ns * 2 <= end - begin:
            at_work = min(int(series.end[int(idle[-1])]), end)
            if (at_work - begin) * HELD_UP >= end - begin:
                return max(at_work, begin + 2 * series.interval_ns)
    return end


def _half_served(view: View, origin: str, rise: Rise) -> int:
    """Return when half of the origin's own queue at its peak is served: a burst lasts longer than its arrivals."""
    times: Times = every(rise.peak_at, rise.end + 1, STEP_NS)
    served = np.flatnonzero(view.own_queue(origin, times) * 2 <= rise.peak)
    return int(times[int(served[0])]) if len(served) else rise.peak_at


def _run_of(share_of_usual: NDArray[np.float64]) -> int | None:
    """Return the index of the last step of the first slow run. The run begins in the first three steps (the first may
    hold answers from before the stall). It may pause for one step."""
    begin = next((i for i, part in enumerate(share_of_usual[:3].tolist()) if part < COLLAPSED), None)
    if begin is None:
        return None
    last = begin
    for i, part in enumerate(share_of_usual.tolist()):
        if i > last + 2:
            break
        if i > last and part < RECOVERED:
            last = i
    return last


def _edge(view: View, origin: str, last: int, step: int, usual: float) -> int:
    """Return the refined end of the last slow step: the moment in the following two steps when answers resume."""
    fine = max(step // 10, 5 * MILLISECOND)
    edges = np.arange(last, last + 2 * step + fine, fine, dtype=np.int64)
    answers = np.convolve(view.stays[origin].departed(edges), np.ones(3) / 3, mode="same")
    resumed = np.flatnonzero(answers >= RECOVERED * usual * fine / SECOND)
    later = resumed[resumed * fine >= step // 2]
    return int(edges[int(later[0])]) if len(later) else last + step


def _resources(
    view: View, slow: Slow, origin: str, begin: int, end: int, held_up: bool
) -> tuple[tuple[Resource, ...], Literal["yes", "coarse", "no"]]:
    found: list[Resource] = []
    coarse = False
    for metric in (
        "cpu_busy",
        "cpu_iowait",
        "cpu_steal",
        "cpu_throttled",
        "disk_busy",
        "psi_io",
        "psi_cpu",
        "psi_memory",
    ):
        for series in view.series(origin, metric):
            if not series.resolves(begin, end):
                coarse = True
                continue
            found.append(judge(series, slow.usual(series), begin, end, held_up))
    own = any(r.metric == "cpu_busy" for r in found)
    if not any(r.metric == "cpu_busy" and r.saturated for r in found):
        full = (series for series in view.shared_cpu(origin) if series.at_work(begin, end))
        found += [judge(series, series.calm(slow.calm), begin, end, held_up) for series in full]
    return tuple(found), "yes" if own or len(found) > 1 else "coarse" if coarse else "yes" if found else "no"


LIMITS: dict[str, float] = {
    "cpu_iowait": 0.5,
    "cpu_steal": TAKEN,
    "cpu_throttled": TAKEN,
    "disk_busy": 0.9,
    "psi_io": 0.5,
    "psi_cpu": 0.5,
    "psi_memory": 0.5,
}
"""A resource is saturated from these shares on. Waiting for I/O and pressure must last for most of the time (the
flushes in the papers read 100 %), a disk must be busy nearly always, and a tenth of the CPU time must be taken away.
Each value must also be three times the usual."""


def judge(series: Series, usual: float, begin: int, end: int, held_up: bool) -> Resource:
    metric = series.metric
    # The kernel renews a quota every 100 ms: with samples of 50 ms, every other sample shows nothing.
    inside = (series.mean(begin, end) if metric == "cpu_throttled" else series.median(begin, end)) or 0.0
    if metric != "cpu_busy":
        full = inside >= LIMITS[metric] and inside >= 3 * usual
        why = f"{_SAYS[metric]} {share(inside)} of the time (usually {share(usual)})"
        return Resource(metric, series.place, inside, usual, full, why)
    if inside >= AT_WORK * series.capacity:
        why = f"CPU saturated at {share(inside)} (usually {share(usual)})"
        return Resource(metric, series.place, inside, usual, True, why)
    # The median of two samples is their mean, but in one of them the server may still have run, or run again.
    values = series.during(begin, end)
    least = float(values.min()) if len(values) == 2 else inside
    if held_up and least <= FROZEN * usual:
        why = f"no CPU used ({share(least)}, usually {share(usual)}) while its queue was long"
        return Resource("frozen", series.place, inside, usual, True, why)
    if held_up and inside <= STARVED * usual:
        why = f"CPU withheld: {share(inside)} of a core used (usually {share(usual)}) while its queue was long"
        return Resource("cpu_withheld", series.place, inside, usual, True, why)
    return Resource(metric, series.place, inside, usual, False, f"CPU at {share(inside)} (usually {share(usual)})")


_SAYS = {
    "cpu_iowait": "waited for I/O",
    "cpu_steal": "CPU stolen by the hypervisor",
    "cpu_throttled": "CPU throttled by its quota",
    "disk_busy": "disk busy",
    "psi_io": "stalled on I/O",
    "psi_cpu": "waited for CPU",
    "psi_memory": "stalled on memory",
}


def _finding(view: View, stall: Stall) -> Finding:
    lasted = stall.end - stall.begin
    answers = f"{rate(stall.throughput)} answered against {rate(stall.throughput_calm)} usually"
    numbers: dict[str, Number] = {
        "length_ns": lasted,
        "kind": stall.kind,
        "throughput_per_s": stall.throughput,
        "throughput_calm_per_s": stall.throughput_calm,
        "arrivals_per_s": stall.arrivals,
        "arrivals_calm_per_s": stall.arrivals_calm,
        "own_queue_max": stall.rise.peak,
    }
    for r in stall.resources:
        kind = "mean" if r.metric == "cpu_throttled" else "median"
        numbers[f"{r.metric}_{kind}"], numbers[f"{r.metric}_calm_mean"] = r.inside, r.calm
    when = f"from {clock(view, stall.begin)} for {duration(lasted)}"
    held = [r.why for r in stall.resources if r.saturated]
    if held:
        sentence = f"{stall.origin} could not keep up {when} ({answers}): {listing(held)}."
        return Finding("millibottleneck", "found", sentence, stall.origin, stall.begin, stall.end, numbers)
    what = "its throughput collapsed" if stall.kind == "collapse" else "it received more requests than it answered"
    sentence = f"{stall.origin} could not keep up {when}: {what} ({answers})"
    where = view, stall.origin, stall.begin, stall.end
    if stall.sampled == "yes":
        seen = listing([r.why for r in stall.resources])
        sentence += f"; none of its sampled resources was saturated: {seen}."
        missing = settle.samples(*where, WITHHELD) if stall.kind == "collapse" else None
        verdict: Verdict = "unknown" if missing else "absent"
        return Finding("millibottleneck", verdict, sentence, stall.origin, stall.begin, stall.end, numbers, missing)
    missing = settle.samples(*where, RESOURCES)
    sentence += "; which resource it lacked is unknown" + (
        ", for its samples are too far apart." if stall.sampled == "coarse" else ", for there are no samples of it."
    )
    return Finding("millibottleneck", "unknown", sentence, stall.origin, stall.begin, stall.end, numbers, missing)


def intervals(stalls: tuple[Stall | None, ...], origin: str) -> Spans:
    """Return all stalls of one origin."""
    return spans([(s.begin, s.end) for s in stalls if s is not None and s.origin == origin])
