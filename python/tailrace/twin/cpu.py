"""The account of capacity in terms of CPU time, where CPU use was sampled.

The ledger infers from visits alone how fast a server was. Samples say more: while visits always have work for a server
that something known keeps from the CPU, its CPU use is its capacity; and at other times CPU use says how much of the
time of visits was computing, and how much of the computing was outside of visits (the kernel, a collector).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.finding import UNKNOWN
from tailrace.diagnosis.ledger.account import Account, Line
from tailrace.diagnosis.ledger.losses import Seen
from tailrace.diagnosis.ledger.losses.collection import CAUSE as COLLECTION
from tailrace.diagnosis.ledger.steps import Shares
from tailrace.diagnosis.queues import Times
from tailrace.diagnosis.series import Series
from tailrace.diagnosis.view import View
from tailrace.units import MILLISECOND

COARSEST_NS = 100 * MILLISECOND
"""The longest sampling interval that shows the CPU use within a stall of some hundred milliseconds."""
ALWAYS = 0.95
"""From this share of a step on, visits are taken to have work for the server all the time."""
LEAST = 0.02
"""Of a step: less work or loss is within what the edges of steps hide."""
SMOOTHED = 25
"""Steps over which CPU use and work are compared: five samples of 50 ms, so that a tick of 10 ms is 4 %."""
AT_WORK = 0.1
"""Of a server that uses less of its CPU, most may be what it does without requests."""
OF_LISTENERS = ("accept_queue", "processes", "tasks_runnable")
"""Metrics that only a listener has."""
CPU_OF_WORK = (0.05, 2.0)
"""Bounds of CPU time over the work of visits: beyond them samples and visits do not show the same thing."""


@dataclass(frozen=True)
class Cpu:
    """`lost` is what each line took of each server's capacity. `rate` is the CPU time that visits at work got in each
    step, a row a server. `sampled` are servers whose CPU use was sampled closely enough."""

    lost: dict[Line, Shares]
    rate: NDArray[np.float64]
    sampled: frozenset[str]
    accounted: dict[str, float]
    """Of the servers that are at work: the share of their CPU time, at most 1, that the work of visits accounts for,
    while nothing takes their capacity. A slow processor is busy for longer than its visits compute."""
    more: dict[str, float]
    """Of the sampled servers: the CPU time of their visits over what these get at `rate`. In steps in which visits
    always had work, a loss that was recorded for too long makes visits seem to need less."""
    in_all: dict[str, float]
    """The same, also of steps in which something known kept the server from the CPU."""


def reconcile(seen: Seen, account: Account, beside: frozenset[str]) -> Cpu:
    """`beside` are servers that share a node: what one of them does not use may be what another used."""
    lost, rate = dict(account.taken), account.capacity.copy()
    sampled, accounted, more, in_all = set(), {}, {}, {}
    for number, server in enumerate(account.recorded.servers):
        own = own_use(seen.view, server)
        if own is None or own.interval_ns > COARSEST_NS:
            continue
        sampled.add(server)
        cores = account.replay.cores[number] if in_cpus(seen.view, own) else 1.0
        used = np.clip(own.extended(seen.steps.middles) / cores, 0.0, 1.0) * _speed(seen, server)
        busy = account.busy(server)
        mine = {line: share for line, share in account.taken.items() if line[1] == server}
        kept_off = _kept_off(mine, busy) & (server not in beside)
        lost |= _fitted(mine, used, kept_off, own.which(seen.steps.middles))
        left = 1.0 - sum((lost[line] for line in mine), np.zeros(len(used)))
        collects = mine.get((COLLECTION, server), np.zeros(len(used))) > 0.0
        usual = ~(collects | kept_off)
        share = _cpu_of_work(used, busy * left, usual)
        whole = usual & (left > 1.0 - LEAST)
        if whole.any() and (mean := float(used[whole].mean())) >= AT_WORK:
            accounted[server] = min(float((busy * left)[whole].mean()) / mean, 1.0)
        share = np.where(kept_off, 1.0, np.where(busy >= ALWAYS, np.minimum(share, 1.0), share))
        rate[number] = np.clip(left, 1e-4, 1.0) * share
        more[server] = _more(used, busy * rate[number], (busy >= ALWAYS) & usual)
        in_all[server] = _more(used, busy * rate[number], busy >= ALWAYS)
    return Cpu(lost, rate, frozenset(sampled), accounted, more, in_all)


def _more(used: Shares, work: Shares, full: NDArray[np.bool_]) -> float:
    whole = float(work.sum())
    return max(float(np.where(full, used, work).sum()) / whole, LEAST) if whole > 0.0 else 1.0


def own_use(view: View, server: str) -> Series | None:
    """The CPU use of the server itself, without that of others on its node."""
    return next((series for series in view.series(server, "cpu_busy") if view.is_own(series.place, server)), None)


def in_cpus(view: View, own: Series) -> bool:
    """Whether the CPU use of a server is counted in CPUs, and not as a share of those of its node. A recorder counts
    that of a listener so (docs/reference/record.md): of it, the processes or the accept queue are sampled, too."""
    return own.capacity > 1.0 or any((own.place, metric) in view.samples for metric in OF_LISTENERS)


def _speed(seen: Seen, server: str) -> Shares:
    """The clock rate as a share of the highest; 1 where it was not sampled."""
    now, most = (seen.view.series(server, name) or seen.view.elsewhere(name) for name in ("cpu_hz", "cpu_hz_max"))
    if not now or not most:
        return np.ones(len(seen.steps))
    middles = seen.steps.middles
    speed: Shares = np.clip(now[0].extended(middles) / np.maximum(most[0].extended(middles), 1.0), LEAST, 1.0)
    return speed


def _kept_off(lines: dict[Line, Shares], busy: Shares) -> NDArray[np.bool_]:
    """Steps in which visits had work all the time, and something known but a collector took CPU time."""
    nothing = np.zeros(len(busy))
    others = sum((share for (cause, _), share in lines.items() if cause not in (UNKNOWN, COLLECTION)), nothing)
    unsure = sum((share for (cause, _), share in lines.items() if cause in (UNKNOWN, COLLECTION)), nothing)
    kept: NDArray[np.bool_] = (busy >= ALWAYS) & (others > LEAST) & (unsure <= LEAST)
    return kept


def _fitted(lines: dict[Line, Shares], used: Shares, kept_off: NDArray[np.bool_], sample: Times) -> dict[Line, Shares]:
    """In these steps the lines take, over each sample, what the server did not use. Within a sample the ledger says
    when."""
    taken = sum(lines.values(), np.zeros(len(used)))
    due, had = (np.bincount(sample, weights=np.where(kept_off, values, 0.0)) for values in (1.0 - used, taken))
    # A machine may not see what it lost, so its CPU use shows that more was lost, and never that less was.
    factor = np.maximum(np.where(had > 0.0, due / np.where(had > 0.0, had, 1.0), 1.0), 1.0)[sample]
    whole = np.clip(taken * factor, 0.0, 1.0)
    scale = np.where(kept_off & (taken > 0.0), whole / np.where(taken > 0.0, taken, 1.0), 1.0)
    return {line: share * scale for line, share in lines.items()}


def _cpu_of_work(used: Shares, work: Shares, usual: NDArray[np.bool_]) -> Shares:
    """CPU time over the work of visits around each step."""
    window = np.ones(min(SMOOTHED, len(used)))
    sums = [np.convolve(np.where(usual, values, 0.0), window, mode="same") for values in (used, work)]
    whole = float(work[usual].sum())
    mean = float(used[usual].sum()) / whole if whole > 0.0 else 1.0
    known = sums[1] > LEAST * len(window)
    share = np.where(known, sums[0] / np.where(known, sums[1], 1.0), mean)
    clipped: Shares = np.clip(share, *CPU_OF_WORK)
    return clipped
