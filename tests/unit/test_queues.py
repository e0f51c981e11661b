"""Which queue rose, when, and which servers only waited: the rules of `diagnosis.queues` and `diagnosis.overflow`."""

from __future__ import annotations

import numpy as np
import pytest

from systems import NX1, NX3, Slow, Tier, at, system
from tailrace.diagnosis import diagnose
from tailrace.diagnosis.overflow import main_rise
from tailrace.diagnosis.queues import is_more, rises
from tailrace.diagnosis.tables import look
from tailrace.diagnosis.waiting import Level

MS = 1_000_000


def rise_begins(queue: list[int]) -> list[int]:
    """In steps of 5 ms, for a queue that is usually 2 long and seldom 6."""
    times = np.arange(len(queue), dtype=np.int64) * 5 * MS
    found = rises(times, np.array(queue), typical=2.0, high=6.0, gap=100 * MS)
    return [rise.begin // (5 * MS) for rise in found]


CLIMB = [10, 20, 40, 80, 60, 30, 1]


@pytest.mark.parametrize(
    ("queue", "begins"),
    [
        ([1, 1, *CLIMB], [1]),
        # Its change within 50 ms before it passed its high level belongs to the rise …
        ([1, 4, 5, *CLIMB], [0]),
        # … but earlier changes do not.
        ([*[5] * 20, *CLIMB], [10]),
        # A wiggle before is not the rise …
        ([1, 9, 8, 1, 1, *CLIMB], [4]),
        # … and one on the way does not start it again, although the queue was short for a moment.
        ([1, *CLIMB[:3], 5, 8, *CLIMB], [0]),
        ([1, *CLIMB, *[1] * 30, *CLIMB], [0, 37]),
    ],
)
def test_a_rise_begins_where_the_queue_was_last_as_usual(queue: list[int], begins: list[int]) -> None:
    assert rise_begins(queue) == begins


def test_a_request_whose_downstream_packet_was_lost_waits_downstream() -> None:
    seen = look(system(Slow("app", 4.0, 4.5), tiers=NX1), 50 * MS)
    assert seen.stays["web"].queue(np.array([at(4.9)]))[0] > 50
    assert seen.own_queue("web", np.array([at(4.9)]))[0] < 5


def test_a_batch_that_overflows_the_first_server_was_not_pushed_back_to_it() -> None:
    """app and db also fill up, and for longer than web, but web dropped before they could show it."""
    found = diagnose(system(bursts=((4.0, 4.02, 20_000),)))
    assert {(e.dropper, e.origin, e.cause) for e in found.episodes} == {("web", "web", "workload-burst")}


def test_one_request_that_waited_through_a_stall_is_enough_to_see_it() -> None:
    """The next ones come later than a queue usually takes to rise."""
    found = diagnose(system(Slow("app", 4.0, 5.0), tiers=NX3, rate=12))
    assert [(e.vlrt, e.origin, e.cause) for e in found.episodes] == [(1, "app", "freeze")]


@pytest.mark.parametrize("pool", [5, 10, 20])
def test_a_server_that_only_waits_downstream_did_not_stall(pool: int) -> None:
    """app stands still with no more inside than usual, because web's pool is used up; web uses no CPU and fills."""
    tiers = (Tier("web", 0.2, ("app",), 200, 100, pool=pool), Tier("app", 1.2, ("db",), 80, 128), Tier("db", 0.3))
    found = diagnose(system(Slow("app", 4.0, 4.5), tiers=tiers, rate=600))
    assert {(e.dropper, e.origin, e.cause) for e in found.episodes} == {("web", "app", "freeze")}


def test_a_stopped_thread_waits_behind_no_other() -> None:
    tiers = (Tier("web", 0.2, ("app",), 200, 100, pool=20), Tier("app", 1.2, ("db",), 80, 128), Tier("db", 0.3))
    found = diagnose(system(Slow("web", 4.0, 4.9), tiers=tiers, rate=600))
    assert {(e.dropper, e.origin, e.cause) for e in found.episodes} == {("web", "web", "freeze")}


def test_simultaneous_repetitions_are_not_the_cause_of_their_loss() -> None:
    """Of 600 requests at once 150 were lost when the queue was 160 long; a second later it is 350 long with them."""
    queue = np.array([0] * 10 + [160] * 10 + [0] * 180 + [350] * 90 + [0] * 10)
    times = np.arange(len(queue), dtype=np.int64) * 5 * MS
    rise = main_rise(times, queue, Level(0.0, 2.0), (0, int(times[-1])), lost=60 * MS)
    assert rise is not None
    assert (rise.begin, rise.peak) == (45 * MS, 160)
    waited = main_rise(times, queue, Level(0.0, 2.0), (0, int(times[-1])), lost=None)
    assert waited is not None
    assert waited.peak == 350


def test_more_than_usual_is_half_more_and_no_chance() -> None:
    assert not is_more(140, 100)
    assert is_more(151, 100)
    assert not is_more(13, 5)
    assert not is_more(60, 36)
    assert is_more(61, 36)
