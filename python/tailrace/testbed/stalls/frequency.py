"""Times when the clock rate was too low for the load, from the governor's own samples."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tailrace.experiment import truth
from tailrace.testbed.stalls.injection import joined
from tailrace.testbed.system import System
from tailrace.units import MILLISECOND


def arose(system: System, run: Path) -> Iterator[truth.Stall]:
    for node, clock in system.clocks.items():
        for begin, end in joined(clock.saturated(), MILLISECOND):
            yield truth.Stall("frequency-step", node, system.epoch.unix(begin), system.epoch.unix(end))
