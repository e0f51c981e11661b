"""The simulator against queues with known laws.

Every comparison is with the exact value, by the 99.9 % confidence interval of eight replications; `within` says how
narrow the interval must be, as a share of the exact value. Eight short runs reach that, and it is far below the errors
of a wrong discipline, an off-by-one queue or a lost request.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

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
    closed,
    connector,
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


def erlang_b(servers: int, offered: float) -> float:
    """Erlang's loss formula by its recursion (Kleinrock, Queueing Systems I, 3.6)."""
    loss = 1.0
    for k in range(1, servers + 1):
        loss = offered * loss / (k + offered * loss)
    return loss


def erlang_c(servers: int, offered: float) -> float:
    """Probability of having to wait (Kleinrock I, 3.5)."""
    loss = erlang_b(servers, offered)
    return loss / (1 - offered / servers * (1 - loss))


def loss(counted: dict[str, Any]) -> float:
    return float(counted["failed"]) / (counted["failed"] + counted["answered"])


def test_one_processor_shared_by_all_is_m_m_1() -> None:
    shared = station(exponential(1 * MS), poisson(700), duration=300 * S, ramp=5 * S)
    assert_is(replicate(shared), 1e-3 / (1 - 0.7), within=0.04)


@pytest.mark.parametrize("cores", [2, 4])
def test_several_processors_shared_by_all_hold_as_many_as_m_m_c(cores: int) -> None:
    offered = 0.75 * cores
    shared = station(exponential(1 * MS), poisson(1000 * offered), cores=cores, duration=150 * S, ramp=5 * S)
    assert_is(replicate(shared), 1e-3 * (1 + erlang_c(cores, offered) / (cores - offered)), within=0.03)


@pytest.mark.parametrize("workers", [1, 3])
def test_workers_with_a_core_each_and_one_line_are_m_m_c(workers: int) -> None:
    offered = 0.75 * workers
    lined = station(
        exponential(1 * MS),
        poisson(1000 * offered),
        cores=workers,
        workers=workers,
        light_queue=65_535,
        duration=150 * S,
        ramp=5 * S,
    )
    assert_is(replicate(lined), 1e-3 * (1 + erlang_c(workers, offered) / (workers - offered)), within=0.05)


# Work of 1 ms on average, and its squared coefficient of variation; of the last 8 % take 8.5 ms, the others 0.35 ms.
HYPEREXPONENTIAL = {"share": 0.08, "first": 8.5e6, "second": 0.32e6 / 0.92}
HYPEREXPONENTIAL_SCV = 2 * (0.08 * 8.5**2 + 0.32**2 / 0.92) - 1
SPREADS = [
    pytest.param({"constant": 1e6}, 0.0, id="D"),
    pytest.param({"erlang": {"mean": 1e6, "shape": 3}}, 1 / 3, id="E3"),
    pytest.param({"uniform": {"low": 0.0, "high": 2e6}}, 1 / 3, id="U"),
    pytest.param({"hyperexponential": HYPEREXPONENTIAL}, HYPEREXPONENTIAL_SCV, id="H2"),
]


@pytest.mark.parametrize(("work", "scv"), SPREADS)
def test_one_worker_waits_as_pollaczek_and_khinchine_say(work: Plan, scv: float) -> None:
    waits = station(work, poisson(500), workers=1, duration=400 * S, ramp=5 * S)
    assert_is(replicate(waits), 1e-3 * (1 + 0.5 * (1 + scv) / (2 * (1 - 0.5))), within=0.05)


@pytest.mark.parametrize(("work", "scv"), SPREADS)
def test_processor_sharing_does_not_feel_how_work_is_spread(work: Plan, scv: float) -> None:
    shared = station(work, poisson(600), duration=400 * S, ramp=5 * S)
    assert 0 <= scv < 11
    assert_is(replicate(shared), 1e-3 / (1 - 0.6), within=0.05)


def mmpp_m_1(rates: tuple[float, float], stays: tuple[float, float], served: float) -> float:
    """Mean response, s, from the rate matrix R of the quasi-birth-death process: A0 + R A1 + R² A2 = 0, pi_n = pi_0 R^n
    (Neuts, Matrix-Geometric Solutions, 3.1)."""
    arrive, leave = np.diag(rates), served * np.eye(2)
    switch = np.array([[-1 / stays[0], 1 / stays[0]], [1 / stays[1], -1 / stays[1]]])
    r = np.zeros((2, 2))
    for _ in range(20_000):
        r = -(arrive + r @ r @ leave) @ np.linalg.inv(switch - arrive - leave)
    grown = np.linalg.inv(np.eye(2) - r)
    balance = np.vstack([(switch - arrive + r @ leave).T, grown.sum(1)])
    empty = np.linalg.lstsq(balance, np.array([0.0, 0.0, 1.0]))[0]
    inside = float((empty @ r @ grown @ grown).sum())
    return inside * sum(stays) / float(np.dot(rates, stays))


def test_a_rate_that_switches_fills_the_queue_as_of_mmpp_m_1() -> None:
    rates, stays = (1400.0, 200.0), (10e-3, 10e-3)
    switching = workload({"modulated": {"rates": list(rates), "stays": [round(stay * 1e9) for stay in stays]}})
    shared = station(exponential(1 * MS), switching, duration=1200 * S, ramp=5 * S)
    assert_is(replicate(shared), mmpp_m_1(rates, stays, 1000.0), within=0.05)


def test_arrivals_at_even_distances_wait_as_of_d_m_1() -> None:
    """The root of s = exp(-(1 - s) / load) (Kleinrock I, 6.4)."""
    load, s = 0.8, 0.5
    for _ in range(200):
        s = math.exp(-(1 - s) / load)
    gap = round(1 * MS / load)
    even = station(exponential(1 * MS), trace(range(gap, 200 * S, gap)), duration=200 * S, ramp=5 * S)
    assert_is(replicate(even), 1e-3 / (1 - s), within=0.03)


@pytest.mark.parametrize(("workers", "places"), [(1, 4), (2, 6)])
def test_a_full_accept_queue_loses_what_m_m_c_k_loses(workers: int, places: int) -> None:
    """`places` in all: an accept queue of backlog N holds N + 1."""
    offered = 0.9 * workers
    never_again = {"repeats": [], "give_up": 1}
    full = station(
        exponential(1 * MS),
        poisson(1000 * offered, syn=never_again),
        cores=workers,
        workers=workers,
        backlog=places - workers - 1,
        duration=100 * S,
    )
    weights = [offered**k / math.factorial(min(k, workers)) / workers ** max(0, k - workers) for k in range(places + 1)]
    assert_is(replicate(full, loss), weights[-1] / sum(weights), within=0.05)


def caller_that_skips(work: Plan, load: Plan, pool: int, duration: int) -> Plan:
    """A server that answers 503 if no connection to the next one, with as many cores, is free."""
    front = server("front", connectors=[connector(1, pool={"size": pool}, endpoint="skip")])
    back = server("back", [1], cores=pool)
    return system([front, back], [[call()], [{"compute": work}]], load, duration=duration)


@pytest.mark.parametrize("work", [exponential(1e6), {"constant": 1e6}], ids=["M", "D"])
def test_a_pool_without_waiting_loses_as_erlang_says(work: Plan) -> None:
    """M/G/c/c is insensitive to the distribution of work."""
    blocked = caller_that_skips(work, poisson(4000), pool=5, duration=40 * S)
    assert_is(replicate(blocked, loss), erlang_b(5, 4.0), within=0.03)


def test_a_pool_of_few_sources_loses_as_engset_says() -> None:
    """Call congestion of N sources is the time congestion of N - 1 (Kleinrock I, 3.9)."""
    sources, pool, ratio = 10, 3, 0.5
    blocked = caller_that_skips(exponential(1e6), closed(sources, exponential(2e6)), pool, duration=60 * S)
    weights = [math.comb(sources - 1, k) * ratio**k for k in range(pool + 1)]
    assert_is(replicate(blocked, loss), weights[-1] / sum(weights), within=0.03)


@pytest.mark.parametrize("where", ["connector", "server"])
def test_light_requests_wait_as_the_first_of_two_classes(where: str, tmp_path: Path) -> None:
    """Cobham's formula for two classes that do not interrupt each other (Kleinrock II, 3.6).

    With R = Σ rate·E[S²]/2 the first waits R/(1 - its load), and the second that/(1 - all load). The server is either
    the caller's one connection, because the back end behind it has no other caller, or the back end's one worker.
    """
    (rate1, rate2), (mean1, mean2) = (300.0, 150.0), (0.5e-3, 3e-3)
    pool = {"pool": {"size": 1, "priority": 0}} if where == "connector" else {}
    front = server("front", [0, 1], connectors=[connector(1, **pool)])
    back = server("back", [2, 3]) | ({"workers": 1, "lightest_first": True} if where == "server" else {})
    programs = [[call(of=0)], [call(of=1)], *([{"compute": exponential(mean * 1e9)}] for mean in (mean1, mean2))]
    load = poisson(rate1 + rate2, [(0, rate1), (1, rate2)])
    plan = system([front, back], programs, load, duration=120 * S, record_from=2 * S)
    plan["classes"][0]["light"] = True
    plan["classes"][1]["rank"] = 1

    took: dict[str, list[float]] = {"class 0": [], "class 1": []}
    for i in range(REPLICATIONS):
        requests = run(changed(plan, replication=i), tmp_path / str(i)).requests
        for name, values in took.items():
            mine = requests.filter(pl.col("interaction") == name)
            # type: ignore[arg-type]
            values.append(float((mine["end"] - mine["sent"]).cast(pl.Float64).mean() or 0) / 1e9)
    rest = rate1 * mean1**2 + rate2 * mean2**2
    wait1 = rest / (1 - rate1 * mean1)
    wait2 = wait1 / (1 - rate1 * mean1 - rate2 * mean2)
    assert_is(took["class 0"], wait1 + mean1, within=0.05)
    assert_is(took["class 1"], wait2 + mean2, within=0.05)
