"""This module replays visits without some lines, and shows which of their requests are very slow then."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from tailrace._core import Section
from tailrace.diagnosis.constants import LONG_NS, STEP_NS
from tailrace.diagnosis.ledger import bursts, calls, choices, delays, retries
from tailrace.diagnosis.ledger.account import Account, Line
from tailrace.diagnosis.ledger.bursts import Beyond
from tailrace.diagnosis.ledger.losses import Seen, own_work
from tailrace.diagnosis.ledger.policies import RECORDED
from tailrace.diagnosis.ledger.recorded import Recorded
from tailrace.diagnosis.ledger.steps import NEVER
from tailrace.diagnosis.queues import Times
from tailrace.units import SECOND

BURST, BALANCER, RETRIES = bursts.CAUSE, choices.CAUSE, retries.CAUSE
HOLDERS: Line = "holders of a burst", ""
"""These are the requests of the burst that held places or computed. Without this line, each of them is sent in its
turn."""
AS_SENT = frozenset({("as sent", "")})
"""This key stands for the replay in which each request is sent when it was recorded."""
IN_TURN = "turns"
NEVER_MADE, PATIENT = 1, 2
"""An attempt is never made, or its sender does not give it up."""
STAYS_NS = SECOND
"""A section begins in calm time, or when queues are short. Requests that leave soon after it begins hold nothing when
an episode begins."""


@dataclass(frozen=True)
class Removable:
    """This is what a replay can leave out: the lines of an account, and requests."""

    account: Account
    of_clients: Mapping[Line, Beyond]
    """These requests are the bursts and the retries. Without the line, each of them is sent in its turn, or never."""
    of_holders: Mapping[Line, Times]
    """For these requests, visits held the places of a line, or computed."""
    still_slow: Mapping[Line, Times]
    """Without that line, these of them wait for no place, and are very slow all the same. Those that computed are not
    among them: their replay computes less."""
    batch: Times
    """These of them came beyond the usual number. Without the burst, no client waits for them; the others still wait
    for what they hold."""
    first_attempts: Times
    """For each of the retries, this is the visit of the first attempt."""
    calls_again: Times
    """These calls were sent again. Without the retries, they are not made, and nobody gives up what they repeat."""
    calls_beyond: Mapping[Line, Times]
    """These calls to a server came beyond their usual number. Without the line, they are not made."""
    patient: Times
    """Without the retries, the senders of these first attempts wait for the answer."""
    instead: tuple[Times, Times]
    """Without the retries, each of the second visits is sent when the first attempt beside it was: that was lost."""
    threshold_ns: int

    @classmethod
    def of(cls, seen: Seen, account: Account) -> Removable:
        recorded = account.recorded
        again, again_calls = account.repeated, account.repeated_calls
        came = bursts.beyond(recorded, seen.calm, again.visits, seen.view.topology)
        calls_beyond = calls.beyond(recorded, seen.calm, again_calls.visits, seen.view.topology)
        visits = {line: account.visits_of(line) for line in account.losses}
        of_holders = {line: recorded.roots(held) for line, held in visits.items() if len(held)}
        still_slow = {
            line: _slow_without(recorded, np.intersect1d(visits[line], account.long_alone), seen.slow.threshold_ns)
            for line in of_holders
            if line[0] != own_work.CAUSE
        }
        alone = _slow_without(recorded, account.long_alone, seen.slow.threshold_ns)
        batch = np.intersect1d(_union((*still_slow.values(), alone)), came.requests)
        burst = came.without(_union(of_holders.values()))
        retried = Beyond(again.visits, np.full(len(again.visits), NEVER))
        return cls(
            account,
            {(BURST, ""): burst, HOLDERS: came.without(burst.requests), (RETRIES, ""): retried},
            of_holders,
            still_slow,
            batch,
            again.first,
            again_calls.visits,
            {(BURST, server): its for server, its in calls_beyond.items()},
            _union((again.first, again_calls.first)),
            again.instead(recorded),
            seen.slow.threshold_ns,
        )

    @property
    def came(self) -> Mapping[Line, Times]:
        """Return the requests of the lines of clients, the calls that were sent again, and those beyond their usual
        number. The burst has all requests that came beyond the usual number."""
        requests = {line: came.requests for line, came in self.of_clients.items()}
        burst = _union((requests[BURST, ""], requests[HOLDERS], self.batch))
        retried = _union((requests[RETRIES, ""], self.calls_again))
        return {(BURST, ""): burst, (RETRIES, ""): retried, **self.calls_beyond}

    def whole(self) -> Trial:
        """Return a trial of all visits, with their recorded choices."""
        account = self.account
        return Trial(self, np.arange(len(account.recorded.sent)), account.replay.whole(), 0, chooses_again=False)

    def between(self, begin: int, end: int, *, resent: bool = False) -> Trial:
        """Return a trial of the requests that were sent in this time, with all visits for them. Requests that were
        inside before, and for a second after it begins, belong to it, because they may hold places. What they computed
        before it is not known, so they compute all of it in this time. With `resent`, requests that were lost before
        and arrived in this time belong to it, too: they are sent when they were sent again."""
        recorded = self.account.recorded
        arrived, left = recorded.request_stays
        came = arrived if resent else recorded.sent_by_client
        # A request that a server never heard of holds nothing while it waits.
        stays = (arrived < begin) & (left > begin + STAYS_NS) & (recorded.like[recorded.root] < 0)
        visits = np.flatnonzero(((came >= begin) | stays) & (recorded.sent_by_client <= end))
        first = min(begin // STEP_NS, len(recorded.steps) - 1)
        again = any(policy != RECORDED for policy in self.account.routes.policy)
        section = self.account.replay.section(visits, first)
        return Trial(self, visits, section, first, chooses_again=again, not_before=begin if resent else 0)


def _union(some: Iterable[Times]) -> Times:
    return np.unique(np.concatenate([np.empty(0, dtype=np.int64), *some]))


def _slow_without(recorded: Recorded, visits: Times, threshold_ns: int) -> Times:
    """Return the requests that are very slow even without the wait of these visits for a place."""
    roots, number = np.unique(recorded.root[visits], return_inverse=True)
    waited_ns = np.bincount(number, (recorded.start - recorded.sent)[visits], len(roots))
    return roots[(recorded.back - recorded.sent)[roots] - waited_ns >= threshold_ns]


class Trial:
    """These visits can be replayed without some lines. Other visits do not exist in their replay."""

    def __init__(
        self,
        removable: Removable,
        visits: Times,
        section: Section,
        first: int,
        *,
        chooses_again: bool,
        not_before: int = 0,
    ) -> None:
        """`visits` are the numbers of the visits of the section, in order. `first` is its first step. Requests that
        were sent before `not_before` are sent when they arrived."""
        self.chooses_again = chooses_again
        account = removable.account
        self.visits = visits
        self._removable = removable
        self._section = section
        self._first = first
        self._not_before = not_before
        self._sent = account.recorded.sent[visits]
        self._asked = account.recorded.parent[visits] < 0
        holders = {line: account.visits_of(line) for line in removable.of_holders}
        self._spare = {line: self._spared(its) for line, its in holders.items() if line[0] != own_work.CAUSE}
        self._most = {line: self._at_most(its) for line, its in holders.items() if line[0] == own_work.CAUSE}
        places = {line: self._places(came.requests) for line, came in removable.of_clients.items()}
        self._turns = {line: (at[at >= 0], removable.of_clients[line].turns[at >= 0]) for line, at in places.items()}
        again, before = places[RETRIES, ""], self._places(removable.first_attempts)
        self._again, self._before = again[again >= 0], before[again >= 0]
        self._calls = {line: self._inside(its) for line, its in removable.calls_beyond.items()}
        self._waits = account.recorded.gives_up[visits]
        instead = np.array([self._places(visits) for visits in removable.instead])
        self._lost, self._taken = instead[:, (instead >= 0).all(axis=0)]
        self._delays = {
            line: self._only(loss.delays) for line, loss in account.losses.items() if loss.delays is not None
        }
        self._pauses = [self._only(one) for one in account.pauses]
        self._batch = self._are(removable.batch)
        self._known: dict[frozenset[Line], Future[NDArray[np.bool_]]] = {}
        self._lock = Lock()

    def as_recorded(self) -> Trial:
        """Return a trial of the same visits with their recorded choices."""
        return Trial(
            self._removable,
            self.visits,
            self._section,
            self._first,
            chooses_again=False,
            not_before=self._not_before,
        )

    def slow(self, without: frozenset[Line]) -> NDArray[np.bool_]:
        """Return which visits are very slow requests without these lines."""
        return self._once(without, lambda: self._slow(without))

    def _once(self, key: frozenset[Line], replay: Callable[[], NDArray[np.bool_]]) -> NDArray[np.bool_]:
        """Return the result of a replay, which runs once, however many threads ask for it."""
        with self._lock:
            mine = key not in self._known
            found = self._known.setdefault(key, Future())
        if mine:
            try:
                found.set_result(replay())
            except BaseException as error:
                found.set_exception(error)
        return found.result()

    def _slow(self, without: frozenset[Line]) -> NDArray[np.bool_]:
        found = self.times(without)[2]
        # Without their line, requests that held places wait for their time at full speed, although they may have waited
        # for something else all along. The replay with these lines and the recording show which of them are very slow
        # by themselves.
        if holders := without & self._removable.still_slow.keys():
            found = found | (self.slow(without - holders) & self._still_slow(holders))
        return found & ~self._batch if (BURST, "") in without else found

    def remain(self, without: frozenset[Line]) -> NDArray[np.bool_]:
        """Return which visits are very slow requests without these lines. Requests of the burst that held places or
        computed are charged to these lines first, and to the burst for what they do without."""
        found = self.slow(without)
        if (BURST, "") not in without or not len(self._turns[HOLDERS][0]):
            return found
        held_none = without.union(self._spare, self._most)
        return found & ~(self.slow(held_none) & ~self.slow(held_none | {HOLDERS}))

    def slow_by_themselves(self, without: frozenset[Line]) -> NDArray[np.bool_]:
        """Return which of the requests that are very slow without these lines held places, and took that long by
        themselves."""
        holders = without & self._removable.still_slow.keys()
        return self.remain(without) & self._still_slow(holders) if holders else np.zeros(len(self.visits), dtype=bool)

    def _still_slow(self, holders: frozenset[Line]) -> NDArray[np.bool_]:
        return self._are(_union(self._removable.still_slow[line] for line in holders))

    @property
    def has_chains(self) -> bool:
        """Return whether some clients send after the answer to the request before."""
        return bool((self._removable.account.recorded.follows[self.visits] >= 0).any())

    @property
    def as_sent(self) -> NDArray[np.bool_]:
        """Return which visits are very slow requests if each request is sent when it was recorded. When clients send
        after an answer, an error in one answer moves what they send afterwards, and near a limit errors add up. So this
        shows whether the replay is a model of the servers."""
        return self._once(AS_SENT, lambda: self.times(frozenset(), as_sent=True)[2])

    def times(self, without: frozenset[Line], *, as_sent: bool = False) -> tuple[Times, Times, NDArray[np.bool_]]:
        """Return when each visit arrives and leaves without these lines, and whether it is a very slow request. With
        `as_sent`, each request is sent when it was recorded, and otherwise as long after the answer to the one before
        as in the recording."""
        sent = np.where(self._asked, self._sent, NEVER)
        earlier = sent < self._not_before
        sent[earlier] = self._removable.account.recorded.arrival[self.visits[earlier]]
        apart = np.full(len(sent), as_sent, dtype=np.uint8)
        for requests, turns in (self._turns[line] for line in without & self._turns.keys()):
            sent[requests] = turns
            apart[requests] |= turns < NEVER
        if (RETRIES, "") in without:
            sent[self._taken], sent[self._lost] = sent[self._lost], NEVER
        not_made = _union(self._not_made(without))
        sent[not_made[self._asked[not_made]]] = NEVER
        spare = [self._spare[line] for line in without & self._spare.keys()]
        most = [self._most[line] for line in without & self._most.keys()]
        departure, arrival = np.empty_like(sent), np.empty_like(sent)
        left = [*self._pauses, *(one for line, one in self._delays.items() if line not in without)]
        late, pause = delays.held_up(len(sent), left) if left else (None, None)
        attempts = self._attempts(without)
        run = self._capacity(without), sent, self._choosing(without), departure, arrival
        needs = np.max(spare, axis=0) if spare else None, np.min(most, axis=0) if most else None
        self._section.run(*run, late, pause, *needs, apart, attempts)
        asked = self._asked & (sent < NEVER)
        took = np.where(departure < NEVER, departure - np.where(asked, sent, 0), NEVER)
        waits = self._waits if attempts is None else np.where(attempts == PATIENT, NEVER, self._waits)
        slow = asked & (np.minimum(took, waits) >= self._removable.threshold_ns)
        if (RETRIES, "") in without:  # without them, the client of a very slow first attempt waits as long
            slow[self._lost] = slow[self._taken]
            slow[self._again] = slow[self._before] & (self._before >= 0)
        return arrival, departure, slow

    def _attempts(self, without: frozenset[Line]) -> NDArray[np.uint8] | None:
        """Return which visits are not made without these lines, and whose senders do not give them up."""
        never = self._not_made(without)
        if not never and (RETRIES, "") not in without:
            return None
        found = np.zeros(len(self.visits), dtype=np.uint8)
        if (RETRIES, "") in without:
            found[self._inside(self._removable.patient)] = PATIENT
            never.append(self._inside(self._removable.calls_again))
        found[_union(never)] = NEVER_MADE
        return found

    def _not_made(self, without: frozenset[Line]) -> list[Times]:
        """Return the calls beyond the usual number that are not made without these lines."""
        return [self._calls[line] for line in without & self._calls.keys()]

    def _choosing(self, without: frozenset[Line]) -> list[str]:
        """Return how the replay makes each choice."""
        routes = self._removable.account.routes
        policies = routes.policy if self.chooses_again else (RECORDED,) * len(routes.policy)
        made = zip(routes.choices.alike, policies, strict=True)
        return [IN_TURN if (BALANCER, by) in without else policy for by, policy in made]

    def _capacity(self, without: frozenset[Line]) -> NDArray[np.float64]:
        account = self._removable.account
        capacity = account.capacity[:, self._first :].copy()
        for server in {line[1] for line in without if line in account.taken}:
            capacity[account.recorded.number[server]] = account.left_without(without, server)[self._first :]
        return capacity

    def _places(self, visits: Times) -> Times:
        """Return where these visits are among those of the trial, or -1."""
        if not len(self.visits):
            return np.full(len(visits), -1)
        at = np.minimum(np.searchsorted(self.visits, visits), len(self.visits) - 1)
        return np.where(self.visits[at] == visits, at, -1)

    def _spared(self, holders: Times) -> NDArray[np.uint8]:
        """Return for each visit 1 if it works for the request of one of these, so that it needs no place, and 2 if it
        is one of them: it waits and needs no core."""
        recorded = self._removable.account.recorded
        found = np.isin(recorded.root[self.visits], recorded.root[holders]).astype(np.uint8)
        found[self._inside(holders)] = 2
        return found

    def _at_most(self, computing: Times) -> Times:
        """Return for how long each visit computes at most if these compute for no longer than a visit that is not
        long."""
        found = np.full(len(self.visits), NEVER)
        found[self._inside(computing)] = LONG_NS
        return found

    def _inside(self, visits: Times) -> Times:
        """Return where those of these visits are that are among those of the trial."""
        at = self._places(visits)
        return at[at >= 0]

    def _are(self, requests: Times) -> NDArray[np.bool_]:
        """Return which visits of the trial are these requests."""
        found = np.zeros(len(self.visits), dtype=bool)
        found[self._inside(requests)] = True
        return found

    def _only(self, held_up: delays.Delays) -> delays.Delays:
        at = self._places(held_up.visits)
        return replace(held_up, visits=at).only(at >= 0)
