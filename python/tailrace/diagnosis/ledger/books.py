"""The account around one episode as sums and as columns: what became of the capacity of each server, and its queue in
the recording and in the replay."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.causes import UNKNOWN
from tailrace.diagnosis.judged import DONE, IDLE, UNACCOUNTED, Columns, Lost, Sheet
from tailrace.diagnosis.ledger.account import Account
from tailrace.diagnosis.ledger.steps import STEP_NS, Shares
from tailrace.diagnosis.queues import Times

NEVER = np.iinfo(np.int64).max
LEAST_QUEUE = 1.0
"""Mean queues that differ by less than one visit are the same."""


@dataclass(frozen=True)
class Books:
    """Steps `first` to `last` of an account; when its visits arrive and leave in the replay of all lines."""

    account: Account
    first: int
    last: int
    arrival: Times
    departure: Times

    @property
    def servers(self) -> tuple[str, ...]:
        return self.account.recorded.servers

    def unlike(self, low: float, high: float) -> tuple[str, ...]:
        """Servers whose mean queue in the replay is less than `low` or more than `high` of the recorded one."""
        found = []
        for server in self.servers:
            recorded, replayed = (
                (float(queue.mean()) for queue in self.queues(server)) if self.last > self.first else (0, 0)
            )
            apart = abs(replayed - recorded)
            if apart >= LEAST_QUEUE and not low * recorded <= replayed <= high * recorded:
                found.append((apart, server))
        return tuple(server for _, server in sorted(found, key=lambda one: -one[0]))

    def lost_most(self) -> str | None:
        """The server that lost the most capacity; None where none lost any."""
        by_server = {
            server: float(self.account.taken_of(server)[self.first : self.last].sum()) for server in self.servers
        }
        most = max(by_server, key=lambda server: by_server[server], default=None)
        return most if most is not None and by_server[most] > 0.0 else None

    def queues(self, server: str) -> tuple[Shares, Shares]:
        """Recorded and replayed: how many visits are inside in the middle of each step."""
        recorded = self.account.recorded
        middles = np.arange(self.first, self.last, dtype=np.int64) * STEP_NS + STEP_NS // 2
        here = recorded.server == recorded.number[server]
        both = ((recorded.arrival, recorded.departure), (self.arrival, self.departure))
        before, after = (_inside(arrival[here], departure[here], middles) for arrival, departure in both)
        return before, after

    def sheet(self, server: str, moments: int) -> Sheet:
        """The sums of a server, and no more than so many moments of its columns."""
        shares = self._shares(server)
        cores = self.account.replay.cores[self.account.recorded.number[server]]
        capacity = round(cores * STEP_NS * (self.last - self.first))
        sums = {name: round(cores * STEP_NS * float(share.sum())) for name, share in shares.items()}
        lost = tuple(Lost(name, ns) for name, ns in sums.items() if name not in (DONE, IDLE, UNACCOUNTED))
        rest = capacity - sum(one.lost_ns for one in lost) - sums[UNACCOUNTED]
        done = min(sums[DONE], rest)
        columns = self._columns(server, shares, moments)
        begin, end = columns.begin, int(self.account.recorded.steps.begins[self.last - 1]) + STEP_NS
        return Sheet(server, begin, end, capacity, done, rest - done, lost, sums[UNACCOUNTED], columns)

    def _shares(self, server: str) -> dict[str, Shares]:
        """Of the capacity in each step; they add up to 1."""
        inside = slice(self.first, self.last)
        account, number = self.account, self.account.recorded.number[server]
        taken: dict[str, Shares] = {}
        for (cause, of), share in account.taken.items():
            if of == server and share[inside].any():
                taken[UNACCOUNTED if cause == UNKNOWN else cause] = share[inside]
        unaccounted = taken.pop(UNACCOUNTED, np.zeros(self.last - self.first))
        left = np.clip(1.0 - unaccounted - sum(taken.values(), np.zeros(self.last - self.first)), 0.0, 1.0)
        busy = np.array(account.replay.busy(number))[inside] / (account.replay.cores[number] * STEP_NS)
        done = left * np.clip(busy, 0.0, 1.0)
        return {DONE: done, **taken, UNACCOUNTED: unaccounted, IDLE: left - done}

    def _columns(self, server: str, shares: dict[str, Shares], moments: int) -> Columns:
        every = max(-(-(self.last - self.first) // max(moments, 1)), 1)
        recorded, replayed = self.queues(server)
        begin = int(self.account.recorded.steps.begins[self.first])
        means = {name: _means(share, every) for name, share in shares.items()}
        return Columns(begin, every * STEP_NS, means, _means(recorded, every), _means(replayed, every))


def _inside(arrival: Times, departure: Times, moments: Times) -> Shares:
    came, left = np.sort(arrival[arrival < NEVER]), np.sort(departure[(arrival < NEVER) & (departure < NEVER)])
    inside: Shares = (np.searchsorted(came, moments, "right") - np.searchsorted(left, moments, "right")).astype(float)
    return inside


def _means(values: Shares, every: int) -> NDArray[np.float64]:
    """Of so many values each; the last of those that are left."""
    bounds = np.arange(0, len(values), every)
    counts = np.diff(np.append(bounds, len(values)))
    means: NDArray[np.float64] = np.add.reduceat(values, bounds) / counts
    return means
