"""The ledger: an account that adds up, and a replay that leaves visits when they left."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import T0
from ledgers import charged, drawn_up
from systems import NX1, SYNC, Memory, Slow, system
from tailrace.diagnosis import ledger, tables, vlrt
from tailrace.diagnosis.constants import STEP_NS
from tailrace.diagnosis.ledger import (
    choices,
    groups,
    limits,
    places,
    portions,
    recorded,
    verdict,
    waits,
)
from tailrace.diagnosis.ledger.shares import at_most, needed, shapley
from tailrace.diagnosis.ledger.steps import Steps
from tailrace.diagnosis.ledger.trial import Removable
from tailrace.diagnosis.spans import spans

S, MS = 1_000_000_000, 1_000_000


@pytest.fixture(scope="module")
def stopped() -> Memory:
    """app stands still and uses no CPU, 4.0 to 4.6 s."""
    return system(Slow("app", 4.0, 4.6))


@pytest.mark.parametrize("tiers", [SYNC, NX1], ids=["synchronous", "asynchronous"])
def test_the_account_of_each_server_adds_up(tiers: tuple[object, ...]) -> None:
    _, _, found = drawn_up(system(Slow("app", 4.0, 4.6), tiers=tiers))
    for number, server in enumerate(found.recorded.servers):
        taken = sum((share for line, share in found.taken.items() if line[1] == server), np.zeros(1))
        assert np.allclose(np.clip(found.capacity[number] + taken, 0, 1), 1.0, atol=1e-3)
        assert all((share >= 0).all() and (share <= 1).all() for share in found.taken.values())


def test_the_replay_of_a_recording_is_the_recording(stopped: Memory) -> None:
    _, _, found = drawn_up(stopped)
    sent = found.recorded.sent
    departure = np.empty(len(sent), dtype=np.int64)
    found.replay.whole().run(found.capacity, sent.copy(), [], departure)
    slow = [(times - sent)[found.recorded.parent < 0] >= S for times in (departure, found.recorded.departure)]
    assert slow[0].sum() == pytest.approx(slow[1].sum(), rel=0.1)
    off = np.abs(departure - found.recorded.departure)[found.recorded.sent < 3 * S]
    assert np.median(off) < MS, "calm time comes out as it was"


def test_a_stop_is_charged_with_what_disappears_without_it(stopped: Memory) -> None:
    found = charged(stopped)
    assert found["freeze"] >= 0.9 * sum(found.values())


def test_the_process_that_took_the_cpu_is_charged() -> None:
    starved = system(Slow("app", 4.0, 4.8, speed=0.1, cpu=0.1))
    found = charged(starved.sample("neighbour", "cpu_busy", 0.02, (4.0, 4.8, 0.9)))
    assert max(found, key=lambda name: found[name]) == "neighbour"


def test_a_busy_disk_of_a_server_that_lost_nothing_is_not_charged(stopped: Memory) -> None:
    memory = system(Slow("app", 4.0, 4.6)).sample("db", "psi_io", 0.01, (4.0, 4.6, 0.9))
    found = charged(memory)
    assert found["freeze"] >= 0.9 * sum(found.values())


@pytest.mark.parametrize("calm_until", [None, 2, 14], ids=["between", "only before", "never, so all time counts"])
def test_what_began_a_lasting_overload_is_judged_for_its_later_episodes(calm_until: int | None) -> None:
    stalls = Slow("app", 2.0, 2.8, speed=0.1, cpu=0.1), Slow("app", 9.5, 10.2)
    seen, _, found = drawn_up(system(*stalls, seconds=14.0).sample("neighbour", "cpu_busy", 0.02, (2.0, 2.8, 0.9)))
    if calm_until is not None:
        seen = replace(seen, slow=replace(seen.slow, calm=spans([(T0, T0 + calm_until * S)])))
    later = [cluster for cluster in seen.slow.clusters if cluster.begin > T0 + 8 * S]
    with ThreadPoolExecutor(1) as replays:
        lines = verdict._Bench(seen, found, groups.together(seen.slow), replays).lines(later)
    assert later
    assert (("neighbour", "app") in lines) == (calm_until is not None)


def test_a_verdict_does_not_depend_on_the_number_of_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two causes, so several sets of causes are taken away from one group."""
    memory = system(Slow("app", 4.0, 4.6), Slow("db", 4.6, 5.2)).sample("neighbour", "cpu_busy", 0.02, (4.6, 5.2, 0.9))
    seen, _, _ = drawn_up(memory)
    found = []
    for cores in (1, 5):
        monkeypatch.setattr(verdict.os, "cpu_count", lambda cores=cores: cores)
        results = verdict.judge(seen.view, seen.slow)
        found.append([(one.replayed, one.shares, one.worse) for one in results if one is not None])
    assert found[0] == found[1]
    assert any(shares for _, shares, _ in found[0])


def test_a_long_recording_is_judged_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = system(Slow("app", 4.0, 4.8), Slow("app", 45.0, 45.8), seconds=55.0)
    seen = tables.look(memory, 50 * MS)
    slow = vlrt.find(seen, None)
    whole = ledger.judge(seen, slow)
    assert portions.portions(seen, slow) == [list(range(len(slow.clusters)))]
    for bound in ("VISITS", "CELLS"):
        monkeypatch.setattr(portions, bound, 1)
        some = portions.portions(seen, slow)
        assert len(some) > 1
        assert sorted(at for portion in some for at in portion) == list(range(len(slow.clusters)))
        for one, other in zip(whole, ledger.judge(seen, slow), strict=True):
            assert one is not None
            assert other is not None
            assert [share.cause for share in one.shares] == [share.cause for share in other.shares]
        monkeypatch.undo()


def test_nothing_is_replayed_without_very_slow_requests() -> None:
    seen = tables.look(system(), 50 * MS)
    assert ledger.judge(seen, vlrt.find(seen, None)) == ()


@given(st.lists(st.integers(0, 100), min_size=16, max_size=16))
def test_shares_add_up_to_what_disappears_without_all(values: list[int]) -> None:
    """Of any four causes (Shapley 1953: efficiency)."""
    players = list("abcd")
    subsets = [frozenset(gone) for size in range(5) for gone in combinations(players, size)]
    left = dict(zip(subsets, values, strict=True))
    found = shapley(players, left.__getitem__)
    assert sum(found.values()) == pytest.approx(left[frozenset()] - left[frozenset(players)])


def test_a_line_that_changes_nothing_has_no_share() -> None:
    found = shapley(["a", "b"], lambda gone: 10 - 10 * ("a" in gone))
    assert found == {"a": 10, "b": 0}


def test_a_cause_is_charged_with_no_more_than_its_removal_removes() -> None:
    """Without b, which is charged with nothing, more requests are very slow. Only these would go with a."""
    left = {"": 20, "a": 19, "b": 64, "ab": 5}

    def of(gone: frozenset[str]) -> int:
        return left["".join(sorted(gone))]

    worth = shapley(["a", "b"], of)
    assert (worth["a"], worth["b"]) == (30.0, -15.0)
    assert at_most(worth, of) == {"a": 1.0}


def test_limited_shares_keep_their_order() -> None:
    names = list("fbcdae")
    assert list(at_most(dict.fromkeys(names, 1.0), lambda gone: 0 if gone else 10)) == names


def test_causes_none_of_which_is_enough_alone_keep_their_shares() -> None:
    worth = shapley(["a", "b"], lambda gone: 0 if gone else 10)
    assert at_most(worth, lambda gone: 0 if gone else 10) == {"a": 5.0, "b": 5.0}
    worth = shapley(["a", "b"], lambda gone: 0 if len(gone) == 2 else 10)
    assert at_most(worth, lambda gone: 0 if len(gone) == 2 else 10) == {"a": 5.0, "b": 5.0}


@pytest.mark.parametrize(
    ("enough", "wanted"),
    [
        ([{"a"}], ["a"]),  # b, which removes a fifth alone, was made by a
        ([{"a"}, {"b"}], ["a", "b"]),  # neither would have been harmful without the other
        ([{"a", "b"}], ["a", "b"]),  # each is enough to cause it
    ],
)
def test_a_cause_that_adds_nothing_is_not_needed(enough: list[set[str]], wanted: list[str]) -> None:
    def left(gone: frozenset[str]) -> int:
        return 0 if any(one <= gone for one in enough) else 100 - 20 * ("b" in gone)

    assert needed(["a", "b"], left, 2.0) == wanted


def test_time_stands_still_between_stretches() -> None:
    steps = Steps.of(spans([(T0, T0 + 2 * STEP_NS), (T0 + 10 * S, T0 + 10 * S + 3 * STEP_NS)]))
    assert len(steps) == 5
    moments = np.array([T0 - S, T0 + STEP_NS, T0 + 5 * S, T0 + 10 * S + STEP_NS])
    assert steps.shortened(moments).tolist() == [0, STEP_NS, 2 * STEP_NS, 3 * STEP_NS]
    half = spans([(T0 + STEP_NS // 2, T0 + STEP_NS)])
    assert steps.covered(half).tolist() == [0.5, 0, 0, 0, 0]


def called(sent: list[int], departure: list[int]) -> recorded.Recorded:
    """Four visits that begin at 0 and call a server in turn, with a pool."""
    n = len(sent)
    zero, none = np.zeros(n, dtype=np.int64), np.full(2 * n, -1, dtype=np.int64)
    start = np.concatenate((zero, np.array(sent))) * MS
    server = np.repeat([0, 1], n).astype(np.uint32)
    parent = np.concatenate((none[:n], np.arange(n)))
    end = np.concatenate((np.array(departure) + 1, np.array(departure))) * MS
    flags = np.zeros(2 * n, dtype=np.uint8)
    steps = Steps.of(spans([(T0, T0 + S)]))
    ids, known = np.arange(2 * n).astype(np.uint64), np.zeros(2, dtype=np.uint32)
    names = recorded.Names(np.array([""]), np.zeros(2 * n, dtype=np.uint32))
    return recorded.Recorded(
        *(
            steps,
            ("app", "db"),
            server,
            parent,
            np.where(parent < 0, -1, 0),
            start,
            start,
            start,
            end,
            server,
            2,
            names,
            ids,
            flags,
            flags,
            none,
            none,
            (S,),
        ),
        workers=known,
        bytes=np.zeros(2 * n, dtype=np.uint64),
        failed=np.zeros(2 * n, dtype=bool),
        taken=np.full(2 * n, recorded.NEVER),
        like=none,
        gives_up=np.full(2 * n, recorded.NEVER),
        again=flags,
        locked=flags.astype(bool),
    )


def test_calls_wait_for_a_connection_since_none_was_free() -> None:
    found = called([0, 0, 20, 24], [20, 24, 40, 44])
    pools = limits.Pools((2,), np.repeat([recorded.NONE, 0], 4).astype(np.uint32), {("app", "db"): 0})
    none = choices.Choices(np.full(8, recorded.NONE, dtype=np.uint32), (), (), ())
    waited = waits.find(found, pools, none)
    assert waited.ready.tolist()[6:] == [0, 0], "both connections were in use from 0 on"
    assert (waited.held == recorded.NONE).all(), "they wait in line"


def test_a_visit_waits_for_a_connection_that_another_keeps_until_its_end() -> None:
    found = called([0, 55, 40, 100], [10, 65, 50, 110])
    found.parent[6:] = [0, 1]
    found.departure[:2] = [55 * MS, 115 * MS]
    pools = limits.Pools((1,), np.repeat([recorded.NONE, 0], 4).astype(np.uint32), {("app", "db"): 0})
    none = choices.Choices(np.full(8, recorded.NONE, dtype=np.uint32), (), (), ())
    waited = waits.find(found, pools, none)
    assert (found.sent - waited.ready).tolist()[4:] == [0, 55 * MS, 0, 0]


def test_a_call_by_another_way_waited_for_the_pool_that_was_full() -> None:
    found = called([0, 0, 60, 64], [50, 50, 70, 74])
    found.server[6:] = 2
    pools = limits.Pools((2, 2), np.array([recorded.NONE] * 4 + [0, 0, 1, 1], dtype=np.uint32), {})
    choice = np.array([recorded.NONE] * 4 + [0] * 4, dtype=np.uint32)
    waited = waits.find(found, pools, choices.Choices(choice, ("app",), ("app to db",), (((1, 0), (2, 1)),)))
    assert waited.ready.tolist()[6:] == [0, 0]
    assert waited.held.tolist()[6:] == [0, 0]


def test_a_visit_that_waits_for_a_connection_does_not_take_long_by_itself() -> None:
    found = called([0, 0, 20, 24], [20, 24, 40, 44])
    since = np.where(found.parent >= 0, 0, found.sent)
    in_calls, _ = places._calls(found, since)
    assert in_calls[:4].tolist() == [20 * MS, 24 * MS, 40 * MS, 44 * MS]


def test_a_request_that_is_inside_when_a_trial_begins_exists_there() -> None:
    seen, _, found = drawn_up(system(Slow("app", 4.0, 5.4)))
    begin = 4 * S + 100 * MS
    visits = Removable.of(seen, found).between(begin, 8 * S).visits
    sent = found.recorded.sent_by_client[visits]
    before = visits[sent < begin]
    assert len(before) > 0
    assert (found.recorded.departure[found.recorded.root[before]] > begin + S).all()


def test_while_a_pause_stops_a_server_a_neighbour_takes_nothing_from_it() -> None:
    """What the neighbour left would be enough for so few requests."""
    paused = system(Slow("app", 4.0, 5.6, cpu=0.8), rate=100).event("app", "gc", 4.0, 5.6)
    beside = paused.sample("neighbour", "cpu_busy", 0.0, (4.0, 5.6, 0.2))
    assert charged(beside.sample("app", "tasks_runnable", 0.0, (4.0, 5.6, 3.0))).keys() == {"garbage-collection"}


@pytest.mark.parametrize("metric", ["psi_memory", "psi_io", "cpu_throttled"])
def test_what_always_takes_all_of_the_time_takes_nothing_beyond_that(metric: str) -> None:
    stopped = system(Slow("app", 4.0, 4.6))
    assert charged(stopped.sample("app", metric, 1.0)).keys() == {"freeze"}
    assert charged(stopped.sample("app", metric, 0.995, (4.0, 4.6, 1.0))).keys() == {"freeze"}
