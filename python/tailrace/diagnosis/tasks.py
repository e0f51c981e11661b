"""What the threads of a server did.

A server that answers nothing and uses no CPU is stopped, waits for a CPU or a disk, or sleeps until something else lets
it go on. Only the states of its threads tell these apart.
"""

from __future__ import annotations

from dataclasses import dataclass

from tailrace.diagnosis.queues import Times
from tailrace.diagnosis.view import View

MOSTLY = 0.5
"""Of the time."""


@dataclass(frozen=True)
class Tasks:
    """Shares of the time in which at least one thread of the server was in this state."""

    stopped: float
    """By a signal or by a debugger."""
    runnable: float | None
    """Running, or waiting for a CPU; None: not sampled."""
    blocked: float | None
    """Waiting in the kernel for a disk or for memory."""

    @property
    def were_stopped(self) -> bool:
        return self.stopped >= MOSTLY

    @property
    def slept(self) -> bool:
        """Whether all of them slept, most of the time."""
        awake = (self.stopped, self.runnable, self.blocked)
        return all(share is not None and share < MOSTLY for share in awake)


def of(view: View, server: str, times: Times) -> Tasks | None:
    """At these times, which are in order. None: not sampled, or too seldom to tell."""
    stopped = _share(view, server, "tasks_stopped", times)
    if stopped is None:
        return None
    runnable, blocked = (_share(view, server, f"tasks_{state}", times) for state in ("runnable", "blocked"))
    return Tasks(stopped, runnable, blocked)


def _share(view: View, server: str, metric: str, times: Times) -> float | None:
    for series in view.series(server, metric)[:1]:
        if len(times) and series.interval_ns * 2 <= times[-1] - times[0]:
            return float((series.at(times) >= 1.0).mean())
    return None
