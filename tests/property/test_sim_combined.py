"""Features together, against formulas and arithmetic: pools with priorities, balancers, hedges, quotas, clock rates."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from plans import (
    MS,
    REPLICATIONS,
    Plan,
    S,
    assert_is,
    call,
    changed,
    connector,
    counts,
    exponential,
    poisson,
    replicate,
    run,
    server,
    station,
    system,
    trace,
    workload,
)

FREEZE = {"freeze": {"group": 0}}


def waits(mean_ms: float) -> Plan:
    return {"wait": {"constant": mean_ms * MS}}


def delay(mean_ms: float) -> Plan:
    """A fixed time, whatever else is inside."""
    return {"wait": exponential(mean_ms * MS)}


def between(does: list[Plan], called_does: list[Plan], load: Plan, *, duration: int = 10 * S, **more: Plan) -> Plan:
    """A server that calls another; `more` are keys of the one, of the other, and of how it calls."""
    called = connector(1, **more.get("called", {}))
    caller = server("front", [0, None], **{"connectors": [called], **more.get("front", {})})
    return system(
        [caller, server("back", [None, 1], **more.get("back", {}))], [does, called_does], load, duration=duration
    )


def spread(policy: object, n: int, load: Plan, duration: int = 800 * S) -> Plan:
    """A balancer in front of servers of one worker and exponential work of 10 ms."""
    caller = server("front", [0, None], connectors=[connector(*range(1, n + 1), policy=policy)])
    behind = [server(f"s{i}", [None, 1], workers=1) for i in range(n)]
    programs = [[call(of=1)], [{"compute": exponential(10 * MS)}]]
    return system([caller, *behind], programs, load, duration=duration, record_from=5 * S)


def ends(plan: Plan, folder: Path) -> list[float]:
    """When requests are answered, ms."""
    return [round(end / MS, 3) for end in sorted(run(plan, folder).requests["end"].to_list())]


def erlang_c(servers: int, load: float) -> float:
    """Chance to wait, M/M/c."""
    blocked = 1.0
    for k in range(1, servers + 1):
        blocked = load * blocked / (k + load * blocked)
    return blocked / (1 - load / servers * (1 - blocked))


@pytest.mark.parametrize("where", ["connections", "workers"])
def test_light_ones_of_several_servers_wait_as_cobham_says(where: str, tmp_path: Path) -> None:
    """M/M/3 of two classes without preemption: W₁ = C m / c / (1 - u₁), W₂ = W₁ / (1 - u)."""
    load = poisson(240, [(0, 1.0), (1, 1.0)], kept=True)
    more = {"duration": 800 * S, "record_from": 5 * S}
    if where == "connections":
        called = connector(1, pool={"size": 3, "priority": 1000})
        servers = [server("front", [0, 1, None], connectors=[called]), server("back", [None, None, 2])]
        plan = system(servers, [[call(of=2)], [call(of=2)], [delay(10)]], load, **more)
        plan["classes"][0]["light"] = True
    else:
        only = server("s", [0, 0], cores=3, workers=3, lightest_first=True, light_queue=1_000_000)
        plan = system([only], [[{"compute": exponential(10 * MS)}]], load, **more)
        plan["classes"][1]["rank"] = 1
    took: dict[str, list[float]] = {"class 0": [], "class 1": []}
    for i in range(REPLICATIONS):
        requests = run(changed(plan, replication=i), tmp_path / str(i)).requests
        means = requests.group_by("interaction").agg((pl.col("end") - pl.col("sent")).mean() / 1e9)
        for name, mean in means.iter_rows():
            took[name].append(mean)
    light = erlang_c(3, 2.4) * 0.010 / 3 / (1 - 0.4)
    assert_is(took["class 0"], 0.010 + light, within=0.02)
    assert_is(took["class 1"], 0.010 + light / (1 - 0.8), within=0.06)


@pytest.mark.parametrize("n", [2, 5])
def test_calls_at_once_take_as_long_as_the_longest(n: int) -> None:
    """The longest of n exponential ones: the n-th harmonic number of means."""
    plan = between([call(of=1, count=float(n), parallel=True)], [delay(10)], poisson(100), duration=400 * S)
    assert_is(replicate(plan), 0.010 * sum(1 / k for k in range(1, n + 1)), within=0.02)


def test_a_write_to_both_is_the_fork_and_join_of_two_queues() -> None:
    """Flatto and Hahn, as Nelson and Tantawi give it: (12 - u) / 8 of an M/M/1's response."""
    plan = spread("round_robin", 2, poisson(60))
    plan["programs"][0] = [call(of=1, all=True)]
    assert_is(replicate(plan), (12 - 0.6) / 8 * 0.010 / 0.4, within=0.04)


@pytest.mark.parametrize("dealt", ["by a balancer", "by the clients"])
def test_arrivals_that_are_dealt_in_turn_wait_as_of_e2_m_1(dealt: str) -> None:
    """With the root s = (λ / (λ + μ (1 - s)))², the response 1 / (μ (1 - s))."""
    root = 0.5
    for _ in range(1000):
        root = (160 / (160 + 100 * (1 - root))) ** 2
    plan = spread("round_robin", 2, poisson(160), 2400 * S)
    if dealt == "by the clients":
        plan["workloads"][0] |= {"entries": [1, 2], "choice": {"mix": [[1, 1.0]]}}
    assert_is(replicate(plan), 1 / (100 * (1 - root)), within=0.05)


def joins_the_shortest(queues: Sequence[int]) -> list[float]:
    least = [length == min(queues) for length in queues]
    return [shortest / sum(least) for shortest in least]


def joins_the_shorter_of_two(queues: Sequence[int]) -> list[float]:
    n = len(queues)
    chances = [0.0] * n
    for a in range(n):
        for b in set(range(n)) - {a}:
            chances[b if queues[b] < queues[a] else a] += 1 / n / (n - 1)
    return chances


def shortest_queues(joins: Callable[[Sequence[int]], list[float]], n: int, rate: float, most: int) -> float:
    """Response times of n queues of exponential work of 10 ms, by the stationary law of their Markov chain."""
    states = list(np.ndindex(*((most + 1,) * n)))
    number = {state: i for i, state in enumerate(states)}
    moves = []
    for state in states:
        for k, chance in enumerate(joins(state)):
            one = np.eye(n, dtype=int)[k]
            if chance > 0 and state[k] < most:
                moves.append((number[state], number[tuple(state + one)], rate * chance))
            if state[k] > 0:
                moves.append((number[state], number[tuple(state - one)], 100.0))
    begins, leads, rates = (np.array(column) for column in zip(*moves, strict=True))
    leaves = np.bincount(begins, weights=rates, minlength=len(states))
    fastest = leaves.max() * 1.01
    chances = np.full(len(states), 1 / len(states))
    for _ in range(20_000):
        flow = np.bincount(leads, weights=chances[begins] * rates / fastest, minlength=len(states))
        chances, before = chances * (1 - leaves / fastest) + flow, chances
        if np.abs(chances - before).sum() < 1e-10:
            break
    return float(chances @ np.array(states).sum(axis=1)) / rate


@pytest.mark.parametrize(
    ("policy", "n", "joins"),
    [
        ("least_connections", 2, joins_the_shortest),
        ({"shortest_queue": {"every": 0}}, 2, joins_the_shortest),
        ("power_of_two", 3, joins_the_shorter_of_two),
    ],
)
def test_a_balancer_s_queues_are_its_markov_chain_s(
    policy: object, n: int, joins: Callable[[Sequence[int]], list[float]]
) -> None:
    """At 70 % of what they can do; longer queues than the chain has come once in a million."""
    exact = shortest_queues(joins, n, 70.0 * n, {2: 30, 3: 14}[n])
    assert_is(replicate(spread(policy, n, poisson(70.0 * n))), exact, within=0.03)


def test_a_hedge_is_the_first_of_two() -> None:
    """min(X, h + Y) of exponential times of mean m: m (1 - q) + q m / 2 with the share q = exp(-h/m) hedged."""
    plan = station({"constant": 0.0}, poisson(100, hedge=12 * MS), duration=800 * S)
    plan["programs"][0] = [delay(10)]
    hedged = math.exp(-1.2)
    assert_is(replicate(plan), 0.010 * (1 - hedged) + hedged * 0.005, within=0.01)
    assert_is(replicate(plan, lambda c: c["visits"] / c["answered"] - 1), hedged, within=0.03)


def test_clients_that_give_up_repeat_geometrically_often() -> None:
    """Each try fails with q = exp(-T/m), and those that do not took m - T q / (1 - q)."""
    load = poisson(100, timeout=10 * MS, retries=3, retry_pause=5 * MS)
    plan = station({"constant": 0.0}, load, duration=800 * S)
    plan["programs"][0] = [delay(10)]
    fails = math.exp(-1)
    assert_is(replicate(plan), 0.010 - 0.010 * fails / (1 - fails), within=0.01)
    tries = (1 - fails**4) / (1 - fails)
    assert_is(replicate(plan, lambda c: (c["answered"] + c["failed"]) / 80_000), tries, within=0.02)


@pytest.mark.parametrize("weights", [(1.0, 1.0), (1.0, 5.0)])
def test_groups_of_one_core_hold_together_what_one_queue_holds(weights: tuple[float, float]) -> None:
    """Work is lost by no weights: M/M/1 of all arrivals."""
    programs = [[{"compute": exponential(10 * MS)}]]
    loads = [poisson(30), poisson(40, entries=[1])]
    plan = system([server("a"), server("b")], programs, *loads, duration=2400 * S, record_from=5 * S)
    plan["groups"][1]["node"] = 0
    for group, weight in zip(plan["groups"], weights, strict=True):
        group["weight"] = weight
    assert_is(replicate(plan), 0.010 / (1 - 0.7), within=0.03)


def test_a_quota_leaves_the_rest_of_a_core_to_others(tmp_path: Path) -> None:
    """20 ms of each 100 ms for the first, which shares the core until 40 ms and from 100 to 140 ms, when the second has
    had 20 + 60 + 20 ms; the last 10 ms are of the third period."""
    programs = [[{"compute": {"constant": 50e6}}], [{"compute": {"constant": 100e6}}]]
    loads = [trace([0]), trace([0], entries=[1])]
    plan = system([server("a"), server("b", [1])], programs, *loads, duration=S)
    plan["groups"][1]["node"] = 0
    plan["groups"][0]["quota"] = {"quota": 20 * MS, "period": 100 * MS}
    assert ends(plan, tmp_path) == [140.0, 210.0]


@pytest.mark.parametrize("slow", ["governor", "stall"])
def test_a_slow_server_uses_its_quota_up_as_fast(slow: str, tmp_path: Path) -> None:
    """20 ms of CPU time in a period are 10 ms of work: 35 ms take three periods and 10 ms."""
    plan = station({"constant": 35e6}, trace([0]), duration=S)
    plan["groups"][0]["quota"] = {"quota": 20 * MS, "period": 100 * MS}
    if slow == "governor":
        plan["nodes"][0]["governor"] = {"period": 10 * S, "hz": [1e9, 2e9], "up": 2.0, "down": 0.0}
    else:
        half = {"slow": {"group": 0, "left": 0.5}}
        plan["stalls"] = [{"begin": 0, "end": S, "kind": "k", "effect": half}]
    assert ends(plan, tmp_path) == [310.0]


def test_a_frozen_server_does_not_use_up_its_quota(tmp_path: Path) -> None:
    """10 ms are done at the freeze; the quota of the second period is whole when it ends."""
    plan = station({"constant": 30e6}, trace([0]), duration=S)
    plan["groups"][0]["quota"] = {"quota": 20 * MS, "period": 100 * MS}
    plan["stalls"] = [{"begin": 10 * MS, "end": 150 * MS, "kind": "k", "effect": FREEZE}]
    assert ends(plan, tmp_path) == [170.0]


def test_a_governor_sees_all_cores(tmp_path: Path) -> None:
    """Half, three quarters and full speed of two cores: 100 + 150 + 50 ms of three jobs of 100 ms."""
    plan = station({"constant": 100e6}, trace([0] * 3), cores=2.0, duration=S)
    plan["nodes"][0]["governor"] = {"period": 100 * MS, "hz": [1e9, 1.5e9, 2e9], "up": 0.9, "down": 0.1}
    assert ends(plan, tmp_path) == [225.0] * 3


def test_a_process_comes_goes_and_comes_again(tmp_path: Path) -> None:
    """The third of two workers' waits 100 ms and 50 ms of the new process's work; a second later that has ended."""
    plan = station({"constant": 0.0}, trace([0] * 3 + [1300 * MS] * 3), duration=3 * S, workers=2, backlog=10)
    plan["programs"][0] = [waits(400)]
    plan["servers"][0]["spawn"] = {"processes_max": 2, "after": 100 * MS, "work": 50 * MS, "retire_after": S}
    assert ends(plan, tmp_path) == [400.0, 400.0, 550.0, 1700.0, 1700.0, 1850.0]


@pytest.mark.parametrize(
    ("calls", "pool", "expected"),
    [
        ([call(of=1)], {"size": 2, "per_process": True}, [10, 10, 10, 10, 20, 20]),
        ([call(of=1), waits(5), call(of=1)], {"size": 1, "for_visit": True}, [25, 50, 75, 100, 125, 150]),
        ([call(of=1, count=3.0, parallel=True)], {"size": 9}, [10, 10, 10, 20, 20, 20]),
        # Simultaneous calls share the connection of their visit.
        ([call(of=1, count=3.0, parallel=True)], {"size": 3, "for_visit": True}, [10, 10, 10, 20, 20, 20]),
    ],
    ids=["two processes", "for a visit", "at once", "at once on one"],
)
def test_connections_are_lent_in_order(calls: list[Plan], pool: Plan, expected: list[float], tmp_path: Path) -> None:
    front = {"workers": 20, "processes": 2}
    assert ends(between(calls, [waits(10)], trace([0] * 6), front=front, called={"pool": pool}), tmp_path) == expected


def test_an_abandoned_request_still_takes_its_turn_for_a_connection(tmp_path: Path) -> None:
    """Of three the second and third are waited for until 150 ms alone, and their calls are made all the same."""
    plan = between([call(of=1)], [waits(100)], trace([0] * 3, timeout=150 * MS), called={"pool": {"size": 1}})
    seen = run(plan, tmp_path)
    assert sorted(seen.requests["end"] / MS) == [100, 150, 150]
    assert sorted(seen.visits.filter(pl.col("server") == "back")["departure"] / MS) == [100, 200, 300]


def test_a_lost_syn_comes_again_while_the_first_ones_are_served(tmp_path: Path) -> None:
    """2.5 s each, one worker and one place: the third is lost at 0 and at 1 s, and finds the place at 3 s."""
    load = trace([0] * 3, syn={"repeats": [S, 3 * S, 7 * S], "give_up": 15 * S})
    requests = run(station({"constant": 2.5e9}, load, duration=S, workers=1, backlog=0), tmp_path).requests.sort("end")
    assert (requests["end"] / MS).to_list() == [2500, 5000, 7500]
    assert requests["drops"].to_list() == [0, 0, 2]


def test_batches_wait_for_half_of_themselves() -> None:
    load = workload({"batch": {"size": 20, "first": 0, "period": S}})
    counted = counts(station({"constant": 10e6}, load, duration=50 * S, workers=1))
    assert counted["response_ns"] / counted["answered"] == pytest.approx(10e6 * 21 / 2, rel=1e-6)
