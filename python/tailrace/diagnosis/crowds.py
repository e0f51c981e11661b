"""How many requests a server held when packets to it were lost: a queue overflows only where there is one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.queues import LEAST_LIMIT, Stays, held_from
from tailrace.diagnosis.view import View
from tailrace.diagnosis.waiting import STEP_NS

FEW = 2
"""The smallest server holds three: one is served, and the shortest accept queue (a backlog of 0 or 1) has one or two
places. With at most two inside, no accept queue was full."""
RARE = 0.05
"""A full queue accepts nothing: hardly one in twenty of the accepted found as many inside as there were at a loss. Of
losses that have nothing to do with the queue, one in two finds more inside than half of the accepted do."""
HELD = 20
"""A queue that was never longer than this comes within one of its longest by chance. A longer one is held there by a
limit: one of 20 on average (Poisson) varies by 4.5."""
MOSTLY = 0.5
"""Of the packets that a server lost, those at which its queue was long: a full queue loses all that come, and a path
that loses some loses them whatever the queue is."""


@dataclass(frozen=True)
class Crowd:
    """Of one server, when packets to it were lost."""

    long: bool
    """Whether most of them were lost while its queue was so long that hardly anybody else was accepted."""
    before: bool
    """Whether its queue can only have been filled before the recording began."""
    inside: int
    """How many it held then (median)."""
    inside_most: int | None
    """None where no visit to it is recorded."""


NONE_SEEN = Crowd(False, False, 0, None)


def crowd(view: View, server: str, lost: NDArray[np.int64]) -> Crowd:
    """`lost`: when the packets were sent, in order."""
    stays = view.stays.get(server)
    if stays is None or not len(stays.arrivals):
        return NONE_SEEN
    # What was sent with a lost packet takes up to a step to arrive.
    inside = np.maximum(stays.queue(lost), stays.queue(lost + STEP_NS))
    as_many = 1.0 - np.searchsorted(stays.met, inside) / len(stays.met)
    held = (stays.longest >= HELD) & (inside >= held_from(stays.longest))
    full = (inside > FEW) & ((as_many <= RARE) | held)
    unseen = _filled_before(stays, lost) & ~full
    return Crowd(
        float((full | unseen).mean()) >= MOSTLY,
        bool(unseen[0]),
        int(np.median(inside)),
        int(inside.max()),
    )


def _filled_before(stays: Stays, lost: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Of each packet whether those seen to come until then cannot have filled the server's queue; of none, unless
    several were lost in a row and fewer were accepted meanwhile: then it was full before the recording began."""
    came = np.searchsorted(stays.arrivals, lost + STEP_NS, "right")
    young: NDArray[np.bool_] = (came * 2 < stays.longest) & (stays.longest > FEW)
    number = int(young.sum())
    shut = number >= LEAST_LIMIT and int(came[young].max()) < number
    return young if shut else np.zeros_like(young)
