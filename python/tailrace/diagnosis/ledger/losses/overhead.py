"""More visits inside made the server slower: threads compete for its CPU, caches and collector.

No sample shows this, but samples of the CPU and visits together do. The CPU time for each visit is what the server used
divided by the visits that it did (the service demand law; Denning and Buzen 1978). `find` compares times with few and
with many visits inside in which nothing else took capacity. Where this shows nothing, `account` attributes to it what
the server lacked while it filled its CPU, if it lacked the more, the more visits were inside.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis import settle
from tailrace.diagnosis.constants import MANY, MOMENTS, SEVERAL
from tailrace.diagnosis.ledger.losses.loss import Loss, Seen
from tailrace.diagnosis.ledger.recorded import Recorded
from tailrace.diagnosis.ledger.steps import STEP_NS, Shares
from tailrace.diagnosis.series import AT_WORK, Series
from tailrace.diagnosis.view import View

CAUSE = "concurrency-overhead"
SAYS = "what {server} lost because many visits were inside"
PLAIN = "{origin} became slower the more requests it held"
METRICS, EVENTS = ("cpu_busy",), ()
COMPUTES = True
RELATED = 0.7
"""A rank correlation of so much explains half of the variance of the ranks."""
VISITS = 400
"""The CPU time of so many visits varies by a twentieth by chance, where that of a single one varies by its mean."""
APART = 3.51
"""The means of the highest and of the lowest tenth of normal values differ by so many standard deviations: 2 φ(z) / 0.1
with the ninth decile z."""
NORMAL = 1.4826
"""The standard deviation of normal values is so many times their median absolute deviation."""
OTHERS = 0.01
"""A step in which other causes took more than this says nothing about the visits."""


@dataclass(frozen=True)
class Curve:
    """The CPU time for each visit grows with the visits inside: from `inside[i]` on it is `cost[i]`, in any unit."""

    inside: NDArray[np.float64]
    cost: NDArray[np.float64]

    def at(self, inside: NDArray[np.float64]) -> NDArray[np.float64]:
        which = np.searchsorted(self.inside, inside, "right") - 1
        return np.asarray(self.cost[np.maximum(which, 0)])


def find(seen: Seen, server: str) -> Loss | None:
    """Return what a server lost to overhead beyond what it usually loses, where its samples show that its CPU time for
    each visit grows with the visits inside. Collections that nobody recorded would raise both numbers, too."""
    recorded = seen.recorded_visits
    if recorded is None or settle.unseen_collections(seen.view, server) is not None:
        return None
    for own in seen.view.series(server, "cpu_busy")[:1]:
        inside = seen.view.own_queue(server, recorded.steps.middles).astype(np.float64)
        done = _done(seen, recorded, server)
        curve = _curve(seen, own, inside, done, seen.lost.get(server, np.zeros(len(seen.steps))))
        if curve is None:
            return None
        cost, calm = curve.at(inside), done * seen.calm
        usual = float(np.average(cost, weights=calm)) if calm.any() else float(curve.cost[0])
        return Loss(np.clip(1.0 - usual / cost, 0.0, 1.0))
    return None


def missing(view: View, server: str) -> str | None:
    return None if view.series(server, "cpu_busy") else f"cpu_busy of {server}"


def _done(seen: Seen, recorded: Recorded, server: str) -> NDArray[np.float64]:
    """Return how many usual visits a server did in each step. A visit counts for a half when it comes and for a half
    when it leaves, because those inside have done half of their work on average. It counts for as many usual visits as
    its group takes times as long as the others in calm time."""
    here = np.flatnonzero(recorded.server == recorded.number[server])
    steps, group = len(recorded.steps), recorded.group[here]
    came, left = recorded.steps.at(recorded.arrival[here]), recorded.steps.at(recorded.departure[here])
    calm = seen.calm[came] if seen.calm[came].any() else np.ones(len(here), dtype=bool)
    count = np.bincount(group[calm], minlength=recorded.groups)
    took = np.bincount(group[calm], recorded.own_ns[here[calm]].astype(np.float64), recorded.groups)
    mean = took.sum() / max(count.sum(), 1)
    weight = np.where(count > 0, took / np.maximum(count, 1) / max(mean, 1.0), 1.0)[group]
    return np.asarray((np.bincount(came, weight, steps) + np.bincount(left, weight, steps)) / 2)


def _curve(
    seen: Seen, own: Series, inside: NDArray[np.float64], done: NDArray[np.float64], others: Shares
) -> Curve | None:
    """Return the relation, or None where the samples do not show one."""
    used, fine = np.nan_to_num(seen.at(own)), np.isfinite(seen.at(own)) & (others <= OTHERS)
    window = _windows(seen, own, done, fine)
    if int(window.max(initial=-1)) + 1 < MANY:
        return None
    work, time, mean = _sums(window, done), _sums(window, used), _means(window, inside)
    order = np.argsort(mean, kind="stable")
    cost = (time / work)[order]
    if not (_is_dearer(cost) or _grows_in_spare_time(seen, own, inside, done, fine)):
        return None
    return Curve(mean[order], _growing(cost))


def _is_dearer(cost: NDArray[np.float64]) -> bool:
    """Return whether a visit costs more with many inside than with few, by more than chance explains. `cost` is in the
    order of the visits inside. Dear visits make others wait, so by chance windows with many inside are the dearer ones;
    but even the dearest tenth and the cheapest tenth differ only by `APART` standard deviations. A server that became
    slower for another reason has its dear windows among those with the most inside, and the others cost the same. So
    only the half of the windows with fewer inside counts."""
    half = cost[: len(cost) // 2]
    tenth = len(half) // 10
    if tenth < SEVERAL:
        return False
    low, high = half[:tenth], half[-tenth:]
    spread = max(NORMAL * float(np.median(np.abs(part - np.median(part)))) for part in (low, high))
    return float(np.median(high) - np.median(low)) > APART * spread


def _grows_in_spare_time(
    seen: Seen, own: Series, inside: NDArray[np.float64], done: NDArray[np.float64], fine: NDArray[np.bool_]
) -> bool:
    """Return whether visits were dearer in samples with more of them inside. Only samples without a full CPU count. In
    them nothing stopped the server, and dear visits hardly make others wait. A governor raises the clock with the load,
    so a slow clock makes visits dear where few are inside."""
    used, sample = np.nan_to_num(seen.at(own)), own.which(seen.steps.middles)
    begins = np.flatnonzero(np.diff(sample, prepend=-1) | (np.diff(seen.steps.begins, prepend=0) != STEP_NS))
    part = np.repeat(np.arange(len(begins)), np.diff(begins, append=len(sample)))
    steps, work = np.bincount(part), np.bincount(part, done)
    whole = steps * STEP_NS >= (own.end - own.begin)[sample[begins]]
    good = whole & (used[begins] < AT_WORK * own.capacity) & (work >= MANY)
    good &= np.bincount(part, ~fine) == 0
    if int(good.sum()) < MANY:
        return False
    cost = (used[begins] * steps)[good] / work[good]
    return grows(cost, (np.bincount(part, inside) / steps)[good])


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


def grows(lacked: Shares, inside: Shares) -> bool:
    """Return whether a server lacked the more, the more visits were inside (rank correlation, Spearman 1904)."""
    if len(lacked) < MANY or not np.ptp(lacked) or not np.ptp(inside):
        return False
    ranks = [
        np.argsort(np.argsort(values, kind="stable"), kind="stable").astype(np.float64) for values in (lacked, inside)
    ]
    return bool(np.corrcoef(ranks[0], ranks[1])[0, 1] >= RELATED)
