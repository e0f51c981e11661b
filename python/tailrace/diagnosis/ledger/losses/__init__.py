"""What each cause took of a server's capacity: one file a cause, one line in `CAUSES`.

A loss is a function of the recording and a server. It returns a share of the server's capacity for each step, beyond
what the cause usually takes, or None where nothing was recorded that would show it. It knows no other cause: the
account compares it with what the server really lacked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tailrace.diagnosis.ledger.losses import (
    clock,
    collection,
    flush,
    freeze,
    neighbour,
    quota,
    writeback,
)
from tailrace.diagnosis.ledger.losses.loss import Loss, Seen


@dataclass(frozen=True)
class Cause:
    name: str
    says: str
    """What is taken away, in words."""
    find: Callable[[Seen, str], Loss | None]


CAUSES = (
    Cause(collection.CAUSE, collection.SAYS, collection.find),
    Cause(clock.CAUSE, clock.SAYS, clock.find),
    Cause(neighbour.CAUSE, neighbour.SAYS, neighbour.find),
    Cause(flush.CAUSE, flush.SAYS, flush.find),
    Cause(writeback.CAUSE, writeback.SAYS, writeback.find),
    Cause(quota.CAUSE, quota.SAYS, quota.find),
    Cause(freeze.CAUSE, freeze.SAYS, freeze.find),
)

__all__ = ["CAUSES", "Cause", "Loss", "Seen"]
