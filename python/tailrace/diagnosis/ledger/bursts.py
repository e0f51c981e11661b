"""A burst holds requests beyond the usual number: more than chance makes of the usual rate (a cumulative sum, Page
1954). Without the burst, the same requests come no faster than usual. So a system that is overloaded at its mean rate
has no burst as its cause."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from math import log

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.constants import FEW, HARDLY_ANY, MOSTLY, QUICK, SEVERAL, STEP_NS
from tailrace.diagnosis.ledger import places, silences, systems
from tailrace.diagnosis.ledger.recorded import Recorded
from tailrace.diagnosis.ledger.steps import NEVER, Shares
from tailrace.diagnosis.queues import Stays, Times
from tailrace.topology import Topology
from tailrace.units import SECOND

Mask = NDArray[np.bool_]

CAUSE = "workload-burst"
SAYS = "the bursts of requests"
PLAIN = "more requests came at once than {place} can serve"
DRIFT = 1.0 + HARDLY_ANY
"""A rate a tenth above the usual one is normal, because rates change by as much from one minute to the next."""
SIGMAS = 5.0
"""By chance, a sum of Poisson numbers exceeds five standard deviations in about one of ten hours of 10 ms steps."""
LULL_SIGMAS = 2.0
"""By chance, requests are missing by more than two standard deviations in one of 40 stretches."""
LULLS = tuple(2**k for k in range(7))
"""These are lengths of lulls in steps, from 10 to 640 ms: those of the stalls that hold requests back."""


@dataclass(frozen=True)
class Beyond:
    """These requests came beyond the usual number."""

    requests: Times
    turns: Times
    """Each of them would have been sent then if requests had come no faster than usual. It is `NEVER` where its turn
    did not come while the recording lasted."""

    @classmethod
    def of(cls, parts: Iterable[tuple[Times, Times]]) -> Beyond:
        """A request that is beyond several usual numbers waits for the last of its turns."""
        found = [(np.empty(0, dtype=np.int64),) * 2, *parts]
        requests, turns = (np.concatenate(column) for column in zip(*found, strict=True))
        order = np.lexsort((turns, requests))
        last = np.append(np.diff(requests[order]) > 0, True)[: len(order)]
        return cls(requests[order][last], turns[order][last])

    def without(self, some: Times) -> Beyond:
        kept = ~np.isin(self.requests, some)
        return Beyond(self.requests[kept], self.turns[kept])


def beyond(recorded: Recorded, calm: Mask, repeated: Times, topology: Topology) -> Beyond:
    """Return the visits that are requests of clients beyond the usual number. `calm` says which steps are calm. Visits
    that were `repeated` do not count, because they came only because others were slow. Connections on which a client
    sent nothing are no requests. Neither are logins: a client opens more connections when others are slow. Each system
    has its own usual number: requests for another system do not add to it. Where clients send to several services of a
    system, each of these has its own usual number, too."""
    services = np.unique([topology.names_of(name)[-1] for name in recorded.servers], return_inverse=True)[1]
    service = services[recorded.server]
    of_systems = list(_enough(systems.of(recorded), recorded.asked))
    of_services = [its for mine in of_systems for its in _enough(service, recorded.asked & mine)]
    several = of_services if len(of_services) > len(of_systems) else []
    found = (_of_clients(recorded, calm, repeated, mine) for mine in of_systems + several)
    return Beyond.of(chain.from_iterable(found))


def _enough(number: Times, asked: Mask) -> Iterator[Mask]:
    """Yield the visits of each of these numbers that enough requests of clients have."""
    numbers, requests = np.unique(number[asked], return_counts=True)
    yield from (number == one for one in numbers[requests >= SEVERAL].tolist())


def _of_clients(recorded: Recorded, calm: Mask, repeated: Times, mine: Mask) -> Iterator[tuple[Times, Times]]:
    """Yield such visits of some clients, and their turns. `mine` are the visits of their system, or of the service that
    they send to. Heavy requests get no turn: without the burst they are not sent."""
    asked = recorded.asked & mine & ~recorded.names.are(silences.NAME) & ~places.opens(recorded.names)
    roots = _others(np.flatnonzero(asked), repeated)
    roots = roots[np.argsort(recorded.sent[roots], kind="stable")]
    clients = _Clients.of(recorded, repeated, mine, _loaded(recorded, roots))
    counts, usual = _numbers(recorded, calm, roots, clients)
    found = _beyond(recorded.sent[roots], counts, usual, FEW)
    yield roots[found], _turns(recorded.sent[roots[found]], counts, usual)
    for part in _heavy(recorded, calm, roots):
        heavy = part[_beyond(recorded.sent[part], *_numbers(recorded, calm, part, clients), SEVERAL)]
        yield heavy, np.full(len(heavy), NEVER)


@dataclass(frozen=True)
class _Clients:
    """Clients that send a request after the answer to the one before, and pause between. While such a client waits, it
    sends nothing."""

    asked: Times
    """These are their requests. Repeated ones do not count, because no pause precedes them."""
    pausing: Shares
    """So many of them pause in each step until the last request of the recording. They pause while they wait for
    nothing, also after their last answer."""
    ready: Shares
    """So many of them count as pausing for the usual number. All of them count where some repeat requests, because then
    it is not known when a client gave up and began to pause."""

    @classmethod
    def of(cls, recorded: Recorded, repeated: Times, mine: Mask, steps: int) -> _Clients:
        """Return the clients of one system. Clients of another may wait while these pause."""
        later = _others(np.flatnonzero((recorded.follows >= 0) & mine), repeated)
        clients = np.unique(recorded.client[later])
        theirs = np.flatnonzero(np.isin(recorded.client, clients) & mine)
        middles = np.arange(steps) * STEP_NS + STEP_NS // 2
        waiting = Stays.of(recorded.sent[theirs], _until(recorded, theirs)).queue(middles)
        asked, pausing = _others(theirs, repeated), np.maximum(len(clients) - waiting, 0.0)
        # If hardly any clients pause, the system holds the others, and they send when they get an answer. Then pauses
        # say little about the number of requests.
        least = len(clients) * (1.0 if len(asked) < len(theirs) else HARDLY_ANY)
        return cls(asked, pausing, np.maximum(pausing, least))


def _others(visits: Times, repeated: Times) -> Times:
    return visits[~np.isin(visits, repeated)]


def _until(recorded: Recorded, requests: Times) -> Times:
    """Return until when the clients of these requests waited: until the answer, until they gave up, or until they sent
    the next one."""
    order = np.lexsort((recorded.sent[requests], recorded.client[requests]))
    sent, client = recorded.sent[requests][order], recorded.client[requests][order]
    until = recorded.back[requests].copy()
    same = client[1:] == client[:-1]
    until[order[:-1][same]] = np.minimum(until[order[:-1][same]], sent[1:][same])
    return until


def _loaded(recorded: Recorded, roots: Times) -> int:
    """Return the number of steps until the last of these requests was sent. After it, the recording shows only how the
    system answers what it holds."""
    return int(recorded.steps.at(recorded.sent[roots]).max(initial=0)) + 1


def _heavy(recorded: Recorded, calm: Mask, roots: Times) -> Iterator[Times]:
    """Yield the requests of each interaction that usually takes more than twice as long as the mean, or that never came
    in calm time. A few of them bring as much work as many others."""
    took = (recorded.back[roots] - recorded.sent[roots]).astype(np.float64)
    in_calm = calm[recorded.steps.at(recorded.sent[roots])]
    groups, size = recorded.names.number[roots], len(recorded.names.labels)
    every = np.bincount(groups, minlength=size)
    usually = np.bincount(groups[in_calm], minlength=size)
    lasted = np.bincount(groups[in_calm], took[in_calm], minlength=size)
    mean = lasted.sum() / max(usually.sum(), 1)
    # Requests that take up to twice the mean bring no more work than the square root law of their number allows for.
    heavy = np.flatnonzero((every >= SEVERAL) & ((usually == 0) | (MOSTLY * lasted > mean * usually)))
    order = np.argsort(groups, kind="stable")
    first, last = np.searchsorted(groups[order], heavy), np.searchsorted(groups[order], heavy, "right")
    yield from (roots[order[begin:end]] for begin, end in zip(first.tolist(), last.tolist(), strict=True))


def _numbers(recorded: Recorded, calm: Mask, roots: Times, clients: _Clients) -> tuple[Times, Shares]:
    """Return the number of these requests in each step, and their usual number."""
    sent, steps = recorded.sent[roots], len(clients.pausing)
    counts, after_pause = (
        np.bincount(recorded.steps.at(times), minlength=len(recorded.steps))[:steps]
        for times in (sent, sent[np.isin(roots, clients.asked)])
    )
    its = calm[:steps]
    even = np.ones(steps)
    usual = _rate(its, counts - after_pause, even) + _rate(its, after_pause, clients.pausing) * clients.ready
    if _opens_more(recorded, calm, roots):
        usual = np.maximum(usual, _rate(its, counts, even))
    return counts, usual


def _opens_more(recorded: Recorded, calm: Mask, roots: Times) -> bool:
    """Return whether most clients sent their first request when it was not calm, and many more came then than in calm
    time. A load that is independent of answers takes a free connection, and opens another one while all of them wait:
    what the waiting connections do not send comes over new ones."""
    clients, first = np.unique(recorded.client[roots], return_index=True)
    first = first[clients >= 0]
    later = ~calm[recorded.steps.at(recorded.sent[roots[first]])]
    in_calm = (len(first) - later.sum()) / max(calm.sum(), 1)
    return bool(later.sum() > max(MOSTLY * len(first), QUICK * in_calm * (len(calm) - calm.sum())))


def _beyond(sent: Times, counts: Times, usual: Shares, least: int) -> Times:
    """Return which of the requests that were sent then, in this order, came beyond their usual number."""
    found = [
        first + _without_turn(sent[first:last], usual)
        for begin, end in _stretches(counts, usual, least)
        for first, last in [np.searchsorted(sent, (begin * STEP_NS, end * STEP_NS)).tolist()]
    ]
    return np.concatenate([np.empty(0, dtype=np.int64), *found])


def _rate(calm: Mask, counts: Times, by: Shares) -> float:
    """Return how many requests are sent in a step for each of those that can send one (`by`). The number is the higher
    of that in calm time and that of all steps, because so many may come evenly."""
    in_calm = counts[calm].sum() / max(by[calm].sum(), 1.0) if calm.sum() * STEP_NS >= SECOND else 0.0
    return float(max(in_calm, counts.sum() / max(by.sum(), 1.0)))


def _stretches(counts: Times, usual: Shares, least: int) -> list[tuple[int, int]]:
    """Return the stretches of steps in which far more requests came than usual. Each has its first step, the step after
    its last, and at least `least` requests. Requests that make up for those that were missing just before did not come
    beyond the usual number."""
    missing, sums = _missing(counts, usual), _sums(usual)
    found: list[tuple[int, int]] = []
    walk, top, begin, at = 0.0, 0.0, 0, 0
    for step, (count, expected) in enumerate(zip(counts.tolist(), usual.tolist(), strict=True)):
        if walk <= 0.0:
            walk, top, begin, at = 0.0, 0.0, step, step
        walk += count - expected * DRIFT
        if walk > top:
            top, at = walk, step
        if walk <= top / 2 or step == len(counts) - 1:
            more = int(counts[begin : at + 1].sum()) - missing[begin]
            if top > missing[begin] and more >= least and _is_more(more, DRIFT * (sums[at + 1] - sums[begin])):
                found.append((begin, at + 1))
            walk = 0.0
    return found


def _sums(values: Times | Shares) -> Shares:
    return np.concatenate(([0.0], np.cumsum(values)))


def _is_more(count: float, usual: float) -> bool:
    """Return whether so many requests come by chance as seldom as a large number exceeds its mean by `SIGMAS` standard
    deviations (Chernoff's bound of a Poisson number with the mean `usual`)."""
    return count > usual and (usual == 0.0 or count * log(count / usual) - count + usual >= SIGMAS**2 / 2)


def _missing(counts: Times, usual: Shares) -> Shares:
    """Return how many requests were missing just before each step. It is 0 where chance makes as many of the usual
    rate."""
    came, due = _sums(counts), _sums(usual)
    found = np.zeros(len(counts))
    for steps in LULLS:
        expected = due[steps:-1] - due[: -1 - steps]
        few = expected - (came[steps:-1] - came[: -1 - steps])
        found[steps:] = np.maximum(found[steps:], np.where(few > LULL_SIGMAS * np.sqrt(expected), few, 0.0))
    return found


def _without_turn(sent: Times, usual: Shares) -> Times:
    """Return the requests that came before it was their turn at the usual rate (a token bucket that holds those of
    50 ms)."""
    due = np.interp(sent, np.arange(len(usual) + 1) * STEP_NS, _sums(usual))
    most = 5.0 * usual[np.minimum(sent // STEP_NS, len(usual) - 1)]
    tokens, last, found = np.inf, 0.0, []
    for i, (now, most_now) in enumerate(zip(due.tolist(), most.tolist(), strict=True)):
        tokens = min(tokens + now - last, most_now)
        last = now
        if tokens >= 1.0:
            tokens -= 1.0
        else:
            found.append(i)
    return np.array(found, dtype=np.int64)


def _turns(sent: Times, counts: Times, usual: Shares) -> Times:
    """Return when the turn of each of these requests comes if they fill up, in their order, what the others leave of
    the usual number. `sent` is when they were sent, and `counts` is the number of all requests of each step."""
    mine = np.bincount(sent // STEP_NS, minlength=len(counts))
    turns = np.full(len(sent), NEVER)
    waiting, sent_on, spare = 0, 0, 0.0
    for step, (came, left) in enumerate(zip(mine.tolist(), (usual - (counts - mine)).tolist(), strict=True)):
        waiting += came
        spare = spare + left if waiting else 0.0
        number = min(int(max(spare, 0.0)), waiting)
        if number:
            turns[sent_on : sent_on + number] = step * STEP_NS + (np.arange(number) + 1) * STEP_NS // (number + 1)
            waiting, sent_on, spare = waiting - number, sent_on + number, spare - number
    late: Times = np.maximum(turns, sent)
    return late
