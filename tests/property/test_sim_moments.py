"""Beyond means of one queue: variances, numbers inside, and stalls at fixed times.

As elsewhere, by the 99.9 % interval of eight replications; `within` says how narrow it must be.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np

from plans import (
    MS,
    REPLICATIONS,
    Plan,
    Run,
    S,
    assert_is,
    call,
    changed,
    connector,
    counts,
    exponential,
    poisson,
    replicate,
    response_s,
    run,
    server,
    station,
    system,
    trace,
    workload,
)


def observed(plan: Plan, folder: Path, measure: Callable[[Run], float]) -> list[float]:
    return [measure(run(changed(plan, replication=i), folder / str(i))) for i in range(REPLICATIONS)]


def variance_of_responses(done: Run) -> float:
    """s²."""
    return float(((done.requests["end"] - done.requests["sent"]).to_numpy() / 1e9).var())


def test_responses_of_a_shared_processor_vary_as_coffman_muntz_and_trotter_say(tmp_path: Path) -> None:
    """(2 + u) / (2 - u) T² of M/M/1 (J. ACM 17, 1970)."""
    plan = station(exponential(1 * MS), poisson(600), duration=150 * S, ramp=5 * S)
    mean = 1e-3 / 0.4
    assert_is(observed(plan, tmp_path, variance_of_responses), mean**2 * 2.6 / 1.4, within=0.1)


def test_stays_in_two_lines_one_after_another_are_independent(tmp_path: Path) -> None:
    """Reich: of two M/M/1 lines the variances add up (Annals of Mathematical Statistics 28, 1957)."""
    front = server("front", [0, None, None], connectors=[connector(1), connector(2)])
    lines = [server("a", [None, 1, None], workers=1), server("b", [None, None, 2], workers=1)]
    work = [{"compute": exponential(1 * MS)}]
    programs = [[call(0, 1), call(1, 2)], work, work]
    plan = system([front, *lines], programs, poisson(600), duration=150 * S, record_from=5 * S)
    assert_is(observed(plan, tmp_path, variance_of_responses), 2 / 400**2, within=0.1)


def variance_inside(done: Run) -> float:
    """Over time, but for the first and the last second."""
    times = np.concatenate([done.visits["arrival"].to_numpy(), done.visits["departure"].to_numpy()])
    steps = np.repeat([1, -1], done.visits.height)
    order = np.argsort(times, kind="stable")
    begins, inside, stays = times[order][:-1], np.cumsum(steps[order])[:-1], np.diff(times[order])
    stays[(begins < S) | (begins > begins[-1] - S)] = 0
    mean = np.average(inside, weights=stays)
    return float(np.average((inside - mean) ** 2, weights=stays))


def test_a_rate_that_switches_varies_how_many_are_inside_as_of_mmpp_m_infinity(tmp_path: Path) -> None:
    """The mean, and p (1 - p) d² / μ (μ + s): rates that differ by d, of which one holds for the share p of the time,
    and s, the sum of both switches' rates (Cox's process, through an exponential filter)."""
    switching = workload({"modulated": {"rates": [1400.0, 200.0], "stays": [20 * MS, 30 * MS]}})
    plan = station({"constant": 0.0}, switching, duration=150 * S)
    plan["programs"][0] = [{"wait": exponential(10 * MS)}]
    mean, switches = (0.4 * 1400 + 0.6 * 200) / 100, 1 / 0.02 + 1 / 0.03
    exact = mean + 0.4 * 0.6 * 1200**2 / (100 * (100 + switches))
    assert_is(observed(plan, tmp_path, variance_inside), exact, within=0.05)


def test_freezes_by_the_clock_take_what_is_left_of_them_or_all() -> None:
    """Of 0.1 s in each 0.5 s: a fifth comes in one and waits for half of it, and of those with 20 ms of work four in a
    hundred come so short before one that they wait for all of it."""
    plan = station({"constant": 20e6}, poisson(200), duration=200 * S, cores=1000)
    frozen = {"kind": "k", "effect": {"freeze": {"group": 0}}}
    plan["stalls"] = [{"begin": at * 500 * MS, "end": at * 500 * MS + 100 * MS, **frozen} for at in range(400)]
    assert_is(replicate(plan), 0.020 + 0.2 * 0.050 + 0.04 * 0.100, within=0.02)


def test_a_lone_job_takes_what_its_quota_s_periods_leave() -> None:
    """50 ms at 20 ms a period of 100 ms, from a moment u in one on: three begins of periods are waited for where 10 ms
    or less were left of the first, else two, and the last part is what is left of the work."""
    took = []
    for replication in range(REPLICATIONS):
        gaps = np.random.default_rng(replication).uniform(0.5, 1.5, 20_000)
        times = [math.floor(time) for time in np.cumsum(gaps) * 1e9]
        plan = station({"constant": 50e6}, trace(times), duration=times[-1] + S)
        plan["groups"][0]["quota"] = {"quota": 20 * MS, "period": 100 * MS}
        took.append(response_s(counts(plan)))
    u = (np.arange(100_000) + 0.5) / 1000  # ms
    rest = 50 - np.minimum(20, 100 - u)
    whole = np.ceil(rest / 20) - 1  # periods that the rest uses up
    assert_is(took, float(np.mean(100 - u + 100 * whole + rest - 20 * whole)) / 1000, within=0.005)
