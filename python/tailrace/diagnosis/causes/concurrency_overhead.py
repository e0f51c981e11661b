"""More concurrency made the server slower: threads compete for CPU, caches and the collector.

What it looks for
    The origin's CPU is saturated and its throughput *falls as its queue grows*. What it answers per second with a long
    queue is well under what it answered with a short one, in the same stall (`rpc-vs-async` figure 12: 1159 requests/s
    at 100 concurrent requests, 374 at 1600; `average` 4).
Evidence needed
    It needs visits and `cpu_busy` of the origin. `context_switches` make the evidence firmer.
What it is confused with
    It is confused with anything that stops the server at once (a collection, a freeze). Then throughput collapses while
    the queue is still short, or while it is long, so time without answers is left out. It is also confused with a
    neighbour. Then another process uses the CPU.
Thresholds and where they come from
    The throughput is three tenths less (the paper lost a half from 100 to 800 requests) and three standard deviations
    of the counts less. This holds for at least two windows with the queue below half of its peak and two above. A time
    without answers is ten times as long as the average time between two answers. Chance alone makes such a time once in
    20,000 (e^-10).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.causes.case import Case, Sign
from tailrace.diagnosis.finding import CauseEvidence
from tailrace.diagnosis.spans import Spans, spans, where
from tailrace.diagnosis.words import rate
from tailrace.units import MILLISECOND, SECOND

CAUSE = "concurrency-overhead"
LESS = 0.7
DEVIATIONS = 3
STOPPED = 10


def detect(case: Case) -> CauseEvidence:
    stall = case.stall
    if not any(r.metric in ("cpu_busy", "cpu_withheld", "frozen") for r in stall.resources):
        return case.unknown(CAUSE, f"cpu_busy (and context_switches) of {case.origin}")
    if not stall.has("cpu_busy"):
        return case.nothing(CAUSE, f"The CPU of {case.origin} was not saturated by its own work.")
    step = max(case.view.window_ns // 5, MILLISECOND)
    edges = np.arange(stall.begin, max(stall.end, stall.rise.end) + step, step, dtype=np.int64)
    queue = case.view.own_queue(case.origin, (edges[:-1] + edges[1:]) // 2)
    answers = case.view.stays[case.origin].departed(edges)
    middle = float(queue.max(initial=0)) / 2
    short, long = answers[queue < middle], answers[(queue >= middle) & ~_stopped(answers, queue >= middle)]
    if min(len(short), len(long)) * step < 2 * case.view.window_ns:
        return case.nothing(CAUSE, "Its queue was too short or too long all the time to compare.")
    fast, slow = float(short.mean()), float(long.mean())
    spread = (fast / len(short) + slow / len(long)) ** 0.5
    at_once = float(answers[: max(10, len(answers) // 10)].mean()) < 0.5 * stall.throughput_calm * step / SECOND
    what = (
        f"{case.origin} answered {rate(fast * SECOND / step)} with fewer than {middle:.0f} requests inside and "
        f"{rate(slow * SECOND / step)} with more, its CPU saturated"
    )
    but = None
    if at_once:
        but = "its throughput fell at once, before its queue had grown"
    elif slow >= LESS * fast or fast - slow < DEVIATIONS * spread:
        but = "that is no less"
    numbers = {
        "throughput_short_queue_per_s": fast * SECOND / step,
        "throughput_long_queue_per_s": slow * SECOND / step,
    }
    # The queue has to grow before it slows the server, so this may begin at any time in the first half.
    crowded = _crowded(case, middle)
    return case.weigh(CAUSE, Sign(crowded, step, what, numbers=numbers, but=but))


def _stopped(answers: NDArray[np.int64], crowded: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the steps of stretches without an answer that are too long: threads slow a server down and do not stop
    it."""
    none = np.flatnonzero(np.diff(np.concatenate(([0], (answers == 0).astype(np.int8), [0]))))
    stopped = np.zeros(len(answers), dtype=bool)
    usual = float(answers[crowded].mean()) if crowded.any() else 0.0
    for first, last in none.reshape(-1, 2).tolist():
        stopped[first:last] = (last - first) * usual > STOPPED
    return stopped


def _crowded(case: Case, middle: float) -> Spans:
    """Return all times of the recording with a queue at least a quarter as long as where it was slow, so that its rise
    is among them."""
    step = case.view.step(case.view.window_ns)
    edges = np.arange(case.view.begin, case.view.end + step, step, dtype=np.int64)
    queue = case.view.own_queue(case.origin, (edges[:-1] + edges[1:]) // 2)
    table = where(edges[:-1], edges[1:], queue >= max(middle / 4, 3), gap=step)
    return spans(table, gap=2 * step)
