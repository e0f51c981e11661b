"""The account: how fast each server was, what took the rest, and what nothing that was recorded accounts for.

How fast it was follows from its visits alone (`crates/core/src/replay/capacity.rs`). A cause is charged with no more
than what it took by samples and events, and with no more than what the server lacked then: a server that answers as
usual while its disk is busy lost nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from tailrace._core import Replay
from tailrace.diagnosis import tasks
from tailrace.diagnosis.causes import UNKNOWN
from tailrace.diagnosis.ledger import limits, places, waits
from tailrace.diagnosis.ledger.limits import Choices
from tailrace.diagnosis.ledger.losses import CAPACITY, HOLDERS, Cause, Loss, Seen
from tailrace.diagnosis.ledger.losses.freeze import CAUSE as FREEZE
from tailrace.diagnosis.ledger.losses.loss import blur
from tailrace.diagnosis.ledger.recorded import Flags, Numbers, Recorded
from tailrace.diagnosis.ledger.steps import STEP_NS, Shares
from tailrace.diagnosis.ledger.workers import workers
from tailrace.diagnosis.millibottleneck import LIMITS
from tailrace.diagnosis.queues import Times
from tailrace.diagnosis.series import AT_WORK
from tailrace.diagnosis.spans import where
from tailrace.units import MILLISECOND

ROUNDS = 20
"""Updates of the capacities: after 20 a stop of half a second stands out to within a step."""
LEAST_CAPACITY = 1e-4
LEAST_LOSS = 0.1
"""Of a step: less than a tenth is within what the works of the few that share a step vary by."""
SIGMAS = 4.0
"""What chance makes of the works of those inside exceeds four standard deviations in one stretch of thirty thousand."""
SHORTEST_NS = 20 * MILLISECOND
"""Two steps of capacity: less cannot delay a request by seconds."""
JOINED = 5
"""Steps between two stretches of a long queue that are one: a default window."""
MOST = 0.5
"""A server that lacks more than half of its capacity is stopped, but for the edges of the step."""
WITHHELD = 0.2
"""A server that was stopped uses no CPU; samples at the edges hold what it used before and after."""

Line = tuple[str, str]
"""A cause and the server whose capacity it took."""


@dataclass
class Account:
    """`capacity` is the share of full speed that each server had in each step, `taken` what each line took of the
    rest."""

    recorded: Recorded
    replay: Replay
    choices: Choices
    capacity: NDArray[np.float64]
    taken: dict[Line, Shares] = field(default_factory=dict)
    losses: dict[Line, Loss] = field(default_factory=dict)
    workers: Numbers = field(default_factory=lambda: np.empty(0, dtype=np.uint32))
    """By server; 0 where it is not known."""

    def taken_of(self, server: str) -> Shares:
        """What all lines together took of a server."""
        mine = (share for line, share in self.taken.items() if line[1] == server)
        return sum(mine, np.zeros(len(self.recorded.steps)))

    def visits_of(self, line: Line) -> Times:
        """Those that held places; none of a line of capacity."""
        loss = self.losses.get(line)
        return np.empty(0, dtype=np.int64) if loss is None or loss.visits is None else loss.visits

    def who(self, line: Line) -> str | None:
        """Who took what the line says, where it is not the server itself."""
        loss = self.losses.get(line)
        return None if loss is None else loss.place


def draw_up(seen: Seen, recorded: Recorded) -> Account:
    losses = _losses(seen, recorded, CAPACITY)
    prior = np.ones((len(recorded.servers), len(recorded.steps)))
    for (_, server), loss in losses.items():
        prior[recorded.number[server]] -= loss.share
    prior = np.clip(prior, LEAST_CAPACITY, 1.0)
    known = np.array([workers(seen.view, server) for server in recorded.servers], dtype=np.uint32)
    held = places.find(recorded, prior, _shared(seen, recorded, known), known)
    recorded = places.seated(recorded, held)
    seen = replace(seen, held=places.fullest(recorded, held))
    losses |= _losses(seen, recorded, HOLDERS)
    for server, one in held.items():
        known[recorded.number[server]] = one.places
    pools = limits.pools(seen.view, recorded)
    choices = limits.choices(seen.view, recorded, pools)
    replay = _replay(seen, recorded, known, pools, choices)
    calm = (recorded.steps.covered(seen.slow.calm) > 0.5).astype(np.uint8)
    account = Account(recorded, replay, choices, np.array(replay.fit(prior, calm, ROUNDS)), workers=known)
    for number, server in enumerate(recorded.servers):
        _charge(account, number, {line: loss for line, loss in losses.items() if line[1] == server})
        _charge_rest(seen, account, number, prior, calm)
        account.capacity[number] = np.clip(1.0 - account.taken_of(server), LEAST_CAPACITY, 1.0)
    replay.measure(account.capacity)
    return account


def _shared(seen: Seen, recorded: Recorded, workers: Numbers) -> NDArray[np.float64]:
    """The share of a core that each visit had, by server and step, as far as samples tell: less than all of it only
    where the CPU was full."""
    found = np.ones((len(recorded.servers), len(recorded.steps)))
    for number, server in enumerate(recorded.servers):
        for own in seen.view.series(server, "cpu_busy")[:1]:
            inside = seen.view.own_queue(server, recorded.steps.middles)
            at_work = np.minimum(inside, workers[number]) if workers[number] else inside
            full = seen.at(own) >= AT_WORK * own.capacity
            found[number] = np.where(full, np.minimum(own.capacity / np.maximum(at_work, 1), 1.0), 1.0)
    return found


def _losses(seen: Seen, recorded: Recorded, causes: tuple[Cause, ...]) -> dict[Line, Loss]:
    found = ((cause.name, server, cause.find(seen, server)) for server in recorded.servers for cause in causes)
    return {(name, server): loss for name, server, loss in found if loss is not None and loss.took}


def _replay(seen: Seen, recorded: Recorded, known: Numbers, pools: limits.Pools, choices: Choices) -> Replay:
    columns = {
        name: np.ascontiguousarray(getattr(recorded, name))
        for name in ("server", "parent", "sent", "arrival", "start", "departure", "group", "may_drop", "follows")
    }
    waited = waits.find(recorded, pools, choices)
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


def _charge(account: Account, number: int, losses: dict[Line, Loss]) -> None:
    """Each line with what the server lacked while it took something, the larger first. When within a sampling interval
    it took it is not recorded: the server shows."""
    left = np.clip(1.0 - account.capacity[number], 0.0, 1.0)
    for line, loss in sorted(losses.items(), key=lambda item: -float(item[1].share.sum())):
        took = np.zeros(len(left))
        for first, last in _stretches(loss.share > 0.01, 1):
            begin, end = max(first - loss.blur, 0), last + loss.blur
            lacked = float(left[begin:end].sum())
            if lacked > 0.0:
                part = min(1.0, float(loss.share[first:last].sum()) / lacked)
                took[begin:end] = np.maximum(took[begin:end], left[begin:end] * part)
        left = left - took
        if took.any() or loss.visits is not None:
            account.taken[line] = took
            account.losses[line] = loss


def _charge_rest(seen: Seen, account: Account, number: int, prior: Shares, calm: Flags) -> None:
    """What nothing that was recorded accounts for, where the server's queue is long and chance does not make so much of
    what those inside need."""
    server = account.recorded.servers[number]
    taken = account.taken_of(server)
    rest = 1.0 - account.capacity[number] - taken
    queue = seen.view.own_queue(server, account.recorded.steps.middles)
    high = float(np.percentile(queue[calm > 0], 99)) if calm.any() else 0.0
    lacking = (
        (begin, end, float(rest[begin:end].sum()) * STEP_NS)
        for begin, end in _stretches(queue > max(high, 1.0), JOINED)
    )
    long = [stretch for stretch in lacking if stretch[2] > SHORTEST_NS]
    if not long:
        return
    kept, sure = np.zeros(len(rest)), np.zeros(len(rest))
    cores, known = limits.cores_of(seen.view, server), 1.0 - prior[number] - taken
    found = account.replay.excess(number, prior[number], calm, [(begin, end) for begin, end, _ in long])
    for (begin, end, lacked), (variance, excess) in zip(long, found, strict=True):
        chance = SIGMAS * sqrt(variance) / cores
        kept[begin:end] = lacked > max(chance, SHORTEST_NS)
        # A visit that needs much is served longest, which looks as if the server were slow then; the sum is right.
        whole = min(lacked, excess / cores + float(known[begin:end].sum()) * STEP_NS)
        if whole > max(chance, SHORTEST_NS):
            sure[begin:end] = 1.0 if lacked - whole <= chance else whole / lacked
    rest = np.where(rest >= LEAST_LOSS, np.clip(rest, 0.0, 1.0), 0.0) * kept
    for cause, part in _names(seen, server, rest, np.clip(1.0 - taken, 0.0, 1.0)).items():
        # Of a server that used no CPU, samples tell that it was slow.
        took = part * sure if cause == UNKNOWN else part
        if took.any():
            account.taken[cause, server] = account.taken.get((cause, server), np.zeros(len(rest))) + took


def _names(seen: Seen, server: str, rest: Shares, left: Shares) -> dict[str, Shares]:
    """A server that lacked capacity while it used no CPU was stopped, or all of it waited for a lock: it lacked all
    that was `left` to it."""
    own = seen.view.series(server, "cpu_busy")[:1]
    if not own:
        return {UNKNOWN: rest}
    lacks = rest >= MOST
    unused = lacks & (seen.at(own[0]) <= WITHHELD * seen.slow.usual(own[0])) & ~_may_lack_a_cpu(seen, server)
    still = np.zeros(len(rest), dtype=bool)
    for begin, end in _stretches(unused, JOINED):
        steps = np.arange(begin, end)
        if len(steps) * STEP_NS >= own[0].interval_ns and not _slept(seen, server, steps[unused[begin:end]]):
            # The samples at its edges hold what it used before and after.
            around = slice(max(begin - blur(own[0]), 0), end + blur(own[0]))
            still[around] |= lacks[around]
    return {FREEZE: np.where(still, left, 0.0), UNKNOWN: np.where(still, 0.0, rest)}


def _slept(seen: Seen, server: str, most: Times) -> bool:
    """Whether its threads were not stopped in these steps, but waited for something."""
    found = tasks.of(seen.view, server, seen.steps.middles[most])
    return found is not None and found.slept


def _may_lack_a_cpu(seen: Seen, server: str) -> NDArray[np.bool_]:
    """Where a server that uses no CPU may wait for one: by its own `psi_cpu` or `tasks_runnable`; else where its
    host had none to spare, and usually has."""
    for pressure in seen.view.series(server, "psi_cpu")[:1]:
        return np.asarray(seen.at(pressure) >= LIMITS["psi_cpu"])
    for runnable in seen.view.series(server, "tasks_runnable")[:1]:
        return np.asarray(seen.at(runnable) >= 1.0)
    host = seen.view.of_host(server, "cpu_busy")
    if host is None or seen.slow.usual(host) >= AT_WORK:
        return np.zeros(len(seen.steps), dtype=bool)
    return np.asarray(seen.at(host) >= AT_WORK)


def _stretches(mask: NDArray[np.bool_], gap: int) -> list[tuple[int, int]]:
    """Steps, from the first to after the last, of stretches no more than `gap` apart."""
    at = np.arange(len(mask), dtype=np.int64)
    return [(begin, end) for begin, end in where(at, at + 1, mask, gap - 1).tolist()]
