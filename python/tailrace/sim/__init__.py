"""The simulator as a maker of run folders: from an experiment to tables, topology and truth.

`lowering` turns names into the engine's plan, and `programs` and `workloads` are its larger parts. `refusals` and
`bounds` refuse what cannot be simulated. `running` runs it.
"""

from tailrace.sim.lowering import EPOCH, lower, text
from tailrace.sim.running import Outcome, count, simulate

__all__ = ["EPOCH", "Outcome", "count", "lower", "simulate", "text"]
