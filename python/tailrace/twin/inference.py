"""Limits of servers that no topology states, where the recording shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tailrace.diagnosis.constants import LEAST_LIMIT
from tailrace.diagnosis.ledger.workers import lost_at, workers_of
from tailrace.diagnosis.view import View
from tailrace.topology import Server
from tailrace.twin.slots import Slots

MOSTLY = 0.8
"""Of the longest queue: attempts are lost a little below the limit, too, after one has left."""


def infer(view: View, slots: Mapping[str, Slots]) -> View:
    """The view with these limits in its topology: a visit that waits in an accept queue has no worker, and needs
    nothing."""
    known = {server.name: server for server in view.topology.servers}
    found = {name: _of(view, known.get(name) or Server(name=name), slots.get(name)) for name in view.servers}
    servers = (*found.values(), *(server for name, server in known.items() if name not in found))
    return replace(view, topology=view.topology.model_copy(update={"servers": servers}))


def _of(view: View, server: Server, slots: Slots | None) -> Server:
    """A backlog from samples of the accept queue; workers from the calls that were open, from the rate at which they
    serve, or from those inside when attempts were lost. With workers from the rate, the others that were inside then
    are the backlog, because samples miss its peak."""
    backlog = server.backlog or _backlog(view, server.name)
    count = server.workers or workers_of(view, server.name)
    if not count and slots:
        count = slots.workers
        held = _held_at(view, server.name)
        backlog = server.backlog or max(held - count - 1, backlog)
    if not count and backlog and server.kind != "async":
        held = _held_at(view, server.name)
        # Where many more were inside at other times, it was no limit of the server that lost them.
        count = max(held - backlog - 1, 0) if held >= MOSTLY * view.stays[server.name].longest else 0
    return server.model_copy(update={"backlog": backlog or None, "workers": count or None})


def _held_at(view: View, server: str) -> int:
    """How many were inside when attempts were lost, in the middle; 0 where too few were lost."""
    lost = lost_at(view, server)
    return int(np.median(view.stays[server].queue(lost))) if len(lost) >= LEAST_LIMIT else 0


def _backlog(view: View, server: str) -> int:
    limit = view.series(server, "accept_queue_limit")
    if limit:
        return max(int(series.value.max(initial=0)) for series in limit)
    queue = view.series(server, "accept_queue")
    if not queue or not len(lost_at(view, server)):
        return 0
    return max(int(queue[0].value.max(initial=0)) - 1, 0)  # a backlog of n holds n + 1
