"""This module finds visits that waited for a connection of a pool. Such a visit is inside its server, but needs no
capacity of it.

in line   its own pool had no free connection until the call was sent. The replay makes the visit wait in line. A
          visit that waited for most of the time before the pool became full once more did not stand in line: others
          took what became free, and its balancer looked again
held      this pool, or that of another candidate of its balancer, had no free connection for most of the time before,
          or it had none at first and then until the balancer looked again. A balancer may look only now and then, or
          give up a candidate. If the pool is full again in the replay, the visit waits as long as recorded
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.constants import CHANCE, MOSTLY, STEP_NS
from tailrace.diagnosis.ledger.choices import Choices
from tailrace.diagnosis.ledger.limits import Pools
from tailrace.diagnosis.ledger.recorded import NONE, Numbers, Recorded
from tailrace.diagnosis.ledger.steps import NEVER
from tailrace.diagnosis.queues import Stays, Times
from tailrace.diagnosis.spans import Spans, overlap, spans
from tailrace.units import MILLISECOND

WAKES_NS = MILLISECOND // 10
"""A thread that waits for a connection wakes within a tenth of a millisecond, if a CPU is free."""

LOOKS_NS = 100 * MILLISECOND
"""A thread of mod_jk that found no free connection looks again after so long (JK_SLEEP_DEF)."""


@dataclass(frozen=True)
class Waits:
    """For each visit, this holds since when its caller waited (`sent` if it did not), and the pool that held it."""

    ready: Times
    held: Numbers


def find(recorded: Recorded, pools: Pools, choices: Choices) -> Waits:
    ready, held = recorded.sent.copy(), np.full(len(recorded.sent), NONE, dtype=np.uint32)
    if not pools.size:
        return Waits(ready, held)
    since = _since(recorded)
    most = np.zeros(len(held), dtype=np.int64)
    taken = [_taken(recorded, pools, number) for number in range(len(pools.size))]
    full = [_full(recorded, *one, size) for one, size in zip(taken, pools.size, strict=True)]
    for number, at, others in _callers([calls for calls, _ in taken], pools, choices):
        begin, sent = since[at], recorded.sent[at]
        covered = overlap(full[number], begin, sent)
        waited = (covered >= MOSTLY * (sent - begin)) & (covered >= STEP_NS) | _looked_again(full[number], begin, sent)
        # A balancer that looks again and again calls a whole number of pauses after its first look, and its own work
        # comes on top. If this is so short, its visit waited from the first look on, also where others took and gave
        # back connections meanwhile.
        work = (sent - begin) % LOOKS_NS
        looked = (sent - begin >= LOOKS_NS) & (work <= CHANCE * LOOKS_NS) & (choices.choice[at] != NONE)
        waited &= covered > most[at]
        most[at[waited]] = covered[waited]
        first = np.where(looked, begin + work, _first(full[number], begin, sent))
        ready[at[waited]] = np.maximum(begin, first)[waited]
        held[at[waited]] = number
        if not others:
            in_line, since_full = _stretch(full[number], sent)
            stood = sent - np.maximum(begin, since_full)
            in_line &= (held[at] == NONE) | (sent - ready[at] < LOOKS_NS) | (stood >= MOSTLY * (sent - ready[at]))
            ready[at[in_line]], held[at[in_line]] = (sent - stood)[in_line], NONE
    return Waits(ready, held)


def _callers(taking: list[Times], pools: Pools, choices: Choices) -> list[tuple[int, Times, bool]]:
    """Return each pool with the calls that take a connection of it, and with the calls that a balancer sent to another
    candidate."""
    found = [(number, calls, False) for number, calls in enumerate(taking)]
    for choice, candidates in enumerate(choices.candidates):
        for _, number in candidates:
            if number != NONE:
                found.append((number, np.flatnonzero((choices.choice == choice) & (pools.pool != number)), True))
    return [one for one in sorted(found, key=lambda one: one[2], reverse=True) if len(one[1])]


def _since(recorded: Recorded) -> Times:
    """Return, for each visit, when its caller finished what it did before the call: its start, or its last answer."""
    calls = np.flatnonzero(recorded.parent >= 0)
    parent = recorded.parent[calls]
    found = recorded.sent.copy()
    times = np.concatenate((recorded.start[parent], recorded.back[calls], recorded.sent[calls]))
    is_call = np.repeat((False, True), (2 * len(calls), len(calls)))
    callers = np.tile(parent, 3)
    order = np.lexsort((is_call, times, callers))
    last: Times = np.maximum.accumulate(np.where(is_call[order], -1, np.arange(len(order))))
    at = np.flatnonzero(is_call[order])
    # A call that was sent before its caller had started has no known caller: its time does not change.
    before = order[np.maximum(last[at], 0)]
    known = (last[at] >= 0) & (callers[before] == callers[order[at]])
    called = calls[order[at] - 2 * len(calls)]
    found[called[known]] = times[before[known]]
    return found


def _taken(recorded: Recorded, pools: Pools, number: int) -> tuple[Times, Times]:
    """Return the calls that took a connection of a pool, and until when they kept it: until the answer was back. If the
    visits between their first call and their end reached the size of the pool and never exceeded it, a visit keeps its
    connection until its end, and takes it with its first call."""
    calls = np.flatnonzero(pools.pool == number)
    calls = calls[np.argsort(recorded.sent[calls], kind="stable")]
    known = calls[recorded.parent[calls] >= 0]
    visits, first = np.unique(recorded.parent[known], return_index=True)
    if 0 < len(visits) < len(known):
        longest = Stays.of(recorded.sent[known[first]], recorded.departure[visits]).longest
        if longest == pools.size[number]:
            return known[first], recorded.departure[visits]
    return calls, recorded.back[calls] + 2 * way_ns(recorded, calls)


def way_ns(recorded: Recorded, calls: Times) -> int:
    """Return how long these calls are on their way to their servers, which is the time of the way back, too."""
    return int(np.median(recorded.arrival[calls] - recorded.sent[calls])) if len(calls) else 0


def _full(recorded: Recorded, calls: Times, until: Times, size: int) -> Spans:
    """Return when all connections of a pool were in use. One that is given back is in use until the thread that waits
    for it is awake."""
    times = np.concatenate((recorded.sent[calls], until + WAKES_NS))
    order = np.argsort(times, kind="stable")
    times, used = times[order], np.cumsum(np.repeat((1, -1), len(calls))[order])
    full = used[:-1] >= size
    return spans(np.column_stack((times[:-1][full], times[1:][full])))


def _looked_again(full: Spans, begin: Times, sent: Times) -> NDArray[np.bool_]:
    """Return which calls found the pool full at first, and were sent when the balancer had looked again. What is left
    of the time is the work before the call, and the wait for a CPU after the pause. Apache works for less than a tenth
    of the pause, unless its CPU is full."""
    work = np.minimum((sent - begin) % LOOKS_NS, LOOKS_NS // 10)
    found_full = _first(full, begin, begin + work + 1) <= begin + work
    ends = np.append(full[:, 1], NEVER)
    last = ends[np.searchsorted(full[:, 0], sent, side="left") - 1]
    return np.asarray(found_full & (sent - begin >= LOOKS_NS) & (sent - last <= LOOKS_NS + work))


def _first(full: Spans, begin: Times, end: Times) -> Times:
    """Return, for each [begin, end), the begin of the first of these spans that reaches into it, or else its end."""
    at = np.searchsorted(full[:, 1], begin, side="right")
    begins = np.append(full[:, 0], NEVER)
    found: Times = np.minimum(begins[at], end)
    return found


def _stretch(full: Spans, times: Times) -> tuple[NDArray[np.bool_], Times]:
    """Return which of these times are within a span that began before, and when this span began."""
    if not len(full):
        return np.zeros(len(times), dtype=bool), times
    at = np.searchsorted(full[:, 0], times, side="left") - 1
    inside = (at >= 0) & (full[np.maximum(at, 0), 1] >= times)
    return inside, full[np.maximum(at, 0), 0]
