"""Lost connection attempts, inferred from how long a connection took.

A kernel sends a SYN without an answer again at known times. A connection that took such a time, and hardly longer, lost
an attempt or several. A longer wait proves nothing: a busy server also takes a second.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tailrace.units import MILLISECOND, SECOND

DOUBLING = (1, 3, 7, 15, 31)
"""Seconds after the first SYN (RFC 6298)."""
LINEAR = (1, 2, 3, 4, 5, 7, 11)
"""The same, Linux 6.5 and later (tcp_syn_linear_timeouts)."""
LONG_NS = SECOND // 2
"""Half of the shortest schedule's first time: waits from here on must lie at its times, if they are lost attempts."""
_LEAST = 3
_EARLY, _LATE = 10 * MILLISECOND, 150 * MILLISECOND
"""Timers fire up to a tick early (10 ms); they are late by the granularity of the kernel's timer wheel (64 ms at 1 s),
and the connection itself takes a round trip."""


def schedule(waits_ns: Iterable[int]) -> tuple[int, ...]:
    """The schedule that these connection times fit: only the linear one has 2, 4 and 5 s."""
    only = [second for second in LINEAR if second not in DOUBLING]
    return LINEAR if any(_at(wait, second) for wait in waits_ns for second in only) else DOUBLING


def lost(wait_ns: int, times: tuple[int, ...]) -> int:
    """Attempts that were lost before a connection that took `wait_ns`."""
    return next((number for number, second in enumerate(times, 1) if _at(wait_ns, second)), 0)


def fits(waits_ns: Collection[int], times: tuple[int, ...]) -> bool:
    """Whether long waits of which a connection is only a part have the shape of a schedule: at least three, and nine in
    ten of them at its times."""
    return len(waits_ns) >= _LEAST and sum(lost(wait, times) > 0 for wait in waits_ns) >= 0.9 * len(waits_ns)


def note(took: str, count: int) -> str:
    """Why waits were taken as lost attempts; `took` is what took so long, and a verb."""
    return (
        f"{took} 1, 3, 7 s or the like, the times at which a kernel repeats connection attempts: these are taken as "
        f"lost attempts ({count} in all), which is indirect evidence"
    )


def _at(wait_ns: int, second: int) -> bool:
    return second * SECOND - _EARLY <= wait_ns <= second * SECOND + _LATE
