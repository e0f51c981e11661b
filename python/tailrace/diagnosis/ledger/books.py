"""The books hold the account and its replay, server by server, and give extracts of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.constants import STEP_NS
from tailrace.diagnosis.ledger.account import Account
from tailrace.diagnosis.ledger.extract import Extract, ServerExtract, half_ns
from tailrace.diagnosis.ledger.steps import NEVER, Shares
from tailrace.diagnosis.queues import Stays, Times


@dataclass(frozen=True)
class ServerBooks:
    """It describes one server: its visits in the recording and in the replay, and the share of its cores at work in
    each step."""

    recorded: Stays
    replayed: Stays
    busy: Shares
    arrival: Times
    """The visits are in the order of their arrival."""
    own_ns: Times
    """For each visit, this is the time in which it was inside and had no call open."""
    calm_ns: float
    """This is the median of the same time in calm steps."""
    calm_half_ns: float
    """Visits that stayed for longer than this make up half of the own queue in calm steps."""


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

    def extract(self, first: int, last: int) -> Extract:
        """Return the steps from `first` to before `last`, which are at least one."""
        recorded = self.account.recorded
        begins = recorded.steps.begins[first:last].copy()
        return Extract(begins, self.depth, {server: self._part(server, first, last) for server in recorded.servers})

    def _part(self, server: str, first: int, last: int) -> ServerExtract:
        """Return copies, because a part of an array would keep all of it in memory."""
        of, account = self._of(server), self.account
        middles = account.recorded.steps.edges[first:last] + STEP_NS // 2
        came = slice(*np.searchsorted(of.arrival, (first * STEP_NS, last * STEP_NS)).tolist())
        return ServerExtract(
            account.replay.cores[account.recorded.number[server]],
            {cause: share[first:last].copy() for (cause, its), share in account.taken.items() if its == server},
            of.busy[first:last].copy(),
            of.recorded.queue(middles).astype(np.float64),
            of.replayed.queue(middles).astype(np.float64),
            (of.arrival[came] // STEP_NS - first).astype(np.int32),
            of.own_ns[came].copy(),
            of.calm_ns,
            of.calm_half_ns,
        )

    def _of(self, server: str) -> ServerBooks:
        if server not in self._known:
            recorded = self.account.recorded
            # What a request that was never answered would have needed was not recorded, so there is nothing to compare.
            here = np.flatnonzero((recorded.server == recorded.number[server]) & (recorded.like < 0))
            here = here[np.argsort(recorded.arrival[here], kind="stable")]
            self._known[server] = ServerBooks(
                _stays(recorded.arrival[here], recorded.departure[here]),
                _stays(self.arrival[here], self.departure[here]),
                np.clip(self.account.busy(server), 0.0, 1.0),
                recorded.arrival[here],
                recorded.own_ns[here],
                *self._usual(recorded.arrival[here], recorded.own_ns[here]),
            )
        return self._known[server]

    def _usual(self, arrival: Times, own_ns: Times) -> tuple[float, float]:
        calm = own_ns[self.calm[self.account.recorded.steps.at(arrival)]]
        return (float(np.median(calm)), half_ns(calm)) if len(calm) else (0.0, 0.0)


def _stays(arrival: Times, departure: Times) -> Stays:
    """Return the stays of the visits that arrived. A visit that never left stays inside."""
    came = arrival < NEVER
    return Stays.of(arrival[came], departure[came & (departure < NEVER)])
