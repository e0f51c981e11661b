"""This module lends the usual work to requests that a server never heard of (`diagnosis/unheard.py`).

Such a request was never answered, so the work that it would have needed was not recorded. It takes the steps of an
answered request of the same kind: it sends the same calls, and each of them needs as much. So the replay loses its
connection attempt if the accept queue is full, and answers it in time if it is not.

The visits on its way to that server, and their calls, last until the request ends. Its other calls were never sent:
they take no time where the request ends. A request that holds a worker on its way borrows nothing, because others wait
for that worker until the request is given up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tailrace.diagnosis import unheard
from tailrace.diagnosis.constants import FEW, MOSTLY
from tailrace.diagnosis.ledger.steps import NEVER
from tailrace.diagnosis.queues import Times
from tailrace.diagnosis.spans import Spans
from tailrace.diagnosis.view import View

if TYPE_CHECKING:
    from tailrace.diagnosis.ledger.recorded import Recorded

LENDERS_MAX = 1000
"""The mean work of so many requests is known to a few hundredths."""

Tree = list[tuple[int, int]]
"""It holds the visits of a request, each after its parent, with the place of its parent in the list, or -1."""


@dataclass(frozen=True)
class Loan:
    """One request takes the steps of another."""

    visit: int
    """The request came to the system with this visit."""
    dropped: int
    """This is the moment at which its packet was dropped, on the shortened clock."""
    tree: Tree
    """These are the visits of the other request."""
    way: list[int]
    """These are the places in the tree of its first visit to the server that dropped the packet, and of the visits that
    led to it. The last comes first."""


def find(view: View, recorded: Recorded, calm: Spans) -> list[Loan]:
    """Return the loans. The lenders are requests of the same kind that were answered in calm time."""
    silent = unheard.find(view)
    if not len(silent.request):
        return []
    of = {request: at for at, request in enumerate(silent.request.tolist())}
    wanted: dict[tuple[int, int], dict[int, int]] = {}
    for visit in np.flatnonzero(recorded.asked & np.isin(recorded.request, silent.request)).tolist():
        at = of.pop(int(recorded.request[visit]), None)
        if at is not None:
            kind = int(recorded.group[visit]), recorded.number[str(silent.server[at])]
            wanted.setdefault(kind, {})[visit] = int(recorded.steps.shortened(silent.begin[at : at + 1])[0])
    is_calm = recorded.steps.covered(calm)[recorded.steps.at(recorded.sent)] > MOSTLY
    usable = recorded.asked & is_calm & ~recorded.failed
    children = np.argsort(recorded.parent, kind="stable")
    found: list[Loan] = []
    for (group, server), its in wanted.items():
        trees = [_tree(recorded, children, row) for row in _spread(usable & (recorded.group == group), LENDERS_MAX)]
        both = [(tree, _way(recorded, tree, server)) for tree in trees]
        lenders = [(tree, way) for tree, way in both if way and not _holds_worker(recorded, tree, way)]
        if len(lenders) >= FEW:
            chosen = np.linspace(0, len(lenders) - 1, len(its)).astype(np.int64).tolist()
            found += [Loan(*one, *lenders[at]) for one, at in zip(its.items(), chosen, strict=True)]
    return found


def _spread(which: np.ndarray, most: int) -> list[int]:
    """Return at most so many of these numbers, spread over all of them."""
    rows = np.flatnonzero(which)
    many = min(len(rows), most)
    chosen: list[int] = rows[np.linspace(0, max(len(rows) - 1, 0), many).astype(np.int64)].tolist()
    return chosen


def _tree(recorded: Recorded, children: Times, root: int) -> Tree:
    found, place = [(root, -1)], 0
    while place < len(found):
        visit = found[place][0]
        first, last = np.searchsorted(recorded.parent, (visit, visit + 1), sorter=children).tolist()
        found += [(child, place) for child in children[first:last].tolist()]
        place += 1
    return found


def _way(recorded: Recorded, tree: Tree, server: int) -> list[int]:
    visits = [
        (int(recorded.sent[visit]), place)
        for place, (visit, _) in enumerate(tree)
        if int(recorded.server[visit]) == server
    ]
    found = [min(visits)[1]] if visits else []
    while found and tree[found[-1]][1] >= 0:
        found.append(tree[found[-1]][1])
    return found


def _holds_worker(recorded: Recorded, tree: Tree, way: list[int]) -> bool:
    return any(recorded.workers[recorded.server[tree[place][0]]] for place in way[1:])


def without_calls(recorded: Recorded, loans: list[Loan]) -> Recorded:
    """Return the recording in which these requests have no calls. Calls that were linked to them were answered, so
    these belong to others."""
    if not loans:
        return recorded
    wrong = np.isin(recorded.parent, [loan.visit for loan in loans])
    return replace(recorded, parent=np.where(wrong, -1, recorded.parent))


def joined(recorded: Recorded, loans: list[Loan]) -> Recorded:
    """Return the recording with the calls that these requests would have made, and with what each visit is like."""
    if not loans:
        return recorded
    rows: list[tuple[int, int, int, int, int, int]] = []
    for loan in loans:
        rows += _calls(recorded, loan, len(recorded.parent) + len(rows))
    like, root, parent, sent, arrival, departure = np.array(rows, dtype=np.int64).reshape(-1, 6).T
    own = recorded.like.copy()
    own[[loan.visit for loan in loans]] = [loan.tree[0][0] for loan in loans]
    added: dict[str, Any] = {"parent": parent, "sent": sent, "arrival": arrival, "start": arrival}
    added |= {"departure": departure}
    added |= {"request": recorded.request[root], "failed": np.zeros(len(like), dtype=bool)}
    added |= {"lost": np.zeros(len(like), dtype=np.uint8), "taken": np.full(len(like), NEVER)}
    added |= {"gives_up": np.full(len(like), NEVER), "again": np.zeros(len(like), dtype=np.uint8)}
    added |= {"locked": np.zeros(len(like), dtype=bool)}
    added |= {
        name: getattr(recorded, name)[like]
        for name in ("server", "caller", "group", "may_drop", "client", "follows", "bytes")
    }
    columns: dict[str, Any] = {name: np.concatenate((getattr(recorded, name), its)) for name, its in added.items()}
    names = replace(recorded.names, number=np.append(recorded.names.number, recorded.names.number[like]))
    # On the way of these calls, an attempt can be lost.
    for first in {loan.tree[loan.way[0]][0] for loan in loans}:
        alike = (columns["caller"] == recorded.caller[first]) & (columns["server"] == recorded.server[first])
        columns["may_drop"][alike] = 1
    return replace(recorded, **columns, names=names, like=np.append(own, like))


def _calls(recorded: Recorded, loan: Loan, first: int) -> list[tuple[int, int, int, int, int, int]]:
    """Return a row for each call: what it is like, its root, its parent, and when it was sent, arrived and left. The
    number of the first is `first`."""
    begin, end = int(recorded.arrival[loan.visit]), int(recorded.departure[loan.visit])
    last, *way = loan.way
    found = []
    for place, (visit, parent) in enumerate(loan.tree[1:], start=1):
        took = int(recorded.arrival[visit] - recorded.sent[visit])
        sent = begin if place in way else min(loan.dropped, end) if place == last else end - took
        arrival = min(begin + took, end) if place in way else end
        number = first + parent - 1 if parent else loan.visit
        found.append((visit, loan.visit, number, sent, arrival, end))
    return found
