"""A balancer chooses which of its candidates receives a call."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tailrace.diagnosis.ledger.limits import Pools, calls
from tailrace.diagnosis.ledger.recorded import NONE, Numbers, Recorded
from tailrace.diagnosis.view import View

CAUSE = "balancer"
SAYS = "the choices of {server} (its candidates take turns instead)"
PLAIN = "{place} sent the requests to {origin} while it was stalled and others were idle"


@dataclass(frozen=True)
class Choices:
    """`choice` is, for each visit, the choice that its caller made. For each choice, `by` is the server that makes
    it, `balancer` is the name of its balancer, and `candidates` are the number and pool of each candidate."""

    choice: Numbers
    by: tuple[str, ...]
    balancer: tuple[str, ...]
    candidates: tuple[tuple[tuple[int, int], ...], ...]

    @cached_property
    def alike(self) -> tuple[str, ...]:
        """For each choice, this is the first server that chooses among the same candidates. Servers of one tier do the
        same."""
        first: dict[frozenset[int], str] = {}
        servers = (frozenset(server for server, _ in each) for each in self.candidates)
        return tuple(first.setdefault(each, by) for each, by in zip(servers, self.by, strict=True))


def find(view: View, recorded: Recorded, known: Pools) -> Choices:
    choice = np.full(len(recorded.server), NONE, dtype=np.uint32)
    by: list[str] = []
    name_of: list[str] = []
    candidates: list[tuple[tuple[int, int], ...]] = []
    number = recorded.number
    for balancer in recorded.balancers(view.topology):
        names = tuple(name for name in balancer.candidates if name in number)
        called = calls(recorded, balancer.server, names)
        apart = any((balancer.server, name) not in known.of for name in names)
        if len(names) < 2 or not len(called) or (apart and (known.pool[called] != NONE).any()):
            continue  # With pools for each interaction, another choice would need another pool of the same kind.
        choice[called] = len(by)
        by.append(balancer.server)
        name_of.append(balancer.name)
        candidates.append(tuple((number[name], known.of.get((balancer.server, name), NONE)) for name in names))
    return Choices(choice, tuple(by), tuple(name_of), tuple(candidates))
