"""The interfaces of injected stalls, and of mechanisms that let stalls arise."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tailrace.experiment import truth


@dataclass(frozen=True)
class Injection:
    kind: str
    """The diagnosis's name of the cause."""
    place: str
    begin: Callable[[], None]
    end: Callable[[], None]
    until_over: Callable[[threading.Event], int] = lambda _: time.monotonic_ns()
    """Waits after `end` until the server works as before, or until the event. Returns when it began to do so
    (monotonic)."""


Mechanism = Callable[[int, threading.Event], list[truth.Stall]]
"""Runs from the ramp's end (monotonic, in ns) until the event, and returns the stalls that it observed."""


def joined(spans: Iterable[tuple[int, int]], gap: int) -> list[tuple[int, int]]:
    """Spans sorted by begin; those that are at most `gap` apart are merged."""
    found: list[tuple[int, int]] = []
    for begin, end in spans:
        if found and begin - found[-1][1] <= gap:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((begin, end))
    return found
