"""This module judges causes: it replays the recording without a cause and counts the very slow requests that remain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from math import factorial

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.finding import UNKNOWN
from tailrace.diagnosis.ledger import bursts, limits, retries
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

BURST, BALANCER, RETRIES = bursts.CAUSE, limits.BALANCER, retries.CAUSE
MATTERS = 0.02
"""A line is left out if it changes less than a fiftieth of the very slow requests, alone or on top of the others."""
EQUAL = 0.95
"""Counts of very slow requests that differ by a twentieth are equal: the difference is within the error of a replay."""
PLAYERS = 5
"""All subsets of this many causes are replayed, which takes 32 replays. If more are needed, those that matter most are
used."""
SMALLEST_NS = 30 * MILLISECOND
"""If a line took less than three steps of a server around an episode, it cannot delay a request by seconds."""
BEFORE_NS = 2 * SECOND
"""A line matters for an episode that begins up to this long after it. The longest queue in the papers drains in less
time."""
SKEWED = 4.0
"""By chance, a share of the choices differs by four standard deviations in one of 16,000 cases (a binomial share has a
variance of at most 0.25 / n)."""
WORSE = 0.05
"""A smaller effect is within the error of the replay."""
NEARLY_ALL = 0.7
"""Lines explain all very slow requests of a replay if at least this fraction of them does not occur without the
lines."""
REPRODUCED = (0.5, 2.0)
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
    which: str | None = None
    """Most of the requests of a burst were of this interaction: `230 of them were order`."""


@dataclass(frozen=True)
class Replayed:
    """This is the result of the replay for one episode."""

    recorded: int
    replayed: int
    shares: tuple[Share, ...]
    """The largest share comes first."""
    extract: Extract
    """This is the account around the episode."""
    worse: tuple[Share, ...] = ()
    """These made it worse. They are charged with nothing, because other causes explain what they did; but without each
    of them some of the very slow requests do not occur."""

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
        judged = _verdict(bench, number, group)
        found |= {at: bench.part(slow.clusters[at], group, *judged) for at in group}
    return tuple(found[at] for at in range(len(slow.clusters)))


class _Bench:
    """This class replays the account without some lines."""

    def __init__(self, seen: Seen, account: Account, groups: list[Group]) -> None:
        self.seen = seen
        self.account = account
        self.groups = groups
        repeated, self.first_attempts = retries.repeated(seen.view, account.recorded)
        beyond = bursts.beyond(account.recorded, seen.slow, repeated)
        # A request that held places belongs to that line, however many of its kind came.
        holding = [account.recorded.roots(account.visits_of(line)) for line in account.losses]
        beyond = np.setdiff1d(beyond, np.concatenate(holding)) if holding else beyond
        self.of_clients = {(BURST, ""): beyond, (RETRIES, ""): repeated}
        self.owner = owners(account.recorded, seen.slow, groups, seen.view.window_ns)
        self._known: dict[tuple[int, frozenset[Line]], NDArray[np.bool_]] = {}

    @cached_property
    def books(self) -> Books:
        """Return the account and its replay with all lines."""
        return Books(self.seen.view.depth, self.seen.calm, self.account, *self.as_it_was[:2])

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
        self,
        cluster: Cluster,
        group: Group,
        shares: tuple[Share, ...],
        replayed: int,
        worse: tuple[Share, ...],
    ) -> Replayed:
        """Return the part of a group's result that belongs to one episode."""
        part = cluster.vlrt / sum(self.seen.slow.clusters[at].vlrt for at in group)
        its, its_worse = (
            tuple(replace(one, vlrt=one.vlrt * part, without=round(one.without * part)) for one in some)
            for some in (shares, worse)
        )
        return Replayed(cluster.vlrt, round(replayed * part), its, self.extract(cluster), its_worse)

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
            (BALANCER, by)
            for by in dict.fromkeys(choices.alike[at] for at in np.unique(chosen[chosen < NONE]))
            if self._is_skewed(by, first, last)
        ]

    def _is_skewed(self, by: str, begin: int, end: int) -> bool:
        """Return whether a balancer chose its candidates in this time in other proportions than in calm time."""
        recorded, choices = self.account.recorded, self.account.choices
        its = np.flatnonzero(np.isin(choices.choice, [at for at, name in enumerate(choices.alike) if name == by]))
        sent = recorded.sent[its]
        calm = self.seen.calm[np.minimum(sent // STEP_NS, len(recorded.steps) - 1)]
        size = len(recorded.servers)
        now = np.bincount(recorded.server[its[(sent >= begin) & (sent < end)]], minlength=size)
        usual = np.bincount(recorded.server[its[calm]], minlength=size)
        if not usual.sum() or not now.sum():
            return bool(now.sum())
        apart = np.abs(now / now.sum() - usual / usual.sum()).max()
        return bool(apart > SKEWED * (0.25 / now.sum() + 0.25 / usual.sum()) ** 0.5)

    def _held(self, line: Line, begin: int, end: int) -> bool:
        """Return whether visits of this line held places or were held up in this time."""
        recorded, visits = self.account.recorded, self.account.involved(line)
        return bool(((recorded.sent[visits] < end) & (recorded.departure[visits] > begin)).any())

    def which(self, number: int) -> str | None:
        """Return in words of which interaction most requests of the burst are, if that differs from the usual."""
        recorded = self.account.recorded
        begin, end = self.around(number)
        beyond = self.of_clients[BURST, ""]
        sent = recorded.sent[beyond]
        names = Counter(recorded.names[beyond[(sent >= begin) & (sent <= end)]].tolist())
        calm = self.seen.calm[np.minimum(recorded.sent // STEP_NS, len(recorded.steps) - 1)]
        usual = Counter(recorded.names[(recorded.parent < 0) & calm].tolist())
        name, most = max(names.items(), key=lambda item: item[1] / (usual[item[0]] + 1), default=("", 0))
        differs = most * (usual.total() + 1) >= 2 * (usual[name] + 1) * names.total()
        return f"{most:,} of them were {name}" if name and differs else None

    def parts(self, number: int, lines: frozenset[Line]) -> dict[Line, float]:
        """Divide a cause among its servers by what each line removes alone, or equally if none removes anything."""
        as_it_was = self.left(number, frozenset())
        alone = {line: max(as_it_was - self.left(number, frozenset({line})), 0) for line in sorted(lines)}
        whole = sum(alone.values())
        return {line: gone / whole if whole else 1 / len(alone) for line, gone in alone.items() if gone or not whole}

    def main(self, number: int, lines: frozenset[Line]) -> Line:
        """Return the line of a cause that removes the most."""
        parts = self.parts(number, lines)
        return max(parts, key=parts.__getitem__)

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


def _verdict(bench: _Bench, number: int, group: Group) -> tuple[tuple[Share, ...], int, tuple[Share, ...]]:
    """Return the shares of a group, the largest first. Also return how many of its requests are very slow in the
    replay, and the causes that made it worse."""
    clusters = [bench.seen.slow.clusters[at] for at in group]
    count = sum(cluster.vlrt for cluster in clusters)

    def left(without: frozenset[Line]) -> int:
        return bench.left(number, without)

    lines = bench.lines(clusters)
    as_it_was = left(frozenset())
    causes = {name: frozenset(line for line in lines if line[0] == name) for name, _ in lines}
    remain = without(causes, left)
    players = needed([name for name in causes if name != UNKNOWN], remain, MATTERS * count)[:PLAYERS]
    worth = shapley(players, remain) if as_it_was else {}
    rest = causes.get(UNKNOWN, frozenset())
    known = frozenset(lines) - rest
    worth[UNKNOWN] = float(left(known) - left(frozenset(lines))) if rest else 0.0
    worth = {name: value for name, value in worth.items() if value > 0.0}
    charged = sum(worth.values())
    # If little is left without all lines, it is within the error of a replay. If more is left, something else made it.
    unit = count / max(charged if charged >= NEARLY_ALL * as_it_was else as_it_was, charged, 1.0)
    shares = [
        _share(bench, number, line, worth[cause] * part * unit, left(frozenset({line})))
        for cause in worth
        for line, part in bench.parts(number, causes[cause]).items()
    ]
    lesser = {name: left(its) for name, its in causes.items() if name not in worth and name != UNKNOWN}
    worse = tuple(
        _share(bench, number, bench.main(number, causes[name]), 0.0, slow)
        for name, slow in sorted(lesser.items(), key=lambda item: item[1])
        if as_it_was - slow >= WORSE * as_it_was > 0
    )
    return tuple(sorted(shares, key=lambda share: -share.vlrt)), bench.replayed(number), worse


def _share(bench: _Bench, number: int, line: Line, vlrt: float, without: int) -> Share:
    which = bench.which(number) if line[0] == BURST else None
    return Share(line[0], line[1] or None, vlrt, without, bench.account.who(line), which)


Left = Callable[[frozenset[str]], int]


def without(causes: Mapping[str, frozenset[Line]], left: Callable[[frozenset[Line]], int]) -> Left:
    """Return a function of the causes that are taken away at all servers. Causes that come in turn at several servers
    show only together."""
    return lambda gone: left(frozenset().union(*(causes[name] for name in gone)))


def needed(causes: Sequence[str], left: Left, least: float) -> list[str]:
    """Return the causes that are needed to explain what all of them together explain.

    These are the causes each of which would be enough alone, then those that add the most to the causes before. A cause
    that adds nothing is left out, because the others made what it did. It is kept if it removes as many requests
    alone as the best cause does: then neither would have been harmful without the other.
    """
    everything = frozenset(causes)
    as_it_was, none = left(frozenset()), left(everything)
    found = [name for name in causes if left(everything - {name}) - none >= least]
    others = [name for name in causes if name not in found]
    while others and left(frozenset(found)) - none >= least:
        best = min(others, key=lambda name: left(frozenset((*found, name))))
        if left(frozenset(found)) - left(frozenset((*found, best))) < least:
            break
        found.append(best)
        others.remove(best)
    alone = {name: as_it_was - left(frozenset({name})) for name in causes}
    most = max(alone.values(), default=0)
    return found + [name for name in others if alone[name] >= max(EQUAL * most, least)]


def shapley(players: Sequence[str], left: Left) -> dict[str, float]:
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
