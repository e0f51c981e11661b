"""This module judges causes: it replays the recording without a cause and counts the very slow requests that remain."""

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
"""A line is left out if it changes less than a fiftieth of the very slow requests, alone or on top of the others."""
PLAYERS = 5
"""All subsets of this many lines are replayed, which takes 32 replays. If there are more lines, those that matter most
are used."""
SMALLEST_NS = 30 * MILLISECOND
"""If a line took less than three steps of a server around an episode, it cannot delay a request by seconds."""
BEFORE_NS = 2 * SECOND
"""A line matters for an episode that begins up to this long after it. The longest queue in the papers drains in less
time."""
NEARLY_ALL = 0.7
"""Lines explain all very slow requests of a replay if at least this fraction of them does not occur without the
lines."""
REPRODUCED = (0.6, 1.4)
"""These limits apply to the very slow requests of the replay divided by those of the recording. Counts of models have
errors of up to two fifths, but still show what is necessary. Outside these limits, the replay is no model of the
episode."""


@dataclass(frozen=True)
class Share:
    """This is the number of very slow requests that a line is charged with. The unaccounted part (`UNKNOWN`) is a line,
    too."""

    cause: str
    server: str | None
    """The line took the capacity of this server. For a balancer, this is the server that balances. It is None for
    bursts and retries, because the clients cause these."""
    vlrt: float
    without: int
    """This many very slow requests would have remained without this line alone."""
    place: str | None = None


@dataclass(frozen=True)
class Replayed:
    """This is the result of the replay for one episode."""

    recorded: int
    replayed: int
    shares: tuple[Share, ...]
    """The largest share comes first."""
    extract: Extract
    """This is the account around the episode."""
    tested: frozenset[str]
    """These causes were taken away. The account omits causes that took next to nothing."""

    @property
    def error(self) -> float:
        return abs(self.replayed - self.recorded) / max(self.recorded, 1)

    @property
    def reproduced(self) -> bool:
        low, high = REPRODUCED
        return low * self.recorded - 2 <= self.replayed <= high * self.recorded + 2


def judge(view: View, slow: Slow) -> tuple[Replayed | None, ...]:
    """Return one result for each episode; None where there is nothing to replay."""
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
    """This class replays the account without some lines."""

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
        """Return the account and its replay with all lines."""
        return Books(self.account, *self.as_it_was[:2])

    @cached_property
    def as_it_was(self) -> tuple[Times, Times, NDArray[np.bool_]]:
        """For each visit, return when it arrives and leaves in the replay of everything, and whether it is a very slow
        request."""
        return self._run(frozenset(), self.account.recorded.sent.copy())

    def replayed(self, number: int) -> int:
        """Return how many requests of a group are very slow in the replay of everything."""
        return int((self.owner[self.as_it_was[2]] == number).sum())

    def around(self, number: int) -> tuple[int, int]:
        """Return the time that is replayed to judge a group. Requests that were sent in it can matter."""
        clusters = [self.seen.slow.clusters[at] for at in self.groups[number]]
        begin = self._begun(clusters) - 2 * BEFORE_NS
        end = max(self.seen.slow.answered(one) for one in clusters) + 1
        begin, end = self.seen.steps.shortened(np.array([begin, end])).tolist()
        return begin, end

    def _begun(self, clusters: list[Cluster]) -> int:
        """Return when the time without calm began in which these episodes lie. In a lasting overload, episodes follow
        each other, and what began it may lie long before the later ones."""
        begin = min(one.begin for one in clusters)
        calm = self.seen.slow.calm
        earlier = calm[calm[:, 0] < begin]
        return min(begin, int(earlier[-1, 1]) if len(earlier) else self.seen.view.begin)

    def extract(self, cluster: Cluster) -> Extract:
        """Return the account around an episode. It begins where a line can begin to matter, and ends when the last
        request is answered."""
        times = cluster.begin - BEFORE_NS, self.seen.slow.answered(cluster)
        first, last = np.searchsorted(self.seen.steps.begins, times).tolist()
        return Extract(self.books, first, max(last, first + 1))

    def part(
        self, cluster: Cluster, group: Group, shares: tuple[Share, ...], replayed: int, tested: frozenset[str]
    ) -> Replayed:
        """Return the part of a group's result that belongs to one episode."""
        part = cluster.vlrt / sum(self.seen.slow.clusters[at].vlrt for at in group)
        its = tuple(replace(one, vlrt=one.vlrt * part, without=round(one.without * part)) for one in shares)
        return Replayed(cluster.vlrt, round(replayed * part), its, self.extract(cluster), tested)

    def lines(self, clusters: list[Cluster]) -> list[Line]:
        """Return the lines that can have mattered for these episodes."""
        begins = self.seen.steps.begins
        begin, end = self._begun(clusters) - BEFORE_NS, max(one.end for one in clusters)
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
        """Return whether visits of this line held places or were held up in this time."""
        recorded, visits = self.account.recorded, self.account.involved(line)
        return bool(((recorded.sent[visits] < end) & (recorded.departure[visits] > begin)).any())

    def left(self, number: int, without: frozenset[Line]) -> int:
        """Return how many requests of a group are very slow without these lines, in a replay of the time around the
        group."""
        return int(self._slow(number, without).sum())

    def _slow(self, number: int, without: frozenset[Line]) -> NDArray[np.bool_]:
        """Return which of the visits that count for a group are very slow requests without these lines."""
        if (number, without) not in self._known:
            sent = self.account.recorded.sent
            begin, end = self.around(number)
            mine = self.owner == number
            found = self._run(without, np.where((sent >= begin) & (sent <= end), sent, NEVER))[2][mine]
            # Taking away visits that hold places helps only the other visits. The replay in which the holders are sent
            # shows whether they are very slow themselves.
            if holders := frozenset(line for line in without if len(self.account.visits_of(line))):
                found = found | (self._slow(number, without - holders) & self._roots(holders)[mine])
            self._known[number, without] = found
        return self._known[number, without]

    def _roots(self, lines: frozenset[Line]) -> NDArray[np.bool_]:
        """Return which visits are requests that these lines held."""
        found = np.zeros(len(self.owner), dtype=bool)
        for line in lines:
            found[self.account.recorded.roots(self.account.visits_of(line))] = True
        return found

    def _run(self, without: frozenset[Line], sent: Times) -> tuple[Times, Times, NDArray[np.bool_]]:
        """Replay requests that are sent at these times."""
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
        account.replay.run(capacity, sent, anew, departure, arrival, *account.held_up(without))
        asked = (recorded.parent < 0) & (sent < NEVER)
        slow = asked & ((departure == NEVER) | (departure - np.where(asked, sent, 0) >= self.seen.slow.threshold_ns))
        if (RETRIES, "") in without:  # without them, the client of a very slow first attempt waits as long
            slow[self.of_clients[RETRIES, ""]] = slow[self.first_attempts]
        return arrival, departure, slow


def _verdict(bench: _Bench, number: int, group: Group) -> tuple[tuple[Share, ...], int, frozenset[str]]:
    """Return the shares of a group, the largest first. Also return how many of its requests are very slow in the
    replay, and the causes that were taken away."""
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
    # If little is left without all lines, it is within the error of a replay. If more is left, something else made it.
    unit = count / max(charged if charged >= NEARLY_ALL * as_it_was else as_it_was, charged, 1.0)
    shares = [
        Share(cause, server or None, value * unit, alone[cause, server], bench.account.who((cause, server)))
        for (cause, server), value in worth.items()
    ]
    tested = frozenset(cause for cause, _ in lines)
    return tuple(sorted(shares, key=lambda share: -share.vlrt)), bench.replayed(number), tested


def shapley(players: Sequence[Line], left: Callable[[frozenset[Line]], int]) -> dict[Line, float]:
    """Return Shapley's value (1953) of each player. It is the mean, over all orders, of what disappears when the player
    is taken away."""
    n = len(players)
    value = dict.fromkeys(players, 0.0)
    for size in range(n):
        weight = factorial(size) * factorial(n - size - 1) / factorial(n)
        for gone in combinations(players, size):
            before = left(frozenset(gone))
            for player in set(players) - set(gone):
                value[player] += weight * (before - left(frozenset((*gone, player))))
    return value
