"""The simulator as a maker of run folders: an experiment in, tables, topology and truth out.

`lowering` turns names into the engine's plan, `programs` and `workloads` are its larger parts, `refusals` and `bounds`
say what cannot be simulated, `running` runs it.
"""

from tailrace.sim.lowering import EPOCH, lower
from tailrace.sim.running import Outcome, count, simulate

__all__ = ["EPOCH", "Outcome", "count", "lower", "simulate"]
