"""Visits of one kind waited together for one thing, such as a lock, while the server answered others.

    others   ─┤├─┤├──┤├─┤├─┤├──      they leave as usual, so the server runs
    ours      ├────────────┤         nobody leaves for a long time,
                ├──────────┤         and then all that had come meanwhile go on at once
                    ├──────┤

A server that stands still answers nobody. Visits that are slow by themselves leave one by one. Visits that wait for a
server behind have a call open.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.ledger.delays import Delays
from tailrace.diagnosis.ledger.losses.loss import Loss, Seen
from tailrace.diagnosis.ledger.recorded import Recorded
from tailrace.diagnosis.ledger.steps import STEP_NS
from tailrace.diagnosis.queues import Times
from tailrace.diagnosis.series import AT_WORK
from tailrace.diagnosis.view import View
from tailrace.diagnosis.words import count, duration

CAUSE = "lock"
SAYS = "what {place} waited for together in {server}"
PLAIN = "{place} waited together for one thing in {origin}, such as a lock"
METRICS, EVENTS = ("cpu_busy", "tasks_blocked"), ()
COMPUTES = False

EXPECTED = 10.0
"""In a time in which so many visits usually leave, none leaves by chance once in 22,000 times (Poisson)."""
LEAST = 3
"""A lock has at least so many waiting visits: fewer may be slow by themselves."""
MOSTLY = 0.5


def find(seen: Seen, server: str) -> Loss | None:
    recorded = seen.recorded_visits
    if recorded is None or not _calls_are_seen(seen.view, server):
        return None
    here = np.flatnonzero(recorded.server == recorded.number[server])
    found = [
        waiting
        for group in np.unique(recorded.group[here]).tolist()
        for waiting in _waiting(seen, recorded, server, here, recorded.group[here] == group)
    ]
    if not found:
        return None
    visits, lasts = (np.concatenate(part) for part in zip(*found, strict=True))
    names = sorted(set(recorded.names[visits].tolist()) - {""})
    each = f"{count(len(visits), 'visit')} of up to {duration(int(lasts.max()))}"
    place = f"{', '.join(names)} ({each})" if names else each
    return Loss(np.zeros(len(seen.steps)), 1, place, delays=Delays(visits, lasts, late=False))


def _calls_are_seen(view: View, server: str) -> bool:
    """Return whether the visits of each server that it calls are recorded: a wait for a call is no wait for a lock."""
    return all(name in view.stays for name in view.topology.downstream_of(server))


def _waiting(
    seen: Seen, recorded: Recorded, server: str, here: Times, ours: NDArray[np.bool_]
) -> list[tuple[Times, Times]]:
    """Return the visits of a kind that waited together, and how long each waited."""
    mine, others = here[ours], np.sort(recorded.departure[here[~ours]])
    left = np.sort(recorded.departure[mine])
    whole = len(recorded.steps) * STEP_NS
    gaps = np.flatnonzero(np.diff(left) * (len(left) / whole) >= EXPECTED)
    work = int(np.median(recorded.departure[mine] - recorded.start[mine])) if len(mine) else 0
    found = []
    for begin, end in ((int(left[gap]), int(left[gap + 1])) for gap in gaps.tolist()):
        waited = mine[(recorded.start[mine] < end - work) & (recorded.departure[mine] >= end)]
        gone = int(np.searchsorted(others, end) - np.searchsorted(others, begin))
        usual = len(others) * (end - begin) / whole
        if len(waited) < LEAST or gone < max(EXPECTED, MOSTLY * usual):
            continue
        if not _calls_wait(recorded, waited, end) and not _is_full(seen, server, begin, end):
            released = np.maximum(end - work - recorded.start[waited], 0)
            found.append((waited, released))
    return found


def _calls_wait(recorded: Recorded, waited: Times, end: int) -> bool:
    """Return whether most of these visits had a call open shortly before they went on."""
    calls = np.flatnonzero(np.isin(recorded.parent, waited))
    open_ = calls[(recorded.sent[calls] < end - STEP_NS) & (recorded.departure[calls] >= end - STEP_NS)]
    return len(np.unique(recorded.parent[open_])) > MOSTLY * len(waited)


def _is_full(seen: Seen, server: str, begin: int, end: int) -> bool:
    """Return whether the server filled its CPU for most of the time: then visits wait for the CPU."""
    for own in seen.view.series(server, "cpu_busy")[:1]:
        inside = slice(begin // STEP_NS, max(end // STEP_NS, begin // STEP_NS + 1))
        return bool((seen.at(own)[inside] >= AT_WORK * own.capacity).mean() > MOSTLY)
    return False


def missing(view: View, server: str) -> str | None:
    return None
