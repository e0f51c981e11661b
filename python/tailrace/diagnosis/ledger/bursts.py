"""A burst holds requests beyond the usual number: more than chance makes of the usual rate (a cumulative sum, Page
1954)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.ledger import silences, systems
from tailrace.diagnosis.ledger.recorded import Recorded
from tailrace.diagnosis.ledger.steps import STEP_NS, Shares
from tailrace.diagnosis.queues import Times
from tailrace.units import SECOND

Mask = NDArray[np.bool_]

CAUSE = "workload-burst"
SAYS = "the requests beyond the usual number"
PLAIN = "more requests came at once than {place} can serve"
DRIFT = 1.1
"""A rate a tenth above the usual one is normal, because rates change by as much from one minute to the next."""
SIGMAS = 5.0
"""By chance, a sum of Poisson numbers exceeds five standard deviations in about one of ten hours of 10 ms steps."""
HEAVY = 2.0
"""Requests that take up to twice the mean bring no more work than the square root law of their number allows for."""
FEWEST = 8
"""Fewer requests at once are no burst: a page of one user sends as many."""
FEWEST_HEAVY = 3
"""Two heavy requests at once are no burst: a user who clicks twice sends as many."""
TINY = 1e-9
"""The usual number of requests of a kind that never comes counts as this number, because zero has no logarithm."""
LULL_SIGMAS = 2.0
"""By chance, requests are missing by more than two standard deviations in one of 40 stretches."""
LULLS = tuple(2**k for k in range(7))
"""These are lengths of lulls in steps, from 10 to 640 ms: those of the stalls that hold requests back."""


def beyond(recorded: Recorded, calm: Mask, repeated: Times) -> Times:
    """Return the visits that are requests of clients beyond the usual number. `calm` says which steps are calm. Visits
    that were `repeated` do not count, because they came only because others were slow. Connections on which a client
    sent nothing are no requests. Each system has its own usual number: requests for another system do not add to it."""
    system = systems.of(recorded)
    numbers, requests = np.unique(system[recorded.asked], return_counts=True)
    enough = numbers[requests >= FEWEST_HEAVY].tolist()
    found = (_of_system(recorded, calm, repeated, system == number) for number in enough)
    return np.unique(np.concatenate([np.empty(0, dtype=np.int64), *found]))


def _of_system(recorded: Recorded, calm: Mask, repeated: Times, mine: Mask) -> Times:
    """Return the same of one system. `mine` are its visits."""
    asked = recorded.asked & mine & ~recorded.names.are(silences.NAME)
    roots = np.setdiff1d(np.flatnonzero(asked), repeated)
    roots = roots[np.argsort(recorded.sent[roots], kind="stable")]
    steps = _loaded(recorded, roots)
    held_back, theirs = _held_back(recorded, repeated, steps)
    parts = chain(((roots, FEWEST),), ((part, FEWEST_HEAVY) for part in _heavy(recorded, calm, roots)))
    found = (
        _beyond(recorded, calm, part, steps, held_back * int(np.isin(part, theirs).sum()), least)
        for part, least in parts
    )
    return np.unique(np.concatenate(list(found)))


def _loaded(recorded: Recorded, roots: Times) -> int:
    """Return the number of steps until the last of these requests was sent. After it, the recording shows only how the
    system answers what it holds."""
    return int(recorded.steps.at(recorded.sent[roots]).max(initial=0)) + 1


def _heavy(recorded: Recorded, calm: Mask, roots: Times) -> Iterator[Times]:
    """Yield the requests of each interaction that usually takes more than twice as long as the mean, or that never came
    in calm time. A few of them bring as much work as many others."""
    took = (recorded.departure[roots] - recorded.sent[roots]).astype(np.float64)
    in_calm = calm[recorded.steps.at(recorded.sent[roots])]
    groups, size = recorded.names.number[roots], len(recorded.names.labels)
    every = np.bincount(groups, minlength=size)
    usually = np.bincount(groups[in_calm], minlength=size)
    lasted = np.bincount(groups[in_calm], took[in_calm], minlength=size)
    mean = lasted.sum() / max(usually.sum(), 1)
    heavy = np.flatnonzero((every >= FEWEST_HEAVY) & ((usually == 0) | (lasted > HEAVY * mean * usually)))
    order = np.argsort(groups, kind="stable")
    first, last = np.searchsorted(groups[order], heavy), np.searchsorted(groups[order], heavy, "right")
    yield from (roots[order[begin:end]] for begin, end in zip(first.tolist(), last.tolist(), strict=True))


def _beyond(recorded: Recorded, calm: Mask, roots: Times, steps: int, held_back: float, least: int) -> Times:
    """Return which of these requests, in the order in which they were sent, came beyond their usual number."""
    sent = recorded.sent[roots]
    counts = np.bincount(recorded.steps.at(sent), minlength=len(recorded.steps))[:steps]
    per_step = _usual(calm, counts, held_back)
    found = [
        roots[first + _without_turn(sent[first:last], per_step)]
        for begin, end in _stretches(counts, per_step, least)
        for first, last in [np.searchsorted(sent, (begin * STEP_NS, end * STEP_NS)).tolist()]
    ]
    return np.concatenate(found) if found else np.empty(0, dtype=np.int64)


def _usual(calm: Mask, counts: Times, held_back: float) -> float:
    """Return how many requests would be sent in a step without any burst. The number is the highest of three: the mean
    in calm time; the mean over all steps, because this many may come evenly; and the number that clients would send if
    none had to wait."""
    its = calm[: len(counts)]
    in_calm = counts[its].mean() if its.sum() * STEP_NS >= SECOND else 0.0
    return float(max(in_calm, counts.mean() + held_back))


def _held_back(recorded: Recorded, repeated: Times, steps: int) -> tuple[float, Times]:
    """Return how many more requests a step would hold if no client had to wait, for each request of a client that
    waits; and return these requests. Such a client sends its next request after the answer to the one before. N clients
    that pause for Z send N / Z. They pause while they wait for nothing, so pauses that end after the recording count,
    too. A client that only repeats requests makes no pause."""
    later = np.setdiff1d(np.flatnonzero(recorded.follows >= 0), repeated)
    clients = np.unique(recorded.client[later])
    theirs = np.flatnonzero(np.isin(recorded.client, clients))
    asked = np.setdiff1d(theirs, repeated)
    whole = len(clients) * steps * STEP_NS
    pauses = max(whole - _waited(recorded, theirs, steps), STEP_NS)
    return max(len(clients) * STEP_NS / pauses - 1 / steps, 0.0), asked


def _waited(recorded: Recorded, requests: Times, steps: int) -> float:
    """Return for how long the clients of these requests waited in these steps: until the answer, or until they sent the
    next request."""
    order = requests[np.lexsort((recorded.sent[requests], recorded.client[requests]))]
    until, client = recorded.departure[order].copy(), recorded.client[order]
    same = client[1:] == client[:-1]
    until[:-1][same] = np.minimum(until[:-1], recorded.sent[order[1:]])[same]
    return float((np.minimum(until, steps * STEP_NS) - recorded.sent[order]).sum())


def _stretches(counts: Times, usual: float, least: int) -> list[tuple[int, int]]:
    """Return the stretches of steps in which far more requests came than usual. Each has its first step, the step after
    its last, and at least `least` requests. Requests that make up for those that were missing just before did not come
    beyond the usual number."""
    missing = _missing(counts, usual)
    found: list[tuple[int, int]] = []
    walk, top, begin, at = 0.0, 0.0, 0, 0
    for step, count in enumerate(counts.tolist()):
        if walk <= 0.0:
            walk, top, begin, at = 0.0, 0.0, step, step
        walk += count - usual * DRIFT
        if walk > top:
            top, at = walk, step
        if walk <= top / 2 or step == len(counts) - 1:
            more = int(counts[begin : at + 1].sum()) - missing[begin]
            if top > missing[begin] and more >= least and _is_more(more, usual * DRIFT * (at + 1 - begin)):
                found.append((begin, at + 1))
            walk = 0.0
    return found


def _is_more(count: float, usual: float) -> bool:
    """Return whether so many requests come by chance as seldom as a large number exceeds its mean by five standard
    deviations (Chernoff's bound of a Poisson number with the mean `usual`)."""
    return count > usual and count * log(count / max(usual, TINY)) - count + usual >= SIGMAS**2 / 2


def _missing(counts: Times, usual: float) -> Shares:
    """Return how many requests were missing just before each step. It is 0 where chance makes as many of the usual
    rate."""
    sums = np.concatenate(([0.0], np.cumsum(counts)))
    found = np.zeros(len(counts))
    for steps in LULLS:
        few = usual * steps - (sums[steps:-1] - sums[: -1 - steps])
        found[steps:] = np.maximum(found[steps:], np.where(few > LULL_SIGMAS * sqrt(usual * steps), few, 0.0))
    return found


def _without_turn(sent: Times, usual: float) -> Times:
    """Return the requests that came before it was their turn at the usual rate (a token bucket that holds those of
    50 ms)."""
    if not len(sent):
        return np.empty(0, dtype=np.int64)
    most = 5.0 * usual
    tokens, last, found = most, int(sent[0]), []
    for i, time in enumerate(sent.tolist()):
        tokens = min(tokens + (time - last) / STEP_NS * usual, most)
        last = time
        if tokens >= 1.0:
            tokens -= 1.0
        else:
            found.append(i)
    return np.array(found, dtype=np.int64)
