"""The replay's service disciplines: an event loop serves its visits in turn, another server serves all at once."""

from __future__ import annotations

import numpy as np
import pytest

from tailrace._core import Replay
from tailrace.units import MILLISECOND

BATCHES, APART = 40, 20
NONE = 2**32 - 1


def pairs(servers: int = 1) -> Replay:
    """Two visits come at once every 20 ms to the first server, which may be an event loop. They leave after 5 and 10
    ms."""
    come = np.repeat(np.arange(BATCHES) * APART, 2) * MILLISECOND
    leave = come + np.tile([5, 10], BATCHES) * MILLISECOND
    size = len(come)
    columns = dict.fromkeys(("sent", "arrival", "start", "ready"), come)
    columns |= {"departure": leave, "patience": np.zeros(size, np.int64), "gives_up": np.full(size, 2**63 - 1)}
    columns |= {name: np.full(size, -1) for name in ("parent", "follows", "repeats", "like")}
    columns |= {name: np.zeros(size, np.uint32) for name in ("server", "group")}
    columns |= {name: np.full(size, NONE, np.uint32) for name in ("pool", "held", "choice")}
    limits: dict[str, np.ndarray] = {name: np.zeros(servers, np.uint32) for name in ("workers", "accept", "inside")}
    limits |= {"cores": np.ones(servers), "may_turn": np.ones(servers, np.uint8), "loops": np.zeros(servers, np.uint8)}
    return Replay(
        columns | {"may_drop": np.zeros(size, np.uint8), "bytes": np.zeros(size, np.uint64)},
        limits,
        groups=1,
        begin=0,
        step=10 * MILLISECOND,
        steps=BATCHES * APART // 10,
        schedule=[],
        pools=[],
        choices=[],
    )


def works(replay: Replay) -> list[float]:
    """What the first two visits needed, in ms."""
    replay.measure(np.ones(BATCHES * APART // 10))
    before, whole = (np.empty(2 * BATCHES) for _ in range(2))
    replay.works(before, whole)
    return [float(work) / MILLISECOND for work in whole[:2]]


def test_an_event_loop_that_was_found_once_is_one_in_another_replay_of_the_servers() -> None:
    found = pairs()
    assert works(found) == pytest.approx([2.5, 7.5])
    found.take_turns()
    assert works(found) == pytest.approx([5.0, 5.0])
    again = pairs()
    again.serve_as(found)
    assert works(again) == pytest.approx([5.0, 5.0])


def test_a_replay_of_other_servers_is_refused() -> None:
    with pytest.raises(ValueError, match="other servers"):
        pairs().serve_as(pairs(servers=2))
