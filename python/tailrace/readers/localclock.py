"""Local clocks that were set: a log without a time zone has an hour twice in autumn, and one is missing in spring.

```text
ends of the lines, in their order:  02:59:58  02:59:59  02:00:00  02:00:01 …    set back: what follows is an hour later
                                    01:59:58  01:59:59  03:00:00  03:00:01 …    perhaps set forward: a note says so
```
A program writes a line when a request has ended, so ends go back by little, unless the clock went back. Without this
correction, the requests of two hours would be in one, and each queue twice as long.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tailrace import units
from tailrace.units import SECOND

HOUR = 3600 * SECOND
_UNORDERED = 60 * SECOND
"""Lines are out of order by less: workers that buffer their lines, as nginx does, write them each few seconds."""
_BACK_LEAST = HOUR // 2
"""Half of what a clock is set by: the first line afterwards comes within half an hour."""
_BEFORE = 3
"""Lines before a step of which two or more are ahead of it."""
_GAP_MOST = 60 * SECOND
"""How much longer than an hour nothing is logged where a clock is set forward, in a log that has lines each minute."""
Times = NDArray[np.int64]


@dataclass(frozen=True)
class Found:
    """What the ends of all lines show."""

    later: NDArray[np.bool_]
    """Lines whose clock had been set back by an hour; none where it was not, or where that is not clear."""
    notes: tuple[str, ...] = ()
    disordered: bool = False
    """Times go back by half an hour or more, in another way: how the lines follow each other is unknown."""


def examine(ends: Times, parts: list[int]) -> Found:
    """What the ends of lines without a time zone show, in ns since the Unix epoch; `parts` has the index of the first
    line of each file."""
    later = np.zeros(len(ends), dtype=bool)
    files = list(pairwise([*parts, len(ends)]))
    for first, last in files:
        steps = _steps(ends[first:last])
        if not steps:
            continue
        at = first + steps[0]
        top, back = int(ends[max(at - _BEFORE, first) : at].max()), int(ends[at])
        if len(steps) > 1 or not top - _UNORDERED <= back + HOUR <= top + _BACK_LEAST:
            return Found(later, (_unclear(top, back),), disordered=True)
        later[at:last] = True
        for other, end in files:
            if other != first and other < end and ends[other:end].max() > top:
                later[other:end] = True
        return Found(later, (_set_back(top, back),))
    return Found(later, tuple(_set_forward(np.sort(ends))))


def _steps(ends: Times) -> list[int]:
    """Where a file goes back. A single line that is far ahead is damaged, and shows nothing of the clock."""
    steps = (np.flatnonzero(ends[:-1] - ends[1:] >= _BACK_LEAST) + 1).tolist()
    return [at for at in steps if (ends[max(at - _BEFORE, 0) : at] >= ends[at] + _BACK_LEAST).sum() > 1]


def _set_back(last: int, first: int) -> str:
    return (
        f"its clock was set back by an hour, as at the end of summer time: after a line at {_clock(last)} follows one "
        f"at {_clock(first)}. The times from there on are taken as an hour later"
    )


def _unclear(last: int, first: int) -> str:
    return (
        f"its times have no time zone and go back: after a line at {_clock(last)} follows one at {_clock(first)}. So "
        "the order of its requests, and what a server did meanwhile, are unknown; log times with their zone"
    )


def _set_forward(ends: Times) -> list[str]:
    """A note if nothing was logged for a whole hour of the clock, and this is the only such gap."""
    gaps = np.diff(ends)
    if not len(gaps) or not HOUR <= gaps.max() <= HOUR + _GAP_MOST or (gaps > _GAP_MOST).sum() > 1:
        return []
    at = int(gaps.argmax())
    last, first = int(ends[at]), int(ends[at + 1])
    return [
        f"nothing was logged from {_clock(last)} to {_clock(first)}, as where a clock is set forward for the summer: "
        "this hour may not have existed"
    ]


def _clock(moment: int) -> str:
    return units.format_moment(moment)[11:19]
