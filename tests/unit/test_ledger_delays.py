"""Causes that hold up visits and take no capacity: packets lost on their way, and visits that wait together."""

from __future__ import annotations

import atexit
import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from builders import STATES, Without
from ledgers import shares
from plans import made
from tailrace.dataset import Dataset
from tailrace.diagnosis import diagnose
from tailrace.diagnosis.ledger import delays
from tailrace.diagnosis.ledger.delays import Delays
from tailrace.diagnosis.ledger.losses import lock, path
from tailrace.diagnosis.ledger.recorded import Names
from tailrace.diagnosis.ledger.steps import Steps
from tailrace.diagnosis.serialise import as_dict
from tailrace.diagnosis.series import Series
from tailrace.diagnosis.view import View
from tailrace.score import score

MS = 1_000_000
Table = dict[str, Any]


def shop(*stalls: Table, writes: float = 0.2) -> Table:
    """web → app → db at 300 requests a second, of which some write."""
    return {
        "seed": 5,
        "duration": "16 s",
        "ramp": "3 s",
        "sampling": {"interval": "50 ms"},
        "kernel": {"syn": "linux-6.5"},
        "tiers": {
            "web": {"kind": "sync", "workers": 60, "backlog": 30, "calls": {"app": {"kept": False, "pool": 0}}},
            "app": {"kind": "sync", "workers": 60, "backlog": 60, "calls": {"db": {"kept": True, "pool": 60}}},
            "db": {"kind": "sync", "workers": 80},
        },
        "interactions": {
            "page": {"at": {"web": {"compute": "0.4 ms", "calls": {"servlet": 1}}}},
            "order": {"at": {"web": {"compute": "0.4 ms", "calls": {"buy": 1}}}},
            "servlet": {"at": {"app": {"compute": "1 ms", "calls": {"query": 1}}}},
            "buy": {"at": {"app": {"compute": "1 ms", "calls": {"write": 1}}}},
            "query": {"at": {"db": {"compute": "0.5 ms"}}},
            "write": {"at": {"db": {"compute": "0.6 ms"}}},
        },
        "workloads": {
            "users": {"kind": "poisson", "rate": 300, "mix": {"page": 1 - writes, "order": writes}, "entry": "web"}
        },
        "stalls": list(stalls),
    }


def stall(kind: str, place: str, lasts: str, **more: Any) -> Table:
    return {"kind": kind, "place": place, "at": "6 s", "for": lasts} | more


def on_a_loop(table: Table) -> Table:
    """The database is an event loop, so a visit that waits in it holds up all others."""
    table["tiers"]["db"] = {"kind": "async"}
    return table


def with_few_workers(table: Table) -> Table:
    table["tiers"]["db"]["workers"] = 20
    return table


def with_a_small_pool(table: Table) -> Table:
    """Buyers wait for one of four connections to the database; readers need none."""
    table["tiers"]["app"] |= {"workers": 200, "calls": {"db": {"kept": True, "pool": 4}}}
    table["tiers"]["web"]["workers"] = 400
    table["interactions"]["servlet"] = {"at": {"app": {"compute": "1 ms"}}}
    return table


def with_long_visits(table: Table) -> Table:
    """Sixty visits wait in the database at any time, for 0.2 s each."""
    for name in ("query", "write"):
        table["interactions"][name]["at"]["db"]["wait"] = "0.2 s"
    table["tiers"]["app"] |= {"workers": 200, "calls": {"db": {"kept": True, "pool": 200}}}
    table["tiers"]["web"]["workers"] = 200
    return table


def with_reports(table: Table, size: int, wait: str, every: str) -> Table:
    """Batches of requests that wait in the database, each for a long time."""
    table["interactions"] |= {
        "report": {"at": {"web": {"compute": "0.1 ms", "calls": {"collect": 1}}}},
        "collect": {"at": {"app": {"compute": "0.1 ms", "calls": {"scan": 1}}}},
        "scan": {"at": {"db": {"compute": "0.5 ms", "wait": wait}}},
    }
    times = {"first": "5 s", "every": every}
    table["workloads"]["reports"] = {"kind": "batch", "size": size, "entry": "web", "interaction": "report"} | times
    return table


def with_one_pool_for_replicas(table: Table) -> Table:
    """The application calls three databases over one pool of connections."""
    table["tiers"]["db"] |= {"count": 3}
    table["tiers"]["app"] |= {"workers": 100, "calls": {"db": {"kept": True, "pool": 30, "policy": "random"}}}
    table["tiers"]["web"]["workers"] = 400
    return table


SYSTEMS = {
    "a hole before app": shop(stall("packet-loss", "app", "0.6 s")),
    "a fifth is lost": shop(stall("packet-loss", "app", "2 s", share=0.2)),
    "a hole before db, on kept connections": shop(stall("packet-loss", "db", "1.2 s")),
    "writes wait": shop(stall("lock", "db", "1.6 s", interactions=["write"])),
    "writes take all workers and wait": with_few_workers(shop(stall("lock", "db", "1.6 s", interactions=["write"]))),
    "writes hold a loop and wait": on_a_loop(shop(stall("lock", "db", "1.2 s", every="2.8 s", interactions=["write"]))),
    "a write holds a loop once": on_a_loop(shop(stall("lock", "db", "1.2 s", interactions=["write"]), writes=0.05)),
    "a loop stops": on_a_loop(shop(stall("freeze", "db", "1.2 s", every="2.8 s"))),
    "db stops behind a small pool": with_a_small_pool(shop(stall("freeze", "db", "1.5 s"))),
    "reports hold a loop": with_reports(on_a_loop(shop()), 30, "0.7 s", "20 s"),
    "reports hold a pool": with_reports(with_one_pool_for_replicas(shop()), 150, "0.7 s", "30 s"),
    "db stops": shop(stall("freeze", "db", "1.0 s")),
    "db stops while many are inside": with_long_visits(shop(stall("freeze", "db", "1.0 s"), writes=0.1)),
    "app stops": shop(stall("freeze", "app", "0.9 s")),
    "all wait in db": shop(stall("lock", "db", "1.2 s")),
    "a loop waits": on_a_loop(shop(stall("lock", "db", "1.2 s"))),
}


@cache
def simulated(name: str) -> Dataset:
    folder = Path(mkdtemp(prefix="tailrace-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return made(SYSTEMS[name], folder / "run")


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("a hole before app", "packet-loss"),
        ("a fifth is lost", "packet-loss"),
        ("a hole before db, on kept connections", "packet-loss"),
        ("writes wait", "lock"),
        ("writes take all workers and wait", "lock"),
        ("writes hold a loop and wait", "lock"),
    ],
)
def test_what_holds_up_visits_is_reported_and_right_by_simulating_without(name: str, cause: str) -> None:
    run = simulated(name)
    found = score(run, as_dict(diagnose(run)))
    assert found.vlrt > 100
    assert found.causes[cause]["right"] >= 0.95 * found.vlrt
    assert found.wrong == 0


STOPS = "db stops", "db stops while many are inside", "app stops", "a loop stops", "db stops behind a small pool"


@pytest.mark.parametrize("unseen", [(), STATES], ids=["threads seen", "threads unseen"])
@pytest.mark.parametrize("name", STOPS)
def test_a_server_that_stops_and_refuses_connections_is_no_lossy_path_and_no_lock(
    name: str, unseen: tuple[str, ...]
) -> None:
    found = shares(Without(simulated(name), *unseen))
    assert found.get("freeze", 0.0) >= 0.9
    assert not found.keys() & {"packet-loss", "lock"}


@pytest.mark.parametrize("unseen", [(), STATES], ids=["threads seen", "threads unseen"])
@pytest.mark.parametrize("name", ["reports hold a loop", "reports hold a pool"])
def test_visits_that_are_slow_by_themselves_are_no_lock_and_no_stop(name: str, unseen: tuple[str, ...]) -> None:
    found = shares(Without(simulated(name), *unseen))
    assert found
    assert not found.keys() & {"lock", "freeze"}


@pytest.mark.parametrize("name", ["all wait in db", "a loop waits", "a write holds a loop once"])
def test_a_server_whose_threads_sleep_while_it_has_visits_waits_for_a_lock(name: str) -> None:
    run = simulated(name)
    found = score(run, as_dict(diagnose(run)))
    assert found.vlrt > 100
    assert found.causes["lock"]["right"] >= 0.95 * found.vlrt
    assert found.wrong == 0


class Stopped(Without):
    """Its samples say that the threads of db were stopped whenever they slept."""

    def samples(self) -> pl.LazyFrame:
        is_it = (pl.col("metric").cast(pl.String) == "tasks_stopped") & (pl.col("place").cast(pl.String) == "db")
        return super().samples().with_columns(value=pl.when(is_it).then(1.0).otherwise(pl.col("value")))


def test_visits_that_wait_together_while_threads_are_stopped_wait_for_no_lock() -> None:
    run = simulated("writes take all workers and wait")
    assert shares(run)["lock"] >= 0.9
    assert "lock" not in shares(Stopped(run))


def test_what_one_visit_of_a_rare_kind_shows_is_no_proof_of_a_stop_or_a_lock() -> None:
    """The threads' states would show which of the two it was."""
    found = as_dict(diagnose(Without(simulated("a write holds a loop once"), *STATES)))
    assert {episode["cause"] for episode in found["episodes"]} == {"unknown"}
    assert all("tasks_stopped of db" in episode["findings"][4]["missing"] for episode in found["episodes"])


def test_without_a_counter_of_refusals_no_path_is_charged() -> None:
    unseen = Without(simulated("a hole before app"), "listen_drops")
    assert "packet-loss" not in shares(unseen)


class Early(Without):
    """Its samples say that they were taken earlier."""

    def samples(self) -> pl.LazyFrame:
        return super().samples().with_columns(time=pl.col("time") - 40 * MS)


def test_a_counter_whose_clock_is_behind_still_shows_that_the_queue_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    refused, found = path._refused, []
    monkeypatch.setattr(path, "_refused", lambda *given: found.append(refused(*given)) or found[-1])
    assert "packet-loss" not in shares(Early(simulated("app stops")))
    assert sum(map(len, found)) > 100
    assert all(one.all() for one in found)


def counter(first: float, last: float) -> Series:
    """A counter of refusals that counts from `first` to `last` (seconds), sampled for ten seconds."""
    begin = np.arange(0, 10_000 * MS, 50 * MS)
    counts = (begin >= first * 1000 * MS) & (begin < last * 1000 * MS)
    return Series("app", "listen_drops", begin, begin + 50 * MS, counts.astype(float))


def refusing(*series: Series) -> Any:
    view = SimpleNamespace(refusals_of=lambda _: series)
    view.may_refuse = lambda *given: View.may_refuse(view, *given)  # type: ignore[arg-type]
    return view


def test_an_attempt_that_was_lost_before_the_queue_refused_others_was_not_refused() -> None:
    """The server refuses others from 2 to 4 s. The first request is lost at 1 s and comes at 4 s; the second is lost at
    0.5 s and again at 3.5 s; the third is lost at 2 s."""
    seen: Any = SimpleNamespace(view=refusing(counter(2, 4)))
    columns: Any = SimpleNamespace(
        steps=Steps.of(np.array([[0, 10_000 * MS]])),
        sent=np.array([1000, 500, 2000]) * MS,
        arrival=np.array([4000, 9500, 5000]) * MS,
        schedule=(3000 * MS, 9000 * MS),
    )
    assert path._refused(seen, "app", columns, np.arange(3)).tolist() == [False, True, True]
    columns.sent, columns.arrival = np.array([100, 4100]) * MS, np.array([3100, 9100]) * MS
    columns.schedule = tuple(second * 1000 * MS for second in range(1, 6))
    assert path._refused(seen, "app", columns, np.arange(2)).tolist() == [True, False], "linear (Linux 6.5)"


@pytest.mark.parametrize(
    ("series", "expected"),
    [
        ([], [True, True, True]),
        ([counter(2, 4)], [False, True, True]),
        ([counter(0, 0)], [False, False, True]),
        ([counter(0, 0), counter(0, 1)], [True, False, True]),
    ],
    ids=["no counter", "counts later", "counts nothing", "the second one counts"],
)
def test_a_server_may_refuse_where_its_counter_counts_or_where_nothing_was_sampled(
    series: list[Series], expected: list[bool]
) -> None:
    at = np.array([500, 3000, 20_000]) * MS
    assert refusing(*series).may_refuse("app", at, at).tolist() == expected


def test_the_ends_of_a_lossy_path_are_named() -> None:
    diagnosed = as_dict(diagnose(simulated("a hole before app")))
    lines = [line for episode in diagnosed["episodes"] for line in episode["ledger"]["lines"]]
    assert {(line["cause"], line["place"]) for line in lines} == {("packet-loss", "between web and app")}


def test_visits_that_wait_for_a_call_wait_for_no_lock() -> None:
    """The writes of app wait for db, where the lock is."""
    diagnosed = as_dict(diagnose(simulated("writes wait")))
    lines = [line for episode in diagnosed["episodes"] for line in episode["ledger"]["lines"]]
    assert {(line["cause"], line["server"]) for line in lines} == {("lock", "db")}


def test_delays_of_lines_add_up_by_visit() -> None:
    late = Delays.came_late(np.array([1]), np.array([200]))
    pause = Delays.paused(np.array([0, 2]), np.array([5, 7]))
    assert [part.tolist() for part in delays.held_up(3, [late.and_also(pause)])] == [[0, 200, 0], [5, 0, 7]]
    assert delays.held_up(3, [pause, pause])[1].tolist() == [10, 0, 14]
    found = delays.held_up(3, [late, pause])
    assert [part.tolist() for part in found] == [[0, 200, 0], [5, 0, 7]]


def test_logins_alone_in_a_server_are_no_chance_because_queries_follow_logins() -> None:
    """While a database answers nobody, only logins come: each query waits for the login of its connection."""
    at = np.arange(40)
    names = Names(np.array(["login", "query"]), (at % 2).astype(np.uint32))
    visits: Any = SimpleNamespace(parent=100 + at // 2, sent=at * MS)
    logins, queries = lock._kinds(visits, names, at)
    assert (logins.visits.tolist(), queries.visits.tolist()) == (at[::2].tolist(), at[1::2].tolist())
    assert (logins.share, queries.share) == (1.0, 0.0)
    of_clients: Any = SimpleNamespace(parent=np.full(40, -1), sent=at * MS)
    assert [kind.share for kind in lock._kinds(of_clients, names, at)] == [0.5, 0.5]
    assert lock._kinds(of_clients, names, at[:0]) == []


@pytest.mark.parametrize(("lasts", "fill"), [(30, True), (10, False)])
def test_visits_that_wait_while_preferred_ones_take_all_workers_may_wait_for_a_worker(lasts: int, fill: bool) -> None:
    """One visit comes each 5 ms, so six are inside if each lasts 30 ms, and two if it lasts 10 ms."""
    begin = np.arange(100) * 5 * MS
    visits: Any = SimpleNamespace(
        number={"db": 0}, workers=np.array([5]), arrival=begin, departure=begin + lasts * MS + 1
    )
    assert lock._others_fill(visits, np.arange(100), "db", 100 * MS, 400 * MS) is fill
    visits.workers = np.array([0])  # Any number of visits is served at once.
    assert not lock._others_fill(visits, np.arange(100), "db", 100 * MS, 400 * MS)
