"""What each cause took of a server's capacity: one file a cause, one line in `CAPACITY` or `HOLDERS`.

A loss is a function of the recording and a server. It returns a share of the server's capacity for each step, beyond
what the cause usually takes, or None where nothing was recorded that would show it. It knows no other cause: the
account compares it with what the server really lacked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tailrace.diagnosis.ledger.losses import (
    clock,
    collection,
    flush,
    freeze,
    memory,
    neighbour,
    own_work,
    places,
    quota,
    writeback,
)
from tailrace.diagnosis.ledger.losses.loss import Loss, Seen


class File(Protocol):
    """What a file of this folder says of its cause."""

    CAUSE: str
    SAYS: str
    PLAIN: str
    METRICS: tuple[str, ...]
    EVENTS: tuple[str, ...]

    def find(self, seen: Seen, server: str, /) -> Loss | None: ...


@dataclass(frozen=True)
class Cause:
    name: str
    says: str
    """What is taken away, in words: of `{server}`, by `{place}`."""
    plain: str
    """What happened, as the answer says it: to `{origin}`, by `{place}`."""
    metrics: tuple[str, ...]
    """Drawn beside it."""
    events: tuple[str, ...]
    """Marked over them."""
    find: Callable[[Seen, str], Loss | None]

    @classmethod
    def of(cls, file: File) -> Cause:
        return cls(file.CAUSE, file.SAYS, file.PLAIN, file.METRICS, file.EVENTS, file.find)


CAPACITY = tuple(map(Cause.of, (collection, clock, neighbour, flush, writeback, quota, memory, freeze)))
HOLDERS = tuple(map(Cause.of, (places, own_work)))
"""Of visits that hold places: they are judged by how fast the losses of capacity left the server."""
CAUSES = CAPACITY + HOLDERS

__all__ = ["CAPACITY", "CAUSES", "HOLDERS", "Cause", "Loss", "Seen"]
