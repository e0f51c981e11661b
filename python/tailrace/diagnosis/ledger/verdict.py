"""This module judges causes: it replays the recording without a cause and counts the very slow requests that remain."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, combinations

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.constants import ALIKE, HARDLY_ANY, LOOKBACK_NS, MATTERS, MOSTLY, SHORTEST_NS, SIGMAS, STEP_NS
from tailrace.diagnosis.finding import UNKNOWN
from tailrace.diagnosis.ledger import accepting
from tailrace.diagnosis.ledger.account import Account, Line, draw_up
from tailrace.diagnosis.ledger.books import Books
from tailrace.diagnosis.ledger.extract import Extract
from tailrace.diagnosis.ledger.groups import Group, owners, together
from tailrace.diagnosis.ledger.losses import Seen
from tailrace.diagnosis.ledger.portions import portions
from tailrace.diagnosis.ledger.recorded import NONE, record
from tailrace.diagnosis.ledger.reproduced import REPRODUCED, is_reproduced
from tailrace.diagnosis.ledger.sections import Sections
from tailrace.diagnosis.ledger.settled import Settled
from tailrace.diagnosis.ledger.shares import Left, at_most, needed, shapley
from tailrace.diagnosis.ledger.trial import BALANCER, BURST, HOLDERS, Removable, Trial
from tailrace.diagnosis.ledger.workers import workers
from tailrace.diagnosis.queues import Times
from tailrace.diagnosis.view import View
from tailrace.diagnosis.vlrt import Cluster, Slow
from tailrace.diagnosis.words import listing
from tailrace.endings import crew

SMALLEST_NS = SHORTEST_NS + STEP_NS
"""If a line took less of a server around an episode, it cannot delay a request by seconds. The steps at both ends may
be those of others. With `SHORTEST_NS`, the busy host of a real recording (nx2-busy in tests/golden/real) is charged at
a second server, too."""
PLAYERS = 5
"""All subsets of this many causes are replayed, which takes 32 replays. If more are needed, those that matter most are
used."""
WHOLE = 4
"""All visits are replayed to judge a group if they are at most so many times those of its section."""
PORTIONS = 2
"""So many portions are judged at the same time. Each takes up to half a gigabyte."""
AT_ONCE = 8_000_000
"""So many visits are replayed at the same time for one group. A replay takes about 100 bytes for each of them."""


@dataclass(frozen=True)
class Share:
    """This is the number of very slow requests that a line is charged with. The unaccounted part (`UNKNOWN`) is a line,
    too."""

    cause: str
    server: str | None
    """The line took the capacity of this server, or its calls came to it. For a balancer, this is the server that
    balances. It is None for bursts and retries that the clients cause."""
    vlrt: float
    without: int
    """This many very slow requests would have remained without this line alone."""
    place: str | None = None
    which: str | None = None
    """Most of the requests of a burst were of this interaction: `230 of them were order`."""
    alone: int = 0
    """So many requests of a burst took that long by themselves."""


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
    kept: tuple[str, ...] = ()
    """Each sentence is about servers that look at the servers that they choose among. The replay kept their choices,
    because these agree with no policy that it can repeat, and the sentence says which datum is missing."""
    alone: int = 0
    """So many requests held places and took that long by themselves."""

    @property
    def error(self) -> float:
        return abs(self.replayed - self.recorded) / max(self.recorded, 1)

    @property
    def reproduced(self) -> bool:
        """Return whether the replay is a model of the episode. Near a limit, a slightly longer queue loses many more
        packets, so a replay with more very slow requests is a model, too, if its queues are those of the recording."""
        if is_reproduced(self.recorded, self.replayed):
            return True
        return self.replayed > self.recorded and not self.extract.unlike(*REPRODUCED)


Verdict = tuple[tuple[Share, ...], tuple[Share, ...]]
"""It holds the shares of a group, and the causes that made it worse."""


@dataclass(frozen=True)
class Judged:
    """This is the result for a group."""

    shares: tuple[Share, ...]
    worse: tuple[Share, ...]
    kept: tuple[str, ...]
    replayed: int
    """This many requests of the group are very slow in the replay that is a model of it."""
    alone: NDArray[np.uint64]
    """In the replay, these requests of the group held places and are very slow by themselves."""


def judge(view: View, slow: Slow) -> tuple[Replayed | None, ...]:
    """Return one result for each episode; None where there is nothing to replay."""
    found: dict[int, Replayed | None] = {}
    parts = portions(view, slow)
    counts = workers(view) if parts else {}

    def judged(part: list[int]) -> tuple[Replayed | None, ...]:
        return _judge(view, replace(slow, clusters=tuple(slow.clusters[at] for at in part)), counts)

    with crew(min(PORTIONS, os.cpu_count() or 1)) as threads:
        for part, verdicts in zip(parts, threads.map(judged, parts), strict=True):
            found |= zip(part, verdicts, strict=True)
    return tuple(found[at] for at in range(len(slow.clusters)))


def _judge(view: View, slow: Slow, counts: Mapping[str, int]) -> tuple[Replayed | None, ...]:
    recorded = record(view, slow, counts=counts)
    if recorded is None:
        return tuple(None for _ in slow.clusters)
    seen = Seen(view, slow, recorded.steps)
    groups = together(slow)
    cores = os.cpu_count() or 1
    # Most of the time passes in the engine, which lets other threads run meanwhile. A group waits for its replays.
    with crew(cores) as threads, crew(cores) as replays:
        bench = _Bench(seen, draw_up(seen, recorded), groups, replays)
        as_it_was = threads.submit(bench.whole.times, frozenset())
        verdicts = list(threads.map(bench.verdict, range(len(groups))))
    arrival, departure, _ = as_it_was.result()
    books = Books(view.depth, seen.calm, bench.account, arrival, departure)
    found: dict[int, Replayed] = {}
    for group, verdict in zip(groups, verdicts, strict=True):
        found |= {at: bench.part(at, group, verdict, books) for at in group}
    return tuple(found[at] for at in range(len(slow.clusters)))


class _Bench:
    """This class judges groups of episodes by replays without some lines."""

    def __init__(self, seen: Seen, account: Account, groups: list[Group], replays: Executor) -> None:
        self.seen = seen
        self.replays = replays
        self.account = account
        self.groups = groups
        self.removable = Removable.of(seen, account)
        self.settled = Settled(account.recorded, seen.calm)
        self.owner = owners(account.recorded, seen.slow, groups, seen.view.window_ns)
        counts = [sum(seen.slow.clusters[at].vlrt for at in group) for group in groups]
        accepting.decide(seen, self.removable, self.owner, counts)
        self.whole = self.removable.whole()
        usual = [self.around(at) for at in range(len(groups))]
        self.sections = Sections(self.removable, usual, [self._later(at, *usual[at]) for at in range(len(groups))])
        self._lines = [self.lines([seen.slow.clusters[at] for at in group]) for group in groups]

    def verdict(self, number: int) -> Judged:
        count = sum(self.seen.slow.clusters[at].vlrt for at in self.groups[number])
        causes, parts = self.causes(number)
        trial, replayed = self._model(number, count)
        mine = self.owner[trial.visits] == number

        def left(without: frozenset[Line]) -> int:
            return int((trial.remain(without) & mine).sum())

        def ahead(many: Iterable[frozenset[Line]]) -> None:
            wanted, most = list(dict.fromkeys(many)), max(AT_ONCE // max(len(mine), 1), 1)
            for first in range(0, len(wanted), most):
                list(self.replays.map(trial.remain, wanted[first : first + most]))

        def of_replayed(remain: int) -> int:
            """Return a count of the replay in which clients wait for answers, in proportion to the count of the
            model."""
            as_it_was = left(frozenset())
            return remain if replayed == as_it_was else min(round(remain * replayed / as_it_was), replayed)

        def share(line: Line, vlrt: float, remain: int) -> Share:
            if line == (BURST, ""):
                remain = int((trial.slow(frozenset({line, HOLDERS})) & mine).sum())
            told = self.which(number, line) if line[0] == BURST else (None, 0)
            return Share(line[0], line[1] or None, vlrt, of_replayed(remain), self.account.who(line), *told)

        alone = self.account.recorded.request[trial.visits[trial.slow_by_themselves(_all(causes)) & mine]]
        verdict = _verdict(causes, parts, left, ahead, share, count, len(alone), well=self.seen.slow.has_calm)
        return Judged(*verdict, self.kept(number), replayed, alone)

    def _model(self, number: int, count: int) -> tuple[Trial, int]:
        """Return the first trial of a group that reproduces its number of very slow requests, and the number that it
        has. Balancers choose again if they can, and otherwise as recorded. The usual trial begins with the time without
        calm. If that is no model, a shorter one begins when queues were short, and the last has all visits, if they are
        not too many. If clients wait for answers and none of these is a model, each request is sent when it was
        recorded. If that is no model either, return the usual trial."""
        usual, waiting = None, []
        for trial in self._trials(number):
            replayed = self._mine(number, trial, trial.slow(frozenset()))
            if is_reproduced(count, replayed):
                return trial, replayed
            if usual is None or usual[0].chooses_again:
                usual = trial, replayed
            # Causes are taken away while clients wait for answers. So enough requests must be very slow then, too.
            if trial.has_chains and replayed >= max(HARDLY_ANY * count, 1):
                waiting.append(trial)
        assert usual is not None
        for trial in waiting:
            replayed = self._mine(number, trial, trial.as_sent)
            if is_reproduced(count, replayed):
                return trial, replayed
        return usual

    def _mine(self, number: int, trial: Trial, slow: NDArray[np.bool_]) -> int:
        return int((slow & (self.owner[trial.visits] == number)).sum())

    def _trials(self, number: int) -> Iterator[Trial]:
        usual = self.sections.usual(number)
        yield from usual
        yield from self.sections.settled(number)
        if len(self.whole.visits) <= WHOLE * len(usual[0].visits):
            yield self.whole

    def _later(self, number: int, begin: int, end: int) -> tuple[int, int] | None:
        """Return the time from when queues were last as short as usual, if that is after the begin of the usual one."""
        episode = min(self.seen.slow.clusters[at].begin for at in self.groups[number])
        later = self.settled.before(int(self.seen.steps.shortened(np.array([episode]))[0]))
        return None if later is None or later <= begin else (later, end)

    def causes(self, number: int) -> tuple[dict[str, frozenset[Line]], dict[str, frozenset[Line]]]:
        """Return the lines of each cause that can have mattered for a group, as they are taken away and as they are
        charged. A cause is taken away at once for all groups that share a section."""
        mine = by_cause(self._lines[number])
        every = by_cause(line for at in self.sections.alike(number) for line in self._lines[at])
        return {name: every[name] for name in mine}, mine

    def kept(self, number: int) -> tuple[str, ...]:
        """Return which data are missing about choices around a group that the replay kept although the policy looks at
        the candidates."""
        begin, end = self.around(number)
        routes, sent = self.account.routes, self.account.recorded.sent
        made = np.unique(routes.choices.choice[(sent >= begin) & (sent <= end)])
        found: dict[str, list[str]] = {}
        for at in made[made < NONE].tolist():
            by, missing = routes.choices.alike[at], routes.kept.get(routes.choices.balancer[at])
            if missing is not None and by not in found.setdefault(missing, []):
                found[missing].append(by)
        return tuple(missing.replace("{by}", listing(its)) for missing, its in found.items())

    def around(self, number: int) -> tuple[int, int]:
        """Return the time that is replayed to judge a group. Requests that were sent in it can matter."""
        clusters = [self.seen.slow.clusters[at] for at in self.groups[number]]
        begin = self._begun(clusters) - 2 * LOOKBACK_NS
        end = max(self.seen.slow.answered(one) for one in clusters) + 1
        begin, end = self.seen.steps.shortened(np.array([begin, end])).tolist()
        return begin, end

    def _begun(self, clusters: list[Cluster]) -> int:
        """Return when the time without calm began in which these episodes lie. In a lasting overload, episodes follow
        each other, and what began it may lie long before the later ones."""
        if not self.seen.slow.has_calm:
            return self.seen.view.begin
        begin = min(one.begin for one in clusters)
        calm = self.seen.slow.calm
        earlier = calm[calm[:, 0] < begin]
        return min(begin, int(earlier[-1, 1]) if len(earlier) else self.seen.view.begin)

    def part(self, number: int, group: Group, judged: Judged, books: Books) -> Replayed:
        """Return the part of a group's result that belongs to the episode of this number. The account is shown from
        where a line can begin to matter until the last request is answered."""
        alone = {at: self._count(self.seen.slow.clusters[at], judged.alone) for at in group}
        every = {at: self.seen.slow.clusters[at].vlrt for at in group}
        its, whole = alone[number], sum(every.values()) - sum(alone.values())
        part = (every[number] - its) / whole if whole else every[number] / sum(every.values())
        # Where most requests of an episode waited for places, the lines are charged with those that held these, too.
        more = every[number] / (every[number] - its) if its * 2 <= every[number] else 1.0

        def of_it(remain: int) -> int:
            return round(max(remain - len(judged.alone), 0) * part) + its

        shares, worse = (
            tuple(replace(one, vlrt=one.vlrt * part * more, without=of_it(one.without)) for one in some)
            for some in (judged.shares, judged.worse)
        )
        cluster = self.seen.slow.clusters[number]
        times = cluster.begin - LOOKBACK_NS, self.seen.slow.answered(cluster)
        first, last = np.searchsorted(self.seen.steps.begins, times).tolist()
        extract = books.extract(first, max(last, first + 1))
        return Replayed(cluster.vlrt, of_it(judged.replayed), shares, extract, worse, judged.kept, its)

    def _count(self, cluster: Cluster, requests: NDArray[np.uint64]) -> int:
        """Return how many of these requests belong to an episode."""
        return int(np.isin(self.seen.slow.requests["request"].to_numpy()[cluster.rows], requests).sum())

    def lines(self, clusters: list[Cluster]) -> list[Line]:
        """Return the lines that can have mattered for these episodes."""
        begins = self.seen.steps.begins
        begin, end = self._begun(clusters) - LOOKBACK_NS, max(one.end for one in clusters)
        latest = end + max(one.shortest_ns for one in clusters)
        around = slice(*np.searchsorted(begins, (begin, latest + 1)).tolist())
        # What holds up a request may come to a server long after the request was sent.
        first, last, until = self.seen.steps.shortened(np.array([begin, end + 1, latest + 1])).tolist()
        found = [
            line
            for line, share in self.account.taken.items()
            if float(share[around].sum()) * STEP_NS >= SMALLEST_NS or self._held(line, first, until)
        ]
        for line, requests in self.removable.came.items():
            sent = self.account.recorded.sent[requests]
            if ((sent >= first) & (sent < last)).any():
                found.append(line)
        choices = self.account.routes.choices
        chosen = choices.choice[(self.account.recorded.sent >= first) & (self.account.recorded.sent < last)]
        return found + [
            (BALANCER, by)
            for by in dict.fromkeys(choices.alike[at] for at in np.unique(chosen[chosen < NONE]))
            if self._is_skewed(by, first, last)
        ]

    def _is_skewed(self, by: str, begin: int, end: int) -> bool:
        """Return whether a balancer chose its candidates in this time in other proportions than in calm time."""
        recorded, choices = self.account.recorded, self.account.routes.choices
        its = np.flatnonzero(np.isin(choices.choice, [at for at, name in enumerate(choices.alike) if name == by]))
        sent = recorded.sent[its]
        calm = self.seen.calm[recorded.steps.at(sent)]
        size = len(recorded.servers)
        now = np.bincount(recorded.server[its[(sent >= begin) & (sent < end)]], minlength=size)
        usual = np.bincount(recorded.server[its[calm]], minlength=size)
        if not usual.sum() or not now.sum():
            return bool(now.sum())
        apart = np.abs(now / now.sum() - usual / usual.sum()).max()
        return bool(apart > SIGMAS * (0.25 / now.sum() + 0.25 / usual.sum()) ** 0.5)

    def _held(self, line: Line, begin: int, end: int) -> bool:
        """Return whether visits of this line held places or were held up in this time."""
        recorded, visits = self.account.recorded, self.account.involved(line)
        return bool(((recorded.sent[visits] < end) & (recorded.departure[visits] > begin)).any())

    def which(self, number: int, line: Line) -> tuple[str | None, int]:
        """Return in words of which interaction most requests or calls of a burst are, if that is worth saying, and how
        many requests of it took that long by themselves."""
        recorded, removable = self.account.recorded, self.removable
        clusters = [self.seen.slow.clusters[at] for at in self.groups[number]]
        times = min(one.begin for one in clusters) - LOOKBACK_NS, max(one.end for one in clusters) + 1
        first, last = self.seen.steps.shortened(np.array(times)).tolist()

        def near(requests: Times) -> Times:
            sent = recorded.sent[requests]
            its: Times = requests[(sent >= first) & (sent < last)]
            return its

        names = Counter(recorded.names[near(removable.came[line])].tolist())
        if not names:
            return None, 0
        if line[1]:
            name, most = names.most_common(1)[0]
            of_it = f", {most:,} of them {name}" if name else ""
            return f"{names.total():,} calls came beyond the usual number{of_it}", 0
        usual = self._usual
        name, most = max(names.items(), key=lambda item: item[1] / (usual[item[0]] + 1))
        differs = most * (sum(usual.values()) + 1) >= 2 * (usual[name] + 1) * names.total()
        said = [f"{most:,} of them were {name}"] if name and differs else []
        if many := len(near(removable.batch)):
            said.append(f"{many:,} took that long by themselves")
        return ", and ".join(said) or None, many

    @cached_property
    def _usual(self) -> dict[str, int]:
        """Return how many requests of each interaction were sent in calm time."""
        recorded = self.account.recorded
        calm = self.seen.calm[recorded.steps.at(recorded.sent)]
        return recorded.names.counts(recorded.asked & calm)


Count = Callable[[frozenset[Line]], int]
"""It returns how many requests are very slow without these lines."""
Ahead = Callable[[Iterable[frozenset[Line]]], None]
"""It replays without each of these sets of lines at the same time, so that their counts are known."""


def _parts(lines: frozenset[Line], left: Count) -> dict[Line, float]:
    """Divide a cause among its servers by what each line removes alone, or equally if none removes anything."""
    as_it_was = left(frozenset())
    alone = {line: max(as_it_was - left(frozenset({line})), 0) for line in sorted(lines)}
    whole = sum(alone.values())
    return {line: gone / whole if whole else 1 / len(alone) for line, gone in alone.items() if gone or not whole}


def _main(lines: frozenset[Line], left: Count) -> Line:
    """Return the line of a cause that removes the most."""
    parts = _parts(lines, left)
    return max(parts, key=parts.__getitem__)


def by_cause(lines: Iterable[Line]) -> dict[str, frozenset[Line]]:
    """Return the lines of each cause."""
    found: dict[str, set[Line]] = {}
    for line in lines:
        found.setdefault(line[0], set()).add(line)
    return {name: frozenset(its) for name, its in found.items()}


def _all(causes: Mapping[str, frozenset[Line]]) -> frozenset[Line]:
    return frozenset[Line]().union(*causes.values())


def _verdict(
    causes: Mapping[str, frozenset[Line]],
    parts: Mapping[str, frozenset[Line]],
    left: Count,
    ahead: Ahead,
    share: Callable[[Line, float, int], Share],
    count: int,
    alone: int,
    *,
    well: bool = True,
) -> Verdict:
    """Return the shares of `count` very slow requests, the largest first, and the causes that made it worse. `causes`
    has the lines that are taken away for each cause, and `parts` those that are charged. In the replay, `alone`
    requests are very slow by themselves; no line is charged with these. Calm time shows that the system is `well`
    without its causes, so what remains without them is an error of the replay."""
    rest = causes.get(UNKNOWN, frozenset())
    sure = {name: its for name, its in causes.items() if name != UNKNOWN}
    named = list(sure.values())
    everything = frozenset[Line]().union(*named)
    ahead([frozenset(), *named, *(everything - its for its in named), everything])
    as_it_was = left(frozenset())
    remain = without(causes, left)
    players = needed(list(sure), remain, MATTERS * count)[:PLAYERS]
    if as_it_was:
        subsets = chain.from_iterable(combinations(players, size) for size in range(len(players) + 1))
        ahead(frozenset[Line]().union(*(causes[name] for name in some)) for some in subsets)
    worth = at_most(shapley(players, remain), remain) if as_it_was else {}
    worth[UNKNOWN] = float(left(everything) - left(everything | rest)) if rest else 0.0
    worth = {name: value for name, value in worth.items() if value > 0.0}
    ahead(frozenset({line}) for name in worth for line in parts[name])
    charged = sum(worth.values())
    others = as_it_was - alone
    part_of_others = others / as_it_was if as_it_was else 1.0
    made = others if well else _made(others, charged, left(everything | rest) - alone)
    explained = made / others if others > 0 else 1.0
    # The lines are charged with all that causes made. The difference is an error, too, if it is less than half.
    unit = count * part_of_others * explained / max(charged if charged >= MOSTLY * made else made, charged, 1.0)
    shares = [
        share(line, worth[cause] * part * unit, left(frozenset({line})))
        for cause in worth
        for line, part in _parts(parts[cause], left).items()
    ]
    lesser = {name: left(its) for name, its in causes.items() if name not in worth and name != UNKNOWN}
    worse = tuple(
        share(_main(parts[name], left), 0.0, slow)
        for name, slow in sorted(lesser.items(), key=lambda item: item[1])
        if as_it_was - slow >= ALIKE * as_it_was > 0
    )
    return tuple(sorted(shares, key=lambda one: -one.vlrt)), worse


def _made(others: int, charged: float, remain: int) -> float:
    """Return how many of the `others` some cause made in a system without calm time. What remains without all lines is
    an error of the replay if it is hardly any of them. Otherwise the system is too slow for its usual load, unless the
    lines that are `charged` explain it: the removal of another one may make it worse."""
    return others if remain <= HARDLY_ANY * others else min(max(others - remain, charged), others)


def without(causes: Mapping[str, frozenset[Line]], left: Count) -> Left:
    """Return a function of the causes that are taken away at all servers. Causes that come in turn at several servers
    show only together."""
    return lambda gone: left(frozenset().union(*(causes[name] for name in gone)))
