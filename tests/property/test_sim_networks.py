"""The simulator against closed networks: machine repairman, mean-value analysis, pools within pools, threads held."""

from __future__ import annotations

import numpy as np
import pytest

from plans import MS, Plan, S, assert_is, call, closed, connector, exponential, replicate, server, station, system


def closed_network(rates: list[list[float]], think: float, population: int) -> tuple[list[float], float]:
    """Throughputs with 1 … `population` customers, and the response time with all of them.

    Exact mean-value analysis with load-dependent stations (Reiser, Lavenberg, JACM 27(2), 1980). `rates[s][k - 1]` is
    the rate at which station s serves k customers; the last one holds beyond. Times in seconds.
    """
    queues = [np.zeros(population + 1) for _ in rates]
    for at in queues:
        at[0] = 1.0
    speeds = [np.array([r[min(k, len(r)) - 1] for k in range(1, population + 1)]) for r in rates]
    throughputs, response = [], 0.0
    for n in range(1, population + 1):
        k = np.arange(1, n + 1)
        stays = [float(np.sum(k / speed[:n] * at[:n])) for at, speed in zip(queues, speeds, strict=True)]
        response = sum(stays)
        throughput = n / (think + response)
        for at, speed in zip(queues, speeds, strict=True):
            at[1 : n + 1] = throughput / speed[:n] * at[:n]
            at[0] = max(0.0, 1 - at[1 : n + 1].sum())
        throughputs.append(throughput)
    return throughputs, response


def demand(seconds: float, cores: int = 1) -> list[float]:
    return [min(k, cores) / seconds for k in range(1, cores + 1)]


def three_tiers(clients: int, duration: int, workers: tuple[int, int, int] = (0, 0, 0)) -> Plan:
    """CPU bursts of 0.1, 0.2, 0.5, 0.2, 0.1 ms in web, app, database, app, web; a second of thinking."""
    web, app, database = workers
    servers = [
        server("web", [0, None], connectors=[connector(1)], workers=web),
        server("app", [1, None], connectors=[connector(2)], workers=app),
        server("db", [None, 2], workers=database),
    ]
    programs = [
        [{"compute": exponential(0.1 * MS)}, call(), {"compute": exponential(0.1 * MS)}],
        [{"compute": exponential(0.2 * MS)}, call(of=1), {"compute": exponential(0.2 * MS)}],
        [{"compute": exponential(0.5 * MS)}],
    ]
    return system(servers, programs, closed(clients, exponential(1e9)), duration=duration, record_from=5 * S)


TIERS = [demand(0.2e-3), demand(0.4e-3), demand(0.5e-3)]


@pytest.mark.parametrize(("clients", "cores"), [(20, 1), (60, 3)])
def test_machines_wait_for_their_repairmen(clients: int, cores: int) -> None:
    """M/M/c//N: birth and death, k broken machines with probability ∝ Π (N - i)/Z · 1/μ(i + 1)."""
    repair, works = 10e-3, 0.15
    weights = [1.0]
    for k in range(clients):
        weights.append(weights[-1] * (clients - k) / works * repair / min(k + 1, cores))
    chances = np.array(weights) / sum(weights)
    throughput = sum(p * min(k, cores) / repair for k, p in enumerate(chances))
    repaired = station(
        exponential(repair * 1e9), closed(clients, exponential(works * 1e9)), cores=cores, duration=400 * S
    )
    assert_is(replicate(repaired), clients / throughput - works, within=0.04)


@pytest.mark.parametrize("aggregate", [False, True])
@pytest.mark.parametrize("clients", [1000, 1600])
def test_tiers_without_limits_are_a_product_form_network(clients: int, aggregate: bool) -> None:
    plan = three_tiers(clients, duration=60 * S)
    plan["workloads"][0]["arrivals"]["closed"]["aggregate"] = aggregate
    _, response = closed_network(TIERS, 1.0, clients)
    assert_is(replicate(plan), response, within=0.05)


def test_servers_that_are_visited_often_and_have_several_cores_are_product_form_too() -> None:
    """Four queries a request, on average; two cores in the app server, three in the database."""
    servers = [server("app", [0, None], cores=2, connectors=[connector(1)]), server("db", [None, 1], cores=3)]
    programs = [
        [
            {"compute": exponential(2 * MS)},
            call(of=1, count=3.5),
            call(of=1, count=0.5),
            {"compute": exponential(2 * MS)},
        ],
        [{"compute": exponential(1.5 * MS)}],
    ]
    plan = system(servers, programs, closed(60, exponential(100 * MS)), duration=80 * S, record_from=2 * S)
    _, response = closed_network([demand(4e-3, 2), demand(6e-3, 3)], 0.1, 60)
    assert_is(replicate(plan), response, within=0.03)


def test_pools_within_pools_are_nested_flow_equivalent_servers() -> None:
    """150 threads over 50 over 50, and 2,500 clients: each level is a network whose station below serves k customers at
    the throughput that the level below has with min(k, its limit) of them (Chandy, Herzog, Woo, IBM J. R&D 19, 1975).
    The database is the bottleneck throughout, so what the method leaves out does not count here."""
    database, _ = closed_network([TIERS[2]], 0.0, 50)
    app, _ = closed_network([TIERS[1], database], 0.0, 50)
    web, _ = closed_network([TIERS[0], app], 0.0, 150)
    throughputs, response = closed_network([web], 1.0, 2500)
    assert response == pytest.approx(0.250004, abs=1e-6)
    assert throughputs[-1] == pytest.approx(1999.99, abs=0.01)
    plan = three_tiers(2500, duration=60 * S, workers=(150, 50, 50))
    assert_is(replicate(plan), response, within=0.03)


def held_threads(clients: int, threads: int, think: float, own: float, below: float) -> float:
    """Response time where a thread is held while a request is below: the balance equations of the Markov chain, solved.

    A state is (a, b, w): at the server's own CPU, below, waiting for a thread. Nothing waits while a thread is free."""
    states = [
        (a, k - a, w)
        for k in range(min(threads, clients) + 1)
        for a in range(k + 1)
        for w in (range(clients - k + 1) if k == threads else range(1))
    ]
    number = {state: i for i, state in enumerate(states)}
    flow = np.zeros((len(states), len(states)))
    for (a, b, w), i in number.items():
        thinking = clients - a - b - w
        moves = [
            (thinking / think, (a + 1, b, w) if a + b < threads else (a, b, w + 1)),
            (1 / own if a else 0.0, (a - 1, b + 1, w)),
            (1 / below if b else 0.0, (a + 1, b - 1, w - 1) if w else (a, b - 1, w)),
        ]
        for rate, to in moves:
            if rate > 0:
                flow[i, number[to]] += rate
                flow[i, i] -= rate
    balance = np.vstack([flow.T, np.ones(len(states))])
    chances = np.linalg.lstsq(balance, np.append(np.zeros(len(states)), 1.0), rcond=None)[0]
    thinking = sum(p * (clients - a - b - w) for p, (a, b, w) in zip(chances, states, strict=True))
    return clients / (float(thinking) / think) - think


@pytest.mark.parametrize("threads", [1, 2, 4, 12])
def test_a_thread_held_through_a_call_is_held(threads: int) -> None:
    """Few threads bind before any CPU does, and analytic layered solvers are 28 to 46 % off there."""
    clients, think, own, below = 12, 30e-3, 2e-3, 4e-3
    servers = [
        server("web", [0, None], workers=threads, connectors=[connector(1)]),
        server("db", [None, 1]),
    ]
    programs = [[{"compute": exponential(own * 1e9)}, call(of=1)], [{"compute": exponential(below * 1e9)}]]
    plan = system(servers, programs, closed(clients, exponential(think * 1e9)), duration=300 * S, record_from=2 * S)
    assert_is(replicate(plan), held_threads(clients, threads, think, own, below), within=0.02)


def test_a_network_s_latency_is_part_of_the_loop() -> None:
    """A request goes through six hops, and its client has it only after the last."""
    plan = three_tiers(20, duration=400 * S)
    plan["latency"] = 5 * MS
    think = 1.0
    _, response = closed_network(TIERS, think + 6 * 5e-3, 20)
    assert_is(replicate(plan), 6 * 5e-3 + response, within=0.01)
