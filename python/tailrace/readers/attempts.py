"""Lost connection attempts, inferred from how long a connection took.

A kernel sends a SYN without an answer again at known times. A connection that took such a time, and the round trip that
others took, lost an attempt or several. Any other wait proves nothing: a busy server, a handshake of TLS or a slow name
server also takes a second.

```text
others    ├─┤ 0.3 s                            the least and the usual time to connect
this one  ├─────── 1.0 s ───────┤├─┤           1.3 s: its first SYN was lost. Where others take 1 ms, it may not be
```
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailrace import units
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
and by as much on the way of a busy host. The connection itself takes a round trip besides."""


KEPT = 1 << 20, 1 << 16
"""Long and short waits that are looked at: 8.5 MB."""


@dataclass(frozen=True)
class Schedule:
    """Seconds after the first SYN at which it was sent again, and what connecting took without that, in ns: at least,
    and usually."""

    seconds: tuple[int, ...]
    least: int = 0
    usual: int = 0

    def fits(self, waits_ns: NDArray[np.int64], second: int) -> NDArray[np.bool_]:
        """Which waits are at this time."""
        since = waits_ns - second * SECOND
        return (since >= self.least - _EARLY) & (since <= self.usual + _LATE)

    @property
    def windows(self) -> list[tuple[int, int]]:
        """Of each time, the shortest and the longest wait in ns that is at it."""
        return [
            (second * SECOND + self.least - _EARLY, second * SECOND + self.usual + _LATE) for second in self.seconds
        ]


NONE_LOST = Schedule(())


class Waits:
    """How long connecting took of many visits; 0 if that is unknown."""

    def __init__(self) -> None:
        self.count = 0
        """Long waits."""
        self._long, self._short = array("q"), array("q")

    @classmethod
    def kept(cls, count: int, long: NDArray[np.int64], short: NDArray[np.int64]) -> Waits:
        """The same from what was kept of them."""
        waits = cls()
        waits.count = count
        waits._long.frombytes(long.tobytes())
        waits._short.frombytes(short.tobytes())
        return waits

    def add(self, waits_ns: NDArray[np.int64]) -> None:
        """Add waits in any order; of very many, the first are looked at."""
        is_long = waits_ns >= LONG_NS
        long = waits_ns[is_long]
        self.count += len(long)
        self._long.frombytes(long[: KEPT[0] - len(self._long)].tobytes())
        if len(self._short) < KEPT[1]:
            short = waits_ns[~is_long & (waits_ns > 0)]
            self._short.frombytes(short[: KEPT[1] - len(self._short)].tobytes())

    @property
    def at_times(self) -> int:
        """Waits that are at times of the schedule."""
        return int((lost_of_each(np.frombuffer(self._long, np.int64), self.schedule) > 0).sum())

    @property
    def elsewhere(self) -> int:
        """Long waits that are at none."""
        return len(self._long) - self.at_times

    @property
    def schedule(self) -> Schedule:
        """The schedule that these waits fit: only the linear one has 2, 4 and 5 s."""
        short, long = (np.frombuffer(waits, np.int64) for waits in (self._short, self._long))
        least, usual = (int(short.min()), int(np.median(short))) if len(short) else (0, 0)
        linear = Schedule(LINEAR, least, usual)
        is_linear = any(linear.fits(long, second).any() for second in _ONLY_LINEAR)
        return linear if is_linear else Schedule(DOUBLING, least, usual)

    def lost(self) -> tuple[int, Schedule]:
        """How many visits lost attempts, and the schedule that shows it. There are none if the waits, of which a
        connection is only a part, do not have the shape of a schedule: at least three, and nine in ten at its times."""
        lost = self.at_times
        is_schedule = self.count >= _LEAST and lost >= 0.9 * len(self._long)
        return (lost, self.schedule) if is_schedule else (0, NONE_LOST)


def lost_of_each(waits_ns: NDArray[np.int64], schedule: Schedule) -> NDArray[np.uint8]:
    """Attempts that were lost before each connection that took so long."""
    found = np.zeros(len(waits_ns), dtype=np.uint8)
    if len(waits_ns) and waits_ns.max() >= LONG_NS:
        for number, second in enumerate(schedule.seconds, 1):
            found[schedule.fits(waits_ns, second)] = number
    return found


def notes(took: str, waits: Waits) -> list[str]:
    """What long times to connect show; `took` is what took so long, and a verb."""
    at_times, elsewhere = waits.at_times, waits.elsewhere
    said = [note(took, at_times)] if at_times else []
    if elsewhere:
        said.append(
            f"times to connect of {units.format_duration(LONG_NS)} or longer after which no kernel repeats an attempt: "
            f"{elsewhere}. A busy server, a handshake of TLS or a slow network has them, too, so whether "
            "attempts were lost is unknown"
        )
    return said


def note(took: str, count: int) -> str:
    """Why waits were taken as lost attempts; `took` is what took so long, and a verb."""
    return (
        f"{took} 1, 3, 7 s or the like, the times at which a kernel repeats connection attempts: these are taken as "
        f"those of connections that lost attempts ({count} in all), which is indirect evidence"
    )
