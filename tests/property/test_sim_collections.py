"""Collections: the length of one by arithmetic, in a server that is stopped, slowed, or shares its cores."""

from __future__ import annotations

from pathlib import Path

import pytest

from plans import MS, Plan, S, changed, run, server, station, system, trace

COST = 40 * MS


def collecting(times: list[int], *, cores: float = 1.0, threads: float = 1.0) -> Plan:
    """A server of requests of 1 ms, each of which fills the heap: a collection of 40 ms comes before its work."""
    plan = station({"constant": 1e6}, trace(times), duration=3 * S, cores=cores)
    plan["servers"][0]["heap"] = {
        "young_bytes": 1.0,
        "bytes_per_visit": 1.0,
        "threads": threads,
        "young": {"base": COST, "per_live": 0},
    }
    return plan


def stalled(plan: Plan, *stalls: tuple[int, int, Plan]) -> Plan:
    told = [{"begin": begin * MS, "end": end * MS, "kind": "k", "effect": effect} for begin, end, effect in stalls]
    return changed(plan, stalls=told)


def ms(times: list[int]) -> list[float]:
    """Ends of jobs are rounded up to whole ns."""
    return [round(time / MS, 4) for time in times]


def collected(plan: Plan, folder: Path) -> tuple[list[list[float]], list[float]]:
    """Begin and end of each collection from the truth and the events, and when requests are answered; ms."""
    seen = run(plan, folder)
    told = [s for s in seen.report["stalls"] if s["kind"] == "garbage-collection"]
    truth = [ms([s["begin"], s["end"]]) for s in told]
    gc = seen.events.filter(seen.events["kind"] == "gc").sort("begin")
    assert truth == [ms([begin, end]) for begin, end in gc.select("begin", "end").iter_rows()]
    return truth, ms(sorted(seen.requests["end"].to_list()))


FREEZE = {"freeze": {"group": 0}}
HALF = {"slow": {"group": 0, "left": 0.5}}


@pytest.mark.parametrize(
    ("stalls", "ends"),
    [
        ([], 1040.0),
        ([(1010, 1110, FREEZE)], 1140.0),
        ([(900, 1200, HALF)], 1080.0),
        # 10 ms of work, 30 ms at half the speed.
        ([(1010, 1200, HALF)], 1070.0),
        # 10 ms, of which half was done at the freeze; the rest once it and the slowness are over.
        ([(1000, 1010, HALF), (1010, 1100, FREEZE)], 1135.0),
        ([(1000, 2000, {"iowait": {"node": 0, "blocks": 0.6}})], 1100.0),
        ([(1010, 1020, {"iowait": {"node": 0, "blocks": 1.0}})], 1050.0),
    ],
    ids=["alone", "freeze", "slow", "slow later", "slow, then freeze", "iowait", "all iowait"],
)
def test_what_holds_a_server_up_holds_its_collections_up(
    stalls: list[tuple[int, int, Plan]], ends: float, tmp_path: Path
) -> None:
    plan = stalled(collecting([S]), *stalls)
    left = 0.5 if stalls and stalls[-1][1] == 1200 else 0.4 if stalls and stalls[-1][1] == 2000 else 1.0
    assert collected(plan, tmp_path) == ([[1000.0, ends]], [ends + 1 / left])


@pytest.mark.parametrize(
    ("cores", "threads", "virtual", "took"),
    [
        (1.0, 1.0, 1.0, 40.0),
        (1.0, 1.0, 0.5, 80.0),
        (4.0, 1.0, 4.0, 40.0),
        (4.0, 2.0, 4.0, 20.0),
        (4.0, 8.0, 4.0, 10.0),
        (4.0, 8.0, 2.0, 20.0),
        (4.0, 0.5, 4.0, 80.0),
    ],
)
def test_collector_threads_use_as_many_cores_as_the_server_has(
    cores: float, threads: float, virtual: float, took: float, tmp_path: Path
) -> None:
    plan = collecting([S], cores=cores, threads=threads)
    plan["groups"][0]["cores"] = virtual
    after = 1.0 / min(virtual, 1.0)
    assert collected(plan, tmp_path) == ([[1000.0, 1000 + took]], [1000 + took + after])


def test_a_quota_is_what_its_collections_get(tmp_path: Path) -> None:
    """20 ms of each 100 ms: 20 ms of the collection in the first, 20 ms in the second, the request in the third."""
    plan = collecting([S])
    plan["groups"][0]["quota"] = {"quota": 20 * MS, "period": 100 * MS}
    assert collected(plan, tmp_path) == ([[1000.0, 1120.0]], [1201.0])


def test_two_collector_threads_use_a_quota_up_in_half_the_time(tmp_path: Path) -> None:
    """20 ms are used up after 10 ms."""
    plan = collecting([S], cores=2.0, threads=2.0)
    plan["groups"][0]["quota"] = {"quota": 20 * MS, "period": 100 * MS}
    assert collected(plan, tmp_path)[0] == [[1000.0, 1110.0]]


def test_half_the_clock_rate_is_twice_the_time(tmp_path: Path) -> None:
    plan = collecting([S])
    plan["nodes"][0]["governor"] = {"period": 500 * MS, "hz": [1e9, 2e9], "up": 2.0, "down": 0.0}
    assert collected(plan, tmp_path) == ([[1000.0, 1080.0]], [1082.0])


def test_neighbours_get_their_share_of_a_collection_s_cores(tmp_path: Path) -> None:
    """Weight 3 against 1 on one core: a quarter is left."""
    plan = collecting([S])
    plan["groups"].append({"name": "neighbour", "node": 0, "cores": 1.0, "weight": 3.0})
    burns = {"burn": {"group": 1, "threads": 2}}
    assert collected(stalled(plan, (900, 2000, burns)), tmp_path) == ([[1000.0, 1160.0]], [1164.0])


def test_a_heap_that_fills_in_a_freeze_is_collected_afterwards(tmp_path: Path) -> None:
    """On a kept connection: a worker takes it, and nothing runs before 1200 ms."""
    plan = collecting([S])
    plan["workloads"][0]["kept"] = True
    assert collected(stalled(plan, (900, 1200, FREEZE)), tmp_path) == ([[1200.0, 1240.0]], [1241.0])


def test_work_under_way_goes_on_where_the_collection_stopped_it(tmp_path: Path) -> None:
    """The first has 100 ms of work and 50 ms of them done when the second fills the heap; then they share the core."""
    plan = collecting([S, S + 50 * MS])
    plan["programs"][0] = [{"compute": {"constant": 100e6}}]
    plan["servers"][0]["heap"] |= {"young_bytes": 2.0}
    # 50 ms left of one, 100 ms of the other, from 1090 ms on.
    assert collected(plan, tmp_path) == ([[1050.0, 1090.0]], [1190.0, 1240.0])


def test_a_collection_takes_what_inflation_takes_from_others_for_itself(tmp_path: Path) -> None:
    """Nine threads run, of which four are free; the collector's is one of one."""
    times = [S] * 9
    plan = collecting(times)
    plan["servers"][0]["heap"] |= {"young_bytes": 9.0}
    plan["groups"][0]["inflation"] = {"free": 4.0, "slope": 0.1, "power": 1.0}
    # 9 ms of work, one and a half times as much.
    assert collected(plan, tmp_path) == ([[1000.0, 1040.0]], [1053.5] * 9)


@pytest.mark.parametrize("frozen", [0, 1])
def test_collections_of_servers_that_share_a_node_share_its_cores(frozen: int, tmp_path: Path) -> None:
    """Two at once on one core take 80 ms each. The first, frozen for 10 ms, has 30 ms of its work done when the second
    has all, whose request of 1 ms it then shares the core with."""
    heap = {"young_bytes": 1.0, "bytes_per_visit": 1.0, "threads": 1.0, "young": {"base": COST, "per_live": 0}}
    plan = system(
        [server("a", heap=heap), server("b", heap=heap)],
        [[]],
        trace([S]),
        trace([S], entries=[1]),
        duration=3 * S,
    )
    plan["groups"][1]["node"] = 0
    plan["programs"][0] = [{"compute": {"constant": 1e6}}]
    if frozen:
        plan = stalled(plan, (1000, 1010, FREEZE))
    expected = [[1000.0, 1070.0], [1010.0, 1081.0]] if frozen else [[1000.0, 1080.0]] * 2
    assert sorted(collected(plan, tmp_path)[0]) == expected


def test_the_share_of_time_in_collections_is_that_of_the_pauses(tmp_path: Path) -> None:
    """40 ms of work at half the speed are 80 ms of the 100 ms from 1000 ms on; its CPU is busy for as long."""
    plan = changed(stalled(collecting([S]), (900, 2000, HALF)), sample=100 * MS)
    samples = run(plan, tmp_path).samples
    here = samples.filter((samples["time"] == 1100 * MS) & (samples["place"] == "station"))
    seen = dict(here.select("metric", "value").iter_rows())
    assert seen["gc_share"] == pytest.approx(0.8, abs=1e-6)
    assert seen["cpu_busy"] == pytest.approx(0.82, abs=1e-6)
