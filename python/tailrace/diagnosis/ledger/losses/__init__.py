"""This package computes what each cause took of a server's capacity. Each cause has one file, and one line in
`CAPACITY`, `IN_QUIET_TIMES`, `DELAYS` or `HOLDERS`.

A loss is a function of the recording and a server. For each step, it returns the share of the server's capacity that
the cause took beyond what it usually takes. It returns None where nothing was recorded that would show this. It knows
no other cause: the account compares it with the capacity that the server really lacked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Protocol

from tailrace.diagnosis.ledger.losses import (
    clock,
    collection,
    flush,
    freeze,
    iowait,
    lock,
    lookup,
    memory,
    neighbour,
    overhead,
    own_work,
    path,
    pipe,
    places,
    quota,
    restart,
    safepoint,
    writeback,
)
from tailrace.diagnosis.ledger.losses.loss import Loss, Seen
from tailrace.diagnosis.view import View


class File(Protocol):
    """Each file of this folder states these facts about its cause."""

    CAUSE: str
    SAYS: str
    PLAIN: str
    METRICS: tuple[str, ...]
    EVENTS: tuple[str, ...]
    COMPUTES: bool | None

    def find(self, seen: Seen, server: str, /) -> Loss | None: ...

    def missing(self, view: View, server: str, /) -> str | None: ...


@dataclass(frozen=True)
class Cause:
    name: str
    says: str
    """This states in words what is taken away from `{server}` by `{place}`."""
    plain: str
    """This states what happened to `{origin}` by `{place}`, as the answer words it."""
    metrics: tuple[str, ...]
    """The report draws charts of these metrics as evidence for the cause."""
    events: tuple[str, ...]
    """Events of these kinds are marked on the charts of the metrics."""
    computes: bool | None
    """If it is True, the server fills its CPU meanwhile, so nothing was taken in steps in which the server used none.
    If it is False, the server waits meanwhile. None means that both are possible."""
    find: Callable[[Seen, str], Loss | None]
    missing: Callable[[View, str], str | None]
    """It returns the datum that would show the loss, if it was not recorded."""

    @classmethod
    def of(cls, file: File) -> Cause:
        return cls(file.CAUSE, file.SAYS, file.PLAIN, file.METRICS, file.EVENTS, file.COMPUTES, file.find, file.missing)


CAPACITY = tuple(
    map(
        Cause.of,
        (collection, safepoint, clock, neighbour, flush, writeback, iowait, quota, memory, pipe, restart, freeze),
    )
)
_QUIET: tuple[ModuleType, ...] = (overhead,)  # of one module, mypy compares all types exactly
IN_QUIET_TIMES = tuple(map(Cause.of, _QUIET))
"""These causes show in times in which no loss shows. They know only which times these are (`Seen.lost`)."""
DELAYS = tuple(map(Cause.of, (path, lookup, lock)))
"""These causes hold up visits and take no capacity."""
HOLDERS = tuple(map(Cause.of, (places, own_work)))
"""These are causes of visits that hold places. The account judges such visits by how fast the losses of capacity left
the server."""
CAUSES = CAPACITY + IN_QUIET_TIMES + DELAYS + HOLDERS

__all__ = ["CAPACITY", "CAUSES", "DELAYS", "HOLDERS", "IN_QUIET_TIMES", "Cause", "Loss", "Seen"]
