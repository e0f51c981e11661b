"""What the ledger charges to each cause of a recording."""

from __future__ import annotations

from typing import Any

from tailrace.diagnosis import ledger, tables, vlrt
from tailrace.units import MILLISECOND


def charged(dataset: Any) -> dict[str, float]:
    """Cause → the very slow requests that are charged to it, in all episodes that the replay reproduces."""
    seen = tables.look(dataset, 50 * MILLISECOND)
    found: dict[str, float] = {}
    for one in ledger.judge(seen, vlrt.find(seen, None)):
        for share in one.shares if one is not None and one.reproduced else ():
            found[share.cause] = found.get(share.cause, 0.0) + share.vlrt
    return found


def shares(dataset: Any) -> dict[str, float]:
    """Cause → its part of these requests."""
    found = charged(dataset)
    whole = sum(found.values())
    return {cause: vlrt / whole for cause, vlrt in found.items()} if whole else {}
