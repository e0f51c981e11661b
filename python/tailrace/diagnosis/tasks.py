"""This module shows what the threads of a server did.

A server that answers nothing and uses no CPU may be stopped, may wait for a CPU or a disk, or may sleep until something
else lets it continue. Only the states of its threads distinguish these cases.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrace.diagnosis.constants import MOSTLY
from tailrace.diagnosis.queues import Times
from tailrace.diagnosis.view import View


@dataclass(frozen=True)
class Tasks:
    """For each state, this is the fraction of the time in which at least one thread of the server was in it."""

    stopped: float
    """A signal or a debugger stopped the thread."""
    runnable: float | None
    """The thread ran or waited for a CPU. None means that this was not sampled."""
    blocked: float | None
    """The thread waited in the kernel for a disk or for memory."""

    @property
    def slept(self) -> bool:
        """Return whether all threads slept for most of the time."""
        states = (self.stopped, self.runnable, self.blocked)
        return all(share is not None and share < MOSTLY for share in states)

    @property
    def waited(self) -> bool:
        """Return whether a thread ran or waited for a CPU for most of the time. If the server used no CPU meanwhile, it
        waited."""
        return self.runnable is not None and self.runnable >= MOSTLY

    @property
    def awake(self) -> bool:
        """Return whether a thread is known to have run, or to have waited for a CPU or a disk, for most of the time."""
        return self.waited or (self.blocked is not None and self.blocked >= MOSTLY)


def of(view: View, server: str, times: Times) -> Tasks | None:
    """Return the tasks at these times, which are in order. None means that they were not sampled, or too seldom to show
    anything."""
    stopped = _share(view, server, "tasks_stopped", times)
    if stopped is None:
        return None
    runnable, blocked = (_share(view, server, f"tasks_{state}", times) for state in ("runnable", "blocked"))
    return Tasks(stopped, runnable, blocked)


def _share(view: View, server: str, metric: str, times: Times) -> float | None:
    for series in view.series(server, metric)[:1]:
        if len(times) and series.interval_ns * 2 <= times[-1] - times[0]:
            found = series.at(times)
            known = found[~np.isnan(found)]
            return float((known >= 1.0).mean()) if len(known) else None
    return None
