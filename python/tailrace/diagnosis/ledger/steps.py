"""The ledger divides time into steps of equal length. They cover only the stretches that matter, put end to end.

A recording may be quiet for days between two stalls. Only the stretches are kept, so that the need for memory and time
follows the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.constants import STEP_NS
from tailrace.diagnosis.queues import Times
from tailrace.diagnosis.spans import Spans, covered_before, overlap

NEVER = np.iinfo(np.int64).max
"""This time means that an event does not happen."""

Mask = NDArray[np.bool_]

Shares = NDArray[np.float64]
"""It holds one value per step."""


@dataclass(frozen=True)
class Steps:
    """`stretches` are disjoint and in order. Each is a whole number of steps long."""

    stretches: Spans

    @classmethod
    def of(cls, stretches: Spans) -> Steps:
        whole = [(b, b + -(-(e - b) // STEP_NS) * STEP_NS) for b, e in stretches.tolist()]
        return cls(np.array(whole, dtype=np.int64).reshape(-1, 2))

    @cached_property
    def begins(self) -> Times:
        parts = [np.arange(b, e, STEP_NS, dtype=np.int64) for b, e in self.stretches.tolist()]
        return np.concatenate(parts)

    @cached_property
    def middles(self) -> Times:
        return self.begins + STEP_NS // 2

    @cached_property
    def edges(self) -> Times:
        """Return the edges of the steps, on the shortened clock."""
        return np.arange(len(self) + 1, dtype=np.int64) * STEP_NS

    def __len__(self) -> int:
        return len(self.begins)

    def shortened(self, times: Times) -> Times:
        """Return these moments on a clock that stands still between stretches."""
        return covered_before(self.stretches, times)

    def lengthened(self, shortened: Times) -> Times:
        """Return these moments on the clock that never stands still. An edge between two stretches is the begin of the
        later one."""
        size = self.stretches[:, 1] - self.stretches[:, 0]
        before = np.cumsum(size) - size
        stretch = np.maximum(np.searchsorted(before, shortened, "right") - 1, 0)
        return np.asarray(self.stretches[stretch, 0] + shortened - before[stretch])

    def at(self, shortened: Times) -> Times:
        """Return the numbers of the steps of these moments on the shortened clock."""
        return np.clip(shortened // STEP_NS, 0, len(self) - 1)

    def covered(self, table: Spans) -> Shares:
        """Return the share of each step that these spans cover."""
        return overlap(table, self.begins, self.begins + STEP_NS) / STEP_NS
