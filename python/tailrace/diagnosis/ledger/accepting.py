"""This module decides when a slow server accepts connections.

A server accepts connections with a thread of its own or with its event loop. While the server is slow, that thread
waits for the CPU as all others do, so the accept queue can overflow although the server still answers some visits. In
other servers, the thread that accepts goes first, and they accept nothing only while they stand still. The recording
decides: a server's acceptor starves if the replay then agrees with the recording about more of the very slow
requests.

A burst of connections can overflow the accept queue of a server that is as fast as usual. Each accepted connection gets
a thread, and the thread that accepts has its next turn when each of these has run for a while. The recording decides
again: how long each of them runs is what reproduces the numbers of very slow requests best."""

from __future__ import annotations

from math import log

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.constants import HARDLY_ANY, LEAST_LIMIT
from tailrace.diagnosis.ledger.losses import Seen
from tailrace.diagnosis.ledger.reproduced import TOLERATED, is_reproduced
from tailrace.diagnosis.ledger.trial import Removable
from tailrace.diagnosis.ledger.workers import lost_at

SLICES_NS = (10_000, 30_000, 100_000, 300_000)
"""So long each thread can run before the acceptor's next turn: between the cost of a switch of threads and the work of
a short request. Longer ones give the same results as the last, because short requests end before."""


def decide(seen: Seen, removable: Removable, owner: NDArray[np.int64], counts: list[int]) -> None:
    """Let the acceptor of each server starve, or take turns, for which that reproduces the recording better. Only
    servers with a known backlog and with lost attempts are tried. `owner` is the group of episodes of each visit, or
    -1, and `counts` are the very slow requests of each group."""
    recorded = removable.account.recorded
    servers = [number for number, name in enumerate(recorded.servers) if _may_starve(seen, name)]
    if servers:
        _starves(seen, removable, servers)
        _takes_turns(removable, servers, owner, counts)


def _starves(seen: Seen, removable: Removable, servers: list[int]) -> None:
    """An acceptor that starves accepts nothing while its server has less than a tenth of its speed: most stalls leave
    less than that."""
    recorded, replay = removable.account.recorded, removable.account.replay
    slow = recorded.asked & (recorded.back - recorded.sent >= seen.slow.threshold_ns)

    def apart() -> int:
        return int((removable.whole().slow(frozenset()) != slow).sum())

    fewest = apart()
    for server in servers:
        replay.accept_above(server, HARDLY_ANY)
        now = apart()
        if now >= fewest:
            replay.accept_above(server, 0.0)
        fewest = min(now, fewest)


def _takes_turns(removable: Removable, servers: list[int], owner: NDArray[np.int64], counts: list[int]) -> None:
    """Try slices if the replay is no model of some group yet. Chance decides which requests of a burst are lost, so the
    ratio of the numbers is compared for each group."""
    replay = removable.account.replay

    def replayed() -> list[int]:
        again = removable.whole().slow(frozenset())
        found: list[int] = np.bincount(owner[again & (owner >= 0)], minlength=len(counts)).tolist()
        return found

    def apart(found: list[int]) -> float:
        both = zip(counts, found, strict=True)
        return sum(one * abs(log((other + TOLERATED) / (one + TOLERATED))) for one, other in both)

    found = replayed()
    if all(map(is_reproduced, counts, found)):
        return
    fewest = apart(found)
    for server in servers:
        best = 0
        for slice_ns in SLICES_NS:
            replay.accept_in_turn(server, slice_ns)
            if (now := apart(replayed())) < fewest:
                fewest, best = now, slice_ns
        replay.accept_in_turn(server, best)


def _may_starve(seen: Seen, name: str) -> bool:
    known = seen.view.topology.server(name)
    return known is not None and known.backlog is not None and len(lost_at(seen.view, name)) >= LEAST_LIMIT
