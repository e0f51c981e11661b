"""A clock rate that was too low for the work that came, as the governor's own looks found it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tailrace.experiment import truth
from tailrace.testbed.system import System


def arose(system: System, run: Path) -> Iterator[truth.Stall]:
    for clock in system.clocks.values():
        yield from clock.happened
