"""This module explains overloads that last. No queue rises first, because all queues are long all the time, and there
is no calm time to compare with. So the module uses arithmetic. It looks for a tier in which some server was always full
and slowed down. If the tier had spare capacity at full speed, the slowdown overloaded it (utilisation law:
utilisation = work / capacity).

    frequency-step   The server was full at a clock rate below its highest (`cpu_hz`, `cpu_busy`).
    cpu-quota        The quota held the server back (`cpu_throttled`, `cpu_busy`).

The servers of a tier are judged together. If a balancer sends all requests first to one server and then to another,
each server is full in turn. If requests are very slow for less than `LASTS_NS`, the beginning is in sight, and
`overflow` explains them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from tailrace.diagnosis import millibottleneck
from tailrace.diagnosis.causes import UNKNOWN, Cause, cpu_quota, frequency_step
from tailrace.diagnosis.causes.capacity import clock_rate, full_rate, in_cycles
from tailrace.diagnosis.drops import Drops
from tailrace.diagnosis.evidence import coverage
from tailrace.diagnosis.finding import CauseEvidence, Ctqo, Finding
from tailrace.diagnosis.millibottleneck import Stall
from tailrace.diagnosis.overflow import Overflow, judge
from tailrace.diagnosis.queues import Rise, Times, every
from tailrace.diagnosis.series import AT_WORK, TAKEN, Series
from tailrace.diagnosis.spans import Spans, contains, spans, union, where
from tailrace.diagnosis.view import View
from tailrace.diagnosis.vlrt import Cluster, Slow
from tailrace.diagnosis.waiting import STEP_NS
from tailrace.diagnosis.words import clock, duration, listing, share
from tailrace.units import SECOND

LASTS_NS = 2 * SECOND
"""This is longer than any millibottleneck, which takes tens to hundreds of milliseconds (`lightning` 1)."""
MOSTLY = 0.5
"""During this fraction of the time, some server of the tier must be slowed down. The mean utilisation of its servers
must also reach this fraction. A balancer makes only one server work at a time, while the others are idle."""


@dataclass(frozen=True)
class _Slowed:
    """This is a server that something slows down now and then."""

    server: str
    when: Spans
    used: float
    """At full speed, its work during the overload would have used this many cores."""
    capacity: float
    """The server has this many cores."""
    at_work: float
    """This is the fraction of the time in which it worked or was held back."""


Explained = tuple[Overflow, Stall | None, Cause]
Look = Callable[[View, str, Cluster], _Slowed | None]


def explain(view: View, slow: Slow, cluster: Cluster, lost: Drops, known: Explained) -> Explained:
    """Return what was found before, or why the requests of this cluster were slow for so long."""
    before, _, cause = known
    if cause.name != UNKNOWN or cluster.end - cluster.begin < LASTS_NS or slow.is_by_itself(cluster):
        return known
    tiers = _tiers(view)
    found = [
        told
        for name, look in _LOOKS.items()
        for tier in tiers
        if (told := _of_tier(view, cluster, name, [s for server in tier if (s := look(view, server, cluster))]))
        and not any(_is_full(view, other, cluster) for other in tiers if other != tier)
    ]
    if not found:
        return known
    origin, evidence = max(found, key=lambda told: told[1].coverage or 0.0)
    begin, end = cluster.begin, cluster.end
    times: Times = every(begin, end + 1, STEP_NS)
    queue = view.own_queue(origin, times)
    rise = Rise(begin, end, int(queue.max()), int(times[int(np.argmax(queue))]))
    sentence = f"{origin} was overloaded for {duration(end - begin)}, which is longer than a millibottleneck."
    stall = millibottleneck.until(view, slow, origin, rise, "overload", end)
    stall = replace(stall, finding=replace(stall.finding, verdict="absent", sentence=sentence, missing=None))
    finding = Finding("cause", "found", evidence.sentence, origin, begin, end, evidence.numbers)
    return (
        _overflow(view, before, origin, rise, judge(view, lost.dropper, origin, times)),
        stall,
        Cause(evidence.cause, (evidence, *cause.evidence), finding),
    )


def _tiers(view: View) -> list[tuple[str, ...]]:
    """Return groups of servers that have the same callers: the same servers, or clients."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for server in view.servers:
        alike.setdefault(view.callers_of(server), []).append(server)
    return [tuple(servers) for servers in alike.values()]


def _is_full(view: View, tier: tuple[str, ...], cluster: Cluster) -> bool:
    """Return whether the requests need all that the tier can do at full speed. Then the others wait for this tier."""
    slowed = [one for server in tier if (one := _by_clock(view, server, cluster))]
    return bool(slowed) and _use(slowed) * _asked(view, cluster.begin, cluster.end) >= AT_WORK


def _use(slowed: list[_Slowed]) -> float:
    return sum(one.used for one in slowed) / sum(one.capacity for one in slowed)


def _of_tier(view: View, cluster: Cluster, cause: str, slowed: list[_Slowed]) -> tuple[str, CauseEvidence] | None:
    if not slowed:
        return None
    begin, end = cluster.begin, cluster.end
    covers = coverage(union([one.when for one in slowed]), begin, end)
    at_work = sum(one.at_work for one in slowed) / len(slowed)
    if min(covers, at_work) < MOSTLY or (use := _use(slowed) * _asked(view, begin, end)) >= AT_WORK:
        return None
    most = max(slowed, key=lambda one: coverage(one.when, begin, end))
    names = listing([one.server for one in slowed])
    when = f"for {share(covers)} of {duration(end - begin)} from {clock(view, begin)} on"
    found = _SAYS[cause].format(names=names, when=when)
    sentence = f"{found}; without that, its load is {share(use)} of what it can serve."
    numbers = {"use_at_full_speed": use, "slowed": covers}
    told = CauseEvidence(cause, most.server, "found", sentence, coverage=covers, begin=begin, end=end, numbers=numbers)
    return most.server, told


def _asked(view: View, begin: int, end: int) -> float:
    """Return how many requests clients would send for each answered request, at least 1. A client that is refused, or
    that waits for an answer before its next request, sends less load than it would otherwise. (N clients with a think
    time of Z send N / Z.)"""
    first, last = np.searchsorted(view.sent, (begin, end)).tolist()
    inside = view.requests[first:last]
    answered = max(int(view.requests["end"].is_between(begin, end).sum()), 1)
    pause = (pl.col("sent") - pl.col("end").shift(1)).over("client")
    thought = inside.filter(pl.col("client").is_not_null()).select(pause.alias("ns"), "client").drop_nulls()
    closed = 0.0
    if len(thought) and (think := float(thought["ns"].clip(0).cast(pl.Float64).sum()) / len(thought)) > 0:
        closed = thought["client"].n_unique() * (end - begin) / think
    return max(len(inside), closed, answered) / answered


def _by_clock(view: View, server: str, cluster: Cluster) -> _Slowed | None:
    """Judge the server by its clock rate. If no clock rate is known, treat it as a server at full speed."""
    begin, end = cluster.begin, cluster.end
    busy, hz = _busy(view, server), clock_rate(view, server, begin, end)
    if busy is None or not busy.resolves(begin, end):
        return None
    slow = spans([])
    if hz is not None:
        full = contains(busy.above(AT_WORK * busy.capacity), (hz.begin + hz.end) // 2)
        slow = where(hz.begin, hz.end, full & (hz.value < frequency_step.SLOW * full_rate(view, server, hz)))
    used = in_cycles(view, server, busy, begin, end).mean(begin, end) or 0.0
    return _Slowed(server, slow, used, busy.capacity, (busy.mean(begin, end) or 0.0) / busy.capacity)


def _by_quota(view: View, server: str, cluster: Cluster) -> _Slowed | None:
    busy, taken = _busy(view, server), view.series(server, "cpu_throttled")
    if busy is None or not taken:
        return None
    worked = busy.mean(cluster.begin, cluster.end) or 0.0
    held = taken[0].mean(cluster.begin, cluster.end) or 0.0
    return _Slowed(server, taken[0].above(TAKEN), worked, busy.capacity, worked / busy.capacity + held)


def _busy(view: View, server: str) -> Series | None:
    return next(iter(view.shared_cpu(server) or view.series(server, "cpu_busy")), None)


_LOOKS: dict[str, Look] = {frequency_step.CAUSE: _by_clock, cpu_quota.CAUSE: _by_quota}
_SAYS = {
    frequency_step.CAUSE: "The CPU of {names} was full at a clock rate below its highest {when}",
    cpu_quota.CAUSE: "The CPU quota held {names} back {when}",
}


def _overflow(view: View, before: Overflow, origin: str, rise: Rise, ctqo: Ctqo) -> Overflow:
    begin, end = rise.begin, rise.end
    sentence = f"Queues were long from {clock(view, begin)} for {duration(end - begin)}: none rose first."
    numbers = {**before.finding.numbers, "lasting_overload": True}
    finding = Finding("overflow", "found", sentence, origin, begin, end, numbers)
    return replace(before, origin=origin, rise=rise, ctqo=ctqo, finding=finding, look=tuple)
