"""One visit held an event loop while it waited for something, such as a lock.

An event loop that waits answers nobody, uses no CPU, and calls nobody, as if it was stopped. When it goes on, the visit
that held it acts first: it leaves, or sends a call. A stop holds up any visit. So the loop waited for something that
visits of one kind need if a visit of this kind held it each time, and if chance would not put one there each time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.constants import CHANCE, EXPECTED, HARDLY_ANY, MOSTLY, STEP_NS
from tailrace.diagnosis.ledger.losses.loss import Seen
from tailrace.diagnosis.ledger.places import LONGER
from tailrace.diagnosis.ledger.recorded import Recorded
from tailrace.diagnosis.ledger.steps import Shares
from tailrace.diagnosis.queues import Times
from tailrace.diagnosis.spans import Spans, overlap


@dataclass(frozen=True)
class Held:
    share: Shares
    """For each step, this is the part in which the loop waited."""
    name: str
    lasts: Times


@dataclass(frozen=True)
class Stands:
    """Each time an event loop stood still, and the name of the visit that acted first afterwards."""

    times: Spans
    names: NDArray[np.str_]

    @property
    def lasts(self) -> Times:
        return np.asarray(self.times[:, 1] - self.times[:, 0])


def held(seen: Seen, recorded: Recorded, server: str) -> Held | None:
    """Return when an event loop waited for something that visits of one kind need."""
    found = _of_one_kind(seen, recorded, server, CHANCE)
    if found is None:
        return None
    return Held(_covered(recorded, found.times), str(found.names[0]), found.lasts)


def may_wait(seen: Seen, server: str) -> NDArray[np.bool_]:
    """Return the steps in which an event loop may have waited, although it looks as if it was stopped."""
    recorded = seen.recorded_visits
    # In hardly any case does a stop look so one-sided, so it may be a wait.
    found = None if recorded is None else _of_one_kind(seen, recorded, server, HARDLY_ANY)
    if recorded is None or found is None:
        return np.zeros(len(seen.steps), dtype=bool)
    return _covered(recorded, found.times) > 0.0


def _covered(recorded: Recorded, times: Spans) -> Shares:
    edges = recorded.steps.edges
    return np.asarray(overlap(times, edges[:-1], edges[1:]) / STEP_NS)


def _of_one_kind(seen: Seen, recorded: Recorded, server: str, most: float) -> Stands | None:
    """Return each time the loop stood still. Return None if it never did, or if chance puts visits of one kind there
    in more than `most` of the cases."""
    found = _stands(seen, recorded, server)
    if not len(found.times):
        return None
    known = seen.view.topology
    named = set(known.names_of(server))
    among = next((each for each in known.balancers if not named.isdisjoint(each.candidates)), None)
    tier = [one for name in among.candidates for one in known.members(name)] if among else [server]
    others = (one for one in tier if one in recorded.number and one != server)
    every = {server: found} | {one: _stands(seen, recorded, one) for one in others}
    return found if _chance(recorded, every) <= most else None


def _chance(recorded: Recorded, every: Mapping[str, Stands]) -> float:
    """Return how probable it is that visits of one kind held the loops of a tier each time, if they hold them as often
    as they come, or as long as they work. The result is 1 if several kinds held them, or if visits of this kind usually
    take long: these wait for nothing that is special at that time."""
    names = np.concatenate([one.names for one in every.values()])
    lasts = np.concatenate([one.lasts for one in every.values()])
    if len(np.unique(names)) != 1:
        return 1.0
    here = np.isin(recorded.server, [recorded.number[one] for one in every])
    its = here & recorded.names.are(str(names[0]))
    if np.median(recorded.own_ns[its]) * LONGER > np.median(lasts):
        return 1.0
    part = max(its.sum() / here.sum(), recorded.own_ns[its].sum() / max(recorded.own_ns[here].sum(), 1))
    return float(part ** len(names))


def _stands(seen: Seen, recorded: Recorded, server: str) -> Stands:
    nothing = Stands(np.empty((0, 2), dtype=np.int64), np.empty(0, dtype=str))
    known, own = seen.view.topology.server(server), seen.view.series(server, "cpu_busy")[:1]
    if known is None or known.kind != "async" or known.workers or not own:
        return nothing
    number = recorded.number[server]
    is_call = (recorded.caller == number) & (recorded.parent >= 0)
    here, calls = np.flatnonzero(recorded.server == number), np.flatnonzero(is_call)
    times = np.concatenate((recorded.departure[here], recorded.sent[calls]))
    acts = np.concatenate((here, recorded.parent[calls]))
    order = np.argsort(times, kind="stable")
    times, acts = times[order], acts[order]
    gaps = np.flatnonzero(np.diff(times) * (len(times) / (len(recorded.steps) * STEP_NS)) >= EXPECTED)
    idle = seen.unused(own[0]) & (seen.view.own_queue(server, seen.steps.middles) >= 1)
    still = [
        gap
        for gap in gaps.tolist()
        if float(idle[times[gap] // STEP_NS : times[gap + 1] // STEP_NS + 1].mean()) > MOSTLY
    ]
    if not still:
        return nothing
    at = np.array(still)
    return Stands(np.column_stack((times[at], times[at + 1])), recorded.names[acts[at + 1]])
