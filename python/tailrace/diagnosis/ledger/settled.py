"""This module finds the last moment before an episode at which queues were as short as usual.

A replay differs from the recording a little more with each request that is lost or kept by chance. So a replay that
began long before an episode may lose other requests than the recording there. What follows a settled moment does not
depend on what was before, but for the requests that were lost before and are sent again later."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.constants import LONG_NS, RARE, STEP_NS
from tailrace.diagnosis.ledger.recorded import Recorded
from tailrace.diagnosis.queues import Stays, Times


@dataclass(frozen=True)
class Settled:
    recorded: Recorded
    calm: NDArray[np.bool_]

    def before(self, moment: int) -> int | None:
        """Return the begin of the last time before this moment in which the system was settled, or None. Both are on
        the shortened clock."""
        last = int(np.searchsorted(self._begins, moment - LONG_NS, "right")) - 1
        return int(self._begins[last]) if last >= 0 else None

    @cached_property
    def _begins(self) -> Times:
        """Return the begins of the times in which the system was settled."""
        asked = self.recorded.asked
        edges = self.recorded.steps.edges
        inside = Stays.of(self.recorded.arrival[asked], self.recorded.departure[asked]).queue(edges - 1)
        calm = inside[:-1][self.calm]
        # They are at most as long as in 95 % of the calm steps.
        settled = inside <= (np.quantile(calm, 1.0 - RARE) if len(calm) else -1)
        changes = np.flatnonzero(np.diff(settled.astype(np.int8), prepend=0, append=0))
        begins, ends = changes[::2] * STEP_NS, changes[1::2] * STEP_NS
        return begins[ends - begins >= LONG_NS]
