"""The judge of a cause: the recording is replayed without it, and the very slow requests that are left are counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from math import factorial

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.causes import balancer, workload_burst
from tailrace.diagnosis.ledger import bursts, retries
from tailrace.diagnosis.ledger.account import Account, Line, draw_up
from tailrace.diagnosis.ledger.books import Books, Extract
from tailrace.diagnosis.ledger.groups import Group, owners, together
from tailrace.diagnosis.ledger.losses import Seen
from tailrace.diagnosis.ledger.recorded import NEVER, NONE, record
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
NEARLY_ALL = 0.7
"""Of the very slow requests of a replay: lines without which so many do not occur explain all."""
REPRODUCED = (0.6, 1.4)
"""The very slow requests of the replay over those of the recording: counts of models are off by up to two fifths, and
tell what is necessary all the same. Outside of this the replay is no model of the episode."""


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
    tested: frozenset[str]
    """Causes that were taken away. The account has none that took next to nothing."""

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
    groups = together(slow)
    bench = _Bench(seen, draw_up(seen, recorded), groups)
    found: dict[int, Replayed] = {}
    for number, group in enumerate(groups):
        shares, replayed, tested = _verdict(bench, number, group)
        found |= {at: bench.part(slow.clusters[at], group, shares, replayed, tested) for at in group}
    return tuple(found[at] for at in range(len(slow.clusters)))


class _Bench:
    """Replays the account without some lines."""

    def __init__(self, seen: Seen, account: Account, groups: list[Group]) -> None:
        self.seen = seen
        self.account = account
        self.groups = groups
        repeated, self.first_attempts = retries.repeated(seen.view, account.recorded)
        beyond = bursts.beyond(account.recorded, seen.slow, repeated)
        self.of_clients = {(BURST, ""): beyond, (RETRIES, ""): repeated}
        self.owner = owners(account.recorded, seen.slow, groups, seen.view.window_ns)
        self._known: dict[tuple[int, frozenset[Line]], NDArray[np.bool_]] = {}

    @cached_property
    def books(self) -> Books:
        """The account, and the replay of it as it was."""
        return Books(self.account, *self.as_it_was[:2])

    @cached_property
    def as_it_was(self) -> tuple[Times, Times, NDArray[np.bool_]]:
        """By visit, when it arrives and leaves in the replay of everything, and whether it is a very slow request."""
        return self._run(frozenset(), self.account.recorded.sent.copy())

    def replayed(self, number: int) -> int:
        """How many requests of a group are very slow in the replay of everything."""
        return int((self.owner[self.as_it_was[2]] == number).sum())

    def around(self, number: int) -> tuple[int, int]:
        """The time that is replayed to judge a group: what was sent in it can matter."""
        clusters = [self.seen.slow.clusters[at] for at in self.groups[number]]
        begin = min(one.begin for one in clusters) - 2 * BEFORE_NS
        end = max(self.seen.slow.answered(one) for one in clusters) + 1
        begin, end = self.seen.steps.shortened(np.array([begin, end])).tolist()
        return begin, end

    def extract(self, cluster: Cluster) -> Extract:
        """The account around an episode: from where a line can begin to matter until the last request is answered."""
        times = cluster.begin - BEFORE_NS, self.seen.slow.answered(cluster)
        first, last = np.searchsorted(self.seen.steps.begins, times).tolist()
        return Extract(self.books, first, max(last, first + 1))

    def part(
        self, cluster: Cluster, group: Group, shares: tuple[Share, ...], replayed: int, tested: frozenset[str]
    ) -> Replayed:
        """What an episode has of its group."""
        part = cluster.vlrt / sum(self.seen.slow.clusters[at].vlrt for at in group)
        its = tuple(replace(one, vlrt=one.vlrt * part, without=round(one.without * part)) for one in shares)
        return Replayed(cluster.vlrt, round(replayed * part), its, self.extract(cluster), tested)

    def lines(self, clusters: list[Cluster]) -> list[Line]:
        """Those that can have mattered for episodes."""
        begins = self.seen.steps.begins
        begin, end = min(one.begin for one in clusters) - BEFORE_NS, max(one.end for one in clusters)
        around = (begins >= begin) & (begins <= end + max(one.shortest_ns for one in clusters))
        first, last = self.seen.steps.shortened(np.array([begin, end + 1])).tolist()
        found = [
            line
            for line, share in self.account.taken.items()
            if float(share[around].sum()) * STEP_NS >= SMALLEST_NS or self._held(line, first, last)
        ]
        for line, requests in self.of_clients.items():
            sent = self.account.recorded.sent[requests]
            if ((sent >= first) & (sent < last)).any():
                found.append(line)
        choices = self.account.choices
        chosen = choices.choice[(self.account.recorded.sent >= first) & (self.account.recorded.sent < last)]
        return found + [
            (BALANCER, by) for by in dict.fromkeys(choices.alike[at] for at in np.unique(chosen[chosen < NONE]))
        ]

    def _held(self, line: Line, begin: int, end: int) -> bool:
        """Whether visits of this line held places then."""
        recorded, visits = self.account.recorded, self.account.visits_of(line)
        return bool(((recorded.start[visits] < end) & (recorded.departure[visits] > begin)).any())

    def left(self, number: int, without: frozenset[Line]) -> int:
        """How many requests of a group are very slow without these lines, in a replay of the time around it."""
        return int((self.owner[self._slow(number, without)] == number).sum())

    def _slow(self, number: int, without: frozenset[Line]) -> NDArray[np.bool_]:
        if (number, without) not in self._known:
            sent = self.account.recorded.sent
            begin, end = self.around(number)
            found = self._run(without, np.where((sent >= begin) & (sent <= end), sent, NEVER))[2]
            # Only others gain when visits that hold places are taken away: whether these are very slow themselves
            # shows the replay in which they are sent.
            if holders := frozenset(line for line in without if len(self.account.visits_of(line))):
                found = found | (self._slow(number, without - holders) & self._roots(holders))
            self._known[number, without] = found
        return self._known[number, without]

    def _roots(self, lines: frozenset[Line]) -> NDArray[np.bool_]:
        """Which visits are requests that were held by these lines."""
        found = np.zeros(len(self.owner), dtype=bool)
        for line in lines:
            found[self.account.recorded.roots(self.account.visits_of(line))] = True
        return found

    def _run(self, without: frozenset[Line], sent: Times) -> tuple[Times, Times, NDArray[np.bool_]]:
        """A replay of requests that are sent at these times."""
        recorded, account = self.account.recorded, self.account
        capacity = account.capacity.copy()
        for line, share in account.taken.items():
            if line in without:
                number = recorded.number[line[1]]
                capacity[number] = np.minimum(capacity[number] + share, 1.0)
        sent[self._roots(without)] = NEVER
        for line in without & self.of_clients.keys():
            sent[self.of_clients[line]] = NEVER
        anew = [(BALANCER, by) in without for by in account.choices.alike]
        departure, arrival = np.empty(len(sent), dtype=np.int64), np.empty(len(sent), dtype=np.int64)
        account.replay.run(capacity, sent, anew, departure, arrival)
        asked = (recorded.parent < 0) & (sent < NEVER)
        slow = asked & ((departure == NEVER) | (departure - np.where(asked, sent, 0) >= self.seen.slow.threshold_ns))
        if (RETRIES, "") in without:  # a client whose first attempt is very slow has waited as long without the others
            slow[self.of_clients[RETRIES, ""]] = slow[self.first_attempts]
        return arrival, departure, slow


def _verdict(bench: _Bench, number: int, group: Group) -> tuple[tuple[Share, ...], int, frozenset[str]]:
    """The shares of a group, the largest first; how many of its requests are very slow in the replay; and the causes
    that were taken away."""
    clusters = [bench.seen.slow.clusters[at] for at in group]
    count = sum(cluster.vlrt for cluster in clusters)

    def left(without: frozenset[Line]) -> int:
        return bench.left(number, without)

    lines = bench.lines(clusters)
    everything = frozenset(lines)
    as_it_was, none = left(frozenset()), left(everything)
    alone = {line: left(frozenset({line})) for line in lines}
    weight = {line: max(as_it_was - alone[line], left(everything - {line}) - none) for line in lines}
    ranked = [line for line in sorted(lines, key=lambda line: -weight[line]) if weight[line] >= MATTERS * count]
    worth = shapley(ranked[:PLAYERS], left) if as_it_was else {}
    worth = {line: value for line, value in worth.items() if value > 0.0}
    charged = sum(worth.values())
    # So little that is left without all of them is within what a replay is off by; more of it something else made.
    unit = count / max(charged if charged >= NEARLY_ALL * as_it_was else as_it_was, charged, 1.0)
    shares = [
        Share(cause, server or None, value * unit, alone[cause, server], bench.account.who((cause, server)))
        for (cause, server), value in worth.items()
    ]
    tested = frozenset(cause for cause, _ in lines)
    return tuple(sorted(shares, key=lambda share: -share.vlrt)), bench.replayed(number), tested


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
