"""This module decides when a slow server accepts connections.

A server accepts connections with a thread of its own or with its event loop. While the server is slow, that thread
waits for the CPU as all others do, so the accept queue can overflow although the server still answers some visits. In
other servers, the thread that accepts goes first, and they accept nothing only while they stand still. The recording
decides: a server's acceptor starves if the replay then agrees with the recording about more of the very slow
requests."""

from __future__ import annotations

from tailrace.diagnosis.ledger.losses import Seen
from tailrace.diagnosis.ledger.trial import Removable
from tailrace.diagnosis.ledger.workers import lost_at
from tailrace.diagnosis.queues import LEAST_LIMIT

STARVES = 0.25
"""An acceptor that starves accepts nothing while its server has less than a quarter of its speed. Half of the speed
gives the same results, because a stall rarely leaves more than a tenth."""


def decide(seen: Seen, removable: Removable) -> None:
    """Let the acceptor of each server starve for which that reproduces the recording better. Only servers with a known
    backlog and with lost attempts are tried."""
    recorded, replay = removable.account.recorded, removable.account.replay
    servers = [number for number, name in enumerate(recorded.servers) if _may_starve(seen, name)]
    if not servers:
        return
    slow = recorded.asked & (recorded.departure - recorded.sent >= seen.slow.threshold_ns)

    def apart() -> int:
        return int((removable.whole().slow(frozenset()) != slow).sum())

    fewest = apart()
    for server in servers:
        replay.accept_above(server, STARVES)
        now = apart()
        if now >= fewest:
            replay.accept_above(server, 0.0)
        fewest = min(now, fewest)


def _may_starve(seen: Seen, name: str) -> bool:
    known = seen.view.topology.server(name)
    return known is not None and known.backlog is not None and len(lost_at(seen.view, name)) >= LEAST_LIMIT
