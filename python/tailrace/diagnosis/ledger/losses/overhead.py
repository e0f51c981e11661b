"""More visits inside made the server slower: threads compete for its CPU, caches and collector.

No sample shows this, but samples of the CPU and visits together do. The CPU time for each visit is what the server used
divided by the visits that it did (the service demand law; Denning and Buzen 1978). `find` compares times with few and
with many visits inside in which nothing else took capacity. Where this shows nothing, `account` attributes to it what
the server lacked while it filled its CPU, if it lacked the more, the more visits were inside.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis import ranks, settle
from tailrace.diagnosis.constants import ACTS, ALIKE, HARDLY_ANY, MANY, MOMENTS, NEARLY, SEVERAL, STEP_NS
from tailrace.diagnosis.ledger.losses.loss import Loss, Seen
from tailrace.diagnosis.ledger.recorded import Recorded
from tailrace.diagnosis.ledger.steps import Shares
from tailrace.diagnosis.queues import Times
from tailrace.diagnosis.series import AT_WORK, Series
from tailrace.diagnosis.view import View

CAUSE = "concurrency-overhead"
SAYS = "what {server} lost because many visits were inside"
PLAIN = "{origin} became slower the more requests it held"
METRICS, EVENTS = ("cpu_busy",), ()
COMPUTES = True
VISITS = round(ALIKE**-2)
"""The CPU time of 400 visits varies by a twentieth by chance, where that of a single one varies by its mean."""
TENTHS = 2 * NormalDist().pdf(NormalDist().inv_cdf(NEARLY)) / HARDLY_ANY
"""The means of the highest and of the lowest tenth of normal values differ by so many standard deviations: 3.51."""


@dataclass(frozen=True)
class Curve:
    """The CPU time for each visit grows with the visits inside: from `inside[i]` on it is `cost[i]`, in any unit."""

    inside: NDArray[np.float64]
    cost: NDArray[np.float64]

    def at(self, inside: NDArray[np.float64]) -> NDArray[np.float64]:
        which = np.searchsorted(self.inside, inside, "right") - 1
        return np.asarray(self.cost[np.maximum(which, 0)])


def find(seen: Seen, server: str) -> Loss | None:
    """Return what a server lost to overhead beyond what it loses with few visits inside, where its samples show that
    its CPU time for each visit grows with the visits inside. Collections that nobody recorded would raise both numbers,
    too."""
    recorded = seen.recorded_visits
    if recorded is None or settle.unseen_collections(seen.view, server) is not None:
        return None
    for own in seen.view.series(server, "cpu_busy")[:1]:
        here = _Here.of(seen, recorded, server)
        curve = _curve(seen, own, here, seen.lost.get(server, np.zeros(len(seen.steps))))
        if curve is None:
            return None
        return Loss(1.0 - curve.cost[0] / curve.at(here.inside))
    return None


def missing(view: View, server: str) -> str | None:
    return None if view.series(server, "cpu_busy") else f"cpu_busy of {server}"


@dataclass(frozen=True)
class _Here:
    """These are the visits of one server."""

    inside: Shares
    """So many are inside in each step."""
    done: Shares
    """So many usual visits the server did in each step. A visit counts for a half when it comes and for a half when it
    leaves, because those inside have done half of their work on average. It counts for as many usual visits as its
    group takes times as long as the others in calm time."""
    came: Times
    """Each visit came in this step."""
    relative: Shares
    """The own time of each visit, divided by the mean of its group in calm time."""

    @classmethod
    def of(cls, seen: Seen, recorded: Recorded, server: str) -> _Here:
        here = np.flatnonzero(recorded.server == recorded.number[server])
        steps, group, own = len(recorded.steps), recorded.group[here], recorded.own_ns[here].astype(np.float64)
        came, left = recorded.steps.at(recorded.arrival[here]), recorded.steps.at(recorded.departure[here])
        calm = seen.calm[came] if seen.calm[came].any() else np.ones(len(here), dtype=bool)
        count = np.bincount(group[calm], minlength=recorded.groups)
        took = np.bincount(group[calm], own[calm], recorded.groups)
        mean = took.sum() / max(count.sum(), 1)
        usual = np.where(count > 0, took / np.maximum(count, 1), mean)
        weight = usual[group] / max(mean, 1.0)
        done = (np.bincount(came, weight, steps) + np.bincount(left, weight, steps)) / 2
        inside = seen.view.own_queue(server, recorded.steps.middles).astype(np.float64)
        return cls(inside, done, came, own / np.maximum(usual[group], 1.0))


def _curve(seen: Seen, own: Series, here: _Here, others: Shares) -> Curve | None:
    """Return the relation, or None where the samples do not show one."""
    used, fine = np.nan_to_num(seen.at(own)), np.isfinite(seen.at(own)) & (others <= ACTS)
    window = _windows(seen, own, here.done, fine)
    if int(window.max(initial=-1)) + 1 < MANY:
        return None
    work, time, mean = _sums(window, here.done), _sums(window, used), _means(window, here.inside)
    order = np.argsort(mean, kind="stable")
    cost = (time / work)[order]
    by_chance = _variation(used < AT_WORK * own.capacity, here) / float(np.median(work)) ** 0.5
    if not (_is_dearer(cost, by_chance) or _grows_in_spare_time(seen, own, here, fine)):
        return None
    least = float(np.median(cost[: max(int(HARDLY_ANY * len(cost)), SEVERAL)]))
    return Curve(mean[order], np.maximum(_growing(cost), least))


def _variation(spare: NDArray[np.bool_], here: _Here) -> float:
    """Return the coefficient of variation of the work of a visit. Only visits that came in `spare` time, while the CPU
    was not full, count, because their time is about their work."""
    times = here.relative[spare[here.came]]
    return float(times.std() / max(times.mean(), 1e-9)) if len(times) >= MANY else np.inf


def _is_dearer(cost: NDArray[np.float64], by_chance: float) -> bool:
    """Return whether a visit costs more with many inside than with few, by more than chance explains. `cost` is in the
    order of the visits inside, and `by_chance` is its coefficient of variation. Dear visits make others wait, so chance
    makes windows dear that have many inside. But even the means of the dearest tenth and of the cheapest tenth differ
    only by `TENTHS` standard deviations. A server that became slower for another reason has most visits inside while it
    is slow, and its other windows cost the same. So only the half of the windows with fewer inside counts."""
    half = cost[: len(cost) // 2]
    tenth = int(HARDLY_ANY * len(half))
    if tenth < SEVERAL:
        return False
    low, high = (float(np.median(part)) for part in (half[:tenth], half[-tenth:]))
    return high - low > TENTHS * by_chance * low


def _grows_in_spare_time(seen: Seen, own: Series, here: _Here, fine: NDArray[np.bool_]) -> bool:
    """Return whether visits were dearer in samples with more of them inside. Only samples without a full CPU count. In
    them nothing stopped the server, and dear visits hardly make others wait. A governor raises the clock with the load,
    so a slow clock makes visits dear where few are inside."""
    used, sample = np.nan_to_num(seen.at(own)), own.which(seen.steps.middles)
    begins = np.flatnonzero(np.diff(sample, prepend=-1) | (np.diff(seen.steps.begins, prepend=0) != STEP_NS))
    part = np.repeat(np.arange(len(begins)), np.diff(begins, append=len(sample)))
    steps, work = np.bincount(part), np.bincount(part, here.done)
    whole = steps * STEP_NS >= (own.end - own.begin)[sample[begins]]
    good = whole & (used[begins] < AT_WORK * own.capacity) & (work >= MANY)
    good &= np.bincount(part, ~fine) == 0
    if int(good.sum()) < MANY:
        return False
    cost = (used[begins] * steps)[good] / work[good]
    return ranks.grow_together(cost, (np.bincount(part, here.inside) / steps)[good])


def _sums(window: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.bincount(window[window >= 0], values[window >= 0]), dtype=np.float64)


def _means(window: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(_sums(window, values) / np.bincount(window[window >= 0]))


def _windows(seen: Seen, own: Series, done: NDArray[np.float64], fine: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the window of each step, or -1. In each window the server did `VISITS` and was sampled twice. Windows do
    not reach over a step that is not `fine`, or over the gap between two stretches."""
    least = max(VISITS, 2 * own.interval_ns / STEP_NS * float(done.mean()), float(done.sum()) / MOMENTS)
    starts = ~fine | (np.diff(seen.steps.begins, prepend=0) != STEP_NS)
    summed = np.cumsum(np.where(fine, done, 0.0))
    before = summed - np.where(fine, done, 0.0)
    run = np.cumsum(starts) - 1
    first = before[np.flatnonzero(starts)][run]
    number = np.floor((before - first) / least).astype(np.int64)
    new = starts | (np.diff(number, prepend=0) != 0)
    window = np.cumsum(new) - 1
    full = np.bincount(window, np.where(fine, done, 0.0)) >= least / 2
    kept = np.where(full, np.cumsum(full) - 1, -1)[window]
    return np.where(fine, kept, -1)


def _growing(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the nondecreasing values that are nearest to these by least squares (Ayer and others 1955)."""
    sums: list[tuple[float, int]] = []
    for value in values.tolist():
        total, count = value, 1
        while sums and sums[-1][0] * count >= total * sums[-1][1]:
            above, more = sums.pop()
            total, count = total + above, count + more
        sums.append((total, count))
    return np.repeat([total / count for total, count in sums], [count for _, count in sums])
