"""When the processes of a server stood still, so that nobody took its connections, while it lacked all its capacity.

A stopped process takes no connection, and only its accept queue holds new ones. A disk or a neighbour delays the visits
at work, and free workers take connections. The recording shows which it was, if attempts were lost meanwhile: they are
lost at the accept queue and those who were inside when the server stopped, or at all the places that it has. Where it
shows neither, the cause decides.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.constants import LEAST_LIMIT, STEP_NS
from tailrace.diagnosis.ledger.account import Line
from tailrace.diagnosis.ledger.losses import Seen, clock, flush, neighbour, overhead, own_work, writeback
from tailrace.diagnosis.ledger.steps import Shares
from tailrace.diagnosis.ledger.workers import lost_at
from tailrace.diagnosis.queues import Stays, Times
from tailrace.diagnosis.spans import where
from tailrace.experiment.losses import STANDS_STILL

GO_ON = frozenset(one.CAUSE for one in (clock, flush, neighbour, overhead, own_work, writeback))
"""These delay visits that compute or write, and stop no process."""
MOSTLY = 0.9
"""Of its places: attempts are lost a little below the limit, too, after one has left."""
GAP = 3
"""Stretches that are at most so many steps apart are one: the steps at the edges of a cause lose a part."""
STOPPED = "-stopped"
"""Of the name of a file with what a line took while it stopped the processes."""

Part = tuple[Line, bool]
"""A line of the ledger, and whether it stopped the processes."""


def split(
    seen: Seen, lost: Mapping[Line, Shares], places: Mapping[str, tuple[int, int]]
) -> dict[tuple[Line, bool], Shares]:
    """Each loss in its parts. `places` are how many a server holds, and how many of these in its accept queue, where
    both are known."""
    found: dict[Part, Shares] = {}
    for server in dict.fromkeys(server for _, server in lost):
        mine = {line: share for line, share in lost.items() if line[1] == server}
        shown, stopped = _shown(seen, server, sum(mine.values(), np.zeros(len(seen.steps))), places.get(server))
        for line, share in mine.items():
            stops = np.where(shown, stopped, line[0] not in GO_ON)
            found |= {(line, True): np.where(stops, share, 0.0), (line, False): np.where(stops, 0.0, share)}
    return found


def _shown(
    seen: Seen, server: str, lost: Shares, places: tuple[int, int] | None
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """By step, whether the recording shows it, and whether the processes stood still."""
    shown, stopped = (np.zeros(len(lost), dtype=bool) for _ in range(2))
    if places is None:
        return shown, stopped
    stays, attempts, at = seen.view.stays[server], lost_at(seen.view, server), np.arange(len(lost), dtype=np.int64)
    for begin, end in where(at, at + 1, lost > 1.0 - STANDS_STILL, GAP - 1).tolist():
        first = int(seen.steps.begins[begin])
        since = _since(stays, attempts, first, first + (end - begin) * STEP_NS, *places)
        if since is not None:
            shown[begin:end] = True
            stopped[begin + (since - first) // STEP_NS : end] = True
    return shown, stopped


def _since(stays: Stays, attempts: Times, begin: int, end: int, places: int, outside: int) -> int | None:
    """The moment of a stretch from which nobody took connections, its end if somebody always did; None if the recording
    does not show it."""
    moments = np.arange(begin, end, STEP_NS, dtype=np.int64)
    inside = stays.queue(moments)
    lost = attempts[(attempts >= begin) & (attempts < end)]
    if len(lost) < LEAST_LIMIT:
        return end if inside[-1] > inside[0] + outside else None
    held = int(np.median(stays.queue(lost)))
    if held >= MOSTLY * places:
        return end
    before = moments[(inside <= held - outside) & (moments <= lost[0])]
    return int(before[-1]) if len(before) else begin
