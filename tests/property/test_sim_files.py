"""Experiment files with several features, against theory or arithmetic.

As elsewhere, by the 99.9 % interval of eight replications; `within` says how narrow it must be.
"""

from __future__ import annotations

import itertools
import math
import tomllib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest

from chains import stationary
from plans import MS, S, assert_is
from simulated import RAMP_S, Measure, Seen, longer, measured, response, sampled, seen, stay
from tailrace import experiment, sim
from tailrace.experiment import burstiness
from tailrace.experiment.workloads import Closed

Matrix = npt.NDArray[np.float64]
Tails = Callable[[float, float, Sequence[float]], list[float]]

ONE_LINE = """
[tiers.s]
workers = {workers}
backlog = 60000
[interactions.q]
at.s = {{ compute = "10 ms", scv = {scv} }}
[workloads.w]
kind = "poisson"
rate = 70
interaction = "q"
"""


def shared_tails(rate: float, served: float, times: Sequence[float]) -> list[float]:
    """P(response > t) where a processor is shared: of one that finds k others, who leave it 1 / (k + 1), by
    uniformisation of the chain that it sees; k is geometric (Coffman, Muntz, Trotter, J. ACM 17, 1970)."""
    others, load, pace = np.arange(300), rate / served, rate + served
    stays, chances = np.ones(others.size), []
    for _ in range(int(pace * max(times) + 10 * math.sqrt(pace * max(times))) + 50):
        chances.append(float((1 - load) * load**others @ stays))
        more, fewer = np.append(stays[1:], stays[-1]), np.append(0.0, stays[:-1])
        stays = (load * more + others / (others + 1) * fewer) / (1 + load)
    steps = np.arange(len(chances))
    logs = np.array([math.lgamma(step + 1) for step in steps])
    return [float(np.exp(steps * math.log(pace * t) - pace * t - logs) @ chances) for t in times]


def line_tails(rate: float, served: float, times: Sequence[float]) -> list[float]:
    return [math.exp(-(served - rate) * t) for t in times]


def constant_tails(rate: float, served: float, times: Sequence[float]) -> list[float]:
    """Of M/D/1: of the wait, which is all but the work (Erlang, 1909)."""

    def tail(wait: float) -> float:
        terms = [(rate * (k / served - wait), k) for k in range(int(wait * served) + 1)]
        return 1 - (1 - rate / served) * math.fsum(x**k / math.factorial(k) * math.exp(-x) for x, k in terms)

    return [tail(t - 1 / served) for t in times]


@pytest.mark.parametrize(
    ("workers", "scv", "times", "tails"),
    [
        (0, 1, (0.010, 0.05, 0.10), shared_tails),
        (1, 1, (0.010, 0.05, 0.10), line_tails),
        (1, 0, (0.012, 0.03, 0.06), constant_tails),
    ],
)
def test_shares_over_a_time_are_exact(
    workers: int, scv: int, times: Sequence[float], tails: Tails, tmp_path: Path
) -> None:
    parts = tomllib.loads(ONE_LINE.format(workers=workers, scv=scv))
    found = measured(tmp_path, 700, [longer(t) for t in times], parts)
    for values, share, within in zip(found, tails(70, 100, times), (0.03, 0.1, 0.2), strict=True):
        assert_is(values, share, within)


def test_an_answer_waits_for_the_event_loop_that_works_on_another(tmp_path: Path) -> None:
    """Two lines one after another (Jackson); who comes back needs the loop to be let go, and finds it in the middle of
    another's work as often as it works."""
    text = """
    [tiers.front]
    kind = "async"
    calls = ["back"]
    [tiers.back]
    workers = 1
    backlog = 60000
    [interactions]
    page.at.front = { compute = "10 ms", before = 1, calls = { query = 1 } }
    query.at.back = { compute = "12 ms" }
    [workloads.w]
    kind = "poisson"
    rate = 60
    interaction = "page"
    """
    whole, back = measured(tmp_path, 2000, [response("page"), stay("back")], tomllib.loads(text))
    line = 0.012 / (1 - 0.72)
    assert_is(back, line, within=0.05)
    assert_is(whole, 0.010 / (1 - 0.6) + 0.6 * 0.010 + line, within=0.04)


def mean_values(clients: Sequence[int], think: Sequence[float], needs: Sequence[Sequence[float]]) -> Matrix:
    """Rates of the classes, then numbers at the stations, by exact mean-value analysis (Reiser, Lavenberg, 1980)."""
    queues: dict[tuple[int, ...], Matrix] = {}
    for here in itertools.product(*[range(n + 1) for n in clients]):
        queue, rates = np.zeros(len(needs[0])), np.zeros(len(clients))
        for one, n in enumerate(here):
            if n:
                before = queues[tuple(k - (k_of == one) for k_of, k in enumerate(here))]
                stays = np.array(needs[one]) * (1 + before)
                rates[one] = n / (think[one] + stays.sum())
                queue += rates[one] * stays
        queues[here] = queue
    return np.concatenate([rates, queues[tuple(clients)]])


def test_servers_that_are_chosen_at_random_are_stations_of_a_network(tmp_path: Path) -> None:
    """Two sorts of clients, tiers of several servers, visits that are counted in fractions; and what is sampled is
    what there is: numbers inside, and busy processors."""
    text = """
    sampling.interval = "50 ms"
    [tiers]
    web = { workers = 0, calls = { app = { pool = 0, policy = "random" } } }
    app = { count = 2, workers = 0, calls = { db = { pool = 0, policy = "random" } } }
    db = { count = 3, workers = 0 }
    [interactions]
    light.at.web = { compute = "4 ms", calls = { few = 1 } }
    heavy.at.web = { compute = "2 ms", calls = { many = 1 } }
    few.at.app = { compute = "6 ms", calls = { long = 2.5 } }
    many.at.app = { compute = "20 ms", calls = { short = 1.5 } }
    long.at.db = { compute = "8 ms", scv = 4 }
    short.at.db = { compute = "5 ms", scv = 0 }
    [workloads]
    one = { clients = 20, think = "200 ms", think_max = 0, interaction = "light" }
    two = { clients = 12, think = "100 ms", think_max = 0, think_scv = 0.5, interaction = "heavy" }
    """
    needs = [[0.004, *[0.003] * 2, *[0.020 / 3] * 3], [0.002, *[0.010] * 2, *[0.0075 / 3] * 3]]
    exact = mean_values((20, 12), (0.2, 0.1), needs)
    busy = exact[0] * np.array(needs[0]) + exact[1] * np.array(needs[1])

    def rate(interaction: str) -> Measure:
        return lambda one: one.requests.filter(pl.col("interaction") == interaction).height / 300

    measures = [rate("light"), rate("heavy"), sampled("app2", "run_queue"), sampled("app1", "cpu_busy")]
    found = measured(tmp_path, 300, measures, tomllib.loads(text))
    comparisons = zip(found, (exact[0], exact[1], exact[4], busy[1]), (0.02, 0.015, 0.08, 0.02), strict=True)
    for values, value, within in comparisons:
        assert_is(values, float(value), within)


def test_a_router_that_counts_connections_reads_from_one_and_writes_to_both(tmp_path: Path) -> None:
    """A chain of both lines' lengths and whose turn it is. Who finds a and b there, and is written to both, takes the
    longer of an (a + 1)-fold and a (b + 1)-fold service."""
    read, write, served, most = 60.0, 30.0, 100.0, 25

    def moves(state: tuple[int, int, int]) -> Iterable[tuple[tuple[int, int, int], float]]:
        a, b, turn = state
        first = a < b or (a == b and turn == 0)
        if max(a, b) < most:
            yield ((a + 1, b, 1) if first else (a, b + 1, 0)), read
            yield (a + 1, b + 1, turn), write
        if a:
            yield (a - 1, b, turn), served
        if b:
            yield (a, b - 1, turn), served

    longest = np.zeros((most + 2, most + 2))
    for a, b in itertools.product(range(most + 2), repeat=2):
        longest[a, b] = (a + b) / served
        if a and b:
            longest[a, b] = (1 / served + longest[a - 1, b] + longest[a, b - 1]) / 2
    shares = stationary((0, 0, 0), moves)
    of_reads = sum(share * (min(a, b) + 1) / served for (a, b, _), share in shares.items())
    of_writes = sum(share * float(longest[a + 1, b + 1]) for (a, b, _), share in shares.items())
    text = """
    [tiers]
    router = { software = "cjdbc", calls = { db = { pool = 0 } } }
    db = { count = 2, workers = 1 }
    [interactions]
    read.at.router = { calls = { one = 1 } }
    write.at.router = { calls = { both = { all = true } } }
    one.at.db = { compute = "10 ms" }
    both.at.db = { compute = "10 ms" }
    [workloads]
    readers = { kind = "poisson", rate = 60, interaction = "read" }
    writers = { kind = "poisson", rate = 30, interaction = "write" }
    """
    reads, writes = measured(tmp_path, 1000, [response("read"), response("write")], tomllib.loads(text))
    assert_is(reads, of_reads, within=0.03)
    assert_is(writes, of_writes, within=0.03)


def dispersions(modes: burstiness.Modes, clients: int, windows: Sequence[float]) -> list[float]:
    """Variance ÷ mean of what clients that share modes send in a window, from the chain of how many think fast and in
    which mode the next one will: 1 + 2 ∫ (t - u) (rate at u after a request - rate) du / t."""
    size, fast, slow = 2 * (clients + 1), 1e9 / modes.fast, 1e9 / modes.slow
    sends = np.zeros((size, size))
    for k, mode in itertools.product(range(clients + 1), (0, 1)):
        leaves = modes.to_slow if mode else modes.to_fast
        for rate, left in ((k * fast, k - 1), ((clients - k) * slow, k)):
            if rate:
                sends[2 * k + mode, 2 * (left + mode) + mode] += rate * (1 - leaves)
                sends[2 * k + mode, 2 * (left + mode) + 1 - mode] += rate * leaves
    rates = sends.sum(axis=1)
    moves = sends - np.diag(rates)
    shares = np.linalg.lstsq(np.vstack([moves.T, np.ones(size)]), np.append(np.zeros(size), 1.0), rcond=None)[0]
    values, vectors = np.linalg.eig(moves)
    weights = (shares @ sends @ vectors) * (np.linalg.inv(vectors) @ rates)
    others = np.arange(size) != np.argmin(abs(values))
    values, weights, mean = values[others], weights[others], shares @ rates
    return [
        float(1 + 2 * np.real(weights @ ((np.exp(values * t) - 1 - values * t) / values**2)) / (mean * t))
        for t in windows
    ]


def dispersion(window: float, seconds: int, rate: float) -> Measure:
    def of(one: Seen) -> float:
        moments = (one.requests["sent"].to_numpy() - sim.EPOCH) / 1e9 - RAMP_S
        counts = np.histogram(moments, np.arange(0, seconds + 1e-9, window))[0]
        return float(((counts - rate * window) ** 2).mean() / (rate * window))

    return of


def test_bursts_of_clients_that_share_modes_are_as_large_in_any_window(tmp_path: Path) -> None:
    """Four processes of 25 clients, each with a chain of its own: I is 18.4 in 50 ms and 28.7 in 0.5 s, of 30."""
    text = """
    [tiers.s]
    workers = 0
    [interactions.q]
    at.s = {}
    [workloads.w]
    clients = 100
    client_processes = 4
    think = "0.5 s"
    index_of_dispersion = 30
    interaction = "q"
    """
    parts, windows = tomllib.loads(text), (0.05, 0.5)
    load = experiment.from_table(parts).workloads["w"]
    assert isinstance(load, Closed)
    found = measured(tmp_path, 2000, [dispersion(window, 2000, 200.0) for window in windows], parts)
    for values, exact in zip(found, dispersions(burstiness.fit(load), 25, windows), strict=True):
        assert_is(values, exact, within=0.05)


STALLED = """
latency = 0
ramp = "1 s"
duration = "6 s"
sampling.interval = "1 ms"
[tiers.s]
workers = 1
backlog = 5000
[interactions.q]
at.s = { compute = "0.8 ms", scv = 0 }
[[stalls]]
at = "500 ms"
for = "400 ms"
"""


@pytest.mark.parametrize(
    "stall",
    [
        'kind = "slow"\nplace = "s"\nleft = 0.3',
        'kind = "iowait"\nplace = "s"\nblocks = 0.7',
        'kind = "burn"\nplace = "s"\nweight = 2.3333333333333335',
    ],
)
def test_a_queue_grows_and_drains_as_a_fluid_however_a_server_is_slowed_down(stall: str, tmp_path: Path) -> None:
    """One request a millisecond of 0.8 ms each, and three tenths of the core for 400 ms: the queue grows by 5/8 a
    millisecond up to 250, and drains by a quarter, for a second."""
    (tmp_path / "even.csv").write_text("time\n" + "".join(f"{i / 1000}\n" for i in range(5000)))
    load = {"kind": "trace", "file": str(tmp_path / "even.csv"), "interaction": "q"}
    one = seen(tmp_path, tomllib.loads(STALLED + stall) | {"workloads": {"w": load}})
    queue = one.samples.filter(pl.col("place") == "s", pl.col("metric") == "accept_queue").sort("time")
    waiting = queue.filter(pl.col("value") > 0)["time"] - sim.EPOCH - S
    assert queue["value"].max() == pytest.approx(250, abs=1)
    assert waiting.max() == pytest.approx(1900 * MS, abs=2 * MS)
    ends = (one.requests["end"].sort() - sim.EPOCH - S).to_numpy() / 1e6
    at, exact = 0.0, []
    for i in range(5000):
        done = min(at, 500) + 0.3 * min(max(at - 500, 0), 400) + max(at - 900, 0)
        begin = min(i, 500) + 0.3 * min(max(i - 500, 0), 400) + max(i - 900, 0)
        work = max(done, begin) + 0.8
        at = work if work <= 500 else 500 + (work - 500) / 0.3 if work <= 620 else 280 + work
        exact.append(at)
    assert np.abs(ends - exact).max() < 0.001
