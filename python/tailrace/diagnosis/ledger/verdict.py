"""The judge of a cause: the recording is replayed without it, and the very slow requests that are left are counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import factorial

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.causes import balancer, workload_burst
from tailrace.diagnosis.ledger import bursts, retries
from tailrace.diagnosis.ledger.account import Account, Line, draw_up
from tailrace.diagnosis.ledger.books import NEVER, Books, Extract
from tailrace.diagnosis.ledger.losses import Seen
from tailrace.diagnosis.ledger.recorded import Recorded, record
from tailrace.diagnosis.ledger.steps import STEP_NS
from tailrace.diagnosis.queues import Times
from tailrace.diagnosis.view import View
from tailrace.diagnosis.vlrt import Cluster, Slow
from tailrace.units import MILLISECOND, SECOND

BURST, BALANCER, RETRIES = workload_burst.CAUSE, balancer.CAUSE, retries.CAUSE
MATTERS = 0.02
"""A line that changes less than a fiftieth of the very slow requests, alone or on top of the others, is left out."""
PLAYERS = 5
"""Lines of which all subsets are replayed: 32 replays. Of more, those that matter most."""
SMALLEST_NS = 30 * MILLISECOND
"""A line that took less than three steps of a server around an episode cannot delay a request by seconds."""
BEFORE_NS = 2 * SECOND
"""A line matters for an episode that begins up to this long after it: the longest queue of the papers is worked off in
less."""
REPRODUCED = (0.7, 1.4)
"""The very slow requests of the replay over those of the recording: outside of this the replay is no model of it."""


@dataclass(frozen=True)
class Share:
    """How many of the very slow requests a line is charged with. What nothing accounts for (`UNKNOWN`) is a line,
    too."""

    cause: str
    server: str | None
    """Whose capacity it took; of a balancer, who balances; None of bursts and retries, which are the clients'."""
    vlrt: float
    without: int
    """How many would have been left without this line alone."""
    place: str | None = None


@dataclass(frozen=True)
class Replayed:
    """Of one episode."""

    recorded: int
    replayed: int
    shares: tuple[Share, ...]
    """The largest first."""
    extract: Extract
    """The account around it."""

    @property
    def error(self) -> float:
        return abs(self.replayed - self.recorded) / max(self.recorded, 1)

    @property
    def reproduced(self) -> bool:
        low, high = REPRODUCED
        return low * self.recorded - 2 <= self.replayed <= high * self.recorded + 2


def judge(view: View, slow: Slow) -> tuple[Replayed | None, ...]:
    """One for each episode; None where there is nothing to replay."""
    recorded = record(view, slow)
    if recorded is None:
        return tuple(None for _ in slow.clusters)
    seen = Seen(view, slow, recorded.steps)
    bench = _Bench(seen, draw_up(seen, recorded))
    return tuple(_verdict(bench, number, cluster) for number, cluster in enumerate(slow.clusters))


class _Bench:
    """Replays the account without some lines."""

    def __init__(self, seen: Seen, account: Account) -> None:
        self.seen = seen
        self.account = account
        repeated = retries.repeated(seen.view, account.recorded)
        beyond = bursts.beyond(account.recorded, seen.slow, repeated)
        self.of_clients = {(BURST, ""): beyond, (RETRIES, ""): repeated}
        self.owner = _owners(account.recorded, seen.slow, seen.view.window_ns)
        self._slow: dict[frozenset[Line], NDArray[np.int64]] = {}
        self._as_it_was: tuple[Times, Times] = (account.recorded.arrival, account.recorded.departure)

    @cached_property
    def books(self) -> Books:
        """The account, and the replay of it as it was."""
        self.slow(frozenset())
        return Books(self.account, *self._as_it_was)

    def extract(self, cluster: Cluster) -> Extract:
        """The account around an episode: from where a line can begin to matter until the last request is answered."""
        answered = int(self.seen.slow.requests["end"].to_numpy()[cluster.rows].max())
        first, last = np.searchsorted(self.seen.steps.begins, (cluster.begin - BEFORE_NS, answered)).tolist()
        return Extract(self.books, first, max(last, first + 1))

    def lines(self, cluster: Cluster) -> list[Line]:
        """Those that can have mattered for an episode."""
        begins = self.seen.steps.begins
        around = (begins >= cluster.begin - BEFORE_NS) & (begins <= cluster.end + cluster.shortest_ns)
        first, last = self.seen.steps.shortened(np.array([cluster.begin - BEFORE_NS, cluster.end + 1])).tolist()
        found = [
            line
            for line, share in self.account.taken.items()
            if float(share[around].sum()) * STEP_NS >= SMALLEST_NS or self._held(line, first, last)
        ]
        for line, requests in self.of_clients.items():
            sent = self.account.recorded.sent[requests]
            if ((sent >= first) & (sent < last)).any():
                found.append(line)
        stalled = {self.seen.view.servers.index(server) for _, server in found if server}
        chosen = zip(self.account.choices.by, self.account.choices.candidates, strict=True)
        uneven = [by for by, candidates in chosen if stalled & {server for server, _ in candidates}]
        return found + [(BALANCER, by) for by in dict.fromkeys(uneven)]

    def _held(self, line: Line, begin: int, end: int) -> bool:
        """Whether visits of this line held places then."""
        recorded, visits = self.account.recorded, self.account.visits_of(line)
        return bool(((recorded.start[visits] < end) & (recorded.departure[visits] > begin)).any())

    def slow(self, without: frozenset[Line]) -> NDArray[np.int64]:
        """How many requests of each episode are very slow without these lines."""
        if without not in self._slow:
            self._slow[without] = self._run(without)
        return self._slow[without]

    def _run(self, without: frozenset[Line]) -> NDArray[np.int64]:
        recorded, account = self.account.recorded, self.account
        capacity, sent = account.capacity.copy(), recorded.sent.copy()
        by_itself = np.zeros(len(sent), dtype=bool)
        for line, share in account.taken.items():
            if line in without:
                number = recorded.number[line[1]]
                capacity[number] = np.minimum(capacity[number] + share, 1.0)
                held = recorded.roots(account.visits_of(line))
                sent[held], by_itself[held] = NEVER, True
        for line in without & self.of_clients.keys():
            sent[self.of_clients[line]] = NEVER
        anew = [(BALANCER, by) in without for by in account.choices.by]
        departure, arrival = np.empty(len(sent), dtype=np.int64), np.empty(len(sent), dtype=np.int64)
        account.replay.run(capacity, sent, anew, departure, arrival)
        if not without:
            self._as_it_was = arrival, departure
        asked = (recorded.parent < 0) & (sent < NEVER)
        late = np.where(by_itself, recorded.departure - recorded.sent, departure - np.where(asked, sent, 0))
        # What takes very long by itself would do so without others, too.
        slow = (asked | by_itself) & ((departure == NEVER) & asked | (late >= self.seen.slow.threshold_ns))
        return np.bincount(self.owner[slow] + 1, minlength=len(self.seen.slow.clusters) + 1)[1:]


def _owners(recorded: Recorded, slow: Slow, window_ns: int) -> Times:
    """By visit, the episode that its request counts for, or -1: its own, or that in whose time it was sent, within a
    window. Which of several that came at once was dropped is chance."""
    owner = np.full(len(recorded.sent), -1, dtype=np.int64)
    sent = recorded.sent
    for number, cluster in enumerate(slow.clusters):
        begin, end = recorded.steps.shortened(np.array([cluster.begin, cluster.end])).tolist()
        owner[(owner < 0) & (sent >= begin - window_ns) & (sent <= end + window_ns)] = number
    for number, cluster in enumerate(slow.clusters):
        owner[np.isin(recorded.request, slow.requests["request"].to_numpy()[cluster.rows])] = number
    return owner


def _verdict(bench: _Bench, number: int, cluster: Cluster) -> Replayed:
    count = cluster.vlrt

    def left(without: frozenset[Line]) -> int:
        return int(bench.slow(without)[number])

    lines = bench.lines(cluster)
    everything = frozenset(lines)
    as_it_was, none = left(frozenset()), left(everything)
    alone = {line: left(frozenset({line})) for line in lines}
    weight = {line: max(as_it_was - alone[line], left(everything - {line}) - none) for line in lines}
    ranked = [line for line in sorted(lines, key=lambda line: -weight[line]) if weight[line] >= MATTERS * count]
    players, others = ranked[:PLAYERS], everything - set(ranked[:PLAYERS])
    # What does not matter by itself is away throughout: it may matter where nothing else holds anybody up.
    whole = max(as_it_was, left(others))
    worth = shapley(players, lambda gone: left(gone | others)) if as_it_was else {}
    shares = [
        Share(
            cause,
            server or None,
            value * count / whole,
            alone[cause, server],
            bench.account.who((cause, server)),
        )
        for (cause, server), value in worth.items()
        if value > 0.0
    ]
    return Replayed(count, as_it_was, tuple(sorted(shares, key=lambda share: -share.vlrt)), bench.extract(cluster))


def shapley(players: Sequence[Line], left: Callable[[frozenset[Line]], int]) -> dict[Line, float]:
    """Shapley's value of each player: the mean, over all orders, of what disappears when it is taken away (1953)."""
    n = len(players)
    value = dict.fromkeys(players, 0.0)
    for size in range(n):
        weight = factorial(size) * factorial(n - size - 1) / factorial(n)
        for gone in combinations(players, size):
            before = left(frozenset(gone))
            for player in set(players) - set(gone):
                value[player] += weight * (before - left(frozenset((*gone, player))))
    return value
