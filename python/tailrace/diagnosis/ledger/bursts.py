"""A burst holds requests beyond the usual number: more than chance makes of the usual rate (a cumulative sum, Page
1954). Those that come at once, within 50 ms, are a batch: a job sends them in addition to the others. Without the
burst, a batch is not sent, and other requests come no faster than usual. So a system that is overloaded at its mean
rate, without its batches, has no burst as its cause."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np

from tailrace.diagnosis.constants import FEW, HARDLY_ANY, MOSTLY, QUICK, SEVERAL, STEP_NS, WINDOW_NS
from tailrace.diagnosis.ledger import excess, places, silences, systems
from tailrace.diagnosis.ledger.recorded import Recorded
from tailrace.diagnosis.ledger.steps import NEVER, Mask, Shares
from tailrace.diagnosis.queues import Stays, Times
from tailrace.topology import Topology

CAUSE = "workload-burst"
SAYS = "the bursts of requests"
PLAIN = "more requests came at once than {place} can serve"
ALONE = "requests came at once beyond the usual number, and most of them took that long by themselves"


@dataclass(frozen=True)
class Beyond:
    """These requests came beyond the usual number."""

    requests: Times
    turns: Times
    """Each of them would have been sent then if requests had come no faster than usual. It is `NEVER` for those of a
    batch, and where its turn did not come while the recording lasted."""

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
    they send to. Batches and heavy requests get no turn: without the burst they are not sent. Batches do not count for
    the usual number, either."""
    asked = recorded.asked & mine & ~recorded.names.are(silences.NAME) & ~places.opens(recorded.names)
    roots = _others(np.flatnonzero(asked), repeated)
    roots = roots[np.argsort(recorded.sent[roots], kind="stable")]
    clients = _Clients.of(recorded, repeated, mine, _loaded(recorded, roots))
    counts, usual = _numbers(recorded, calm, roots, clients)
    while at_once := excess.at_once(counts, usual, FEW, WINDOW_NS // STEP_NS):
        batch = excess.beyond_usual(recorded.sent[roots], usual, at_once)
        if not len(batch):
            break
        yield roots[batch], np.full(len(batch), NEVER)
        roots = np.delete(roots, batch)
        counts, usual = _numbers(recorded, calm, roots, clients)
    its = excess.beyond_usual(recorded.sent[roots], usual, excess.stretches(counts, usual, FEW))
    yield roots[its], excess.turns(recorded.sent[roots[its]], counts, usual)
    for part in _heavy(recorded, calm, roots):
        counts, usual = _numbers(recorded, calm, part, clients)
        heavy = excess.beyond_usual(recorded.sent[part], usual, excess.stretches(counts, usual, SEVERAL))
        yield part[heavy], np.full(len(heavy), NEVER)


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
    usual = (
        excess.rate(its, counts - after_pause, even) + excess.rate(its, after_pause, clients.pausing) * clients.ready
    )
    if _opens_more(recorded, calm, roots):
        usual = np.maximum(usual, excess.rate(its, counts, even))
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
