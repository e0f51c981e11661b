"""This module finds visits that took long by themselves and held the places of a server meanwhile. It also infers how
many visits a server serves at once.

A place is a worker, a connection to a server behind, or the turn of an event loop. While visits that take long by
themselves hold all places, the other visits wait, although the server lost no capacity. A stop of the server looks the
same. So a visit counts as long by itself only if something other than its length shows it:

passed    Other visits that came after it were served while it was inside. It also did not share a full CPU with so
          many visits that each of them was slow. It did not open a connection, which waits to be accepted, and lost no
          packet.
named     No visit of its interaction is short, and other visits waited behind it. Its interaction is so rare that it
          is not at the head of a queue by chance. A query counts as an interaction of the request that it serves. Such
          a visit may wait for a call all the time.
in turn   While others waited, such visits were served one after the other, each for as long as the first, or several
          together, and then as many again. A server that stops does not stop again after so many visits. Among many
          lulls, more are as long as the next one than chance makes.
apart     It took as long as others, although most of them began at other times. Nothing held the first of them up.
alike     It took as long as one of these visits and has the same name, and these do not take any length. It did not
          share a full CPU with so many visits that each of them was slow.
behind    Most of its time is a call to a server behind, and that call took long by itself.
stood     It is a call for which its caller stood still (`stood`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.constants import ALIKE, FEW, HARDLY_ANY, LEAST_LIMIT, LONG_NS, MANY, MOSTLY, QUICK, STEP_NS
from tailrace.diagnosis.ledger import silences
from tailrace.diagnosis.ledger.ahead import named
from tailrace.diagnosis.ledger.alike import each_alone, near, of_one_kind
from tailrace.diagnosis.ledger.excess import is_rare
from tailrace.diagnosis.ledger.recorded import Names, Numbers, Recorded, are_first
from tailrace.diagnosis.ledger.steps import Mask, Shares
from tailrace.diagnosis.ledger.stood import still_for
from tailrace.diagnosis.ledger.workers import turns
from tailrace.diagnosis.queues import Stays, Times
from tailrace.diagnosis.spans import Spans, common, inside, spans
from tailrace.units import MILLISECOND

LONGER = 10.0
"""Service times vary about threefold around their median. (In an exponential distribution, the 99th percentile is at
6.6 medians.)"""
OPENING = ("LOGIN", "HELLO", "AUTH", "CLIENT")
"""These are the names of the first visits on a connection to a database or to Redis (crates/core/src/capture/wire)."""


@dataclass(frozen=True)
class Held:
    """These visits of a server took long by themselves. The fields give their rows in the recording, when they held
    their places, and what they requested."""

    visits: Times
    begin: Times
    end: Times
    names: NDArray[np.str_]
    in_server: Mask
    """The visit spent most of that time in the server and not in calls."""
    of_itself: Mask
    """It did, or its longest call took long by itself."""
    work: Shares
    """For each visit, this is its time at full speed."""
    lulls: Spans
    """In these spans, one of the visits was inside, and no other visit left for a long time."""
    places: int
    """The server serves this many visits at once; 0 means that the number is not known."""
    rows: Times
    """These are all visits of the server."""
    start: Times
    """Each visit in `rows` got its place at this time."""

    by_turn: bool
    """One was served after the other while others waited. Collections that follow one another look the same."""
    named: Mask
    """The name of each visit identifies it, because no visit of that name is short."""
    inside: int
    """So many visits of the server were inside at once while one of these was."""

    @property
    def filled(self) -> bool:
        """Return whether they held so many places that the others had to wait."""
        if not self.places:
            return len(self.lulls) > 0
        # If fewer are held, a server that usually has a free place still has one.
        return self.most >= MOSTLY * self.places and self.inside >= self.places

    @property
    def own(self) -> bool:
        """Return whether most of the visits spent that time in the server and not in calls."""
        return bool(self.in_server.mean() > MOSTLY)

    def only(self, mine: Mask) -> Held:
        """Return the same with only these of the visits."""
        columns = ("visits", "begin", "end", "names", "in_server", "of_itself", "work", "named")
        lulls = common(spans(np.column_stack((self.begin[mine], self.end[mine]))), self.lulls)
        return replace(self, lulls=lulls, **{name: getattr(self, name)[mine] for name in columns})

    @cached_property
    def most(self) -> int:
        """Return the largest number of visits that held places at the same time."""
        return Stays.of(self.begin, self.end).longest


@dataclass(frozen=True)
class Here:
    """These are the visits of one server. Times are in nanoseconds."""

    rows: Times
    came: Times
    begin: Times
    """The visit got its place at this time. If that is not known, it is the time of its arrival."""
    end: Times
    work: Shares
    """For each visit, this is its time in the server at full speed of the server and of those that it calls."""
    alone: Shares
    """This is the same time if the visit had had a core alone: where it shared a full CPU, only its share of a core
    counts."""
    name: Numbers
    """This is the place of its name in `labels`."""
    labels: NDArray[np.str_]
    orphan: Mask
    """The request of this visit is not known, although the requests of others with its name are. So its interaction is
    not known."""
    in_calls: Shares
    """The visit spent this fraction of its time in calls."""
    behind: Mask
    """The visit spent most of its time in a call that took long by itself."""
    lost: Mask
    """Packets of the visit were lost, so a part of its time may have passed before the server had them."""
    failed: Mask
    """It may have failed because a time had passed in which it got nothing."""
    known: int
    """The server serves this many visits at once; 0 means that the number is not known."""
    in_calm: Mask
    """The visit came in calm time."""
    stood: Mask
    """The caller of the visit stood still while it waited for it."""

    @cached_property
    def lasted(self) -> Times:
        return self.end - self.begin

    @cached_property
    def _usually(self) -> Mask | slice:
        """Select the visits that show what is usual: those of calm time, if these are not too few."""
        return self.in_calm if self.in_calm.sum() >= FEW else slice(None)

    @cached_property
    def usual(self) -> float:
        return float(np.median(self.work[self._usually]))

    @cached_property
    def own(self) -> Mask:
        """Return which visits spent most of their time in the server itself and not in a call."""
        return np.asarray(self.in_calls <= MOSTLY)

    @cached_property
    def least(self) -> float:
        """Return the time from which a visit counts as long. What a visit usually spends in calls does not count."""
        own = self.work * (1.0 - self.in_calls)
        return max(LONGER * float(np.median(own[self._usually])), LONG_NS)

    @cached_property
    def is_long(self) -> Mask:
        return np.asarray(self.work >= self.least)

    @cached_property
    def opens(self) -> Mask:
        return opens(Names(self.labels, self.name))

    @cached_property
    def by_itself(self) -> Mask:
        """Return which long visits take as long as others that began at other times."""
        by_others = self.opens | self.lost | self.failed
        return each_alone(self.begin, self.end, self.is_long & (self.own | self.behind) & ~by_others)

    @cached_property
    def is_quick(self) -> Mask:
        return np.asarray(self.lasted <= max(QUICK * self.usual, MILLISECOND))


def find(
    recorded: Recorded, at_once: Numbers, since: Times, prior: Shares, shared: Shares, calm: Mask
) -> dict[str, Held]:
    """Find the held places by server. Each server serves `at_once` visits (0: unknown). `since` is when the caller of
    each visit wanted to call it. By server and step, `prior` is the speed that recorded losses left, and `shared` is
    the fraction of a core that each visit had. `calm` says which steps are calm."""
    held: dict[str, Held] = {}
    every = _Visits.of(recorded, since, calm)
    unserved = _unserved(recorded)
    for number in reversed(range(len(recorded.servers))):  # the servers behind come first
        rows = np.flatnonzero((recorded.server == number) & ~unserved)
        if not len(rows):
            continue
        here = every.here(rows, prior[number], shared[number], int(at_once[number]))
        every.lose(rows, here.lasted - here.work)
        found = _heavy(here)
        if found.any():
            one = _held(here, found)
            kept = bool(one.named.any()) or one.filled
            # Visits that wait inside a server hold no places of its callers: these wait for the same places.
            every.heavy[rows[found]] = not (kept and 0 < one.places < one.inside)
            held |= {recorded.servers[number]: one} if kept else {}
    return held


def _unserved(recorded: Recorded) -> Mask:
    """Return which clients sent nothing and left before they held a place: all places were taken when they came."""
    waited = recorded.start - recorded.arrival
    nearly_all = waited >= (1.0 - ALIKE) * (recorded.departure - recorded.arrival)
    return np.asarray(recorded.names.are(silences.NAME) & (waited > 0) & nearly_all)


def _orphans(recorded: Recorded) -> Mask:
    """Return which calls of servers have no request, although others with their name have one."""
    numbers = recorded.names.number
    return np.asarray(recorded.orphan & np.isin(numbers, np.unique(numbers[recorded.parent >= 0])))


def seated(recorded: Recorded, held: Mapping[str, Held], blocking: Collection[str]) -> Recorded:
    """Return the recording in which each visit to the servers of `held` that are `blocking` starts when it got its
    place. An event loop takes a visit when it arrives. For each server of `held`, the visits that take long by
    themselves form a group of their own, because what they need shows nothing about the others."""
    start, group, groups = recorded.start.copy(), recorded.group.copy(), recorded.groups
    for server, one in held.items():
        if server in blocking:
            start[one.rows] = one.start
        group[one.visits] = groups
        groups += 1
    return replace(recorded, start=start, group=group, groups=groups)


def fullest(recorded: Recorded, held: Mapping[str, Held], computed: Collection[str]) -> dict[str, Held]:
    """Among servers that held the same requests, keep the one whose CPU they filled (`computed`), and otherwise the one
    that lost the largest fraction of its places. A server that had places left lost nothing by that. If two are equal,
    keep one in which visits waited for a place, then one in which the requests spent their time, and of those the one
    behind. Another server keeps the visits for other requests, if their names identify them."""

    def rank(name: str) -> tuple[bool, float, bool, bool, int]:
        one = held[name]
        waited = one.filled and bool((one.start > recorded.arrival[one.rows]).any())
        lost = one.filled * (min(one.most / one.places, 1.0) if one.places else one.own / 2)
        return name in computed, lost, waited, one.own, recorded.number[name]

    kept: dict[str, Held] = {}
    asked = np.empty(0, dtype=np.uint64)
    for name in sorted(held, key=rank, reverse=True):
        requests = recorded.request[held[name].visits]
        others = ~np.isin(requests, asked)
        its = held[name] if others.all() else held[name].only(others & held[name].named)
        if len(its.visits):
            kept[name] = its
            asked = np.append(asked, requests)
    return kept


def _held(here: Here, heavy: Mask) -> Held:
    places, start = _places(here, heavy)
    begin, end = start[heavy], here.end[heavy]
    work = here.work[heavy] * (end - begin) / np.maximum(end - here.begin[heavy], 1)
    lulls = _lulls(here, heavy, begin)
    short = np.unique(here.name[~here.is_long])
    named = ~np.isin(here.name[heavy], short)
    turn = bool((_in_turn(here, here.is_long)[heavy] > 0).any())
    names = here.labels[here.name[heavy]]
    inside = _most_inside(here, begin, end)
    own, of_itself = here.own[heavy], (here.own | here.behind)[heavy]
    columns = here.rows[heavy], begin, end, names, own, of_itself, work
    return Held(*columns, lulls, places, here.rows, start, turn, named, inside)


def _lulls(here: Here, heavy: Mask, begin: Times) -> Spans:
    left = np.sort(here.end[~heavy])
    gaps = np.column_stack((left[:-1], left[1:]))
    inside = spans(np.column_stack((begin, here.end[heavy])))
    gaps = gaps[gaps[:, 1] - gaps[:, 0] >= LONG_NS]
    return common(inside, spans(gaps))


@dataclass(frozen=True)
class _Visits:
    """These columns have a row for each visit of the recording."""

    recorded: Recorded
    names: Names
    orphan: Mask
    called: Times
    longest: Times
    in_calm: Mask
    stood: Mask
    heavy: Mask
    """It took long by itself. The servers are looked at one after the other, and each adds its own visits."""
    lost_ns: Shares
    """So much of its calls was lost by the servers behind. Each server adds what its own visits lost."""

    @classmethod
    def of(cls, recorded: Recorded, since: Times, calm: Mask) -> _Visits:
        return cls(
            recorded,
            recorded.names.under(recorded.root),
            _orphans(recorded),
            *_calls(recorded, since),
            in_calm=calm[recorded.steps.at(recorded.sent)],
            stood=still_for(recorded, calm),
            heavy=np.zeros(len(recorded.server), dtype=bool),
            lost_ns=np.zeros(len(recorded.server)),
        )

    def lose(self, rows: Times, lost_ns: Shares) -> None:
        """Let the callers of these visits lose as much as the visits lost."""
        parent = self.recorded.parent[rows]
        np.add.at(self.lost_ns, parent[parent >= 0], lost_ns[parent >= 0])

    def here(self, rows: Times, prior: Shares, shared: Shares, known: int) -> Here:
        """Return the visits of one server, which has `known` places."""
        recorded = self.recorded
        begin, end = recorded.start[rows], recorded.departure[rows]
        lasted = (_lasted(recorded.steps.edges, each, begin, end) for each in (prior, prior * shared))
        work, alone = (np.maximum(each - self.lost_ns[rows], 0.0) for each in lasted)
        call = self.longest[rows]
        return Here(
            rows=rows,
            came=_came(recorded, rows),
            begin=begin,
            end=end,
            work=work,
            alone=alone,
            name=self.names.number[rows],
            labels=self.names.labels,
            orphan=self.orphan[rows],
            in_calls=np.minimum(self.called[rows] / np.maximum(end - begin, 1), 1.0),
            behind=(call >= 0) & self.heavy[call],
            lost=recorded.lost[rows] > 0,
            failed=recorded.failed[rows],
            known=known,
            in_calm=self.in_calm[rows],
            stood=self.stood[rows],
        )


def _came(recorded: Recorded, rows: Times) -> Times:
    """Return when each visit came. If its caller has a limit, or this is the first call of the caller's visit, it may
    have waited there, so it came when the caller's visit did."""
    parent = recorded.parent[rows]
    limited = recorded.workers[recorded.server[parent]] > 0
    behind = (parent >= 0) & (are_first(parent, recorded.sent[rows]) | limited)
    return np.where(behind, recorded.arrival[parent], recorded.arrival[rows])


def _lasted(edges: Times, speed: Shares, begin: Times, end: Times) -> Shares:
    """Return how long each time would have been at full speed."""
    sums = np.concatenate(([0.0], np.cumsum(speed))) * STEP_NS
    return np.asarray(np.interp(end, edges, sums) - np.interp(begin, edges, sums))


def _calls(recorded: Recorded, since: Times) -> tuple[Times, Times]:
    """Return the time that each visit spent in its calls, and its longest call. The call is -1 if it did not take most
    of that time. A visit that waits for a connection to a server behind waits for that server, and not by itself."""
    called, longest = np.zeros(len(recorded.server), dtype=np.int64), np.full(len(recorded.server), -1, dtype=np.int64)
    calls = np.flatnonzero(recorded.parent >= 0)
    took = recorded.back[calls] - since[calls]
    np.add.at(called, recorded.parent[calls], took)
    order = np.argsort(took, kind="stable")
    longest[recorded.parent[calls[order]]] = calls[order]
    most = np.zeros(len(called), dtype=np.int64)
    np.maximum.at(most, recorded.parent[calls], took)
    return called, np.where(most * 2 > called, longest, -1)


def _heavy(here: Here) -> Mask:
    long = here.is_long & (here.own | here.behind)
    # Their names identify visits that hold places for long, also while they wait for another server for far longer than
    # others do. Connections are opened because others wait.
    by_name = named(here, (long | (here.work >= max(LONGER * here.usual, here.least))) & ~here.opens)
    if not long.any():
        return by_name
    waited = _released(here, long) | here.opens | here.lost | (here.alone < here.least)
    passed = np.where(waited, 0.0, _passed(here, long))
    by_turn = np.where(passed > 0, 0.0, _in_turn(here, long))
    sure = (
        by_name | (here.is_long & here.stood) | (long & (here.behind | (passed > 0) | (by_turn > 0) | here.by_itself))
    )
    lasts = np.where(passed > 0, passed, here.work)
    found = sure.copy()
    # Other visits may take as long as a long call, because they wait for their turn to send it, and as long as visits
    # that took turns, because they wait behind these.
    of_itself = sure & long & ~here.behind & (by_turn == 0)
    for name in np.unique(here.name[of_itself]).tolist():
        mine = here.name == name
        known = of_itself & mine
        works, times = of_one_kind(lasts[known]), of_one_kind(here.lasted[known])
        found |= long & mine & (here.alone >= here.least) & (near(here.work, works) | near(here.lasted, times))
    return found


def _passed(here: Here, long: Mask) -> Shares:
    """Return for how long others were served while each visit was inside; 0 if that is not long, or not most of its
    time. Before that time, the visit may itself have waited for a place. Visits that open a connection need no such
    place."""
    quick = np.sort(here.end[here.is_quick & ~here.opens])
    order = np.argsort(here.begin, kind="stable")
    begins, long_before = here.begin[order], np.concatenate(([0], np.cumsum(here.is_long[order])))
    apart = max(LONG_NS, 5 * int(np.median(np.diff(quick)))) if len(quick) > 1 else LONG_NS
    found = np.zeros(len(long))
    for i in np.flatnonzero(long).tolist():
        begin, end = int(here.begin[i]), int(here.end[i])
        first, last = np.searchsorted(quick, (begin, end)).tolist()
        if last - first >= LEAST_LIMIT:
            gaps = np.diff(np.concatenate(([begin], quick[first:last], [end])))
            served = int(gaps[gaps <= apart].sum())
            # Where most visits are slow, the same reason may make this one slow. Others that need little come and go.
            came, last = np.searchsorted(begins, (end - served, end)).tolist()
            few = long_before[last] - long_before[came] <= MOSTLY * (last - came)
            found[i] = served if few and served >= max(here.least, (end - begin) * MOSTLY) else 0
    return found


def opens(names: Names) -> Mask:
    """Return which visits open a connection. They wait in the accept queue, where visits on open connections pass
    them."""
    of_visits = np.char.partition(names.labels, " of ")[:, 0] if len(names.labels) else names.labels
    return np.asarray(np.isin(of_visits, OPENING)[names.number])


def _released(here: Here, long: Mask) -> Mask:
    """Return which visits came one after the other and left in half of that time. Something outside them, such as
    a lock, held them, although others passed when it was over."""
    rows = np.flatnonzero(long)
    rows = rows[np.argsort(here.end[rows], kind="stable")]
    found = np.zeros(len(long), dtype=bool)
    lasted = here.lasted[rows]
    breaks = np.flatnonzero(np.diff(here.end[rows]) > ALIKE * np.minimum(lasted[1:], lasted[:-1]))
    for group in np.split(rows, breaks + 1):
        begin, end = here.begin[group], here.end[group]
        longest = np.max(end - begin)
        if len(group) >= LEAST_LIMIT and np.ptp(begin) >= MOSTLY * longest and np.ptp(end) <= MOSTLY * np.ptp(begin):
            found[group] = True
    return found


def _in_turn(here: Here, long: Mask) -> Shares:
    """Return for how long each visit was served, if such visits took turns; 0 for the others. Visits took turns if as
    many were served together as were served before them, for the same time, while more waited. Others may be served
    only between two groups.
    A visit that kept others waiting for as long at another time is such a visit, too."""
    order = np.argsort(here.end, kind="stable")
    end, begin = here.end[order], np.sort(here.begin)
    since = np.maximum(np.concatenate(([begin[0]], end[:-1])), begin[np.arange(len(end))])
    lasted = end - since
    waited = np.searchsorted(np.sort(here.came), since + lasted // 2) - np.arange(len(end))

    def together(first: int, count: int) -> Times:
        """Return the first `count` long visits that left together after the lull before the first of them; none if
        there are fewer, or if no others waited."""
        last = np.searchsorted(end, end[first] + int(ALIKE * lasted[first]), "right")
        those = order[first:last][long[order[first:last]]][:count]
        return those if len(those) == count < waited[first] else those[:0]

    lulls = np.flatnonzero((lasted >= here.least) & long[order]).tolist()
    turns, repeated = {}, 0
    for one, following in pairwise(lulls):
        count = int(long[order[one:following]].sum())
        as_long = abs(lasted[following] - lasted[one]) <= ALIKE * lasted[following]
        at_once = end[following - 1] - end[one] <= ALIKE * lasted[one]
        repeated += as_long
        if as_long and at_once and len(together(one, count)) and len(together(following, count)):
            turns[int(lasted[following])] = count
    found = np.zeros(len(long))
    if not is_rare(repeated, ALIKE * max(len(lulls) - 1, 0)):
        return found  # Of many lulls, some are as long as the next one by chance.
    for length, count in turns.items():
        for first in lulls:
            if abs(lasted[first] - length) <= ALIKE * length:
                those = together(first, count)
                found[those if len(those) else order[first : first + 1]] = lasted[first]
    return found


def _places(here: Here, heavy: Mask) -> tuple[int, Times]:
    """Return the number of places, and when each visit got one. With this number, others are served as quickly as usual
    once they have a place, and most get one immediately. As many as leave together may be the number. Where no others
    were inside, none waited for a place, and nothing shows the number."""
    if here.known:
        return here.known, here.begin
    held = Stays.of(here.begin[heavy], here.end[heavy])
    if _most_inside(here, here.begin[heavy], here.end[heavy]) <= held.longest:
        return 0, here.begin
    unusual = int((here.is_long & ~heavy).sum())
    inside = np.unique(held.queue(held.departures - 1)).tolist()
    left = np.sort(held.departures)
    together = max(map(len, np.split(left, 1 + np.flatnonzero(np.diff(left) > LONG_NS))))
    best, start, fewest = 0, here.begin, int(HARDLY_ANY * unusual)
    came = _behind_heavy(here, heavy)
    for places in sorted({1, together, *inside[-MANY:]}):
        begins = turns(came, here.end, places)
        served = here.end - begins
        # With the right number, only visits that take long by themselves are served for long, and no visit leaves long
        # before its turn. Visits that last alike did not wait, and those that call hold a place as long as the call.
        alone = np.where(here.by_itself, 1.0, here.in_calls * here.behind)
        least = np.maximum((1.0 - ALIKE) * alone * here.lasted, here.least)
        wrong = int(np.where(heavy, served < least, np.abs(served) >= here.least).sum())
        long = float(np.median(served[heavy])) >= here.least
        if long and wrong <= fewest and float(np.median(begins - here.begin)) * 2 <= here.usual:
            best, start, fewest = places, np.minimum(begins, here.end), wrong - 1
    return best, start


def _behind_heavy(here: Here, heavy: Mask) -> Times:
    """Return when each visit came in the order in which the server takes visits. It reads from many connections, so it
    may take a visit that takes long before others that came a twentieth of its time earlier and are still there in its
    middle. A visit whose packets were lost came when they were sent again, and then needed as much as others."""
    late = np.maximum(here.begin, here.end - int(here.usual))
    came = np.where(here.lost & ~heavy, late, here.begin)
    order = np.argsort(here.begin, kind="stable")
    begin = here.begin[order]
    for k in np.flatnonzero(heavy).tolist():
        first = here.begin[k] - int(ALIKE * here.lasted[k])
        earlier = order[slice(*np.searchsorted(begin, (first, here.begin[k])).tolist())]
        later = earlier[(here.end[earlier] >= here.end[k] - here.lasted[k] // 2) & ~heavy[earlier]]
        came[later] = np.maximum(came[later], here.begin[k] + 1)
    return came


def _most_inside(here: Here, begin: Times, end: Times) -> int:
    """Return the largest number of visits that were inside at once in these times."""
    stays = Stays.of(here.begin, here.end)
    moments = stays.departures - 1
    within = inside(spans(np.column_stack((begin, end))), moments) >= 0
    return int(stays.queue(moments[within]).max(initial=0))
