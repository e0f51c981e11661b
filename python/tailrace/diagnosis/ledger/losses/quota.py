"""The CPU quota of the server's group was used up: `cpu_throttled`, the share of time in which it was held back.

What a quota takes in calm time, too, is a loss all the same: without the quota nothing would be taken.
"""

from __future__ import annotations

import numpy as np

from tailrace.diagnosis.ledger.losses.loss import Loss, Seen, blur

CAUSE = "cpu-quota"
SAYS = "the CPU quota of {server}"


def find(seen: Seen, server: str) -> Loss | None:
    found = seen.view.series(server, "cpu_throttled")
    if not found:
        return None
    share = np.maximum.reduce([np.clip(seen.at(series), 0.0, 1.0) for series in found])
    return Loss(share, max(blur(series) for series in found))
