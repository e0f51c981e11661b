"""The account shows how fast each server was, what took the rest, and what no recorded cause accounts for.

The speed of a server follows from its visits alone (`crates/core/src/replay/capacity.rs`). A cause is charged with at
most what it took by samples and events, and with at most what the server lacked at that time. A server that answers as
usual while its disk is busy lost nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from tailrace._core import Replay
from tailrace.diagnosis import ranks, settle, tasks
from tailrace.diagnosis.constants import ACTS, EXPECTED, MOSTLY, NEARLY, SHORTEST_NS, SIGMAS, STEP_NS, WINDOW_NS
from tailrace.diagnosis.finding import UNKNOWN
from tailrace.diagnosis.ledger import delays, limits, places, policies, retries, unsent, utilisation, waited_for
from tailrace.diagnosis.ledger.losses import (
    CAPACITY,
    CAUSES,
    DELAYS,
    HOLDERS,
    IN_QUIET_TIMES,
    Cause,
    Loss,
    Seen,
    freeze,
    full_cpu,
    holding,
    lock,
    neighbour,
    overhead,
    own_work,
    turns,
)
from tailrace.diagnosis.ledger.losses.loss import blur
from tailrace.diagnosis.ledger.policies import Routes
from tailrace.diagnosis.ledger.recorded import Flags, Names, Numbers, Recorded
from tailrace.diagnosis.ledger.steps import Shares
from tailrace.diagnosis.queues import Times
from tailrace.diagnosis.series import AT_WORK, TAKEN, Series
from tailrace.diagnosis.spans import overlap, spans, where
from tailrace.diagnosis.waiting import per_second
from tailrace.units import SECOND

ROUNDS = 20
"""The capacities are updated this many times. After 20 updates, a stop of half a second stands out to within a step."""
LEAST_CAPACITY = 1e-4

UNSEEN = {lock.CAUSE: lock.VISITS, own_work.CAUSE: own_work.UNNAMED}
"""This maps causes that no visit shows to the words for what took the capacity."""
COMPUTING = frozenset(cause.name for cause in CAUSES if cause.computes)
Line = tuple[str, str]
"""It names a cause and the server that lost capacity to it."""


@dataclass
class Account:
    """`capacity` is the share of full speed that each server had in each step. `taken` is what each line took of the
    rest."""

    recorded: Recorded
    replay: Replay
    routes: Routes
    capacity: NDArray[np.float64]
    workers: Numbers
    """It holds the number of workers or places of each server, or 0 where it is not known."""
    repeated: retries.Repeated
    repeated_calls: retries.Repeated
    long_alone: Times
    """These visits took long by themselves and did not fill the CPU, whether they held all places or not."""
    pauses: tuple[delays.Delays, ...] = ()
    """These visits wait inside for something that is not the server. No line removes that."""
    taken: dict[Line, Shares] = field(default_factory=dict)
    claimed: dict[Line, Shares] = field(default_factory=dict)
    """This is what each line would have taken if it had been the only one."""
    losses: dict[Line, Loss] = field(default_factory=dict)

    def left_without(self, without: frozenset[Line], server: str) -> Shares:
        """Return the capacity that a server would have had without these lines. The other lines would then have taken
        all that they claim: a pause stops a server, whatever a neighbour takes of its CPU meanwhile."""
        mine = ((line, share) for line, share in self.taken.items() if line[1] == server and line not in without)
        others = sum((self.claimed.get(line, share) for line, share in mine), np.zeros(len(self.recorded.steps)))
        capacity: Shares = self.capacity[self.recorded.number[server]]
        return np.maximum(capacity, 1.0 - np.minimum(others, 1.0))

    def taken_of(self, server: str, steps: slice = slice(None)) -> Shares:
        """Return what all lines together took of a server in these steps."""
        mine = (share[steps] for line, share in self.taken.items() if line[1] == server)
        return sum(mine, np.zeros(len(self.recorded.steps))[steps])

    def busy(self, server: str) -> Shares:
        """Return the share of a server's cores that are at work in each step."""
        number = self.recorded.number[server]
        return np.array(self.replay.busy(number)) / (self.replay.at_once[number] * STEP_NS)

    def visits_of(self, line: Line) -> Times:
        """Return the visits that held places. A line of capacity has none."""
        loss = self.losses.get(line)
        return np.empty(0, dtype=np.int64) if loss is None or loss.visits is None else loss.visits

    def involved(self, line: Line) -> Times:
        """Return the visits that held places, and those that were held up."""
        loss = self.losses.get(line)
        held_up = [] if loss is None or loss.delays is None else [loss.delays.visits]
        return np.unique(np.concatenate([self.visits_of(line), *held_up]))

    def who(self, line: Line) -> str | None:
        """Return the place that took what the line shows, if it is not the server itself."""
        loss = self.losses.get(line)
        return None if loss is None else loss.place


def draw_up(seen: Seen, recorded: Recorded) -> Account:
    routes = policies.routes(seen.view, recorded)
    seen = replace(seen, recorded_visits=recorded, called=routes.waited.ready)
    losses = _losses(seen, recorded, CAPACITY + DELAYS)
    losses |= _losses(replace(seen, lost=_lost(recorded, losses)), recorded, IN_QUIET_TIMES)
    held_up = [loss.delays for loss in losses.values() if loss.delays is not None]
    free, recorded = delays.free(recorded, held_up), delays.after_pauses(recorded, held_up)
    prior = np.ones((len(recorded.servers), len(recorded.steps)))
    for server, number in recorded.number.items():
        for loss in _possible(seen, server, losses).values():
            prior[number] -= loss.share
    prior = np.clip(prior, LEAST_CAPACITY, 1.0)
    known = recorded.workers.copy()
    at_once = limits.at_once(recorded, routes.pools)
    held = places.find(recorded, at_once, routes.waited.ready, prior, _shared(seen, recorded), seen.calm)
    blocking = {server: one for server, one in held.items() if not limits.is_event_loop(seen.view, server)}
    recorded = places.seated(recorded, held, blocking)
    computed = {server for server, one in held.items() if holding.fill_cpu(seen, server, one)}
    seen = replace(seen, held=places.fullest(recorded, held, computed))
    losses |= _losses(seen, recorded, HOLDERS)
    waited_for.settle(seen, recorded, at_once, losses)
    waits = [holding.pauses(seen, recorded, server) for server in blocking if server in seen.held]
    pauses = tuple(one for one in (*waits, unsent.pauses(recorded, routes.pools)) if one is not None)
    for server, one in blocking.items():
        known[recorded.number[server]] = one.places
    again = retries.repeated(seen.view, recorded), retries.calls(recorded)
    replay = _replay(seen, delays.after_pauses(recorded, pauses), known, routes, *again)
    calm = seen.calm.astype(np.uint8)
    replay.serve_as_used(utilisation.of(seen), calm)
    idle = [one.visits[one.of_itself] for server, one in seen.held.items() if server not in computed]
    idle += [loss.in_places for loss in losses.values() if loss.in_places is not None]
    long_alone = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *idle]))
    fitted = np.array(replay.fit(prior, calm, ROUNDS))
    account = Account(recorded, replay, routes, fitted, known, *again, long_alone, pauses)
    # Callees come first: what a caller seems to lack while a server behind it stands still can be its wait for it.
    for server in sorted(recorded.servers, key=lambda name: -seen.view.depth[name]):
        number = recorded.number[server]
        stuck = _workers_wait(seen, server, int(known[number]))
        at_work = (seen.view.own_queue(server, recorded.steps.middles) >= 1) & ~stuck
        account.capacity[number] = np.maximum(account.capacity[number], stuck)
        _charge(account, number, _possible(seen, server, losses), at_work)
        _charge_rest(seen, account, number, np.where(stuck, 1.0, prior[number]), calm, free)
        account.capacity[number] = np.clip(1.0 - account.taken_of(server), LEAST_CAPACITY, 1.0)
    replay.measure(account.capacity)
    return account


def remeasured(seen: Seen, account: Account, recorded: Recorded) -> Account:
    """Return the account with other starts of its visits, at the same capacities. Event loops stay event loops."""
    measured = delays.after_pauses(recorded, account.pauses)
    replay = _replay(seen, measured, account.workers, account.routes, account.repeated, account.repeated_calls)
    replay.serve_as(account.replay)
    replay.measure(account.capacity)
    return replace(account, recorded=recorded, replay=replay)


def _shared(seen: Seen, recorded: Recorded) -> NDArray[np.float64]:
    """Return the share of a core that each visit had, by server and step, as far as samples show it. The share is less
    than 1 only where the CPU was full."""
    found = np.ones((len(recorded.servers), len(recorded.steps)))
    for number, server in enumerate(recorded.servers):
        for own in seen.view.series(server, "cpu_busy")[:1]:
            inside = seen.view.own_queue(server, recorded.steps.middles)
            workers = recorded.workers[number]
            at_work = np.minimum(inside, workers) if workers else inside
            full = full_cpu.steps(seen, server)
            found[number] = np.where(full, np.minimum(np.nan_to_num(seen.at(own)) / np.maximum(at_work, 1), 1.0), 1.0)
    return found


def _losses(seen: Seen, recorded: Recorded, causes: tuple[Cause, ...]) -> dict[Line, Loss]:
    found = ((cause.name, server, cause.find(seen, server)) for server in recorded.servers for cause in causes)
    return {(name, server): loss for name, server, loss in found if loss is not None and loss.took}


def _lost(recorded: Recorded, losses: dict[Line, Loss]) -> dict[str, Shares]:
    """Return the largest share that any of these losses shows at each server in each step."""
    found = {server: np.zeros(len(recorded.steps)) for server in recorded.servers}
    for (_, server), loss in losses.items():
        found[server] = np.maximum(found[server], loss.share)
    return found


def _replay(seen: Seen, recorded: Recorded, known: Numbers, routes: Routes, *again: retries.Repeated) -> Replay:
    columns = {
        name: np.ascontiguousarray(getattr(recorded, name))
        for name in (
            "server",
            "parent",
            "sent",
            "arrival",
            "start",
            "departure",
            "group",
            "may_drop",
            "follows",
            "bytes",
            "like",
            "gives_up",
        )
    }
    pools, choices, waited = routes.pools, routes.choices, routes.waits(recorded)
    repeats, patience = np.full(len(recorded.sent), -1, dtype=np.int64), np.zeros(len(recorded.sent), dtype=np.int64)
    for one in again:
        repeats[one.visits], patience[one.visits] = one.previous, one.patience
    columns |= {"repeats": repeats, "patience": patience}
    columns |= {"pool": pools.pool, "ready": waited.ready, "held": waited.held, "choice": choices.choice}
    return Replay(
        columns,
        limits.of_servers(seen.view, recorded, known),
        groups=recorded.groups,
        begin=0,
        step=STEP_NS,
        steps=len(recorded.steps),
        schedule=list(recorded.schedule),
        pools=list(pools.size),
        choices=[list(candidates) for candidates in choices.candidates],
    )


def _possible(seen: Seen, server: str, losses: dict[Line, Loss]) -> dict[Line, Loss]:
    """Return the losses of a server. What fills the CPU of a server takes nothing while the server used none."""
    mine = {line: loss for line, loss in losses.items() if line[1] == server}
    for own in seen.view.series(server, "cpu_busy")[:1]:
        used = ~seen.unused(own)
        for line, loss in mine.items():
            if line[0] in COMPUTING and loss.visits is None:
                mine[line] = replace(loss, share=loss.share * used)
    return mine


def _workers_wait(seen: Seen, server: str, workers: int) -> NDArray[np.bool_]:
    """Return the steps in which all workers of a server waited for calls. Whatever waits for a worker then, the server
    lacks nothing."""
    middles = seen.steps.middles
    waiting = seen.view.stays[server].queue(middles) - seen.view.own_queue(server, middles)
    return np.asarray((workers > 0) & (waiting >= workers))


def _charge(account: Account, number: int, losses: dict[Line, Loss], at_work: NDArray[np.bool_]) -> None:
    """Charge each line with what the server lacked while the line took something. Lines that together took more than
    the server lacked are charged in proportion: the recording does not show which of them it was. The samples do
    not show when within a sampling interval it was taken. The capacity of the server shows this. What a server without
    visits lacked is not known, and delayed nothing."""
    left = np.where(at_work, np.clip(1.0 - account.capacity[number], 0.0, 1.0), 0.0)
    wanted: dict[Line, Shares] = {}
    for line, loss in losses.items():
        took = np.zeros(len(left))
        for first, last in _stretches(loss.share > ACTS, 1):
            begin, end = max(first - loss.blur, 0), last + loss.blur
            lacked = float(left[begin:end].sum())
            if lacked > 0.0:
                part = min(1.0, float((loss.share * at_work)[first:last].sum()) / lacked)
                took[begin:end] = np.maximum(took[begin:end], left[begin:end] * part)
        if took.any() or loss.visits is not None or loss.delays is not None:
            wanted[line] = took
            account.losses[line] = loss
    whole = np.sum(list(wanted.values()), axis=0) if wanted else left
    fits = np.minimum(left / np.maximum(whole, LEAST_CAPACITY), 1.0)
    account.claimed |= wanted
    account.taken |= {line: took * fits for line, took in wanted.items()}


def _charge_rest(seen: Seen, account: Account, number: int, prior: Shares, calm: Flags, free: Shares) -> None:
    """Charge what no recorded cause accounts for. This applies only where the server's queue is long and the loss
    exceeds the random variation of the service demands of the visits inside."""
    server = account.recorded.servers[number]
    taken = account.taken_of(server)
    rest = 1.0 - account.capacity[number] - taken
    queue = seen.view.own_queue(server, account.recorded.steps.middles)
    high = float(np.percentile(queue[calm > 0], 99)) if calm.any() else 0.0
    silent = _silent(seen, server)
    long = _lacking(rest, (queue > max(high, 1.0)) | silent)
    # Many visits that are inside at once do not all stay by chance, however much their service demands vary.
    still = [
        one for own in seen.view.series(server, "cpu_busy")[:1] for one in _lacking(rest, silent & seen.unused(own))
    ]
    if not long and not still:
        return
    kept, sure = np.zeros(len(rest)), np.zeros(len(rest))
    cores, known = account.replay.at_once[number], 1.0 - prior - taken
    found = account.replay.excess(number, prior, calm, [(begin, end) for begin, end, _ in long])
    for (begin, end, lacked), (variance, excess) in zip(long, found, strict=True):
        chance = SIGMAS * sqrt(variance) / cores
        kept[begin:end] = lacked > max(chance, SHORTEST_NS)
        # A visit with a large service demand is in service longest, so the server seems slow then. The sum is right.
        whole = min(lacked, excess / cores + float(known[begin:end].sum()) * STEP_NS)
        if whole > max(chance, SHORTEST_NS):
            sure[begin:end] = 1.0 if lacked - whole <= chance else whole / lacked
    for begin, end, _ in still:
        kept[begin:end] = 1.0
    rest = np.where((rest >= TAKEN) & ~_waits(seen, account, server, free), np.clip(rest, 0.0, 1.0), 0.0) * kept
    parts = _names(seen, account.recorded, server, rest, np.clip(1.0 - taken, 0.0, 1.0))
    _with_own_work(seen, account, server, silent, parts)
    for cause, part in parts.items():
        # If a server used no CPU, samples show that it was slow.
        took = part if cause in (freeze.CAUSE, lock.CAUSE) else part * sure
        if took.any():
            account.taken[cause, server] = account.taken.get((cause, server), np.zeros(len(rest))) + took
            if cause == UNKNOWN:
                account.claimed[cause, server] = _all_of_stretches(took, 1.0 - account.capacity[number], silent)
            if cause in UNSEEN:
                account.losses.setdefault((cause, server), Loss(took, place=UNSEEN[cause]))


def _all_of_stretches(took: Shares, lacked: Shares, silent: NDArray[np.bool_]) -> Shares:
    """Return what took nearly all of what a server lacked in a stretch as if it took all of it, and what took most of
    it where the server was `silent`: without what others took for a moment, it would not have gone on."""
    found = took.copy()
    for begin, end in _stretches(took > 0.0):
        its = slice(begin, end)
        whole, all_ = float(lacked[its].sum()), np.maximum(took[its], lacked[its])
        if took[its].sum() >= NEARLY * whole:
            found[its] = all_
        elif took[its].sum() >= MOSTLY * whole:
            found[its] = np.where(silent[its], all_, took[its])
    return found


def _lacking(rest: Shares, mask: NDArray[np.bool_]) -> list[tuple[int, int, float]]:
    """Return the stretches in which the server lacked more than `SHORTEST_NS`, each with what it lacked."""
    found = ((begin, end, float(rest[begin:end].sum()) * STEP_NS) for begin, end in _stretches(mask))
    return [stretch for stretch in found if stretch[2] > SHORTEST_NS]


def _silent(seen: Seen, server: str) -> NDArray[np.bool_]:
    """Return the steps in a time in which visits were inside and none left, although ten usually leave in it. By
    chance, none leaves once in 22,000 such times (Poisson). A pool in front of a server can keep its queue short."""
    left, middles = seen.view.stays[server].departures, seen.steps.middles
    if not len(left):
        return np.zeros(len(middles), dtype=bool)
    after = np.searchsorted(left, middles, "right")
    gap = left[np.minimum(after, len(left) - 1)] - left[np.maximum(after - 1, 0)]
    usual = per_second(left, seen.slow) / SECOND
    inside = seen.view.own_queue(server, middles) >= 1
    return np.asarray(inside & (after > 0) & (after < len(left)) & (gap * usual >= EXPECTED))


def _waits(seen: Seen, account: Account, server: str, free: Shares) -> NDArray[np.bool_]:
    """Return the steps in which the server had calls open, and a server behind it with visits inside lacked most of its
    capacity, or most calls to one were held up."""
    number, middles = account.recorded.number, account.recorded.steps.middles
    behind = [
        np.where(seen.view.stays[name].queue(middles) >= 1, account.capacity[number[name]], 1.0) * free[number[name]]
        for name in seen.view.downstream_of(server)
        if name in number
    ]
    # A server that is stopped lacks more than half of its capacity in each step, except at the edges of the stop.
    lacks = np.min(behind, axis=0, initial=1.0) <= 1.0 - MOSTLY if behind else np.zeros(len(middles), dtype=bool)
    return np.asarray(lacks & (seen.view.own_queue(server, middles) < seen.view.stays[server].queue(middles)))


def _names(seen: Seen, recorded: Recorded, server: str, rest: Shares, left: Shares) -> dict[str, Shares]:
    """Name the cause of the rest. A server that lacked capacity while it used no CPU was stopped. If it used a little,
    or if its threads slept although it had work, all of it waited for a lock. It lacked all that was `left` to it."""
    own = seen.view.series(server, "cpu_busy")[:1]
    if not own:
        return {UNKNOWN: rest}
    lacks, stopped = rest >= MOSTLY, freeze.stopped(seen, server)
    unused = seen.unused(own[0]) & ~_may_lack_a_cpu(seen, server)
    # What stopped threads show is charged already. The rest of such a stop is at its edges, between two samples.
    unused &= lacks & ~turns.may_wait(seen, server) if stopped is None else lacks | (stopped.share > 0.0)
    still, slept = np.zeros(len(rest), dtype=bool), np.zeros(len(rest), dtype=bool)
    late = np.zeros(len(rest), dtype=bool) if stopped is None else _late(seen, recorded, server)
    for begin, end in _stretches(unused):
        steps = np.arange(begin, end)
        if len(steps) * STEP_NS < own[0].interval_ns:
            continue
        # The samples at its edges also contain what it used before and after, but while it stood still none left.
        around = _without_answers(seen, server, begin, end, blur(own[0]))
        states = tasks.of(seen.view, server, seen.steps.middles[steps[unused[begin:end]]])
        if stopped is None:
            (slept if freeze.ran(seen, own[0], begin, end) else still)[around] |= lacks[around]
        elif stopped.share[begin:end].mean() >= MOSTLY:
            still[around] |= lacks[around]
        elif states is not None and not states.awake and late[begin:end].mean() >= MOSTLY:
            slept[around] |= lacks[around]
    full = seen.at(own[0]) >= AT_WORK * own[0].capacity
    inside = seen.view.own_queue(server, seen.steps.middles)
    at_work = _resolved(seen, own[0], full & ~still & (inside > 1))
    crowded = (
        at_work
        if ranks.grow_together(rest[at_work], inside[at_work].astype(np.float64))
        else np.zeros(len(rest), dtype=bool)
    )
    slept &= ~still & lock.is_all_left(seen.view, server)
    named = {freeze.CAUSE: np.where(still, left, 0.0), lock.CAUSE: np.where(slept, left, 0.0)}
    named |= {overhead.CAUSE: np.where(crowded & ~slept, rest, 0.0)}
    return named | {UNKNOWN: np.where(still | slept | crowded, 0.0, rest)}


def _with_own_work(
    seen: Seen, account: Account, server: str, silent: NDArray[np.bool_], parts: dict[str, Shares]
) -> None:
    """Charge work that no visit shows with what is unknown, unless that work may be a collection."""
    if settle.unseen_collections(seen.view, server) is not None:
        return
    found, alone = own_work.unnamed(seen, server, _stretches(silent & (parts[UNKNOWN] > 0.0), 1))
    for own in seen.view.series(server, "cpu_busy")[:1]:
        found = _resolved(seen, own, found)
    if (part := np.where(found, parts[UNKNOWN], 0.0)).any():
        parts |= {own_work.CAUSE: part, UNKNOWN: parts[UNKNOWN] - part}
        account.claimed[own_work.CAUSE, server] = np.where(found, alone, 0.0)


def _resolved(seen: Seen, own: Series, mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the steps of those stretches that samples show alone: one of a longer time says nothing about them."""
    shown = np.zeros(len(mask), dtype=bool)
    for begin, end in _stretches(mask):
        first, last = int(seen.steps.begins[begin]), int(seen.steps.begins[end - 1]) + STEP_NS
        shown[begin:end] = own.resolves(first, last)
    return mask & shown


def _without_answers(seen: Seen, server: str, begin: int, end: int, most: int) -> slice:
    """Return these steps, and at most `most` steps on either side in which no visit left."""
    left, begins = seen.view.stays[server].departures, seen.steps.begins
    gone = np.searchsorted(left, begins + STEP_NS) > np.searchsorted(left, begins)
    first, last = begin, end
    while first > max(begin - most, 0) and not gone[first - 1]:
        first -= 1
    while last < min(end + most, len(gone)) and not gone[last]:
        last += 1
    return slice(first, last)


def _late(seen: Seen, recorded: Recorded, server: str) -> NDArray[np.bool_]:
    """Return the steps in which a server had a visit that it usually answers sooner, and that did not wait for a
    connection or for a worker: it was taken, or the server takes what comes."""
    here = np.flatnonzero(recorded.server == recorded.number[server])
    since = (recorded.arrival if limits.taken_at_once(seen.view, server) else recorded.taken)[here]
    names = Names(recorded.names.labels, recorded.names.number[here])
    known = (since < recorded.departure[here]) & ~places.opens(names)
    here, since = here[known], since[known]
    late = recorded.late(here, since)
    times = np.stack([since, recorded.departure[here]], axis=1)[late]
    edges = recorded.steps.edges
    return np.asarray((overlap(spans(times), edges[:-1], edges[1:]) > 0) & ~lock.no_connection(seen, server))


def _may_lack_a_cpu(seen: Seen, server: str) -> NDArray[np.bool_]:
    """Return the steps in which a server that uses no CPU may wait for one. Its own samples show them. Without these,
    they are the steps in which its host, a place that may contain it, or all servers of its node together had no CPU to
    spare, if they usually have."""
    if (waited := neighbour.waited_for_cpu(seen, server)) is not None:
        return np.asarray(waited >= MOSTLY)
    host = seen.view.of_host(server, "cpu_busy")
    full = [] if host is None or seen.slow.usual(host) >= AT_WORK else [seen.at(host)]
    full += [seen.at(one) / one.capacity for one in neighbour.around(seen, server)]
    full += full_cpu.of_node(seen, server)
    shares = np.array(full).reshape(len(full), len(seen.steps))
    return np.asarray((shares >= AT_WORK).any(axis=0))


def _stretches(mask: NDArray[np.bool_], gap: int = WINDOW_NS // STEP_NS) -> list[tuple[int, int]]:
    """Return the stretches as steps, from the first to after the last. Stretches no more than `gap` apart, such as a
    default window, are joined."""
    at = np.arange(len(mask), dtype=np.int64)
    return [(begin, end) for begin, end in where(at, at + 1, mask, gap - 1).tolist()]
