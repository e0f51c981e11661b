"""An injected stall as the testbed does it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Injection:
    kind: str
    """As detectors call the cause."""
    place: str
    begin: Callable[[], None]
    end: Callable[[], None]
