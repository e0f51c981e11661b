"""A pool or a number of threads was the limit, and no hardware was.

What it looks for
    Requests wait inside the origin while a limit of its own is fully used. The limit is a pool (`pool_waiting`, or
    `pool_in_use` at its size) or its workers (`workers_busy`). In visits alone, its calls to a server behind it are
    held at one number while that server answers as fast as usual.
Evidence needed
    It needs pool or worker samples, or visits to the server behind. It needs `cpu_busy` of the origin, to say that no
    hardware was saturated. It needs the interactions of visits, to know slow statements.
What it is confused with
    A server behind may be slow or saturated: workers and pool are all in use as well, but because the answers are slow.
    If it is slow because all its own workers are in use, it is a limit itself, on the same requests. If it takes as
    long as usual for the requests that it receives (slow statements), it is not slow.
    The CPU may be saturated, perhaps by all servers of its node together: then more threads would only wait for it.
Thresholds and where they come from
    The server behind is slow if it takes half longer than usual. The mean of 20 stays, the smallest useful number, is
    off by 22 % by chance (they are about exponential, and 1 / sqrt(20) = 0.22). So half is beyond two standard
    deviations.
    Calls are held at one number as in `queues.plateau`: 3 % and one below it at most.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tailrace.diagnosis.causes.capacity import at_work
from tailrace.diagnosis.causes.case import COVERAGE, Case, Sign
from tailrace.diagnosis.evidence import coverage
from tailrace.diagnosis.finding import CauseEvidence
from tailrace.diagnosis.millibottleneck import LIMITS
from tailrace.diagnosis.queues import Stays, held_from
from tailrace.diagnosis.service import as_usual
from tailrace.diagnosis.spans import Spans, where
from tailrace.diagnosis.waiting import per_second
from tailrace.diagnosis.words import clock, duration, listing
from tailrace.units import SECOND

CAUSE = "soft-resource"
SLOWER = 1.5
LIMITED = ("pool_waiting", "pool_in_use", "workers_busy")


def detect(case: Case) -> CauseEvidence:
    saturated = {r.metric for r in case.stall.resources if r.saturated}
    if saturated - {"frozen"}:
        return case.nothing(CAUSE, f"A hardware resource of {case.origin} was saturated.")
    if saturated or case.stall.kind == "collapse":
        # A limit alone does not make a server answer less, but slow requests that hold all its workers can.
        if not any(case.view.series(case.origin, metric) for metric in LIMITED):
            return case.unknown(CAUSE, None, f"whether all workers or connections of {case.origin} were held")
        return case.nothing(CAUSE, f"{case.origin} answered less than usual, which a limit on concurrency does not do.")
    slow = _slow_behind(case, case.origin) or _shared_cpu(case)
    found = _sampled(case, slow) + _held(case, slow)
    if not found:
        return case.nothing(CAUSE, f"No pool or number of threads of {case.origin} was seen at a limit.")
    best = max(found, key=lambda e: (e.verdict == "found", e.coverage or 0.0))
    if case.stall.sampled != "yes" and best.verdict == "found":
        missing = f"cpu_busy of {case.origin}, to say that no hardware was saturated"
        return replace(best, verdict="unknown", missing=missing)
    return best


def _slow_behind(case: Case, server: str) -> str | None:
    """Return what made the requests inside wait: a server behind that is saturated, or that takes longer than usual. A
    server does not count if it is slow at a limit of its own, or if it takes as long as usual for the requests that it
    receives."""
    for behind in sorted(case.view.downstream_of(server)):
        if at_work(case, behind):
            return f"the CPU of {behind} behind it was saturated"
    for callee in case.view.callees_of(server):
        calls = case.view.calls[server][callee]
        now, usual = _stay(calls, case.stall.begin, case.stall.end), _stay_calm(case, calls)
        slower = now > SLOWER * usual > 0 and not as_usual(case.view, callee, case.stall.begin, case.stall.end)
        if slower and not _is_limited(case, callee):
            return f"{callee} took {duration(int(now))} for each call (usually {duration(int(usual))})"
    return None


def _is_limited(case: Case, server: str) -> bool:
    """Return whether all workers of a server behind were in use while it answered no less than usual. Then requests
    waited for its workers, and neither for hardware nor for a server behind it."""
    known, (begin, end) = case.view.topology.server(server), (case.stall.begin, case.stall.end)
    if known is None or not known.workers or _slow_behind(case, server):
        return False
    busy = case.view.series(server, "workers_busy")
    if not any(coverage(series.above(known.workers), begin, end) >= COVERAGE for series in busy):
        return False
    taken = ((series, limit) for metric, limit in LIMITS.items() for series in case.view.series(server, metric))
    if any((series.median(begin, end) or 0.0) >= limit for series, limit in taken):
        return False
    stays = case.view.stays[server]
    now = stays.departed(np.array([begin, end]))[0] / (end - begin)
    return bool(now * SECOND >= per_second(stays.departures, case.slow))


def _shared_cpu(case: Case) -> str | None:
    """Say that the servers of its node filled its CPU together, if they did."""
    used = case.view.beside(case.origin)
    full = any(cpu.at_work(case.stall.begin, case.stall.end) for cpu in case.view.shared_cpu(case.origin))
    return f"{listing([case.called(series.place) for series in used])} filled their CPU together" if full else None


def _sampled(case: Case, slow: str | None) -> list[CauseEvidence]:
    found = []
    for series in case.view.series(case.origin, "pool_waiting"):
        inside = case.inside(series)
        what = f"{inside:.0f} threads of {case.origin} waited for a connection of its pool"
        evidence = case.standing_out(series, 1.0)
        numbers = {"pool_waiting": inside}
        found.append(case.weigh(CAUSE, Sign(evidence, series.interval_ns, what, numbers=numbers, but=slow)))
    for metric, noun in (("pool_in_use", "connections of the pool"), ("workers_busy", "workers")):
        for series in case.view.series(case.origin, metric):
            known = _limit(case, metric)
            most = float(known or series.value.max())
            inside = case.inside(series)
            all_of_them = f"All {most:.0f} {noun}" if known else f"{most:.0f} {noun}, the most ever seen,"
            what = f"{all_of_them} of {case.origin} were in use"
            sign = Sign(series.above(most), series.interval_ns, what, numbers={metric: inside}, but=slow)
            found.append(case.weigh(CAUSE, sign))
    return found


def _limit(case: Case, metric: str) -> int | None:
    """Return the limit that the topology gives, if any."""
    if metric == "pool_in_use":
        sizes = [pool.size for pool in case.view.topology.pools if pool.caller == case.origin]
        return sizes[0] if len(sizes) == 1 else None
    server = case.view.topology.server(case.origin)
    return server.workers if server is not None else None


def _held(case: Case, slow: str | None) -> list[CauseEvidence]:
    """Find calls to a server behind that are held at one number while it answers as usual."""
    view, stall = case.view, case.stall
    found = []
    for callee in view.callees_of(case.origin):
        calls = view.calls[case.origin][callee]
        step = view.step(max(view.window_ns // 10, 1))
        times = np.arange(view.begin, view.end, step, dtype=np.int64)
        inside = calls.queue(times)
        most = int(inside.max(initial=0))
        now, usual = _stay(calls, stall.begin, stall.end), _stay_calm(case, calls)
        if most < 2 or usual <= 0:
            continue
        full = where(times, times + step, inside >= held_from(most), gap=view.window_ns)
        evidence: Spans = case.while_queued(full)
        what = (
            f"{case.origin} had at most {most:,} calls open to {callee} and kept that many open from "
            f"{clock(view, stall.begin)} on, while {callee} took {duration(int(now))} each "
            f"(usually {duration(int(usual))})"
        )
        numbers = {"calls_open_max": most, "callee_response_ns": now, "callee_response_calm_ns": usual}
        found.append(case.weigh(CAUSE, Sign(evidence, view.window_ns, what, numbers=numbers, but=slow)))
    return found


def _stay(calls: Stays, begin: int, end: int) -> float:
    """Return the mean time in the server, by Little's law: mean number inside ÷ departures per time."""
    times = np.linspace(begin, end, 200).astype(np.int64)
    left = int(calls.departed(np.array([begin, end]))[0])
    return float(calls.queue(times).mean()) * (end - begin) / max(left, 1)


def _stay_calm(case: Case, calls: Stays) -> float:
    stays = [(_stay(calls, a, b), b - a) for a, b in case.slow.calm.tolist()]
    weight = max(sum(w for _, w in stays), 1)
    return float(sum(s * w for s, w in stays) / weight)
