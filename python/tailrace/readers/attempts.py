"""Lost connection attempts, inferred from how long a connection took.

A kernel sends a SYN without an answer again at known times. A connection that took such a time, and hardly longer, lost
an attempt or several. A longer wait proves nothing: a busy server also takes a second.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tailrace.units import MILLISECOND, SECOND

DOUBLING = (1, 3, 7, 15, 31)
"""Seconds after the first SYN (RFC 6298)."""
LINEAR = (1, 2, 3, 4, 5, 7, 11)
"""The same, Linux 6.5 and later (tcp_syn_linear_timeouts)."""
_ONLY_LINEAR = tuple(second for second in LINEAR if second not in DOUBLING)
LONG_NS = SECOND // 2
"""Half of the shortest schedule's first time: waits from here on must lie at its times, if they are lost attempts."""
_LEAST = 3
_EARLY, _LATE = 10 * MILLISECOND, 150 * MILLISECOND
"""Timers fire up to a tick early (10 ms); they are late by the granularity of the kernel's timer wheel (64 ms at 1 s),
and the connection itself takes a round trip."""


class Waits:
    """Long waits of many visits, counted by the time of a schedule at which they are."""

    def __init__(self) -> None:
        self.count = 0
        self._at = dict.fromkeys(sorted({*DOUBLING, *LINEAR}), 0)

    def add(self, waits_ns: NDArray[np.int64]) -> None:
        """Add those that are long."""
        long = waits_ns[waits_ns >= LONG_NS]
        self.count += len(long)
        for second in self._at:
            self._at[second] += int(_are_at(long, second).sum())

    @property
    def schedule(self) -> tuple[int, ...]:
        """The schedule that these waits fit: only the linear one has 2, 4 and 5 s."""
        return LINEAR if any(self._at[second] for second in _ONLY_LINEAR) else DOUBLING

    def lost(self) -> tuple[int, tuple[int, ...]]:
        """How many visits lost attempts, and the schedule that shows it. There are none if the waits, of which a
        connection is only a part, do not have the shape of a schedule: at least three, and nine in ten at its times."""
        lost = sum(self._at[second] for second in self.schedule)
        return (lost, self.schedule) if self.count >= _LEAST and lost >= 0.9 * self.count else (0, ())


def lost_of_each(waits_ns: NDArray[np.int64], times: tuple[int, ...]) -> NDArray[np.uint8]:
    """Attempts that were lost before each connection that took so long."""
    found = np.zeros(len(waits_ns), dtype=np.uint8)
    for number, second in enumerate(times, 1):
        found[_are_at(waits_ns, second)] = number
    return found


def note(took: str, count: int) -> str:
    """Why waits were taken as lost attempts; `took` is what took so long, and a verb."""
    return (
        f"{took} 1, 3, 7 s or the like, the times at which a kernel repeats connection attempts: these are taken as "
        f"lost attempts ({count} in all), which is indirect evidence"
    )


def _are_at(waits_ns: NDArray[np.int64], second: int) -> NDArray[np.bool_]:
    return (waits_ns >= second * SECOND - _EARLY) & (waits_ns <= second * SECOND + _LATE)
