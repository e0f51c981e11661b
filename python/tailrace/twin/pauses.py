"""Visits that waited inside a server for something that the recording does not show, and used nothing of it meanwhile:
those that held its places without computing, those that waited together, as for a lock, and those that always take
equally long, however many share the server with them.

In the twin such visits are kinds of their own, which wait as long: by classes, whose bounds are a tenth apart.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.constants import STEP_NS
from tailrace.diagnosis.ledger import delays
from tailrace.diagnosis.ledger.account import Account, remeasured
from tailrace.diagnosis.ledger.losses import Seen
from tailrace.diagnosis.ledger.losses.places import CAUSE as HOLDING
from tailrace.diagnosis.queues import Times
from tailrace.twin.cpu import COARSEST_NS, in_cpus, own_use
from tailrace.units import MILLISECOND

WIDTH = 1.1
"""The longest wait of a class over its shortest: all are within a twentieth of its mean."""
LEAST, LEAST_NS = 5, 20 * MILLISECOND
"""So many visits at least show that a kind always takes equally long; shorter ones are within what steps show."""
ALIKE = 0.1
"""Of the median: so much is between the tenth and the ninetieth of a hundred visits that wait for the same timer …"""
SHARED = 0.5
"""… while they got at most half of a core, so that computing would have taken a time that depends on the others."""


@dataclass(frozen=True)
class Pauses:
    lasts: Times
    """By visit, how long it waited; 0: not at all."""

    @property
    def kind(self) -> Times:
        """By visit, the number of its class; 0: it did not wait."""
        logs = np.log(np.maximum(self.lasts / MILLISECOND, 1.0)) / np.log(WIDTH)
        classes: Times = np.where(self.lasts > 0, 1 + np.round(logs).astype(np.int64), 0)
        return classes

    @property
    def waited(self) -> NDArray[np.bool_]:
        return np.asarray(self.lasts > 0)


def find(seen: Seen, account: Account) -> Pauses:
    recorded = account.recorded
    lasts = np.zeros(len(recorded.sent), dtype=np.int64)
    stayed = recorded.departure - recorded.start
    alone = np.bincount(recorded.parent[recorded.parent >= 0], minlength=len(lasts)) == 0
    for line in account.losses:
        if line[0] == HOLDING:
            visits = account.visits_of(line)
            mine = visits[(recorded.server[visits] == recorded.number[line[1]]) & alone[visits]]
            lasts[mine] = stayed[mine]
    timed = _timed(seen, account, np.flatnonzero(alone & (lasts == 0) & (stayed >= LEAST_NS)), stayed)
    lasts[timed] = stayed[timed]
    held_up = (loss.delays for loss in account.losses.values() if loss.delays is not None)
    _, pause = delays.held_up(len(lasts), held_up)
    return Pauses(np.where(lasts > 0, lasts, pause))


def _timed(seen: Seen, account: Account, visits: Times, stayed: Times) -> Times:
    """Those of the visits whose kind always takes equally long, while they share the server with others."""
    before, work = (np.empty(len(stayed)) for _ in range(2))
    account.replay.works(before, work)
    work = np.minimum(work, _used(seen, account))
    group = account.recorded.group
    long, every = (np.bincount(of, minlength=account.recorded.groups) for of in (group[visits], group))
    found = [np.empty(0, dtype=np.int64)]
    for number in np.flatnonzero((long >= LEAST) & (long == every)).tolist():
        mine = visits[group[visits] == number]
        low, middle, high = np.percentile(stayed[mine], (10, 50, 90)).tolist()
        if high - low <= ALIKE * middle and float(work[mine].sum()) <= SHARED * float(stayed[mine].sum()):
            found.append(mine)
    return np.concatenate(found)


def _used(seen: Seen, account: Account) -> NDArray[np.float64]:
    """The most that each visit can have computed: what its server used of its CPU while the visit was inside, where
    that was sampled."""
    recorded, edges = account.recorded, seen.steps.edges
    found = np.full(len(recorded.sent), np.inf)
    for number, server in enumerate(recorded.servers):
        own = own_use(seen.view, server)
        if own is None or own.interval_ns > COARSEST_NS:
            continue
        cores = 1.0 if in_cpus(seen.view, own) else account.replay.cores[number]
        used = np.concatenate(([0.0], np.cumsum(own.extended(seen.steps.middles) * cores * STEP_NS)))
        mine = np.flatnonzero(recorded.server == number)
        begin, end = (np.interp(when[mine], edges, used) for when in (recorded.start, recorded.departure))
        found[mine] = end - begin
    return found


def without(seen: Seen, account: Account, pauses: Pauses) -> Account:
    """The account of the recording in which such visits need nothing of the server while they wait. Those of a lock
    have been taken out of it already."""
    held = pauses.waited & (account.recorded.start + pauses.lasts >= account.recorded.departure)
    start = np.where(held, account.recorded.departure, account.recorded.start)
    return remeasured(seen, account, replace(account.recorded, start=start)) if held.any() else account
