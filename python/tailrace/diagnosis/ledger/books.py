"""The books hold the account around one episode as sums and as columns. They show what became of the capacity of each
server, and its queue in the recording and in the replay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.finding import UNKNOWN
from tailrace.diagnosis.judged import DONE, IDLE, UNACCOUNTED, Columns, Lost, Sheet
from tailrace.diagnosis.ledger.account import Account
from tailrace.diagnosis.ledger.recorded import NEVER
from tailrace.diagnosis.ledger.steps import STEP_NS, Shares
from tailrace.diagnosis.queues import Stays, Times

SLOWED = 2.0
"""Chance makes the median stay of some hundred visits longer by a tenth; a queue makes it several times as long."""
LEAST_QUEUE = 1.0
"""Mean queues that differ by less than one visit are the same."""


@dataclass(frozen=True)
class ServerBooks:
    """It describes one server: its visits in the recording and in the replay, and the share of its cores at work in
    each step."""

    recorded: Stays
    replayed: Stays
    busy: Shares
    arrival: Times
    own_ns: Times
    """For each visit, this is the time in which it was inside and had no call open."""
    calm_ns: float
    """This is the median of the same time in calm steps."""

    def own(self, first: int, last: int) -> tuple[float, float]:
        """Return the mean own queue in these steps. Also return how many times as long as usual half of the visits
        stayed."""
        inside = (self.arrival >= first * STEP_NS) & (self.arrival < last * STEP_NS)
        if not inside.any():
            return 0.0, 0.0
        took = self.own_ns[inside]
        return float(took.sum()) / ((last - first) * STEP_NS), float(np.median(took)) / max(self.calm_ns, 1.0)


@dataclass(frozen=True)
class Books:
    """It holds an account, and the times at which its visits arrive and leave in the replay of all lines."""

    depth: Mapping[str, int]
    """It holds the distance of each server from the clients."""
    calm: NDArray[np.bool_]
    """It shows which steps are calm."""
    account: Account
    arrival: Times
    departure: Times
    _known: dict[str, ServerBooks] = field(default_factory=dict)

    def of(self, server: str) -> ServerBooks:
        if server not in self._known:
            recorded, replay = self.account.recorded, self.account.replay
            number = recorded.number[server]
            here = recorded.server == number
            self._known[server] = ServerBooks(
                _stays(recorded.arrival[here], recorded.departure[here]),
                _stays(self.arrival[here], self.departure[here]),
                np.clip(np.array(replay.busy(number)) / (replay.cores[number] * STEP_NS), 0.0, 1.0),
                recorded.arrival[here],
                recorded.own_ns[here],
                self._usual(recorded.arrival[here], recorded.own_ns[here]),
            )
        return self._known[server]

    def _usual(self, arrival: Times, own_ns: Times) -> float:
        step = np.minimum(arrival // STEP_NS, len(self.calm) - 1)
        calm = own_ns[self.calm[step]]
        return float(np.median(calm)) if len(calm) else 0.0


@dataclass(frozen=True)
class Extract:
    """It covers the steps from `first` to before `last`, which are at least one."""

    books: Books
    first: int
    last: int

    @property
    def servers(self) -> tuple[str, ...]:
        return self.books.account.recorded.servers

    def unlike(self, low: float, high: float) -> tuple[str, ...]:
        """Return the servers with a mean queue in the replay of less than `low` times or more than `high` times the
        recorded one. The most different server comes first."""
        found = []
        for server in self.servers:
            recorded, replayed = (float(queue.mean()) for queue in self.queues(server))
            apart = abs(replayed - recorded)
            if apart >= LEAST_QUEUE and not low * recorded <= replayed <= high * recorded:
                found.append((apart, server))
        return tuple(server for _, server in sorted(found, key=lambda one: -one[0]))

    def lost_most(self) -> str | None:
        """Return the server that lost the most capacity, or None where no server lost any."""
        lost = dict.fromkeys(self.servers, 0.0)
        for (_, server), share in self.books.account.taken.items():
            lost[server] += float(share[self.first : self.last].sum())
        most = max(lost, key=lost.__getitem__, default=None)
        return most if most is not None and lost[most] > 0.0 else None

    def took(self, cause: str, server: str, least: float) -> tuple[int, int, int | None, int | None]:
        """Return the CPU time that a cause took of a server and the CPU time that the server lacked, in nanoseconds.
        Also return when it began and ended to take at least the share `least` of the server; None if it never did."""
        account = self.books.account
        share = account.taken.get((cause, server))
        if share is None:
            return 0, 0, None, None
        inside = slice(self.first, self.last)
        unit = account.replay.cores[account.recorded.number[server]] * STEP_NS
        lacked = round(unit * float(account.taken_of(server)[inside].sum()))
        acts = np.flatnonzero(share[inside] >= least) + self.first
        begins = account.recorded.steps.begins
        span = (int(begins[acts[0]]), int(begins[acts[-1]]) + STEP_NS) if len(acts) else (None, None)
        return round(unit * float(share[inside].sum())), lacked, *span

    def narrowest(self, until: int | None) -> str | None:
        """Return the server furthest from the clients of those in which half of the visits stayed for twice as long as
        in calm time, and whose own queue was at least a quarter as long as the longest one. Visits that arrived after
        `until` (nanoseconds since the Unix epoch) do not count."""
        steps = self.books.account.recorded.steps
        last = self.last if until is None else int(steps.at(steps.shortened(np.array([until])))[0]) + 1
        own = {name: self.books.of(name).own(self.first, max(last, self.first + 1)) for name in self.servers}
        longest = max((queue for queue, _ in own.values()), default=0.0)
        slowed = [name for name, (queue, slower) in own.items() if queue * 4 >= longest and slower >= SLOWED]
        return max(slowed, key=lambda name: self.books.depth[name], default=None)

    def queues(self, server: str) -> tuple[Shares, Shares]:
        """Return how many visits are inside in the middle of each step, in the recording and in the replay."""
        middles = self.books.account.recorded.steps.edges[self.first : self.last] + STEP_NS // 2
        of = self.books.of(server)
        return of.recorded.queue(middles).astype(np.float64), of.replayed.queue(middles).astype(np.float64)

    def sheet(self, server: str, moments: int) -> Sheet:
        """Return the sums of a server, and at most `moments` moments of its columns."""
        account = self.books.account
        shares = self._shares(server)
        cores = account.replay.cores[account.recorded.number[server]]
        capacity = round(cores * STEP_NS * (self.last - self.first))
        sums = {name: round(cores * STEP_NS * float(share.sum())) for name, share in shares.items()}
        lost = tuple(Lost(name, ns) for name, ns in sums.items() if name not in (DONE, IDLE, UNACCOUNTED))
        left = capacity - sum(one.lost_ns for one in lost) - sums[UNACCOUNTED]
        done = min(sums[DONE], left)
        columns = self._columns(server, shares, moments)
        end = int(account.recorded.steps.begins[self.last - 1]) + STEP_NS
        return Sheet(server, columns.begin, end, capacity, done, left - done, lost, sums[UNACCOUNTED], columns)

    def _shares(self, server: str) -> dict[str, Shares]:
        """Return the shares of the capacity in each step. They add up to 1."""
        inside = slice(self.first, self.last)
        lines = {cause: share[inside] for (cause, of), share in self.books.account.taken.items() if of == server}
        unaccounted = lines.pop(UNKNOWN, np.zeros(self.last - self.first))
        taken = {cause: share for cause, share in lines.items() if share.any()}
        left = np.clip(1.0 - np.sum([unaccounted, *taken.values()], axis=0), 0.0, 1.0)
        done = left * self.books.of(server).busy[inside]
        return {DONE: done, **taken, UNACCOUNTED: unaccounted, IDLE: left - done}

    def _columns(self, server: str, shares: dict[str, Shares], moments: int) -> Columns:
        every = max(-(-(self.last - self.first) // max(moments, 1)), 1)
        recorded, replayed = self.queues(server)
        begin = int(self.books.account.recorded.steps.begins[self.first])
        means = {name: _means(share, every) for name, share in shares.items()}
        return Columns(begin, every * STEP_NS, means, _means(recorded, every), _means(replayed, every))


def _stays(arrival: Times, departure: Times) -> Stays:
    """Return the stays of the visits that arrived. A visit that never left stays inside."""
    came = arrival < NEVER
    return Stays.of(arrival[came], departure[came & (departure < NEVER)])


def _means(values: Shares, every: int) -> NDArray[np.float64]:
    """Return the mean of each `every` values. The last mean covers the values that are left."""
    bounds = np.arange(0, len(values), every)
    counts = np.diff(np.append(bounds, len(values)))
    means: NDArray[np.float64] = np.add.reduceat(values, bounds) / counts
    return means
