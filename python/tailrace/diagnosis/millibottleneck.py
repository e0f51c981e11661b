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

from tailrace.diagnosis import sampling, settle
from tailrace.diagnosis.constants import ALIKE, FINE_NS, MANY, NEARLY
from tailrace.diagnosis.finding import Finding, Number, Verdict
from tailrace.diagnosis.overflow import Overflow
from tailrace.diagnosis.queues import Rise, Times, every
from tailrace.diagnosis.series import AT_WORK, LIMITS, Series
from tailrace.diagnosis.view import View
from tailrace.diagnosis.vlrt import Slow
from tailrace.diagnosis.waiting import COLLAPSED, per_second
from tailrace.diagnosis.words import clock, duration, listing, rate, share
from tailrace.units import SECOND

RESOURCES = ("cpu_busy", "cpu_iowait", "cpu_steal", "cpu_throttled", "disk_busy")
"""These metrics show which resource a server lacked."""
WITHHELD = ("cpu_steal", "cpu_throttled", "cpu_iowait", "psi_io")
"""These metrics show what a server waited for, if it did not work although CPU was free."""

Kind = Literal["collapse", "overload"]


@dataclass(frozen=True)
class Resource:
    """This shows a resource of the origin in the stall, compared with calm time. `calm` is None where the stall lasts
    for most of the recording, because the rest does not show what is usual."""

    metric: str
    inside: float
    calm: float | None
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
    lasting: bool
    """It lasts for most of the recording."""
    finding: Finding

    def has(self, metric: str) -> bool:
        return any(r.metric == metric and r.saturated for r in self.resources)

    @property
    def cpu(self) -> float | None:
        """Return how many cores the server, or its node, used; None: no sample shows it."""
        return max(
            (r.inside for r in self.resources if r.metric in ("cpu_busy", "frozen", "cpu_withheld")), default=None
        )


def nothing_found(view: View, begin: int, end: int) -> Finding:
    """Return the finding of this step if there is no origin to search."""
    sentence = "There is no origin in which to look for a saturated resource."
    if view.stays:
        return Finding("millibottleneck", "absent", sentence, None, begin, end)
    sentence = "Without visits to servers there is no origin in which to look for a saturated resource."
    return Finding("millibottleneck", "unknown", sentence, missing=settle.visits(None))


def find(view: View, slow: Slow, overflow: Overflow) -> Stall | None:
    """Return the stall of the origin of an overflow, or None if there is no origin."""
    origin, rise = overflow.origin, overflow.rise
    if origin is None or rise is None:
        return None
    usual = per_second(view.stays[origin].departures, slow)
    kind, end = _interval(view, origin, rise, usual, overflow.lasting)
    lasted = (end - rise.begin) / SECOND
    edges = np.array([rise.begin, end])
    throughput = float(view.stays[origin].departed(edges)[0]) / lasted
    arrivals = float(view.asked(origin).arrived(edges)[0]) / lasted
    compared, held_up = None if overflow.lasting else slow, throughput < COLLAPSED * usual
    resources, sampled = _resources(view, compared, origin, rise.begin, end, held_up)
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
        overflow.lasting,
        _NOT_YET,
    )
    return replace(stall, finding=_finding(view, stall))


_NOT_YET = Finding("millibottleneck", "unknown", "")


def _interval(view: View, origin: str, rise: Rise, usual: float, lasting: bool) -> tuple[Kind, int]:
    """Return the kind and the end of a stall. One that is `lasting` ends with the rise. If throughput collapsed, the
    stall lasts until throughput recovers. Otherwise it lasts until the system's queue stops growing and the origin's
    queue has shrunk to a half."""
    if lasting:
        return "overload", rise.end
    step = int(min(max(view.window_ns, MANY / max(usual, 1e-9) * SECOND), SECOND))
    edges = np.arange(rise.begin, max(rise.end, rise.begin + step) + step, step, dtype=np.int64)
    answers = view.stays[origin].departed(edges)
    share_of_usual = answers / max(usual * step / SECOND, 1e-9)
    last = _run_of(share_of_usual)
    if last is not None and (edges[last + 1] - rise.begin) * 2 >= min(rise.peak_at - rise.begin, SECOND):
        return "collapse", _edge(view, origin, int(edges[last]), step, usual)
    times: Times = every(rise.begin, rise.end + 1, FINE_NS)
    waiting = (view.asked(origin) if len(view.sent) else view.stays[origin]).queue(times)
    peak = int(times[int(np.argmax(waiting))]) if len(times) else rise.end
    return "overload", max(peak, _half_served(view, origin, rise), rise.begin + view.window_ns)


def _half_served(view: View, origin: str, rise: Rise) -> int:
    """Return when half of the origin's own queue at its peak is served: a burst lasts longer than its arrivals."""
    times: Times = every(rise.peak_at, rise.end + 1, FINE_NS)
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
        # With the limit of a collapse, a server that works just there would enter and leave the stall by chance.
        if i > last and part < NEARLY:
            last = i
    return last


def _edge(view: View, origin: str, last: int, step: int, usual: float) -> int:
    """Return the refined end of the last slow step: the moment in the following two steps when answers resume."""
    fine = max(step // 10, FINE_NS)
    edges = np.arange(last, last + 2 * step + fine, fine, dtype=np.int64)
    answers = np.convolve(view.stays[origin].departed(edges), np.ones(3) / 3, mode="same")
    resumed = np.flatnonzero(answers >= NEARLY * usual * fine / SECOND)
    later = resumed[resumed * fine >= step // 2]
    return int(edges[int(later[0])]) if len(later) else last + step


def _resources(
    view: View, slow: Slow | None, origin: str, begin: int, end: int, held_up: bool
) -> tuple[tuple[Resource, ...], Literal["yes", "coarse", "no"]]:
    found: list[Resource] = []
    coarse = False
    for metric in ("cpu_busy", *LIMITS):
        for series in view.series(origin, metric):
            if not series.resolves(begin, end):
                coarse = True
                continue
            found.append(judge(series, slow.usual(series) if slow else None, begin, end, held_up))
    own = any(r.metric == "cpu_busy" for r in found)
    if not any(r.metric == "cpu_busy" and r.saturated for r in found):
        full = (series for series in view.shared_cpu(origin) if series.at_work(begin, end))
        found += [judge(series, series.calm(slow.calm) if slow else None, begin, end, held_up) for series in full]
    return tuple(found), "yes" if own or len(found) > 1 else "coarse" if coarse else "yes" if found else "no"


def judge(series: Series, usual: float | None, begin: int, end: int, held_up: bool) -> Resource:
    metric = series.metric
    usually = "" if usual is None else f" (usually {share(usual)})"
    # The kernel renews a quota every 100 ms: with samples of 50 ms, every other sample shows nothing.
    inside = (series.mean(begin, end) if metric == "cpu_throttled" else series.median(begin, end)) or 0.0
    if metric != "cpu_busy":
        full = inside >= LIMITS[metric] and inside >= 3 * (usual or 0.0)
        why = f"{_SAYS[metric]} {share(inside)} of the time{usually}"
        return Resource(metric, inside, usual, full, why)
    if inside >= AT_WORK * series.capacity:
        return Resource(metric, inside, usual, True, f"CPU saturated at {share(inside)}{usually}")
    if usual is not None and held_up:
        # The median of two samples is their mean, but in one of them the server may still have run, or run again.
        values = series.during(begin, end)
        least = float(values.min()) if len(values) == 2 else inside
        if least <= ALIKE * usual:
            why = f"no CPU used ({share(least)}, usually {share(usual)}) while its queue was long"
            return Resource("frozen", inside, usual, True, why)
        if inside <= COLLAPSED * usual:
            why = f"little CPU used: {share(inside)} of a core used{usually} while its queue was long"
            return Resource("cpu_withheld", inside, usual, True, why)
    return Resource(metric, inside, usual, False, f"CPU at {share(inside)}{usually}")


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
    answers = f"{rate(stall.throughput)} answered"
    if not stall.lasting:
        answers += f" against {rate(stall.throughput_calm)} usually"
    numbers: dict[str, Number] = {
        "length_ns": lasted,
        "kind": stall.kind,
        "throughput_per_s": stall.throughput,
        "throughput_calm_per_s": stall.throughput_calm,
        "arrivals_per_s": stall.arrivals,
        "arrivals_calm_per_s": stall.arrivals_calm,
        "own_queue_max": sampling.estimate(view, stall.origin, stall.rise.peak),
    }
    for r in stall.resources:
        kind = "mean" if r.metric == "cpu_throttled" else "median"
        numbers[f"{r.metric}_{kind}"], numbers[f"{r.metric}_calm_mean"] = r.inside, r.calm
    when = f"from {clock(view, stall.begin)} for {duration(lasted)}"
    held = list({r.metric: r.why for r in stall.resources if r.saturated}.values())
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
