"""This module finds visits that held places of a server, and whether they computed meanwhile."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.constants import HARDLY_ANY, MOSTLY, STEP_NS
from tailrace.diagnosis.ledger import limits, silences
from tailrace.diagnosis.ledger.delays import Delays
from tailrace.diagnosis.ledger.losses.loss import Loss, Seen, blur
from tailrace.diagnosis.ledger.places import Held
from tailrace.diagnosis.ledger.recorded import Recorded
from tailrace.diagnosis.ledger.steps import Shares
from tailrace.diagnosis.queues import Stays, Times
from tailrace.diagnosis.series import AT_WORK
from tailrace.diagnosis.spans import overlap
from tailrace.diagnosis.waiting import per_second
from tailrace.diagnosis.words import count, duration
from tailrace.units import SECOND

COMPUTES = HARDLY_ANY
"""Visits compute if they use more than this share of the CPU that others left to them. A visit that waits uses a few
hundredths of it. A visit that computes uses nearly all of it, unless samples miss a part."""


def visits(seen: Seen, server: str, computing: bool) -> Loss | None:
    """Return the visits that held places of the server, if they mostly computed, or mostly did not (`computing`)."""
    held = _of_kind(seen, server, computing)
    if held is not None and computing:
        held = held.only(held.named) if held.named.any() else None
    if held is None or not (computing or held.filled):
        return None
    if not computing and not held.places and limits.has_own_threads(seen.view, server):
        return None  # Nothing waits for a worker there. Others that wait for one visit wait for a lock.
    if held.by_turn and not seen.view.series(server, "cpu_busy"):
        return None  # It is not known whether the visits computed meanwhile.
    # If the places are known, the other visits wait for one and do not work.
    share = np.zeros(len(seen.steps))
    if not held.places:
        share = overlap(held.lulls, seen.steps.edges[:-1], seen.steps.edges[1:]) / STEP_NS
    places = 0 if limits.has_own_threads(seen.view, server) else held.places
    words = in_words(held.names, held.begin, held.end, places, _called(seen.recorded_visits, held))
    return Loss(share, _blur(seen, server), words, held.visits)


def pauses(seen: Seen, recorded: Recorded, server: str) -> Delays | None:
    """Return the visits without calls that held places of the server and did not compute. Their names identify them, so
    each of them takes that long, however fast the server is."""
    held = _of_kind(seen, server, computing=False)
    if held is None or not held.named.all() or not seen.view.series(server, "cpu_busy"):
        return None
    rows = held.visits[~np.isin(held.visits, recorded.parent)]
    return Delays.paused(rows, recorded.departure[rows] - recorded.start[rows]) if len(rows) else None


def fill_cpu(seen: Seen, server: str, held: Held) -> bool:
    """Return whether the visits computed, and the server used its whole CPU for most of the time that they took."""
    if not _computes(seen, server, held):
        return False
    own = seen.view.series(server, "cpu_busy")[0]
    full = (seen.at(own) >= AT_WORK * own.capacity)[_inside(seen, held) > 0.0]
    return bool(full.sum() > MOSTLY * len(full))


def _of_kind(seen: Seen, server: str, computing: bool) -> Held | None:
    """Return the visits of those names that mostly computed, or mostly did not."""
    held = seen.held.get(server)
    if held is None:
        return None
    each = [held.names == name for name in np.unique(held.names).tolist()]
    its = [mine for mine in each if _computes(seen, server, held.only(mine)) == computing]
    return held.only(np.any(its, axis=0)) if its else None


def _inside(seen: Seen, held: Held) -> Shares:
    """Return how many of them were inside in the middle of each step."""
    middles = seen.steps.edges[:-1] + STEP_NS // 2
    return np.asarray(Stays.of(held.begin, held.end).queue(middles), dtype=float)


def _computes(seen: Seen, server: str, held: Held) -> bool:
    """Return whether the visits computed: while they were inside, the server used more than the others need."""
    own, recorded = seen.view.series(server, "cpu_busy")[:1], seen.recorded_visits
    rate = per_second(seen.view.stays[server].departures, seen.slow)
    if not own or not held.own or recorded is None or not rate:
        return False
    inside, used = _inside(seen, held), seen.at(own[0])
    its = (inside > 0.0) & ~np.isnan(used)
    others = recorded.steps.at(recorded.departure[np.setdiff1d(held.rows, held.visits)])
    # What the others used follows from their number: the service demand law.
    by_others = float(its[others].sum()) * seen.slow.usual(own[0]) * SECOND / rate / STEP_NS
    beyond = float(used[its].sum()) - by_others
    could = min(own[0].capacity * float(its.sum()) - by_others, float(inside[its].sum()))
    left = float(held.work.sum()) / max(float((held.end - held.begin).sum()), 1.0)
    return beyond > 0.0 and beyond >= COMPUTES * left * could


def _blur(seen: Seen, server: str) -> int:
    return max((blur(series) for series in seen.view.series(server, "cpu_busy")[:1]), default=1)


def _called(recorded: Recorded | None, held: Held) -> str | None:
    """Return the server in whose calls the visits spent most of their time, if they did."""
    if recorded is None or held.own:
        return None
    calls = np.flatnonzero(np.isin(recorded.parent, held.visits))
    lasted = np.bincount(recorded.server[calls], (recorded.back - recorded.sent)[calls])
    return recorded.servers[int(lasted.argmax())] if lasted.sum() >= MOSTLY * (held.end - held.begin).sum() else None


def in_words(names: NDArray[np.str_], begin: Times, end: Times, places: int = 0, called: str | None = None) -> str:
    """Say which visits held the places from `begin` to `end`: those of the name that held them longest in total. The
    number of places is left out if it is 0. `called` is the server that they called meanwhile."""
    lasted = Counter[str]()
    for name, time in zip(names.tolist(), (end - begin).tolist(), strict=True):
        lasted[name] += time
    name = lasted.most_common(1)[0][0]
    its = names == name
    each = duration(int(np.median((end - begin)[its])))
    many = count(int(its.sum()), "connection" if name == silences.NAME else "visit")
    most = Stays.of(begin[its], end[its]).longest
    at_once = f", {most} at once" if most > 1 else ""
    of = f" in {count(places, 'place')}" if places else ""
    of += f", most of it in calls to {called}" if called else ""
    said = f"{name} ({many} of {each}{at_once}{of})" if name else f"{many} of {each}{at_once}{of}"
    others = len(names) - int(its.sum())
    return f"{said} and {count(others, 'other visit')}" if others else said
