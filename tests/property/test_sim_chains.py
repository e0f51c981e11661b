"""The simulator against systems that are Markov chains, solved here state by state: priorities, limits, bursts, losses.

Most of them have no known formula. Each chain is written from the meaning of the system, never from the engine's code.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from chains import stationary
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

NO_REPEATS: Plan = {"repeats": [], "give_up": 1}
CORE = 1000.0
"""Requests a second that a core serves, of a mean of 1 ms."""


def lost(counted: dict[str, Any]) -> float:
    return float(counted["failed"]) / (counted["failed"] + counted["answered"])


def assert_responses(plan: Plan, exact_s: list[float], folder: Path, within: float) -> None:
    """Mean response times by class, s."""
    found: list[list[float]] = [[] for _ in exact_s]
    for replication in range(REPLICATIONS):
        requests = run(changed(plan, replication=replication), folder).requests
        for place, values in enumerate(found):
            own = requests.filter(pl.col("interaction") == f"class {place}")
            values.append(float((own["end"] - own["sent"]).to_numpy().mean()) / 1e9)
    for values, exact in zip(found, exact_s, strict=True):
        assert_is(values, exact, within)


def test_no_heavy_call_is_let_in_while_more_light_ones_than_the_limit_are_there(tmp_path: Path) -> None:
    """A pool of three connections, light before heavy, and no heavy one while two light ones hold or want one."""
    size, limit, served, rates = 3, 1, 100.0, (120.0, 60.0)
    most = (18, 24)  # of light and of heavy waiting ones: more are present less than once in 10^6

    def settled(light: int, heavy: int, waits: int) -> tuple[int, int, int]:
        while waits and light <= limit and light + heavy < size:
            heavy, waits = heavy + 1, waits - 1
        return light, heavy, waits

    def moves(state: tuple[int, int, int]) -> Iterable[tuple[tuple[int, int, int], float]]:
        """Light ones that hold a connection or wait for one, heavy ones that hold one, heavy ones that wait."""
        light, heavy, waits = state
        if light < most[0]:
            yield settled(light + 1, heavy, waits), rates[0]
        if waits < most[1]:
            yield settled(light, heavy, waits + 1), rates[1]
        if light:
            yield settled(light - 1, heavy, waits), served * min(light, size - heavy)
        if heavy:
            yield settled(light, heavy - 1, waits), served * heavy

    shares = stationary((0, 0, 0), moves)
    numbers = [(light, heavy + waits, share) for (light, heavy, waits), share in shares.items()]
    inside = [sum(number[rank] * number[2] for number in numbers) for rank in (0, 1)]
    front = server("front", [0, 1], connectors=[connector(1, pool={"size": size, "priority": limit})])
    programs = [[call(of=0)], [call(of=1)], *[[{"wait": exponential(1e9 / served)}]] * 2]
    load = poisson(sum(rates), list(enumerate(rates)))
    plan = system([front, server("back", [2, 3])], programs, load, duration=200 * S, record_from=2 * S)
    plan["classes"][0]["light"] = True
    assert_responses(plan, [number / rate for number, rate in zip(inside, rates, strict=True)], tmp_path, within=0.06)


def test_few_sources_of_two_classes_wait_by_their_order(tmp_path: Path) -> None:
    """The first class is served first, without preemption."""
    sources, think, means = (3, 4), 0.020, (0.002, 0.005)

    def moves(state: tuple[int, int, int]) -> Iterable[tuple[tuple[int, int, int], float]]:
        """The class in service (none: -1), and the number of each."""
        served, *there = state
        for who in (0, 1):
            first, second = there[0] + (who == 0), there[1] + (who == 1)
            if there[who] < sources[who]:
                yield (who if served < 0 else served, first, second), (sources[who] - there[who]) / think
        if served >= 0:
            first, second = there[0] - (served == 0), there[1] - (served == 1)
            yield (0 if first else 1 if second else -1, first, second), 1 / means[served]

    shares = stationary((-1, 0, 0), moves)
    inside = [sum(state[1 + who] * share for state, share in shares.items()) for who in (0, 1)]
    only = server("s", [0, 1], workers=1, lightest_first=True, light_queue=1_000_000)
    programs = [[{"compute": exponential(mean * S)}] for mean in means]
    loads = [closed(n, exponential(think * S), [(i, 1.0)], kept=True, name=f"w{i}") for i, n in enumerate(sources)]
    plan = system([only], programs, *loads, duration=400 * S, record_from=5 * S)
    plan["classes"][1]["rank"] = 1
    exact = [there * think / (n - there) for n, there in zip(sources, inside, strict=True)]
    assert_responses(plan, exact, tmp_path, within=0.03)


def test_a_full_accept_queue_loses_more_of_arrivals_whose_rate_switches() -> None:
    """MMPP/M/2/4."""
    rates, stays, cores, places = (3000.0, 500.0), (0.005, 0.015), 2, 4

    def moves(state: tuple[int, int]) -> Iterable[tuple[tuple[int, int], float]]:
        mode, inside = state
        yield (1 - mode, inside), 1 / stays[mode]
        if inside < places:
            yield (mode, inside + 1), rates[mode]
        if inside:
            yield (mode, inside - 1), CORE * min(inside, cores)

    shares = stationary((0, 0), moves)
    came = {state: share * rates[state[0]] for state, share in shares.items()}
    full = sum(rate for (_, inside), rate in came.items() if inside == places)
    load = workload(
        {"modulated": {"rates": list(rates), "stays": [round(stay * 1e9) for stay in stays]}}, syn=NO_REPEATS
    )
    plan = station(exponential(MS), load, cores=2.0, workers=cores, backlog=places - cores - 1, duration=100 * S)
    assert_is(replicate(plan, lost), full / sum(came.values()), within=0.04)


def test_work_that_grows_with_threads_loses_and_delays_as_a_birth_and_death_process_says() -> None:
    """Six workers on two cores, two more places; from the third thread on work grows by 0.3·(n - 2)^1.5."""
    rate, workers, places = 900.0, 6, 8

    def served(inside: int) -> float:
        threads = min(inside, workers)
        return CORE * min(threads, 2) / (1 + 0.3 * max(threads - 2, 0) ** 1.5)

    shares = stationary(
        0,
        lambda inside: [(inside + 1, rate)] * (inside < places) + [(inside - 1, served(inside))] * (inside > 0),
    )
    inside = sum(number * share for number, share in shares.items())
    load = poisson(rate, syn=NO_REPEATS)
    plan = station(exponential(MS), load, cores=2.0, workers=workers, backlog=places - workers - 1, duration=100 * S)
    plan["groups"][0]["inflation"] = {"free": 2.0, "slope": 0.3, "power": 1.5}
    assert_is(replicate(plan, lost), shares[places], within=0.08)
    assert_is(replicate(plan), inside / (rate * (1 - shares[places])), within=0.06)


def embedded(places: int, joins: int, expected: float) -> np.ndarray:
    """Law of the number inside just before `joins` more come: meanwhile as many leave as a Poisson law of this mean
    says, at most all."""
    step = np.zeros((places + 1, places + 1))
    for before in range(places + 1):
        after = min(before + joins, places)
        for leave in range(after):
            step[before, after - leave] = math.exp(-expected + leave * math.log(expected) - math.lgamma(leave + 1))
        step[before, 0] = max(0.0, 1 - step[before].sum())
    balance = (step - np.eye(places + 1)).T
    balance[-1] = 1.0
    return np.linalg.solve(balance, np.eye(places + 1)[-1])


def test_even_arrivals_are_lost_as_of_d_m_1_k() -> None:
    places, gap = 5, 0.00125
    times = [round(number * gap * 1e9) for number in range(80_000)]
    plan = station(exponential(MS), trace(times, syn=NO_REPEATS), workers=1, backlog=places - 2, duration=100 * S)
    assert_is(replicate(plan, lost), float(embedded(places, 1, CORE * gap)[places]), within=0.1)


def test_batches_that_come_by_the_clock_wait_for_what_is_left_of_those_before() -> None:
    """D^[20]/M/1: a request of a batch waits for those present and for half of its own batch."""
    size, period = 20, 0.03
    before = embedded(400, size, CORE * period)
    exact = (float(before @ np.arange(401)) + (size + 1) / 2) / CORE
    load = workload({"batch": {"size": size, "first": 0, "period": round(period * 1e9)}})
    plan = station(exponential(MS), load, workers=1, duration=200 * S, ramp=5 * S)
    assert_is(replicate(plan), exact, within=0.02)


def test_clients_give_up_as_often_as_responses_are_that_long() -> None:
    """No work is preempted, so responses stay exponential: M/M/1, P(R > t) = exp(-(μ - λ)t)."""
    rate, timeout = 600.0, 0.004
    plan = station(
        exponential(MS), poisson(rate, timeout=round(timeout * 1e9)), workers=1, duration=100 * S, ramp=2 * S
    )
    assert_is(replicate(plan, lost), math.exp(-(CORE - rate) * timeout), within=0.1)
