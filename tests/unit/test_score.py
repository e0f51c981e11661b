"""The examiner: whom it blames, and what it counts."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tailrace import sim
from tailrace.dataset import Dataset
from tailrace.diagnosis import diagnose
from tailrace.diagnosis.serialise import as_dict
from tailrace.errors import InputError
from tailrace.experiment import Experiment, from_table
from tailrace.score import Score, blame, read, read_diagnosis, record, score, sweep
from tailrace.score.blame import Blame
from tailrace.score.busy import STEP_NS, Record, elevated
from tailrace.score.comparing import compare
from tailrace.score.drawing import draw
from tailrace.units import SECOND

ROOT = Path(__file__).parents[2]


def chain(**more: Any) -> dict[str, Any]:
    """web → app → db at 250 requests a second, 50 threads and places before the first drop."""
    return {
        "duration": "20 s",
        "ramp": "2 s",
        "tiers": {
            "web": {"workers": 30, "backlog": 20, "calls": ["app"]},
            "app": {"workers": 60, "calls": ["db"]},
            "db": {"workers": 60},
        },
        "interactions": {
            "page": {"at": {"web": {"compute": "0.5 ms", "calls": {"servlet": 1}}}},
            "servlet": {"at": {"app": {"compute": "1 ms", "calls": {"query": 2}}}},
            "query": {"at": {"db": {"compute": "0.5 ms"}}},
        },
        "workloads": {"users": {"kind": "poisson", "rate": 250, "interaction": "page"}},
        **more,
    }


def made(folder: Path, **more: Any) -> Dataset:
    sim.simulate(from_table(chain(**more)), folder / "run")
    return Dataset.open(folder / "run")


def slow_of(table: dict[str, Any], folder: Path) -> int:
    """How many requests take a second."""
    sim.simulate(from_table(table), folder)
    return Dataset.open(folder).requests().filter(pl.col("end") - pl.col("sent") >= SECOND).collect().height


FREEZE = {"kind": "freeze", "place": "db", "at": "6 s", "for": "500 ms"}
LATER = {"kind": "freeze", "place": "app", "at": "13 s", "for": "500 ms"}


def test_a_lost_packet_belongs_to_the_stall_that_filled_the_queue(tmp_path: Path) -> None:
    run = made(tmp_path, stalls=[FREEZE, LATER])
    stalls = read(run.path, run.topology)
    found = blame(record(run), stalls, SECOND)
    assert len(found) > 100
    for request in found:
        assert request.droppers == {"web"}
        [stall] = request.stalls
        assert stall.begin <= request.sent <= stall.end + SECOND // 2
    assert {origin for request in found for origin in request.stalls[0].origins} == {"db", "app"}


def test_what_comes_back_when_nobody_sends_any_more_does_not_make_a_queue_busy_before() -> None:
    """A server that usually holds 20, a stall, and a minute of packets that come back one by one."""
    queue = np.array([20] * 100 + [90] * 10 + [20] * 90 + [1] * 400)
    times = np.arange(len(queue), dtype=np.int64) * STEP_NS
    assert elevated(times, queue, usual=200) == ((99 * STEP_NS, 110 * STEP_NS),)


def test_a_server_that_loses_packets_is_busy_however_short_its_queue() -> None:
    """A server that stands still accepts nobody: behind a short backlog its queue grows by no more than that."""
    queue = np.array([8] * 50 + [14] * 10 + [8] * 50 + [40] * 10 + [8] * 50)
    times = np.arange(len(queue), dtype=np.int64) * STEP_NS
    long = (109 * STEP_NS, 120 * STEP_NS)
    assert elevated(times, queue) == (long,)
    assert elevated(times, queue, lost=times[52:58] - 1) == ((51 * STEP_NS, 58 * STEP_NS), long)


def test_a_stall_of_a_server_that_is_not_on_the_way_is_not_blamed(tmp_path: Path) -> None:
    aside = chain(stalls=[FREEZE, {**FREEZE, "place": "aside"}])
    aside["tiers"]["aside"] = {"workers": 10}
    aside["interactions"]["other"] = {"at": {"aside": {"compute": "1 ms"}}}
    for load in aside["workloads"].values():
        load["entry"] = "web"
    aside["workloads"]["others"] = {"kind": "poisson", "rate": 20, "interaction": "other", "entry": "aside"}
    sim.simulate(from_table(aside), tmp_path / "run")
    run = Dataset.open(tmp_path / "run")
    found = blame(record(run), read(run.path, run.topology), SECOND)
    assert {frozenset(s.origins for s in r.stalls) for r in found if r.droppers == {"web"}} == {
        frozenset({frozenset({"db"})})
    }


def test_who_is_slow_by_itself_has_nobody_to_blame(tmp_path: Path) -> None:
    slow = chain(stalls=[{**FREEZE, "for": "20 ms"}])
    slow["interactions"]["query"]["at"]["db"]["wait"] = "1.2 s"
    slow["workloads"]["users"]["rate"] = 5
    sim.simulate(from_table(slow), tmp_path / "run")
    run = Dataset.open(tmp_path / "run")
    found = blame(record(run), read(run.path, run.topology), SECOND)
    assert len(found) > 50
    assert {(request.droppers, request.stalls) for request in found} == {(frozenset({None}), ())}


def test_a_burst_begins_in_any_server_that_it_overflows(tmp_path: Path) -> None:
    passed_on = chain(workloads={"burst": {"kind": "batch", "size": 300, "first": "6 s", "interaction": "page"}})
    passed_on["tiers"]["web"] = {"kind": "async", "calls": ["app"]}
    passed_on["tiers"]["app"] |= {"workers": 20, "backlog": 10}
    sim.simulate(from_table(passed_on), tmp_path / "run")
    run = Dataset.open(tmp_path / "run")
    found = blame(record(run), read(run.path, run.topology), SECOND)
    assert len(found) > 100
    for request in found:
        assert request.droppers == {"app"}
        assert {"web", "app"} <= {origin for stall in request.stalls for origin in stall.origins}


def test_a_long_burst_is_no_measure_for_the_quota_that_it_uses_up(tmp_path: Path) -> None:
    """Less than half a second of a quota in four seconds of a burst, which is served without the quota."""
    door = {"kind": "poisson", "rate": 250, "interaction": "page", "begin": "6 s", "end": "10 s"}
    limited = chain(duration="12 s")
    limited["workloads"]["door"] = door
    limited["interactions"]["servlet"]["at"]["app"]["compute"] = "1.3 ms"
    assert slow_of(limited, tmp_path / "without") == 0
    limited["tiers"]["app"]["quota"] = {"time": "550 ms", "period": "1 s"}
    sim.simulate(from_table(limited), tmp_path / "run")
    run = Dataset.open(tmp_path / "run")
    stalls = read(run.path, run.topology)
    assert max(s.stalled_ns for s in stalls if s.kind == "cpu-quota") * 4 < 4 * SECOND
    found = blame(record(run), stalls, SECOND)
    assert len(found) > 50
    quota = [any("cpu-quota" in stall.causes for stall in request.stalls) for request in found]
    assert sum(quota) > 0.9 * len(found)


def test_a_burst_begins_where_it_uses_up_a_quota(tmp_path: Path) -> None:
    """Half of the database's CPU is never used, and all that its quota leaves. Without the burst nobody is slow."""
    limited = chain(duration="12 s")
    limited["interactions"]["query"]["at"]["db"]["compute"] = "0.7 ms"
    limited["tiers"]["db"]["quota"] = {"time": "25 ms", "period": "50 ms"}
    assert slow_of(limited, tmp_path / "without") == 0
    limited["workloads"]["door"] = {"kind": "poisson", "rate": 300, "interaction": "page", "begin": "6 s", "end": "8 s"}
    sim.simulate(from_table(limited), tmp_path / "run")
    run = Dataset.open(tmp_path / "run")
    found = blame(record(run), read(run.path, run.topology), SECOND)
    assert len(found) > 50
    assert all(
        any("db" in stall.origins for stall in request.stalls if stall.kind == "workload-burst") for request in found
    )


def test_what_begins_an_overload_that_stays_is_to_blame_for_all_of_it(tmp_path: Path) -> None:
    """Work that grows with what is inside: half a second, and the queue that it leaves is never worked off."""
    fragile = chain(duration="20 s")
    fragile["interactions"]["query"]["at"]["db"]["compute"] = "1.1 ms"
    fragile["tiers"]["db"]["inflation"] = {"free": 5, "slope": 0.05}
    assert slow_of(fragile, tmp_path / "without") == 0
    fragile["stalls"] = [{"kind": "freeze", "place": "db", "at": "6 s", "for": "0.5 s"}]
    sim.simulate(from_table(fragile), tmp_path / "run")
    run = Dataset.open(tmp_path / "run")
    found = blame(record(run), read(run.path, run.topology), SECOND)
    late = [request for request in found if request.sent > sim.EPOCH + 15 * SECOND]
    assert len(late) > 50
    assert all("freeze" in {stall.kind for stall in request.stalls} for request in late)


def test_a_short_stall_within_a_long_burst_is_not_to_blame(tmp_path: Path) -> None:
    door = {"kind": "poisson", "rate": 600, "interaction": "page", "begin": "6 s", "end": "10 s"}
    flooded = chain(duration="12 s", stalls=[{"kind": "freeze", "place": "app", "at": "7.5 s", "for": "20 ms"}])
    flooded["workloads"]["door"] = door
    flooded["interactions"]["servlet"]["at"]["app"]["compute"] = "1.5 ms"
    sim.simulate(from_table(flooded), tmp_path / "run")
    run = Dataset.open(tmp_path / "run")
    found = blame(record(run), read(run.path, run.topology), SECOND)
    assert len(found) > 100
    assert {stall.kind for request in found for stall in request.stalls} == {"workload-burst"}


def test_bursts_that_fill_most_of_a_run_are_not_what_is_usual(tmp_path: Path) -> None:
    waves = {"kind": "modulated", "rates": [50, 600], "stays": ["1 s", "4 s"], "interaction": "page"}
    busy = chain(workloads={"users": waves}, duration="40 s")
    busy["interactions"]["servlet"]["at"]["app"]["compute"] = "2 ms"
    sim.simulate(from_table(busy), tmp_path / "run")
    run = Dataset.open(tmp_path / "run")
    stalls = read(run.path, run.topology)
    assert sum(s.end - s.begin for s in stalls) > 20 * SECOND
    found = blame(record(run), stalls, SECOND)
    assert len(found) > 100
    told = [any("workload-burst" in stall.causes for stall in request.stalls) for request in found]
    assert sum(told) > 0.9 * len(found)


def test_clients_who_all_come_at_once_are_a_burst_though_they_stay(tmp_path: Path) -> None:
    crowd = {"clients": 300, "think": "3 s", "begin": "6 s", "end": "14 s", "interaction": "page", "start": "at once"}
    run = made(tmp_path, workloads=chain()["workloads"] | {"crowd": crowd})
    found = blame(record(run), read(run.path, run.topology), SECOND)
    assert len(found) > 100
    assert all("workload-burst" in {c for stall in request.stalls for c in stall.causes} for request in found)


def test_a_clock_rate_is_too_low_from_when_the_cpu_is_full_on(tmp_path: Path) -> None:
    """The governor looks every half second, and the waves of the load begin at any time."""
    waves = {"kind": "modulated", "rates": [120, 480], "stays": ["4 s", "2 s"], "interaction": "page"}
    slow = chain(workloads={"users": waves}, duration="40 s")
    slow["nodes"] = {"app": {"governor": {"frequencies": ["1.1 GHz", "2.2 GHz"], "up": 0.9, "down": 0.6}}}
    slow["interactions"]["servlet"]["at"]["app"]["compute"] = "1.7 ms"
    sim.simulate(from_table(slow), tmp_path / "run")
    run = Dataset.open(tmp_path / "run")
    found = blame(record(run), read(run.path, run.topology), SECOND)
    assert len(found) > 50
    assert all("frequency-step" in {s.kind for s in request.stalls} for request in found)


def test_workers_that_never_rest_are_the_limit_themselves(tmp_path: Path) -> None:
    """Each page holds a thread of web for 60 ms, and there are 12 for 250 pages a second."""
    limited = chain(stalls=[{**FREEZE, "for": "20 ms"}])
    limited["tiers"]["web"]["workers"] = 12
    limited["interactions"]["query"]["at"]["db"]["wait"] = "30 ms"
    sim.simulate(from_table(limited), tmp_path / "run")
    run = Dataset.open(tmp_path / "run")
    found = blame(record(run), read(run.path, run.topology), SECOND)
    assert len(found) > 100
    assert all(request.overloaded for request in found)
    assert {(stall.kind, stall.origins) for request in found for stall in request.stalls} == {
        ("soft-resource", frozenset({"web"}))
    }


@pytest.mark.parametrize(("other", "answers", "preferred"), [(0.2, 30, True), (0.9, 30, False), (0.2, 5, False)])
def test_a_balancer_is_right_where_its_candidates_had_cpu_to_spare_together(
    other: float, answers: int, preferred: bool
) -> None:
    """db1 has a full CPU from 5 to 6 s and answers so many in each 50 ms, and 10 at other times."""
    times = np.arange(1, 201, dtype=np.int64) * SECOND // 20
    stalled = (times > 5 * SECOND) & (times <= 6 * SECOND)
    left = np.repeat(times - 1, np.where(stalled, answers, 10))
    seen = Record(
        requests=pl.DataFrame({"sent": [0, 10 * SECOND], "end": [1, 10 * SECOND]}),
        visits=pl.DataFrame({"server": ["db1"] * len(left), "departure": left}),
        drops=pl.DataFrame(),
        cpu={"db1": (times, np.where(stalled, 1.0, 0.4)), "db2": (times, np.where(stalled, other, 0.4))},
        workers={},
        waiting={},
        calls=frozenset(),
        balanced=(frozenset({"db1", "db2"}),),
    )
    assert seen.preferred("db1", 5 * SECOND, 8 * SECOND) is preferred
    assert not seen.preferred("db2", 5 * SECOND, 8 * SECOND)


@pytest.mark.parametrize(("balanced", "full"), [((), {"db1"}), ((frozenset({"db1", "db2"}),), set())])
def test_one_of_several_candidates_has_a_full_cpu_by_how_calls_are_spread(
    balanced: tuple[frozenset[str], ...], full: set[str]
) -> None:
    times = np.arange(1, 201, dtype=np.int64) * SECOND // 20
    seen = Record(
        requests=pl.DataFrame({"sent": [0, 10 * SECOND], "end": [1, 10 * SECOND]}),
        visits=pl.DataFrame(),
        drops=pl.DataFrame(),
        cpu={"db1": (times, np.ones(200)), "db2": (times, np.full(200, 0.3))},
        workers={},
        waiting={},
        calls=frozenset(),
        balanced=balanced,
    )
    assert seen.saturated == full


def test_a_right_diagnosis_scores_full_and_each_falsehood_costs(tmp_path: Path) -> None:
    run = made(tmp_path, stalls=[FREEZE])
    told = as_dict(diagnose(run))
    best = score(run, told)
    assert best.vlrt > 50
    assert best.right_with_kind == best.right == best.vlrt
    assert best.false_alarms == 0
    for key, lie, of in (
        ("dropper", "db", "right_dropper"),
        ("origin", "web", "right_origin"),
        ("cause", "neighbour", "right_cause"),
        ("ctqo", "local", "right_with_kind"),
    ):
        wrong = json.loads(json.dumps(told))
        for episode in wrong["episodes"]:
            episode[key] = lie
            for row in episode["chains"]:
                row[key] = lie
        worse = score(run, wrong)
        assert getattr(worse, of) == 0
        assert worse.right == (best.right if key == "ctqo" else 0)
        assert worse.false_alarms == (1 if key == "cause" else 0)


def told(experiment: Experiment, folder: Path) -> Score:
    """The score of its diagnosis."""
    sim.simulate(experiment, folder / "run")
    run = Dataset.open(folder / "run")
    return score(run, as_dict(diagnose(run)))


def two_systems_on_a_machine() -> dict[str, Any]:
    """app beside another system, which gets 400 requests at once, 0.8 s of work."""
    both = chain(nodes={"box": {"cores": 1}})
    both["tiers"]["app"]["node"] = "box"
    both["tiers"]["other"] = {"kind": "async", "node": "box"}
    both["interactions"]["servlet"]["at"]["app"]["compute"] = "1.8 ms"
    both["interactions"]["ping"] = {"at": {"other": {"compute": "2 ms"}}}
    both["workloads"]["users"]["entry"] = "web"
    batch = {"kind": "batch", "size": 400, "first": "7 s", "interaction": "ping", "entry": "other"}
    both["workloads"]["pings"] = batch
    return both


def doors_that_open() -> dict[str, Any]:
    """A thousand clients at once, in the moment in which the recording begins."""
    users = {"clients": 1000, "think": "5 s", "start": "at once", "interaction": "page"}
    return chain(workloads={"users": users}, ramp="0 s", kernel={"syn": "linux-6.5"})


def two_entries() -> dict[str, Any]:
    """300 clients at once come to app, which web calls for others, and overflow it."""
    both = chain()
    both["tiers"]["app"]["backlog"] = 20
    both["workloads"]["users"]["entry"] = "web"
    batch = {"kind": "batch", "size": 300, "first": "6 s", "interaction": "servlet", "entry": "app"}
    both["workloads"]["others"] = batch
    return both


def released_at_once() -> dict[str, Any]:
    """What app held while it stood still comes to db at once and shares its CPU: the first of it is answered late."""
    freed = chain(stalls=[{"kind": "freeze", "place": "app", "at": "6 s", "for": "600 ms"}])
    freed["tiers"] = {
        "web": {"kind": "async", "calls": ["app"]},
        "app": {"kind": "async", "calls": ["db"]},
        "db": {"workers": 100, "backlog": 20},
    }
    freed["interactions"]["servlet"]["at"]["app"] = {"compute": "0.1 ms", "scv": 0, "calls": {"query": 1}}
    freed["interactions"]["query"]["at"]["db"] = {"compute": "2.4 ms", "scv": 0}
    return freed


def threads_that_wait_outside() -> dict[str, Any]:
    """Surges ask app for more than its 30 threads can do, which mostly wait for nobody of the system: web's connections
    to it, and then web's threads, run out, with hardware to spare."""
    surges = {"kind": "modulated", "rates": [200, 600], "stays": ["6 s", "1.5 s"], "interaction": "page"}
    waiting = chain(workloads={"users": surges}, duration="30 s")
    waiting["tiers"]["web"]["workers"] = 100
    waiting["tiers"]["app"]["workers"] = 30
    waiting["interactions"]["servlet"]["at"]["app"]["wait"] = "70 ms"
    return waiting


def waves_in_front_of_a_quota() -> dict[str, Any]:
    """120 at once every 5 s wait in web for connections to db, whose quota is used up in period after period."""
    return {
        "seed": 1,
        "duration": "30 s",
        "ramp": "3 s",
        "sampling": {"interval": "50 ms"},
        "kernel": {"syn": "linux-6.5"},
        "tiers": {
            "web": {"workers": 60, "backlog": 32, "calls": {"db": {"kept": True, "pool": 30}}},
            "db": {"workers": 100, "backlog": 64, "quota": {"time": "60 ms"}},
        },
        "interactions": {
            "page": {"at": {"web": {"compute": "0.8 ms", "calls": {"query": 2}}}},
            "query": {"at": {"db": {"compute": "0.8 ms"}}},
        },
        "workloads": {
            "users": {"kind": "poisson", "rate": 300, "interaction": "page"},
            "waves": {"kind": "batch", "size": 120, "first": "5 s", "every": "5 s", "interaction": "page"},
        },
    }


def a_neighbour_of_another() -> dict[str, Any]:
    """db stands still, and meanwhile somebody takes the CPU of web."""
    burn = {"kind": "burn", "place": "web", "at": "6.1 s", "for": "380 ms", "threads": 8, "weight": 20}
    return chain(stalls=[FREEZE, burn])


def far_apart(wait: str = "5 ms") -> dict[str, Any]:
    """Servers whose work is mostly waiting, with few workers and short backlogs: db stands still and loses the first
    packets itself, before most are lost in front of it."""
    system = chain(stalls=[{"kind": "freeze", "place": "db", "at": "5.2 s", "for": "800 ms", "every": "8.3 s"}])
    system |= {"duration": "30 s", "ramp": "3 s", "seed": 17, "kernel": {"syn": "linux-6.5"}}
    call, room = {"kept": False, "pool": 0}, {"workers": 40, "backlog": 16}
    system["tiers"] = {"web": {**room, "calls": {"app": call}}, "app": {**room, "calls": {"db": call}}, "db": room}
    system["interactions"] = {
        "page": {"at": {"web": {"compute": "0.5 ms", "calls": {"servlet": 1}}}},
        "servlet": {"at": {"app": {"compute": "0.5 ms", "wait": wait, "calls": {"query": 1}}}},
        "query": {"at": {"db": {"compute": "0.5 ms", "wait": wait}}},
    }
    system["workloads"] = {"users": {"clients": 800, "think": "4 s", "interaction": "page"}}
    return system


def surges() -> dict[str, Any]:
    """Open arrivals at web, app and db that come twice as often every few seconds."""
    system = far_apart("0 s")
    system |= {"duration": "40 s", "stalls": []}
    system["interactions"]["servlet"]["at"]["app"]["compute"] = "1.2 ms"
    system["interactions"]["query"]["at"]["db"]["compute"] = "1.2 ms"
    users = {"kind": "modulated", "rates": [150, 330], "stays": ["3 s", "3 s"], "interaction": "page"}
    system["workloads"] = {"users": users}
    return system


def one_clock_for_two() -> dict[str, Any]:
    """app and db share a core whose governor is late: neither fills it alone."""
    system = surges()
    system["seed"] = 1
    governor = {"period": "1 s", "frequencies": ["1 GHz", "3.5 GHz"], "up": 0.95, "down": 0.5}
    system["nodes"] = {"box": {"cores": 1, "governor": governor}}
    system["tiers"]["app"]["node"] = system["tiers"]["db"]["node"] = "box"
    return system


def a_quota_before_busy_servers() -> dict[str, Any]:
    """app's quota is too small for surges, in which the queue of the server behind it may rise first by chance."""
    system = surges()
    call = {"kept": False, "pool": 0}
    system["seed"] = 34
    system["tiers"] = {
        "web": {"workers": 50, "backlog": 16, "calls": {"app": call}},
        "app": {"workers": 55, "backlog": 32, "quota": {"time": "45 ms"}, "calls": {"middle": call}},
        "middle": {"workers": 29, "backlog": 32, "calls": {"db": call}},
        "db": {"workers": 49, "backlog": 8},
    }
    system["interactions"] = {
        "page": {"at": {"web": {"compute": "1.271 ms", "calls": {"servlet": 1}}}},
        "servlet": {"at": {"app": {"compute": "1.5 ms", "calls": {"bean": 1}}}},
        "bean": {"at": {"middle": {"compute": "2.452 ms", "calls": {"query": 1}}}},
        "query": {"at": {"db": {"compute": "1.875 ms"}}},
    }
    system["workloads"]["users"] |= {"rates": [180, 400], "stays": ["4 s", "1 s"]}
    return system


@pytest.mark.parametrize(
    "system",
    [
        two_systems_on_a_machine,
        doors_that_open,
        two_entries,
        released_at_once,
        waves_in_front_of_a_quota,
        far_apart,
        a_neighbour_of_another,
        one_clock_for_two,
        a_quota_before_busy_servers,
        threads_that_wait_outside,
    ],
)
def test_the_diagnosis_of_systems_that_nobody_drew_is_right(tmp_path: Path, system: Callable[[], Any]) -> None:
    found = told(from_table(system()), tmp_path)
    assert found.vlrt > 50
    assert (found.right_with_kind, found.false_alarms) == (found.vlrt, 0)
    assert found.claims == found.episodes


def drawn(seed: int, folder: Path) -> Score:
    return told(from_table(draw(seed)), folder)


def test_who_waits_at_a_door_that_stands_still_is_not_the_origin(tmp_path: Path) -> None:
    """More are usually on their way to db and back than fit into it, so that its stall adds few to those inside."""
    found = told(from_table(far_apart("60 ms")), tmp_path)
    assert found.right > 0.9 * found.vlrt > 300


def test_a_batch_that_is_passed_on_is_a_burst_where_it_stays(tmp_path: Path) -> None:
    """A drawn system: web waits for nobody and passes a batch on to app, which is full a window later."""
    found = drawn(10_000_111, tmp_path)
    assert found.right == found.vlrt > 500


def test_a_batch_that_a_busy_server_works_off_for_seconds_is_no_chance(tmp_path: Path) -> None:
    """A drawn system: a server at 80 % of its CPU needs half of the time between two batches for each."""
    found = drawn(8_000_378, tmp_path)
    assert found.right == found.vlrt > 500


def test_a_batch_did_not_stall_a_server_that_a_flush_held_up_before_it_came(tmp_path: Path) -> None:
    """A drawn system: most of the requests that a log flush made slow were sent at once, while it went on."""
    found = drawn(11_000_063, tmp_path)
    assert found.right == found.vlrt > 500


def test_what_a_kernel_counts_as_dropped_are_those_whose_losses_are_recorded(tmp_path: Path) -> None:
    """A drawn system that is always full: while it drops packets of some, others only wait elsewhere."""
    found = drawn(11_000_128, tmp_path)
    assert found.right_dropper > 0.99 * found.vlrt > 500


def test_who_answers_nobody_is_waited_for_though_no_more_calls_than_usual_are_open(tmp_path: Path) -> None:
    """A drawn system: pools are used up all the time, and a database that stops makes those who wait for it seem to
    lack the CPU that a harmless neighbour of the database uses."""
    found = drawn(12_000_397, tmp_path)
    assert found.confusion["soft-resource"].get("neighbour", 0) == 0
    assert found.right > 0.8 * found.vlrt > 500


def test_what_is_answered_when_nobody_sends_any_more_is_not_usual(tmp_path: Path) -> None:
    """A drawn system without calm time: with 15 s in which nobody sends, what usually comes seems to be a burst."""
    found = drawn(9_500_024, tmp_path)
    assert (found.claims, found.false_alarms) == (0, 0)


def test_a_request_leaves_the_chains_that_last_longer_to_others(tmp_path: Path) -> None:
    """One episode is told of each of two requests, and the first lies in both."""
    run = made(tmp_path, stalls=[FREEZE])
    (freeze,) = read(run.path, run.topology)
    asked = tuple(Blame(freeze.begin + n * SECOND, frozenset({None}), (freeze,)) for n in (0, 2))
    chain = {"dropper": None, "origin": min(freeze.origins), "cause": "freeze", "ctqo": "none", "vlrt": 1}
    unseen = {"begin": None, "end": None}
    episodes = [
        {
            "begin": freeze.begin,
            "end": freeze.begin + n * SECOND,
            "cause": "freeze",
            "chains": [chain],
            "findings": [unseen],
        }
        for n in (3, 1)
    ]
    found = compare(record(run), run.topology, asked, (freeze,), {"episodes": episodes})
    assert found.right == 2


def test_what_is_not_told_is_not_right(tmp_path: Path) -> None:
    run = made(tmp_path, stalls=[FREEZE])
    told = as_dict(diagnose(run)) | {"episodes": []}
    found = score(run, told)
    assert (found.right, found.right_dropper, found.right_origin, found.right_cause) == (0, 0, 0, 0)
    assert found.confusion == {"freeze": {"not told": found.vlrt}}


def test_a_balancer_is_the_true_cause_where_nothing_else_stalled(tmp_path: Path) -> None:
    run = made(tmp_path, stalls=[FREEZE])
    (freeze,) = read(run.path, run.topology)
    balancer = replace(freeze, kind="balancer", causes=frozenset({"balancer"}), end=freeze.end + SECOND)
    for stalls, true in (((freeze, balancer), "freeze"), ((balancer,), "balancer")):
        held_up = Blame(freeze.begin, frozenset({None}), stalls)
        found = compare(record(run), run.topology, (held_up,), stalls, {"episodes": []})
        assert found.confusion == {true: {"not told": 1}}


def test_a_file_that_is_no_diagnosis_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    for text, said in (("{", "not JSON"), ("{}", "not a diagnosis"), ('{"threshold_ns": 1, "episodes": [{}]}', "anew")):
        file.write_text(text)
        with pytest.raises(InputError, match=said):
            read_diagnosis(file)


def test_every_drawn_system_can_be_simulated() -> None:
    for seed in range(120):
        sim.lower(from_table(draw(seed)))


def test_a_sweep_goes_on_where_it_was_killed(tmp_path: Path) -> None:
    whole = sweep.sweep([1, 3], tmp_path, processes=1)
    lines = (tmp_path / sweep.LINES).read_text().splitlines()
    cut = json.dumps(json.loads(lines[0]) | {"requests": -1})
    (tmp_path / sweep.LINES).write_text(f"{cut}\n{lines[1][:40]}")
    again = sweep.sweep([1, 3], tmp_path, processes=1)
    assert sorted(row["requests"] for row in again) == sorted([-1, json.loads(lines[1])["requests"]])
    assert {row["seed"] for row in again} == {row["seed"] for row in whole}
    assert json.loads((tmp_path / sweep.SUMMARY).read_text())["runs"] == 2


def test_the_diagnosis_keeps_its_score_on_a_fixed_sweep() -> None:
    """Forty systems that detectors were built with: these are floors under what was reached, not aims (those are 95 %
    right and 1 % false alarms, on seeds that nobody looked at: `make sweep`)."""
    found = sweep.summarise(sweep.sweep(range(40), systems=sweep.CHAINS))
    assert found.counts["vlrt"] > 5_000
    assert found.share("right_dropper") >= 0.98
    assert found.share("right") >= 0.95
    assert found.right_of_runs >= 0.95
    assert found.false_alarm_share <= 0.01
