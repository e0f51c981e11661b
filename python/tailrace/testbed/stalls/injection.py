"""An injected stall as the testbed does it, and what makes stalls arise by themselves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tailrace.experiment import truth


@dataclass(frozen=True)
class Injection:
    kind: str
    """As detectors call the cause."""
    place: str
    begin: Callable[[], None]
    end: Callable[[], None]


Mechanism = Callable[[int, threading.Event], list[truth.Stall]]
"""Goes on from the ramp's end (monotonic, in ns) until the event, and tells what stalls it saw."""


def joined(spans: Iterable[tuple[int, int]], gap: int) -> list[tuple[int, int]]:
    """Spans in the order of their begin, those that are no further apart than `gap` as one."""
    found: list[tuple[int, int]] = []
    for begin, end in spans:
        if found and begin - found[-1][1] <= gap:
            found[-1] = found[-1][0], end
        else:
            found.append((begin, end))
    return found
