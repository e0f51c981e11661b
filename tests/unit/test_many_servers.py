"""Systems of many servers: what the steps look at is what lies near the very slow requests, along the calls."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from systems import Slow, system
from tailrace.diagnosis import diagnose, episodes, overflow
from tailrace.diagnosis.callers import Callers
from tailrace.diagnosis.ledger import recorded
from tailrace.diagnosis.queues import NOBODY, Crowds, Stays, together
from tailrace.diagnosis.tables import look

MS = 1_000_000


def test_a_call_graph_is_walked_along_the_calls() -> None:
    graph = Callers("abcde", {"a": ["b", "a"], "b": ["c"], "d": ["c"]})
    assert (graph.of("c"), graph.called_by("a")) == (("b", "d"), ("b",))
    assert (graph.below("a"), graph.above("c"), graph.above("e")) == ({"b", "c"}, {"a", "b", "d"}, set())
    assert graph.depth == {"a": 1, "b": 2, "c": 3, "d": 1, "e": 1}


@pytest.mark.parametrize("size", [2, 20_000])
def test_a_cycle_counts_once(size: int) -> None:
    """Walking each way through it would take a time that grows with the square of its size."""
    names = [f"s{i:05}" for i in range(size)]
    calls = {a: [b] for a, b in zip(names, [*names[1:], names[0]], strict=True)}
    depth = Callers(["first", *names], {"first": names[:1], **calls}).depth
    assert (depth["first"], depth["s00000"], depth[names[-1]]) == (1, 2, size + 1)


def drawn(seed: int) -> Stays:
    draw = Random(seed)
    arrivals = [draw.randrange(60) for _ in range(draw.randrange(12))]
    return Stays.of(np.array(arrivals, np.int64), np.array([a + draw.randrange(1, 9) for a in arrivals], np.int64))


@pytest.mark.parametrize("seed", range(40))
def test_a_server_is_crowded_while_two_are_inside(seed: int) -> None:
    stays = {name: drawn(seed * 10 + i) for i, name in enumerate("abc")}
    crowds = Crowds.of({**stays, "nobody": NOBODY})
    for begin in range(0, 70, 3):
        span = np.arange(begin, begin + 5)
        crowded = {name for name, one in stays.items() if (one.queue(span) >= 2).any()}
        # At its end a stretch is still seen, which does no harm.
        seen = crowds.during(begin, begin + 4)
        before = {name for name, one in stays.items() if begin and (one.queue(span - 1) >= 2).any()}
        assert crowded <= set(seen) <= crowded | before
    assert crowds.during(200, 300) == []


def test_all_calls_together_are_the_sum_of_them() -> None:
    times = np.arange(70, dtype=np.int64)
    parts = [drawn(seed) for seed in range(5)]
    assert (together(parts).queue(times) == sum(part.queue(times) for part in parts)).all()
    assert together([]) is NOBODY


SLOW = Slow("app", 4.0, 4.9)


def test_servers_with_one_request_at_most_are_not_followed() -> None:
    seen = look(system(SLOW), 50 * MS)
    idle = {f"idle{i}": Stays.of(seen.sent[i : i + 1], seen.sent[i : i + 1] + MS) for i in range(50)}
    crowds = Crowds.of({**seen.stays, **idle})
    assert {"web", "app"} <= set(crowds.during(seen.begin, seen.end)) <= set(seen.stays)


def test_of_many_servers_those_that_call_each_other_are_followed_first(monkeypatch: pytest.MonkeyPatch) -> None:
    [whole] = diagnose(system(SLOW)).episodes
    monkeypatch.setattr(overflow, "FOLLOWED", 2)
    monkeypatch.setattr(episodes, "FOLLOWED", 1)
    [bounded] = diagnose(system(SLOW)).episodes
    assert (bounded.dropper, bounded.origin, bounded.cause) == (whole.dropper, whole.origin, whole.cause)


def test_an_account_without_room_in_memory_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    [whole] = diagnose(system(SLOW)).episodes
    monkeypatch.setattr(recorded, "CELLS", 10)
    [bounded] = diagnose(system(SLOW)).episodes
    assert (whole.ledger is None, bounded.ledger) == (False, None)
    assert (bounded.origin, bounded.cause) == (whole.origin, "unknown"), "no cause is claimed without a replay"
