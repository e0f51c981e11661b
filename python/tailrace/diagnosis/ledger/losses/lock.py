"""Visits of one kind waited together for one thing, such as a lock, while the server answered others.

    others   ─┤├─┤├──┤├─┤├─┤├──      they come after ours and leave before them, as quickly as usual
    ours      ├────────────┤         nobody leaves for a long time,
                ├──────────┤         and then all that had come meanwhile go on at once
                    ├──────┤

A server that stands still answers nobody. A queue lets nobody pass. In a slow server, the others are slow, too. Visits
that are slow by themselves leave one by one. Of visits that wait for a server behind, or for a connection to it, some
have a call open. If others take all workers, or the CPU is full, ours may wait for these. If ours take all workers
after a while, others wait behind them until they go on. `turns` finds visits that waited in an event loop, where nobody
can pass. A database may report the wait itself, such as a deadlock. If all visits of a server wait, `account`
distinguishes a lock from a stop by what its threads do. Processes that wait for a lock on a file were sampled in that
state. The words of a lock say which other visits left when it was over. `account` hands the waits on to visits that
computed meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailrace._core import waits_for_a_job
from tailrace.diagnosis.constants import (
    ALIKE,
    CHANCE,
    EXPECTED,
    HARDLY_ANY,
    LEAST_LIMIT,
    MOSTLY,
    QUICK,
    SEVERAL,
    SHORTEST_NS,
    STEP_NS,
    WINDOW_NS,
)
from tailrace.diagnosis.ledger import limits
from tailrace.diagnosis.ledger.alike import SPREAD
from tailrace.diagnosis.ledger.delays import Delays
from tailrace.diagnosis.ledger.losses import full_cpu, turns
from tailrace.diagnosis.ledger.losses.loss import Loss, Seen
from tailrace.diagnosis.ledger.recorded import Names, Recorded, are_first
from tailrace.diagnosis.ledger.steps import NEVER
from tailrace.diagnosis.queues import Stays, Times
from tailrace.diagnosis.view import View
from tailrace.diagnosis.words import count, duration

CAUSE = "lock"
VISITS = "visits"
FILES = "processes that share a file"
SAYS = "what {place} waited for together in {server}"
PLAIN = "{place} waited together for one thing (such as a lock) in {origin}"
METRICS, EVENTS = ("cpu_busy", "tasks_blocked", "tasks_file_locked"), ()
COMPUTES = False


Waited = list[tuple[Times, Times]]
"""These are the visits that waited together, and how long each waited."""


def find(seen: Seen, server: str) -> Loss | None:
    recorded = seen.recorded_visits
    if recorded is None or not _calls_are_seen(seen.view, server):
        return None
    here = np.flatnonzero(recorded.server == recorded.number[server])
    names = recorded.names
    behind: Waited = []
    found = _waiting_by(names, seen, recorded, server, here, behind)
    if not found and limits.has_own_threads(seen.view, server):
        # Queries of one name may be of several kinds: EXECUTE does not say what it executes.
        names = names.under(recorded.root)
        found = _waiting_by(names, seen, recorded, server, here, behind)
    found += _by_status(recorded, here)
    held, files = turns.held(seen, recorded, server), seen.of_processes(server, METRICS[2])
    share = np.zeros(len(seen.steps)) if held is None else held.share
    if files is not None and files.took:
        share = np.maximum(share, files.share)
    if not found:
        words = FILES if held is None else _words(held.name, held.lasts)
        return Loss(share, 1, words) if share.any() else None
    visits, lasts = _longest(*(np.concatenate(part) for part in zip(*found, strict=True)))
    whose = ", ".join(sorted(set(names[visits].tolist()) - {""}))
    reported, others = int(recorded.locked[visits].sum()), np.setdiff1d(here, visits)
    notes = [f"{reported:,} of which failed because of a lock"] if reported else []
    held_by = [_holders(recorded, others, *one) for one in found]
    notes += [f"until {name} left" for name in sorted(set(names[np.concatenate(held_by)].tolist()) - {""})]
    if _blocked(seen, server, _inside(recorded, visits)):
        notes.append("while the kernel blocked a thread, as a disk does")
    words = _words(whose, lasts, notes)
    # In a database with a thread for each visit, several may hold a lock.
    own_threads = limits.has_own_threads(seen.view, server)
    in_places = None if own_threads else _in_places(recorded, others, found, held_by)
    if behind:
        visits, lasts = _longest(*(np.concatenate(part) for part in zip(*found, *behind, strict=True)))
    return Loss(share, 1, words, delays=Delays.paused(visits, lasts), in_places=in_places)


def of_files(seen: Seen, server: str, visits: Times | None) -> bool:
    """Return whether processes of the server waited for locks on files for most of the time of these visits."""
    recorded, files = seen.recorded_visits, seen.of_processes(server, METRICS[2])
    if recorded is None or files is None or visits is None or not len(visits):
        return False
    inside = _inside(recorded, visits)
    return bool(inside.any() and files.share[inside].mean() > MOSTLY)


def _inside(recorded: Recorded, visits: Times) -> NDArray[np.bool_]:
    """Return the steps in which at least one of these visits was inside."""
    stays = Stays.of(recorded.start[visits], recorded.departure[visits])
    return np.asarray(stays.queue(recorded.steps.edges[:-1]) > 0)


def _blocked(seen: Seen, server: str, inside: NDArray[np.bool_]) -> bool:
    """Return whether the kernel blocked a thread of the server for most of these steps, and not usually."""
    for threads in seen.view.series(server, METRICS[1])[:1]:
        blocked = np.nan_to_num(seen.at(threads)) >= 1.0
        usually = (blocked & ~inside).sum() > MOSTLY * (~inside).sum()
        return bool((blocked & inside).sum() > MOSTLY * inside.sum() and not usually)
    return False


@dataclass(frozen=True)
class _Kind:
    visits: Times
    share: float
    """It is the part of these in the visits that wait for no other one here: each is the first of its caller's visit,
    or a request of a client. While a server answers nobody, only such visits come."""


def _kinds(recorded: Recorded, names: Names, here: Times) -> list[_Kind]:
    """Return the kinds of visits of a server that have enough of them: those of one name. A worker waits for a job
    without a lock."""
    if not len(here):
        return []
    numbers, kind, counts = np.unique(names.number[here], return_inverse=True, return_counts=True)
    waits = [waits_for_a_job(name) for name in names.labels[numbers].tolist()]
    first = are_first(recorded.parent[here], recorded.sent[here])
    shares = np.bincount(kind, first, len(counts)) / first.sum()
    each = np.split(here[np.argsort(kind, kind="stable")], np.cumsum(counts)[:-1])
    kinds = zip(waits, each, shares.tolist(), strict=True)
    return [_Kind(its, share) for for_a_job, its, share in kinds if not for_a_job and len(its) >= SEVERAL]


def _holders(recorded: Recorded, others: Times, waited: Times, lasts: Times) -> Times:
    """Return the other visits that were inside all the time in which these waited, and left when it was over."""
    left = recorded.departure[waited]
    begin, end = int((left - lasts).min()), int(left.min())
    slack = int(ALIKE * (end - begin))
    at_end = np.abs(recorded.departure[others] - end) <= slack
    return others[at_end & (recorded.start[others] <= begin + slack)]


def _in_places(recorded: Recorded, others: Times, found: Waited, held_by: list[Times]) -> Times | None:
    """Return the visits that those of `found` waited for, if these were several each time."""
    each = [_alike(recorded, others, by, *one) for by, one in zip(held_by, found, strict=True)]
    return np.unique(np.concatenate(each)) if min(map(len, each)) >= SEVERAL else None


def _alike(recorded: Recorded, others: Times, held_by: Times, waited: Times, lasts: Times) -> Times:
    """Return the visits that were inside before these began to wait, have the name of one that left when they went on
    (`held_by`), and lasted about as long: those that take a lock one after the other last longer and longer."""
    begin, end = int((recorded.departure[waited] - lasts).min()), int(recorded.departure[waited].min())
    names, until = recorded.names.number, end - int(ALIKE * (end - begin))
    its = others[(recorded.start[others] <= begin) & (recorded.departure[others] >= until)]
    its = its[np.isin(names[its], names[np.intersect1d(its, held_by)])]
    lasted = recorded.departure[its] - recorded.start[its]
    alike: Times = its[lasted <= SPREAD * lasted.min(initial=NEVER)]
    return alike


def _words(names: str, lasts: Times, notes: Iterable[str] = ()) -> str:
    each = ", ".join((f"{count(len(lasts), 'visit')} of up to {duration(int(lasts.max()))}", *notes))
    return f"{names} ({each})" if names else each


def _longest(visits: Times, lasts: Times) -> tuple[Times, Times]:
    """Return each of the visits once, with its longest wait."""
    order = np.lexsort((-lasts, visits))
    first = order[np.append(True, np.diff(visits[order]) > 0)]
    return visits[first], lasts[first]


def _by_status(recorded: Recorded, here: Times) -> Waited:
    """Return the visits whose status says that they waited for a lock, and the late ones that left when these gave
    their own locks back: a deadlock ends for one transaction when another one fails."""
    failed = here[recorded.locked[here]]
    if not len(failed):
        return []
    is_late = recorded.late(here, recorded.start[here])
    ends = np.sort(recorded.departure[failed])
    at = np.searchsorted(ends, recorded.departure[here], "right") - 1
    after = recorded.departure[here] - ends[np.maximum(at, 0)]
    freed = (at >= 0) & (after <= WINDOW_NS) & (recorded.start[here] < ends[np.maximum(at, 0)])
    waited = here[recorded.locked[here] | (freed & is_late)]
    return [(waited, recorded.departure[waited] - recorded.start[waited])]


def _calls_are_seen(view: View, server: str) -> bool:
    """Return whether the visits of each server that it calls are recorded: a wait for a call is no wait for a lock."""
    return all(name in view.stays for name in view.topology.downstream_of(server))


def _waiting_by(names: Names, seen: Seen, recorded: Recorded, server: str, here: Times, behind: Waited) -> Waited:
    """Return the visits of each kind that waited together, and how long each waited. `behind` gets those of other kinds
    that waited until they went on."""
    kinds = _kinds(recorded, names, here)
    return [one for kind in kinds for one in _waiting(seen, recorded, server, here, kind, behind)]


def _waiting(seen: Seen, recorded: Recorded, server: str, here: Times, kind: _Kind, behind: Waited) -> Waited:
    """Return the visits of a kind that waited together each time, and how long each waited."""
    mine, others = kind.visits, None
    leaving = mine[np.argsort(recorded.departure[mine], kind="stable")]
    left, started = recorded.departure[leaving], recorded.start[leaving]
    first_started = np.minimum.accumulate(started[::-1])[::-1]  # of those that leave then or later
    whole = len(recorded.steps) * STEP_NS
    gaps = np.flatnonzero(np.diff(left) * (len(left) / whole) >= EXPECTED)
    work = int(np.median(recorded.departure[mine] - recorded.start[mine]))
    own_threads = limits.has_own_threads(seen.view, server)
    taken = own_threads or recorded.workers[recorded.number[server]] > 0
    found: Waited = []
    for gap in gaps.tolist():
        begin, end = left[gap : gap + 2].tolist()
        later = slice(gap + 1, int(np.searchsorted(first_started, end - work)))
        waited = np.sort(leaving[later][started[later] < end - work])
        waited = waited[recorded.lost[waited] == 0]  # The others may have waited until their packets were sent again.
        # Visits that left one after the other, as they had come, may take that long by themselves.
        apart = MOSTLY * np.ptp(recorded.start[waited]) if len(waited) else 0.0
        if len(waited) < SEVERAL or np.ptp(recorded.departure[waited]) > apart:
            continue
        # Visits of this kind still left before the gap, so none of them waited then.
        since = np.maximum(recorded.start[waited], begin)
        first = int(since.min())
        if end - work - first < SHORTEST_NS:
            continue
        others = np.setdiff1d(here, mine, assume_unique=True) if others is None else others
        passed = _others_pass(recorded, others, first, end)
        if passed is None:
            continue
        overdue = int((passed.max(initial=begin) - since > QUICK * work).sum())
        # Where each visit has a thread, one that came before may be what these wait for. Elsewhere it may wait, too.
        inside = _any_inside(recorded, others, first if own_threads else 0, end)
        only_mine = taken and kind.share ** len(waited) <= CHANCE and not inside
        if not (overdue >= SEVERAL or only_mine):
            continue
        if _others_fill(recorded, others, server, first, end):
            continue
        if _is_gone(seen, server, first, end):
            continue
        together = work * len(waited)
        if not _calls_wait(seen, recorded, waited, since, end) and not _is_full(seen, server, begin, end, together):
            found.append((waited, np.maximum(end - work - since, 0)))
            behind.append(_behind(recorded, others, first, end, int(recorded.departure[waited].max())))
    return found


def _behind(recorded: Recorded, others: Times, begin: int, end: int, last: int) -> tuple[Times, Times]:
    """Return the visits of other kinds that came from `begin` to `end` and left while ours went on, until `last`, or
    right after it, and how long each waited: ours held what these needed, such as a worker."""
    start, left = recorded.start[others], recorded.departure[others]
    usual = int(np.median(left - start)) if len(others) else 0
    waited = (start >= begin) & (start < end - QUICK * usual) & (left >= end) & (left <= last + QUICK * usual)
    return others[waited], np.maximum(end - usual - start[waited], 0)


def _others_pass(recorded: Recorded, others: Times, begin: int, end: int) -> Times | None:
    """Return when the visits of other kinds left that a worker took since `begin`, as quickly as usual. Return None if
    others waited, too. Where these wait only later, those before them count if they are not too few: by then, ours may
    have taken all workers."""
    took = recorded.departure[others] - recorded.start[others]
    usual = QUICK * float(np.median(took)) if len(took) else 0.0
    came = (recorded.start[others] >= begin) & (recorded.start[others] < end - usual)
    passed = came & (recorded.departure[others] <= end)
    waited = came & ~passed
    number = int(passed.sum())
    if waited.sum() > HARDLY_ANY * number:
        passed &= recorded.start[others] < recorded.start[others[waited]].min()
        number = int(passed.sum())
        if number < LEAST_LIMIT:
            return None
    if number and np.median(took[passed]) > usual:
        return None
    return recorded.departure[others[passed]]


def _any_inside(recorded: Recorded, others: Times, begin: int, end: int) -> bool:
    """Return whether visits of other kinds that were taken in this time were inside at the end, too: then workers took
    visits of all kinds."""
    start = recorded.start[others]
    return bool(((start >= begin) & (start < end) & (recorded.departure[others] >= end)).any())


def _others_fill(recorded: Recorded, others: Times, server: str, begin: int, end: int) -> bool:
    """Return whether as many others as the server has workers were at the server for most of the time. Then ours may
    have waited for a worker: a server that prefers some kinds, such as logins, takes these first."""
    workers = int(recorded.workers[recorded.number[server]])
    moments = np.arange(begin, end, STEP_NS)
    inside = Stays.of(recorded.arrival[others], recorded.departure[others]).queue(moments)
    return workers > 0 and bool((inside >= workers).mean() > MOSTLY)


def _calls_wait(seen: Seen, recorded: Recorded, waited: Times, since: Times, end: int) -> bool:
    """Return whether some of these visits had a call open for most of the time, or waited for a connection. Then they
    waited for the callee, and the others may have waited for a connection, too."""
    called = recorded.sent if seen.called is None else seen.called
    calls = np.flatnonzero(np.isin(recorded.parent, waited))
    order = np.argsort(waited)
    begin = since[order][np.searchsorted(waited[order], recorded.parent[calls])]
    open_ = np.minimum(recorded.back[calls], end) - np.maximum(called[calls], begin)
    return len(np.unique(recorded.parent[calls[open_ > MOSTLY * (end - begin)]])) >= SEVERAL


def _is_gone(seen: Seen, server: str, begin: int, end: int) -> bool:
    """Return whether a server that this one calls had no process for most of the time: then visits may wait until they
    can call it."""
    steps = slice(begin // STEP_NS, max(end // STEP_NS, begin // STEP_NS + 1))
    behind = seen.view.topology.downstream_of(server)
    numbers = (seen.at(one)[steps] for name in behind for one in seen.view.series(name, "processes")[:1])
    return any(float((number == 0.0).mean()) > MOSTLY for number in numbers)


def _is_full(seen: Seen, server: str, begin: int, end: int, together: int) -> bool:
    """Return whether the CPU was full for most of the time: then visits wait for it. Where no sample shows that time
    alone, the CPU may have been full if the waiting visits need it for so long `together`."""
    steps = np.arange(begin // STEP_NS, max(end // STEP_NS, begin // STEP_NS + 1))
    first, last = int(seen.steps.begins[steps[0]]), int(seen.steps.begins[steps[-1]]) + STEP_NS
    if any(own.resolves(first, last) for own in seen.view.series(server, "cpu_busy")[:1]):
        return bool(full_cpu.steps(seen, server)[steps].mean() > MOSTLY)
    return together // limits.cores_of(seen.view, server) >= end - begin


def no_connection(seen: Seen, server: str) -> NDArray[np.bool_]:
    """Return the steps in which visits of a server may have waited for a connection to call another one."""
    for waiting in seen.view.series(server, "pool_waiting")[:1]:
        return np.asarray(seen.at(waiting) >= 1.0)
    names = seen.view.topology.names_of(server)
    pooled = any(pool.caller in names for pool in seen.view.topology.pools)
    return np.full(len(seen.steps), pooled)


def is_all_left(view: View, server: str) -> bool:
    """Return whether a server whose threads sleep, and whose waits for disk and memory are known, can only wait for
    something inside it."""
    recorded = view.series(server, "tasks_blocked") or all(
        view.series(server, f"psi_{one}") for one in ("io", "memory")
    )
    return bool(recorded) and _calls_are_seen(view, server)


def missing(view: View, server: str) -> str | None:
    """Return the datum that distinguishes a wait for a lock from a stop, for a server that answers nobody."""
    known = view.series(server, "tasks_stopped")
    return None if known else f"tasks_stopped of {server}, which shows whether its threads were stopped or waited"
