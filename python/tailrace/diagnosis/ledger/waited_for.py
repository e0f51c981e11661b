"""What visits waited for together: a lock, a place, or a thread that computed.

Visits that wait for a lock look like visits that wait for a place. The losses of a server together show which it was.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tailrace.diagnosis.constants import NEARLY
from tailrace.diagnosis.ledger import limits
from tailrace.diagnosis.ledger.losses import holding, lock, own_work
from tailrace.diagnosis.ledger.losses import places as soft_resource
from tailrace.diagnosis.ledger.losses.loss import Loss, Seen
from tailrace.diagnosis.ledger.recorded import Numbers, Recorded
from tailrace.diagnosis.spans import overlap, spans

Losses = dict[tuple[str, str], Loss]
"""By cause and server, this is what the cause took."""


def settle(seen: Seen, recorded: Recorded, at_once: Numbers, losses: Losses) -> None:
    """Charge each wait to what the visits waited for. Each server serves `at_once` visits (0: unknown)."""
    for server, number in recorded.number.items():
        if not at_once[number]:
            _lock(seen, recorded, server, losses)
        _places(recorded, server, losses)
        if not limits.has_own_threads(seen.view, server):
            _computing(recorded, server, losses)


def _lock(seen: Seen, recorded: Recorded, server: str, losses: Losses) -> None:
    """Let visits that seem to hold places hold a lock, if nothing waits for a place there: in a database with a thread
    for each visit, unless its callers have pools, and where processes waited for a lock on a file meanwhile."""
    held = losses.get((soft_resource.CAUSE, server))
    if held is None:
        return
    if limits.has_own_threads(seen.view, server) or lock.of_files(seen, server, held.visits):
        del losses[soft_resource.CAUSE, server]
        waited = losses.get((lock.CAUSE, server), held)
        losses[lock.CAUSE, server] = replace(waited, place=f"visits behind {held.place}", visits=held.visits)


def _places(recorded: Recorded, server: str, losses: Losses) -> None:
    """Let visits hold places, if others that seem to wait for a lock waited for several of them each time."""
    waited, held = losses.get((lock.CAUSE, server)), losses.get((soft_resource.CAUSE, server))
    if waited is None or waited.in_places is None:
        return
    rows = waited.in_places
    if held is not None and held.visits is not None:
        rows = np.union1d(rows, held.visits)
    share = np.zeros(len(recorded.steps)) if held is None else held.share
    words = holding.in_words(recorded.names[rows], recorded.start[rows], recorded.departure[rows])
    losses[soft_resource.CAUSE, server] = Loss(share, waited.blur, words, rows, waited.delays, waited.in_places)
    _without_delays(server, losses)


def _computing(recorded: Recorded, server: str, losses: Losses) -> None:
    """Let visits that computed hold up those that seem to wait for a lock, if they did so for nearly all of that time:
    these wait for a thread of a pool. A database with a thread for each visit has no such pool."""
    waited, held = losses.get((lock.CAUSE, server)), losses.get((own_work.CAUSE, server))
    if waited is None or waited.delays is None or held is None or held.visits is None:
        return
    until = recorded.departure[waited.delays.visits]
    computed = spans(np.column_stack((recorded.arrival[held.visits], recorded.departure[held.visits])))
    meanwhile = overlap(computed, until - waited.delays.lasts, until).sum()
    if meanwhile >= NEARLY * waited.delays.lasts.sum():
        losses[own_work.CAUSE, server] = replace(held, delays=waited.delays)
        _without_delays(server, losses)


def _without_delays(server: str, losses: Losses) -> None:
    line = lock.CAUSE, server
    losses[line] = replace(losses[line], delays=None, in_places=None)
    if not losses[line].took:
        del losses[line]
