"""A burst holds requests beyond the usual number: more than chance makes of the usual rate (a cumulative sum, Page
1954)."""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.ledger.recorded import Numbers, Recorded
from tailrace.diagnosis.ledger.steps import STEP_NS
from tailrace.diagnosis.queues import Times
from tailrace.diagnosis.vlrt import Slow
from tailrace.units import SECOND

CAUSE = "workload-burst"
SAYS = "the requests beyond the usual number"
PLAIN = "more requests came at once than {place} can serve"
DRIFT = 1.1
"""A rate a tenth above the usual one is normal, because rates change by as much from one minute to the next."""
SIGMAS = 5.0
"""By chance, a sum of Poisson numbers exceeds five standard deviations in about one of ten hours of 10 ms steps."""
HEAVY = 2.0
"""Requests that take up to twice the mean bring no more work than the square root law of their number allows for."""
LEAST = 8
"""For fewer requests, the square root law is no bound."""


def beyond(recorded: Recorded, slow: Slow, repeated: Times) -> Times:
    """Return the visits that are requests of clients beyond the usual number. Visits that were `repeated` do not count,
    because they came only because others were slow."""
    roots = np.setdiff1d(np.flatnonzero(recorded.parent < 0), repeated)
    roots = roots[np.argsort(recorded.sent[roots], kind="stable")]
    heavy = _heavy(recorded, slow, roots)
    held_back = _held_back(recorded, slow, repeated) / max(len(roots), 1)
    parts = [roots, *(roots[recorded.group[roots] == group] for group in heavy.tolist())]
    return np.unique(np.concatenate([_beyond(recorded, slow, part, held_back * len(part)) for part in parts]))


def _heavy(recorded: Recorded, slow: Slow, roots: Times) -> Numbers:
    """Return the interactions whose requests usually take more than twice as long as the mean. A few of them bring as
    much work as many others."""
    calm = roots[_is_calm(recorded, slow)[np.minimum(recorded.sent[roots] // STEP_NS, len(recorded.steps) - 1)]]
    if not len(calm):
        return np.empty(0, dtype=np.uint32)
    took = (recorded.departure[calm] - recorded.sent[calm]).astype(np.float64)
    groups, which = np.unique(recorded.group[calm], return_inverse=True)
    means = np.bincount(which, took) / np.bincount(which)
    return np.asarray(groups[means > HEAVY * took.mean()])


def _is_calm(recorded: Recorded, slow: Slow) -> NDArray[np.bool_]:
    return np.asarray(recorded.steps.covered(slow.calm) > 0.5)


def _beyond(recorded: Recorded, slow: Slow, roots: Times, held_back: float) -> Times:
    """Return which of these requests, in the order in which they were sent, came beyond their usual number."""
    sent = recorded.sent[roots]
    counts = np.bincount(np.minimum(sent // STEP_NS, len(recorded.steps) - 1), minlength=len(recorded.steps))
    per_step = _usual(recorded, slow, counts, held_back)
    found = [
        roots[first + _without_turn(sent[first:last], per_step)]
        for begin, end in _stretches(counts, per_step)
        for first, last in [np.searchsorted(sent, (begin * STEP_NS, end * STEP_NS)).tolist()]
    ]
    return np.concatenate(found) if found else np.empty(0, dtype=np.int64)


def _usual(recorded: Recorded, slow: Slow, counts: Times, held_back: float) -> float:
    """Return how many requests would be sent in a step without any burst. The number is the highest of three: the mean
    in calm time; the mean over all steps, because this many may come evenly; and the number that clients would send if
    they were answered as usual."""
    calm = _is_calm(recorded, slow)
    in_calm = counts[calm].mean() if calm.sum() * STEP_NS >= SECOND else 0.0
    return float(max(in_calm, counts.mean() + held_back))


def _chained(recorded: Recorded, repeated: Times) -> Times:
    """Return the requests of clients that wait for each answer before they send the next request."""
    later = np.setdiff1d(np.flatnonzero(recorded.follows >= 0), repeated)
    return np.union1d(later, recorded.follows[later])


def _held_back(recorded: Recorded, slow: Slow, repeated: Times) -> float:
    """Return how many more requests a step would hold if waiting clients were answered as usual. N clients that pause
    for Z send N / (Z + R). The pause follows from the time in which a client did not wait: pauses that end after the
    recording count, too. A client that only repeats a request makes no pause."""
    chained = _chained(recorded, repeated)
    if not len(chained):
        return 0.0
    clients = len(chained) - int(np.isin(recorded.follows[chained], chained).sum())
    whole = clients * len(recorded.steps) * STEP_NS
    waited = float((recorded.departure[chained] - recorded.sent[chained]).sum())
    pause = max(whole - waited, 0.0) / len(chained)
    return max(clients * STEP_NS / (pause + slow.normal_ns) - len(chained) / len(recorded.steps), 0.0)


def _stretches(counts: Times, usual: float) -> list[tuple[int, int]]:
    """Return the stretches of steps in which far more requests came than usual. Each has its first step and the step
    after its last."""
    found: list[tuple[int, int]] = []
    walk, top, begin, at = 0.0, 0.0, 0, 0
    for step, count in enumerate(counts.tolist()):
        if walk <= 0.0:
            walk, top, begin, at = 0.0, 0.0, step, step
        walk += count - usual * DRIFT
        if walk > top:
            top, at = walk, step
        if walk <= top / 2 or step == len(counts) - 1:
            if top >= max(LEAST, SIGMAS * sqrt(usual * (at + 1 - begin) + 1.0)):
                found.append((begin, at + 1))
            walk = 0.0
    return found


def _without_turn(sent: Times, usual: float) -> Times:
    """Return the requests that came before it was their turn at the usual rate (a token bucket that holds those of
    50 ms)."""
    if not len(sent):
        return np.empty(0, dtype=np.int64)
    most = 3.0 + 5.0 * usual
    tokens, last, found = 3.0, int(sent[0]), []
    for i, time in enumerate(sent.tolist()):
        tokens = min(tokens + (time - last) / STEP_NS * usual, most)
        last = time
        if tokens >= 1.0:
            tokens -= 1.0
        else:
            found.append(i)
    return np.array(found, dtype=np.int64)
