"""The load balancer sent the requests to the one candidate that was stalled.

What it looks for
    The same caller uses two servers or more alike. From some moment in its stall on, the origin gets (nearly) all
    arrivals while the others stay idle (`balancers` III-C and figure 6: the stalled Tomcat's `lb_value` is the lowest,
    so it is chosen until it recovers). The balancer does not cause the stall: it makes all requests wait for it.
Evidence needed
    It needs visits with their caller, to every candidate. `balancer_value` per candidate makes it firmer.
What it is confused with
    A balancer may have sticky sessions or weights: then the shares are the same outside stalls.
    All candidates of a tier may stall together: then the others are not idle.
    The candidate itself may stall: if it answers less than usual, something else held it up, and the balancer made it
    worse. The balancer is the cause only where it sends more than a candidate can serve.
Thresholds and where they come from
    The share must be at least half way from its usual value to everything. That is nearer to the paper's figure, which
    shows all requests, than to the usual share. For fewer than three requests no share is reported.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.causes.case import Case, Sign
from tailrace.diagnosis.finding import CauseEvidence
from tailrace.diagnosis.queues import levels
from tailrace.diagnosis.spans import contains, where
from tailrace.diagnosis.words import listing, share

CAUSE = "balancer"


def detect(case: Case) -> CauseEvidence:
    found = [_skew(case, caller, siblings) for caller, siblings in _balanced(case) if siblings]
    if not found:
        return case.nothing(CAUSE, f"{case.origin} is the only server of its kind: nothing is balanced.")
    return max(found, key=lambda e: (e.verdict == "found", e.coverage or 0.0))


def _balanced(case: Case) -> list[tuple[str, tuple[str, ...]]]:
    """Return each caller with the origin's siblings. They come from the topology, or else they are callees of the same
    tier and protocol (or port)."""
    view = case.view
    declared = [b for b in view.topology.balancers if case.origin in b.candidates]
    if declared:
        return [(b.server, tuple(c for c in b.candidates if c != case.origin and c in view.stays)) for b in declared]
    return [
        (caller, tuple(c for c in view.callees_of(caller) if c != case.origin and _alike(case, c)))
        for caller in view.callers_of(case.origin)
    ]


def _alike(case: Case, other: str) -> bool:
    a, b = case.view.topology.server(case.origin), case.view.topology.server(other)
    if a is None or b is None or case.view.depth[case.origin] != case.view.depth[other]:
        return False
    port_a, port_b = (s.address.rpartition(":")[2] if s.address else None for s in (a, b))
    same_protocol = a.protocol == b.protocol and a.protocol is not None
    return (port_a is not None and port_a == port_b) or same_protocol


def _skew(case: Case, caller: str, siblings: tuple[str, ...]) -> CauseEvidence:
    view, stall = case.view, case.stall
    # The caller's sends count: they differ from the arrivals where a candidate overflows. A stall has ten steps.
    step = view.step(max((stall.end - stall.begin) // 10, view.window_ns // 2))
    edges = np.arange(view.begin, view.end + step, step, dtype=np.int64)
    mine = view.calls[caller][case.origin].arrived(edges)
    others = sum(
        (view.calls[caller][s].arrived(edges) for s in siblings if s in view.calls[caller]), np.zeros_like(mine)
    )
    total = mine + others
    calm = contains(case.slow.calm, (edges[:-1] + edges[1:]) // 2)
    usual = float(mine[calm].sum()) / max(float(total[calm].sum()), 1.0)
    skewed = _held_on(mine >= total * (1 + usual) / 2, total >= 3)
    inside = (edges[:-1] >= stall.begin) & (edges[1:] <= stall.end)
    now = float(mine[inside].sum()) / max(float(total[inside].sum()), 1.0)
    times = (edges[:-1][inside] + edges[1:][inside]) // 2
    idle = [s for s in siblings if _mean(view.own_queue(s, times)) <= levels(view.own_queue(s, edges[:-1][calm]))[1]]
    what = f"{caller} sent {share(now)} of its requests to {case.origin} (usually {share(usual)})"
    what += f" while {listing(idle)} had nothing to do" if idle else ""
    numbers = {"arrival_share": now, "arrival_share_calm": usual, "candidates": len(siblings) + 1}
    but = None if idle else "the other candidates were as full"
    table = where(edges[:-1], edges[1:], skewed, gap=step)
    return case.weigh(CAUSE, Sign(table, step, what, numbers=numbers, place=caller, but=but))


def _mean(queue: NDArray[np.int64]) -> float:
    return float(queue.mean()) if len(queue) else 0.0


def _held_on(skewed: NDArray[np.bool_], sent: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Let a skew last through steps in which nothing is sent: by then every worker of the caller waits for the
    origin."""
    last = np.maximum.accumulate(np.where(sent, np.arange(len(sent)), 0))
    return skewed[last] & sent[last]
