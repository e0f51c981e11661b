"""Laws that hold exactly in every run: whole numbers, from the tables alone."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from plans import (
    MS,
    Plan,
    Run,
    S,
    call,
    closed,
    connector,
    exponential,
    run,
    server,
    system,
    workload,
)

# No event of the system falls on a multiple of this, so that no sample can be before or after it.
EVERY = 50_000_017
WORK = {"web": [100_003, 200_003], "app": [300_007, 100_003], "db": [700_001]}


def overflowing() -> Plan:
    """Three synchronous tiers, small queues, a pool, connections that lose SYNs, a frozen database, a burst; every work
    is a whole number of ns, and the load ends before the run does."""
    syn = {"repeats": [300 * MS, 900 * MS], "give_up": 2 * S}
    servers = [
        server("web", [0, None], workers=40, backlog=20, connectors=[connector(1, kept=False, syn=syn)]),
        server("app", [1, None], cores=2.0, workers=20, backlog=8, connectors=[connector(2, pool={"size": 12})]),
        server("db", [None, 2], workers=12, light_queue=5, backlog=5),
    ]

    def compute(tier: str, i: int) -> Plan:
        return {"compute": {"constant": WORK[tier][i]}}

    programs = [
        [compute("web", 0), call(), compute("web", 1)],
        [compute("app", 0), call(of=1, count=3), compute("app", 1), call(of=1, count=0.5)],
        [compute("db", 0)],
    ]
    return system(
        servers,
        programs,
        closed(300, exponential(1e9), syn=syn, end=9 * S),
        workload({"batch": {"size": 100, "first": 0, "period": 3 * S}}, syn=syn, end=9 * S, timeout=700 * MS),
        duration=14 * S,
        sample=EVERY,
        stalls=[{"begin": 4 * S, "end": 4300 * MS, "kind": "freeze", "effect": {"freeze": {"group": 2}}}],
    )


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Run:
    seen = run(overflowing(), tmp_path_factory.mktemp("run"))
    assert min(seen.report["counts"]["drops"][:2]) > 50, "queues overflow, or these tests say nothing"
    return seen


def of(seen: Run, name: str) -> pl.DataFrame:
    return seen.visits.filter(pl.col("server") == name)


def levels(ups: pl.Series, downs: pl.Series, at: pl.Series) -> np.ndarray:
    """How many began before each moment and have not ended."""
    moments = at.to_numpy()
    begun = np.searchsorted(np.sort(ups.to_numpy()), moments)
    return np.asarray(begun - np.searchsorted(np.sort(downs.to_numpy()), moments))


def sampled(seen: Run, place: str, metric: str) -> pl.DataFrame:
    return seen.samples.filter((pl.col("place") == place) & (pl.col("metric") == metric)).sort("time")


def test_nothing_is_lost_and_nothing_is_left(done: Run) -> None:
    assert done.report["counts"]["unfinished"] == 0
    roots = done.visits.filter(pl.col("parent").is_null())
    answered = done.requests.filter(pl.col("status").is_in(["ok", "503"]))
    assert set(answered["request"]) <= set(roots["request"])
    # The difference are requests that never got in, or whose client stopped waiting.
    ended = done.requests["status"].value_counts()
    assert sum(ended["count"]) == done.requests.height == done.requests["request"].n_unique()
    calls = done.visits.filter(pl.col("parent").is_not_null())
    assert set(calls["parent"]) <= set(done.visits["visit"])


def test_times_of_a_visit_are_in_order_and_inside_their_caller_s(done: Run) -> None:
    in_order = (pl.col("sent") <= pl.col("arrival")) & (pl.col("arrival") <= pl.col("start"))
    assert done.visits.select((in_order & (pl.col("start") <= pl.col("departure"))).all()).item()
    both = done.visits.join(done.visits, left_on="parent", right_on="visit", suffix="_of_caller")
    inside = (pl.col("start_of_caller") <= pl.col("sent")) & (pl.col("departure") <= pl.col("departure_of_caller"))
    assert both.height > 0
    assert both.select(inside.all()).item()


@pytest.mark.parametrize("name", ["web", "app", "db"])
def test_little_s_law_holds_to_the_nanosecond(done: Run, name: str) -> None:
    """The area under the number inside, step by step, is the sum of the stays."""
    mine = of(done, name)
    changes = pl.concat(
        [
            pl.DataFrame({"time": mine["arrival"], "by": pl.Series([1] * mine.height)}),
            pl.DataFrame({"time": mine["departure"], "by": pl.Series([-1] * mine.height)}),
        ]
    ).sort("time")
    level = changes["by"].cum_sum()
    area = (level.slice(0, level.len() - 1) * changes["time"].diff().slice(1)).sum()
    assert level[-1] == 0
    assert level.min() == 0
    assert area == (mine["departure"] - mine["arrival"]).sum()


@pytest.mark.parametrize("name", ["web", "app", "db"])
def test_sampled_workers_are_the_visits_between_start_and_departure(done: Run, name: str) -> None:
    seen, mine = sampled(done, name, "workers_busy"), of(done, name)
    expected = levels(mine["start"], mine["departure"], seen["time"])
    assert expected.max() == {"web": 40, "app": 20, "db": 12}[name]
    np.testing.assert_array_equal(seen["value"].to_numpy(), expected)


@pytest.mark.parametrize("name", ["web", "app"])
def test_the_sampled_accept_queue_is_the_visits_between_arrival_and_start(done: Run, name: str) -> None:
    seen, mine = sampled(done, name, "accept_queue"), of(done, name)
    expected = levels(mine["arrival"], mine["start"], seen["time"])
    assert expected.max() == {"web": 21, "app": 9}[name], "full: one more than the backlog"
    np.testing.assert_array_equal(seen["value"].to_numpy(), expected)


def test_sampled_connections_are_the_calls_that_are_out(done: Run) -> None:
    seen, calls = sampled(done, "app", "pool_in_use"), of(done, "db")
    expected = levels(calls["sent"], calls["departure"], seen["time"])
    assert expected.max() == 12
    np.testing.assert_array_equal(seen["value"].to_numpy(), expected)


def test_lost_syns_are_counted_alike_everywhere(done: Run) -> None:
    drops = dict(zip(["web", "app", "db"], done.report["counts"]["drops"], strict=True))
    events = done.events.filter(pl.col("kind") == "drop")["place"].value_counts()
    assert dict(events.iter_rows()) == {name: n for name, n in drops.items() if n}
    assert all(sampled(done, name, "listen_drops")["value"].sum() == n for name, n in drops.items())
    # A call that is given up leaves no visit: its drops are the rest.
    assert done.requests["drops"].sum() == drops["web"]
    assert of(done, "app")["drops"].sum() <= drops["app"]


@pytest.mark.parametrize("name", ["web", "app", "db"])
def test_busy_time_is_the_work_that_was_done(done: Run, name: str) -> None:
    """Utilisation law, and work is conserved. A job ends at a whole ns, up to one late for each of its computations."""
    seen = sampled(done, name, "cpu_busy")
    cores = 2.0 if name == "app" else 1.0
    busy = float((seen["value"] * seen["interval_ns"].cast(pl.Float64)).sum()) * cores
    ok = of(done, name).filter(pl.col("status") == "ok")
    # A web server whose call failed has done its first part, an app server's calls cannot fail.
    failed = of(done, name).filter(pl.col("status") != "ok").height
    work = ok.height * sum(WORK[name]) + failed * WORK[name][0]
    computations = of(done, name).height * len(WORK[name])
    assert 0 <= busy - work + 1 <= computations + 2, f"{busy} of {work}"


def test_time_downstream_is_the_time_with_a_call_out(done: Run) -> None:
    """The union of the calls' intervals, for those whose calls all left a visit."""
    calls = done.visits.filter(pl.col("parent").is_not_null()).sort("parent", "sent")
    apart = calls.group_by("parent").agg(
        together=((pl.col("sent").shift(-1) < pl.col("departure")).any()),
        out=(pl.col("departure") - pl.col("sent")).sum(),
    )
    assert not apart["together"].any(), "one after another here"
    seen = done.visits.filter(pl.col("status") == "ok").join(apart, left_on="visit", right_on="parent", how="inner")
    assert seen.height > 1000
    assert (seen["downstream_ns"] == seen["out"]).all()
