"""Visits whose name shows that they take long by themselves: no visit of that name is short, and so many of them are
ahead of those that wait that chance does not put them there."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from math import exp, lgamma, log
from typing import TYPE_CHECKING

import numpy as np

from tailrace.diagnosis.constants import ALIKE, CHANCE
from tailrace.diagnosis.ledger.steps import NEVER, Mask, Shares
from tailrace.diagnosis.queues import Times
from tailrace.diagnosis.spans import spans

if TYPE_CHECKING:
    from tailrace.diagnosis.ledger.places import Here


def named(here: Here, long: Mask) -> Mask:
    """Return which visits meet three conditions: their interaction is never short, they are among the first that others
    waited behind, and they are so rare that chance does not put them there."""
    names, which, count = np.unique(here.name, return_inverse=True, return_counts=True)
    always = np.bincount(which, weights=long & ~here.orphan) == count
    always[here.labels[names] == ""] = False
    found = np.zeros(len(long), dtype=bool)
    if not always.any():
        return found
    # Others wait here or on their way, and in no call. Visits of a kind that never waits do not need what these hold.
    waits = (long & here.own) | (here.begin - here.came >= here.least)
    others = _Others.of(here, (~always & (np.bincount(which, weights=waits) > 0))[which])
    for kind in np.flatnonzero(always).tolist():
        rare = float(count[count <= count[kind]].sum()) / len(long)
        mine = which == kind
        by_chance = _by_chance(here, np.flatnonzero(mine), others, rare)
        if len(by_chance) and _all_by_chance(by_chance) <= CHANCE:
            found |= mine
    return found


@dataclass(frozen=True)
class _Others:
    """These are the visits that may wait behind some, in the order in which they came."""

    came: Times
    left: Times
    """The times at which they left are in order."""
    first_left: Times
    """Of each of them and those after it, the first one left then."""

    @classmethod
    def of(cls, here: Here, those: Mask) -> _Others:
        order = np.argsort(here.came[those], kind="stable")
        end = here.end[those][order]
        first_left = np.minimum.accumulate(np.concatenate((end, [NEVER]))[::-1])[::-1]
        return cls(here.came[those][order], np.sort(end), first_left)


def _all_by_chance(each: Shares) -> float:
    """Return the probability that chance makes so small a product of as many probabilities (Fisher 1925)."""
    whole = -float(np.log(np.maximum(each, np.finfo(np.float64).tiny)).sum())
    if whole <= 0.0:
        return 1.0
    terms = [number * log(whole) - lgamma(number + 1) for number in range(len(each))]
    return exp(min(float(np.logaddexp.reduce(terms)) - whole, 0.0))


def _by_chance(here: Here, mine: Times, others: _Others, rare: float) -> Shares:
    """Return for each stall in which others waited behind them the probability that chance puts them so far ahead, if
    they are a `rare` part of all visits. By chance, j of the first m visits are such with a probability of at most
    C(m, j) rare^j (Boole's inequality); the least of these counts as many times as there are visits to choose from. A
    visit is ahead if every visit that came before it had left by its middle. On an event loop, visits that came before
    it wait with it for the turn that they need after a call, and are ahead of it. Another visit had come by then. The
    first of those that came after it left with it or later, or with the first of those that held places beside it.
    Those that came within a twentieth of its time do not count as later: a server that reads from many connections may
    begin with another."""
    lasted = here.lasted[mine]
    middle, slack = here.begin[mine] + lasted // 2, (lasted * ALIKE).astype(np.int64)
    at, later = (np.searchsorted(others.came, here.begin[mine] + more, "right") for more in (0, slack))
    ahead = np.maximum(at - np.searchsorted(others.left, middle, "right"), 0)
    released = first_released(here.begin[mine], here.end[mine])
    next_came = np.append(others.came, NEVER)
    counts = (next_came[at] <= middle) & (others.first_left[later] >= released - slack)
    counts &= released - here.begin[mine] >= here.least
    begins, ends = here.begin[mine][counts], here.end[mine][counts]
    stalls = spans(np.column_stack((begins, ends)))
    stall = np.searchsorted(stalls[:, 0], begins, "right") - 1
    ordered = ahead[counts][np.lexsort((ahead[counts], stall))]
    each = np.split(ordered, np.cumsum(np.bincount(stall, minlength=len(stalls)))[:-1])
    return np.array([_far_ahead(some, rare) for some in each if len(some)])


def _far_ahead(ahead: Times, rare: float) -> float:
    """Return the probability that chance makes so few others be `ahead` of each of these, in order."""
    chances = [_log_comb(j + m, j) + j * log(rare) for j, m in enumerate(ahead.tolist(), 1)]
    return exp(min(log(len(ahead)) + min(chances), 0.0))


def _log_comb(every: int, some: int) -> float:
    return lgamma(every + 1) - lgamma(some + 1) - lgamma(every - some + 1)


def first_released(begin: Times, end: Times) -> Times:
    """Return for each visit the end of the first one to leave, among itself and those that were inside when it came."""
    found, inside = np.empty_like(end), list[int]()
    for i in np.argsort(begin, kind="stable").tolist():
        heapq.heappush(inside, int(end[i]))
        while len(inside) > 1 and inside[0] <= begin[i]:
            heapq.heappop(inside)
        found[i] = inside[0]
    return found
