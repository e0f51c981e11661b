"""What comes beyond the usual number: more than chance makes of the usual rate (a cumulative sum, Page 1954)."""

from __future__ import annotations

from math import exp, lgamma, log

import numpy as np

from tailrace.diagnosis.constants import HARDLY_ANY, RARE, STEP_NS
from tailrace.diagnosis.ledger.steps import NEVER, Mask, Shares
from tailrace.diagnosis.queues import Times
from tailrace.units import SECOND

DRIFT = 1.0 + HARDLY_ANY
"""A rate a tenth above the usual one is normal, because rates change by as much from one minute to the next."""
SIGMAS = 5.0
"""By chance, a sum of Poisson numbers exceeds five standard deviations in about one of ten hours of 10 ms steps."""
LULL_SIGMAS = 2.0
"""By chance, requests are missing by more than two standard deviations in one of 40 stretches."""
LULLS = tuple(2**k for k in range(7))
"""These are lengths of lulls in steps, from 10 to 640 ms: those of the stalls that hold requests back."""


def beyond_usual(sent: Times, usual: Shares, within: list[tuple[int, int]]) -> Times:
    """Return which of the requests that were sent then, in this order, came beyond their usual number in these
    stretches."""
    found = [
        first + without_turn(sent[first:last], usual)
        for begin, end in within
        for first, last in [np.searchsorted(sent, (begin * STEP_NS, end * STEP_NS)).tolist()]
    ]
    return np.concatenate([np.empty(0, dtype=np.int64), *found])


def rate(calm: Mask, counts: Times, by: Shares) -> float:
    """Return how many requests are sent in a step for each of those that can send one (`by`). The number is the higher
    of that in calm time and that of all steps, because so many may come evenly."""
    in_calm = counts[calm].sum() / max(by[calm].sum(), 1.0) if calm.sum() * STEP_NS >= SECOND else 0.0
    return float(max(in_calm, counts.sum() / max(by.sum(), 1.0)))


def stretches(counts: Times, usual: Shares, least: int) -> list[tuple[int, int]]:
    """Return the stretches of steps in which far more requests came than usual. Each has its first step, the step after
    its last, and at least `least` requests. Requests that make up for those that were missing just before did not come
    beyond the usual number."""
    missing, sums = _missing(counts, usual), _sums(usual)
    found: list[tuple[int, int]] = []
    walk, top, begin, at = 0.0, 0.0, 0, 0
    for step, (count, expected) in enumerate(zip(counts.tolist(), usual.tolist(), strict=True)):
        if walk <= 0.0:
            walk, top, begin, at = 0.0, 0.0, step, step
        walk += count - expected * DRIFT
        if walk > top:
            top, at = walk, step
        if walk <= top / 2 or step == len(counts) - 1:
            more = int(counts[begin : at + 1].sum()) - missing[begin]
            if top > missing[begin] and more >= least and is_more(more, DRIFT * (sums[at + 1] - sums[begin])):
                found.append((begin, at + 1))
            walk = 0.0
    return found


def at_once(counts: Times, usual: Shares, least: int, longest: int) -> list[tuple[int, int]]:
    """Return the parts of these stretches, of at most `longest` steps, in which requests came at once. Such a part says
    more against the usual number than each longer one around it: of a stretch whose rate is high, more steps say more.
    By chance, requests may come a little faster than usual right before or after those that came at once."""
    missing, came, due = _missing(counts, usual), _sums(counts), DRIFT * _sums(usual)
    found = []
    for begin, end in stretches(counts, usual, least):
        if end - begin <= longest:
            found.append((begin, end))
            continue
        parts = []
        for steps in range(1, min(2 * longest, end - begin) + 1):
            first = np.arange(begin, end - steps + 1)
            more = np.maximum(came[first + steps] - came[first] - missing[first], 0.0)
            says = _against(more, due[first + steps] - due[first])
            at = int(says.argmax())
            parts.append((float(says[at]), float(more[at]), int(first[at]), steps))
        says_most, more_then, first_then, steps_then = max(parts)
        if steps_then <= longest and more_then >= least and says_most >= SIGMAS**2 / 2:
            found.append((first_then, first_then + steps_then))
    return found


def _sums(values: Times | Shares) -> Shares:
    return np.concatenate(([0.0], np.cumsum(values)))


def is_more(count: float, usual: float) -> bool:
    """Return whether so many requests come by chance as seldom as a large number exceeds its mean by `SIGMAS` standard
    deviations (Chernoff's bound of a Poisson number with the mean `usual`)."""
    return bool(_against(np.array([count]), np.array([usual]))[0] >= SIGMAS**2 / 2)


def _against(counts: Shares, usual: Shares) -> Shares:
    """Return how much these numbers say against a Poisson number with the mean `usual`: the logarithm of Chernoff's
    bound. It is 0 where no more came than usual."""
    counts = np.maximum(counts, usual)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(counts > usual, counts * np.log(counts / usual) - counts + usual, 0.0)


def is_rare(number: int, expected: float) -> bool:
    """Return whether chance makes so many in one of twenty cases or fewer, where it makes `expected` (Poisson). A few
    events cannot show more."""
    if expected <= 0.0:
        return number > 0
    fewer = sum(exp(k * log(expected) - expected - lgamma(k + 1)) for k in range(number))
    return 1.0 - fewer <= RARE


def _missing(counts: Times, usual: Shares) -> Shares:
    """Return how many requests were missing just before each step. It is 0 where chance makes as many of the usual
    rate."""
    came, due = _sums(counts), _sums(usual)
    found = np.zeros(len(counts))
    for steps in LULLS:
        expected = due[steps:-1] - due[: -1 - steps]
        few = expected - (came[steps:-1] - came[: -1 - steps])
        found[steps:] = np.maximum(found[steps:], np.where(few > LULL_SIGMAS * np.sqrt(expected), few, 0.0))
    return found


def without_turn(sent: Times, usual: Shares) -> Times:
    """Return the requests that came before it was their turn at the usual rate (a token bucket that holds those of
    50 ms)."""
    due = np.interp(sent, np.arange(len(usual) + 1) * STEP_NS, _sums(usual))
    most = 5.0 * usual[np.minimum(sent // STEP_NS, len(usual) - 1)]
    tokens, last, found = np.inf, 0.0, []
    for i, (now, most_now) in enumerate(zip(due.tolist(), most.tolist(), strict=True)):
        tokens = min(tokens + now - last, most_now)
        last = now
        if tokens >= 1.0:
            tokens -= 1.0
        else:
            found.append(i)
    return np.array(found, dtype=np.int64)


def turns(sent: Times, counts: Times, usual: Shares) -> Times:
    """Return when the turn of each of these requests comes if they fill up, in their order, what the others leave of
    the usual number. `sent` is when they were sent, and `counts` is the number of all requests of each step."""
    mine = np.bincount(sent // STEP_NS, minlength=len(counts))
    turns = np.full(len(sent), NEVER)
    waiting, sent_on, spare = 0, 0, 0.0
    for step, (came, left) in enumerate(zip(mine.tolist(), (usual - (counts - mine)).tolist(), strict=True)):
        waiting += came
        spare = spare + left if waiting else 0.0
        number = min(int(max(spare, 0.0)), waiting)
        if number:
            turns[sent_on : sent_on + number] = step * STEP_NS + (np.arange(number) + 1) * STEP_NS // (number + 1)
            waiting, sent_on, spare = waiting - number, sent_on + number, spare - number
    late: Times = np.maximum(turns, sent)
    return late
