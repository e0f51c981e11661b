"""An experiment under many conditions: `tailrace sweep EXPERIMENT --vary KEY=VALUES`.

`varying` parses the varied keys, `table` makes all runs and one tidy table of them, `page` draws it, and `terminal`
prints it.
"""

from tailrace.sweep.table import Sweep, sweep
from tailrace.sweep.varying import Varied, parse

__all__ = ["Sweep", "Varied", "parse", "sweep"]
