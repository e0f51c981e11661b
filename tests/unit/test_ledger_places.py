"""The ledger's lines of places, quotas and memory, and what only looks alike."""

from __future__ import annotations

import atexit
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import polars as pl
import pytest

from builders import STATES, Without
from ledgers import drawn_up, here, shares
from plans import made
from systems import Slow, system
from tailrace.dataset import Dataset
from tailrace.diagnosis import diagnose, tables, vlrt
from tailrace.diagnosis.ledger import account, alike, places, recorded
from tailrace.diagnosis.ledger.losses import Seen
from tailrace.diagnosis.ledger.workers import lost_at, taken, turns, workers
from tailrace.topology import Node, Topology
from tailrace.units import MILLISECOND as MS

Table = dict[str, Any]


def chain(report: Table, *, workers: int, reports: int, stalls: tuple[Table, ...] = (), kind: str = "sync") -> Table:
    """web → app → db; `reports` come to app at once, every 5 s, and each asks it for `report`."""
    app: Table = {"kind": kind, "backlog": 16, "calls": {"db": {"kept": False, "pool": 0}}}
    return {
        "seed": 3,
        "duration": "16 s",
        "ramp": "3 s",
        "sampling": {"interval": "50 ms"},
        "tiers": {
            "web": {"kind": "sync", "workers": 60, "backlog": 32, "calls": {"app": {"kept": False, "pool": 0}}},
            "app": app | ({"workers": workers} if workers else {}),
            "db": {"kind": "sync", "workers": 40, "backlog": 32},
        },
        "interactions": {
            "page": {"at": {"web": {"compute": "0.5 ms", "calls": {"query": 1}}}},
            "query": {"at": {"app": {"compute": "2 ms", "calls": {"select": 1}}}},
            "select": {"at": {"db": {"compute": "1 ms"}}},
            "web report": {"at": {"web": {"compute": "0.1 ms", "calls": {"report": 1}}}},
            "report": {"at": {"app": report}},
        },
        "workloads": {
            "users": {"kind": "poisson", "rate": 200, "interaction": "page", "entry": "web"},
            "reports": {
                "kind": "batch",
                "size": reports,
                "first": "6 s",
                "every": "5 s",
                "interaction": "web report",
                "entry": "web",
            },
        },
        "stalls": list(stalls),
    }


@dataclass(frozen=True)
class Changed:
    """A recording with another topology, or with other visits."""

    run: Any
    topology: Topology
    change: Callable[[pl.LazyFrame], pl.LazyFrame] = lambda frame: frame
    unseen: tuple[str, ...] = ()
    silent: tuple[tuple[int, int], ...] = ()
    """When clients of app had a connection and sent nothing."""

    @property
    def connections(self) -> object:
        return self.run.connections

    @property
    def inputs(self) -> object:
        return self.run.inputs

    def requests(self) -> pl.LazyFrame:
        return self.change(self.run.requests())

    def visits(self) -> pl.LazyFrame:
        return self.change(self.run.visits())

    def samples(self) -> pl.LazyFrame:
        return self.run.samples().filter(~pl.col("metric").cast(pl.String).is_in(self.unseen))

    def events(self) -> pl.LazyFrame:
        known = self.run.events().select(pl.col("place", "kind").cast(pl.String), "begin", "end")
        silent = [("app", "silent_client", begin, end) for begin, end in self.silent]
        return pl.concat([known, pl.LazyFrame(silent, schema=known.collect_schema(), orient="row")])


@cache
def _simulated(name: str) -> Dataset:
    folder = Path(mkdtemp(prefix="tailrace-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return made(SYSTEMS[name], folder / "run")


FREEZE: Table = {"kind": "freeze", "place": "app", "at": "8 s", "for": "0.7 s"}
WAITS: Table = {"compute": "0.5 ms", "wait": "0.9 s"}
COMPUTES: Table = {"compute": "0.6 s", "scv": 0}
SYSTEMS = {
    "held": chain(WAITS, workers=10, reports=11),
    "computes": chain(COMPUTES, workers=0, reports=1, kind="async"),
    "many places": chain(WAITS, workers=60, reports=11, stalls=(FREEZE,)),
    "short reports": chain({"compute": "0.5 ms"}, workers=10, reports=11, stalls=(FREEZE,)),
    "collections": chain({"compute": "0.5 ms"}, workers=10, reports=1),
    "one worker": chain(WAITS, workers=1, reports=3),
    "stops": chain({"compute": "0.5 ms"}, workers=10, reports=1, stalls=(FREEZE, FREEZE | {"at": "8.75 s"})),
    "slow by themselves": chain({"compute": "0.5 ms", "wait": "1.3 s"}, workers=60, reports=2),
    "slow by themselves at once": chain({"compute": "0.5 ms", "wait": "1.3 s"}, workers=60, reports=6),
    "compute by themselves": chain({"compute": "0.8 s", "scv": 0}, workers=60, reports=2),
}
SYSTEMS["no proxy"] = chain({"compute": "0.5 ms"}, workers=10, reports=11, stalls=(FREEZE,))
SYSTEMS["no proxy"]["workloads"]["users"] |= {"interaction": "query", "entry": "app"}
SYSTEMS["no proxy"]["workloads"]["reports"] |= {"interaction": "report", "entry": "app"}
SYSTEMS["memory"] = chain({"compute": "0.5 ms"}, workers=10, reports=1, stalls=(FREEZE | {"kind": "memory"},))
SYSTEMS["restart"] = chain({"compute": "0.5 ms"}, workers=10, reports=1, stalls=(FREEZE | {"kind": "restart"},))
SYSTEMS["all wait"] = chain({"compute": "0.5 ms"}, workers=10, reports=1, stalls=(FREEZE | {"place": "db"},))
SYSTEMS["all wait"]["tiers"]["web"]["workers"] = SYSTEMS["all wait"]["tiers"]["app"]["backlog"] = 400
SYSTEMS["slow by themselves in all places"] = chain(WAITS | {"wait": "1.5 s"}, workers=40, reports=40)
SYSTEMS["few connections"] = chain(WAITS | {"wait": "1.5 s"}, workers=60, reports=4)
SYSTEMS["few connections"]["tiers"]["web"] |= {"workers": 400, "calls": {"app": {"kept": False, "pool": 4}}}
SYSTEMS["some wait and some compute"] = chain(WAITS, workers=10, reports=11)
SYSTEMS["some wait and some compute"]["interactions"] |= {
    "web sum": {"at": {"web": {"compute": "0.1 ms", "calls": {"sum": 1}}}},
    "sum": {"at": {"app": COMPUTES}},
}
SYSTEMS["some wait and some compute"]["workloads"]["sums"] = {
    "kind": "batch", "size": 3, "first": "8 s", "every": "5 s", "interaction": "web sum", "entry": "web",
}  # fmt: skip
SYSTEMS["one node"] = chain({"compute": "0.5 ms"}, workers=40, reports=150)
SYSTEMS["one node"]["tiers"]["db"]["node"] = ["app"]
SYSTEMS["one node"]["workloads"]["reports"]["interaction"] = "page"
SYSTEMS["collections"]["tiers"]["app"]["heap"] = {
    "young": 60_000_000,
    "per_visit": 100_000,
    "young_collection": {"base": "600 ms", "per_live": "0.2 ms"},
}


def bare(run: Any) -> Changed:
    """As in a capture: without workers, queues and pools, without the moment when a worker took a visit, and without
    what threads do."""
    known = run.topology
    nothing = {"workers": None, "backlog": None, "queue_max": None, "kind": None}
    servers = tuple(server.model_copy(update=nothing) for server in known.servers)
    unknown = pl.lit(None, pl.Int64)
    return Changed(
        Without(run, *STATES),
        known.model_copy(update={"servers": servers, "pools": ()}),
        lambda frame: frame.with_columns(start=unknown) if "start" in frame.collect_schema() else frame,
    )


def unnamed(run: Any) -> Changed:
    """No request says what it asks for."""
    return Changed(run, run.topology, lambda frame: frame.with_columns(interaction=pl.lit(None, pl.Categorical)))


@pytest.mark.parametrize("seen_as", [lambda run: run, bare, unnamed], ids=["simulated", "captured", "unnamed"])
def test_slow_visits_in_all_places_are_charged(seen_as: Callable[[Dataset], Any]) -> None:
    found = shares(seen_as(_simulated("held")))
    assert found["soft-resource"] + found.get("workload-burst", 0.0) >= 0.9
    assert found["soft-resource"] >= 0.45


def calls_all_alike(run: Changed) -> Changed:
    """The calls say the same, as queries do."""
    interaction = pl.col("interaction").cast(pl.String)
    query = pl.when(pl.col("parent").is_null()).then(interaction).otherwise(pl.lit("SELECT")).cast(pl.Categorical)

    def change(frame: pl.LazyFrame) -> pl.LazyFrame:
        is_visits = "parent" in frame.collect_schema()
        return run.change(frame).with_columns(interaction=query) if is_visits else run.change(frame)

    return replace(run, change=change)


def test_visits_of_one_server_that_wait_and_visits_that_compute_are_two_causes() -> None:
    found = shares(_simulated("some wait and some compute"))
    assert found["soft-resource"] >= 0.8
    assert found["own-work"] > 0.0


@pytest.mark.parametrize("seen_as", [lambda run: run, calls_all_alike], ids=["named", "alike"])
def test_visits_that_hold_all_connections_of_their_caller_keep_others_waiting_there(
    seen_as: Callable[[Changed], Changed],
) -> None:
    run = seen_as(bare(_simulated("few connections")))
    assert workers(tables.look(run, 50 * MS))["web"] == 4, "as many calls were open whenever a visit waited"
    assert shares(run)["soft-resource"] >= 0.8
    assert {(episode.origin, episode.cause) for episode in diagnose(run).episodes} == {("web", "soft-resource")}


@pytest.mark.parametrize("seen_as", [lambda run: run, bare], ids=["simulated", "captured"])
def test_a_request_that_computes_on_an_event_loop_is_charged(seen_as: Callable[[Dataset], Any]) -> None:
    assert shares(seen_as(_simulated("computes")))["own-work"] >= 0.9


def test_visits_that_wait_for_their_calls_do_not_hold_an_event_loop() -> None:
    _, columns, found = drawn_up(_simulated("computes"))
    assert found.losses["own-work", "app"].visits is not None
    assert found.workers[columns.number["app"]] == 0


def test_one_slow_visit_after_the_other_is_charged_though_nothing_has_a_name() -> None:
    assert shares(unnamed(bare(_simulated("one worker"))))["soft-resource"] >= 0.8


def test_whether_such_visits_computed_must_be_known() -> None:
    run = unnamed(bare(_simulated("one worker")))
    assert "soft-resource" not in shares(replace(run, unseen=("cpu_busy",)))


@pytest.mark.parametrize("name", ["many places", "short reports", "collections", "stops"])
@pytest.mark.parametrize("seen_as", [lambda run: run, bare], ids=["simulated", "captured"])
def test_a_server_that_lost_capacity_had_places(name: str, seen_as: Callable[[Dataset], Any]) -> None:
    found = shares(seen_as(_simulated(name)))
    assert found.get("soft-resource", 0.0) + found.get("own-work", 0.0) <= 0.05
    assert max(found, key=lambda cause: found[cause]) == ("garbage-collection" if name == "collections" else "freeze")


@pytest.mark.parametrize("seen_as", [lambda run: run, bare], ids=["simulated", "captured"])
def test_visits_that_hold_nobody_up_are_not_charged_with_themselves(seen_as: Callable[[Dataset], Any]) -> None:
    found = shares(seen_as(_simulated("slow by themselves")))
    assert found.get("soft-resource", 0.0) + found.get("own-work", 0.0) == 0.0


def test_visits_that_compute_for_long_are_charged_with_their_own_slowness() -> None:
    found = diagnose(_simulated("compute by themselves"))
    assert {(one.origin, one.cause) for one in found.episodes} == {("app", "own-work")}


@pytest.mark.parametrize(
    ("system", "later_ms", "held"),
    [("no proxy", 0, True), ("no proxy", 300, False), ("short reports", 0, False)],
    ids=["until then", "for longer", "those of a recorded server"],
)
def test_clients_that_sent_nothing_are_charged_if_the_server_went_on_when_they_left(
    system: str, later_ms: int, held: bool
) -> None:
    run = bare(_simulated(system))
    left = run.visits().filter(pl.col("server").cast(pl.String) == "app").collect()["departure"].sort()
    until = int(left[int(left.diff().arg_max())])
    silences = tuple((until - (700 - k) * MS, until + (later_ms - 1) * MS) for k in range(10))
    found = shares(replace(run, silent=silences))
    assert found.get("soft-resource", 0.0) == pytest.approx(1.0 if held else 0.0, abs=0.05)


def test_visits_that_something_released_at_once_did_not_take_long_by_themselves() -> None:
    """Of a lock, say: they came one after the other while others passed, and left together."""
    usual, held = np.arange(400) * 10 * MS, 1000 * MS + np.arange(20) * 40 * MS
    begin = np.concatenate((usual, held))
    end = np.concatenate((usual + 4 * MS, np.full(20, 1900 * MS)))
    assert not places._heavy(here(begin, end)).any()
    end[400:] = held + 900 * MS
    assert places._heavy(here(begin, end)).sum() == 20, "each takes 0.9 s"


def test_visits_that_a_slow_drain_releases_did_not_take_long_by_themselves() -> None:
    """Others pass them while they leave one after the other."""
    usual, held = np.arange(400) * 10 * MS, 1000 * MS + np.arange(60) * 20 * MS
    usual = usual[(usual < 1000 * MS) | (usual >= 2200 * MS)]
    begin = np.concatenate((usual, held))
    end = np.concatenate((usual + 4 * MS, 2250 * MS + np.arange(60)[::-1] * 4 * MS))
    assert not places._heavy(here(begin, end)).any()


@pytest.mark.parametrize(("batches", "found"), [(1, 0), (2, 6), (3, 9)])
def test_visits_take_turns_in_groups_of_as_many(batches: int, found: int) -> None:
    """Three workers serve three slow visits at a time, and the others wait behind all of them. A server that stopped
    once looks like one group."""
    usual, later = np.arange(100) * 10 * MS, 1010 * MS + np.arange(60) * 10 * MS
    slow = 1000 * MS + np.arange(3 * batches) * MS
    left = 1000 * MS + 900 * MS * (1 + np.arange(3 * batches) // 3) + np.arange(3 * batches) * MS
    waited = np.maximum(left.max() + 4 * MS + np.arange(60) * 2 * MS, later + 4 * MS)
    begin, end = np.concatenate((usual, slow, later)), np.concatenate((usual + 4 * MS, left, waited))
    assert places._heavy(here(begin, end)).nonzero()[0].tolist() == list(range(100, 100 + found))
    # The same where it is known when each visit got its place: three workers.
    got = np.concatenate((usual, np.maximum(left - 900 * MS, slow), waited - 4 * MS))
    its = replace(here(got, end), came=begin)
    assert places._heavy(its).nonzero()[0].tolist() == list(range(100, 100 + found))


def test_visits_take_turns_although_quick_ones_leave_between_those_of_a_group() -> None:
    """Two connections serve two slow visits at a time. The last of them leaves a little later than the first others."""
    usual, later = np.arange(100) * 10 * MS, 1010 * MS + np.arange(40) * 10 * MS
    slow, left = 1000 * MS + np.arange(4) * MS, np.array([1800, 1801, 2601, 2606]) * MS
    begin = np.concatenate((usual, slow, later))
    end = np.concatenate((usual + 4 * MS, left, 2602 * MS + np.arange(40) * 2 * MS))
    got = np.concatenate((usual, [1000 * MS, 1001 * MS, 1800 * MS, 1801 * MS], end[104:] - MS))
    its = replace(here(got, end), came=begin)
    assert places._heavy(its).nonzero()[0].tolist() == [100, 101, 102, 103]


def test_visits_that_wait_for_their_turn_as_long_as_a_call_lasts_did_not_take_long_by_themselves() -> None:
    usual, waited = np.arange(400) * 10 * MS, 1010 * MS + np.arange(20) * 2 * MS
    usual[100:] += 1000 * MS
    begin = np.concatenate((usual, [1000 * MS], waited))
    end = np.concatenate((usual + 4 * MS, [1900 * MS], np.full(20, 1901 * MS)))
    behind = np.arange(len(begin)) == 400
    assert places._heavy(replace(here(begin, end), behind=behind)).nonzero()[0].tolist() == [400]


def test_others_wait_behind_a_visit_from_when_they_came_though_they_get_a_place_only_after_it() -> None:
    came = np.concatenate((np.arange(100) * 10 * MS, [1000 * MS], 1010 * MS + np.arange(40) * 10 * MS))
    begin = np.concatenate((came[:101], np.full(40, 2000 * MS)))
    end = np.concatenate((came[:100] + 4 * MS, [2000 * MS], 2004 * MS + np.arange(40) * 4 * MS))
    name, labels = (np.arange(len(came)) == 100).astype(np.uint32), np.array(["page", "report"])
    assert places._heavy(replace(here(begin, end), came=came, name=name, labels=labels)).nonzero()[0].tolist() == [100]


@pytest.mark.parametrize(("stalls", "found"), [(1, 0), (2, 2)], ids=["chance", "no chance"])
def test_visits_that_wait_for_their_turn_after_a_call_may_come_before_the_one_that_keeps_the_loop(
    stalls: int, found: int
) -> None:
    """In each stall, three pages came before the report and leave after it. One such stall may be chance."""
    first, later = np.arange(200) * 10 * MS, 2010 * MS + np.arange(40) * 10 * MS
    came = np.concatenate((first, [1980 * MS, 1985 * MS, 1990 * MS, 2000 * MS], later))
    end = np.concatenate((first + 4 * MS, 3001 * MS + np.arange(3) * MS, [3000 * MS], 3004 * MS + np.arange(40) * MS))
    name = (np.arange(len(came)) == 203).astype(np.uint32)
    times = [(one + stall * 10_000 * MS) for one in (came, end) for stall in range(stalls)]
    whole = here(np.concatenate(times[:stalls]), np.concatenate(times[stalls:]))
    named = replace(whole, name=np.tile(name, stalls), labels=np.array(["page", "report"]))
    assert int(places._heavy(named).sum()) == found


def test_a_visit_that_waited_behind_one_with_a_name_does_not_hide_it(monkeypatch: pytest.MonkeyPatch) -> None:
    run = _simulated("computes")
    seen = tables.look(run, 50 * MS)
    slow = vlrt.find(seen, None)
    columns = recorded.record(seen, slow)
    assert columns is not None
    pages = np.flatnonzero((columns.server == columns.number["app"]) & columns.names.are("query"))[:1]
    assert len(pages) == 1
    heavy = places._heavy
    monkeypatch.setattr(places, "_heavy", lambda here: heavy(here) | np.isin(here.rows, pages))
    found = account.draw_up(Seen(seen, slow, columns.steps), columns)
    charged = found.losses["own-work", "app"].visits
    assert charged is not None
    assert len(charged) == 2
    assert not np.isin(pages, charged).any()


def test_a_visit_whose_request_is_not_known_has_no_name_that_shows_it() -> None:
    """One query is the first inside when its server stops. Those of known requests are short; the request of this one
    is not known, so no other has its name."""
    came = np.arange(140) * 10 * MS
    end = np.concatenate((came[:100] + 4 * MS, 2000 * MS + np.arange(40) * MS))
    name, labels = (np.arange(len(came)) == 100).astype(np.uint32), np.array(["QUERY of page", "QUERY"])
    stopped = replace(here(came, end), name=name, labels=labels)
    assert places._heavy(stopped).nonzero()[0].tolist() == [100]
    assert not places._heavy(replace(stopped, orphan=name == 1)).any()


def test_a_connection_that_is_opened_while_its_server_computes_does_not_hold_it() -> None:
    """One command computes. Of those that wait behind it, some are the first on a connection, because a pool opens one
    when all others are in use."""
    came = np.concatenate((np.arange(100) * 10 * MS, 1000 * MS + np.arange(20) * 10 * MS))
    end = np.concatenate((came[:100] + 1 * MS, np.full(20, 3000 * MS) + np.arange(20) * MS))
    labels = np.array(["GET of page", "EVAL of script", "HELLO of page"])
    name = np.concatenate((np.zeros(100), [1], np.zeros(9), np.full(10, 2))).astype(np.uint32)
    assert places._heavy(replace(here(came, end), name=name, labels=labels)).nonzero()[0].tolist() == [100]


def test_calls_without_a_request_are_recognised_where_others_have_one() -> None:
    run = _simulated("computes")
    seen = tables.look(run, 50 * MS)
    columns = recorded.record(seen, vlrt.find(seen, None))
    assert columns is not None
    assert not places._orphans(columns).any()
    first = int(np.flatnonzero(columns.parent >= 0)[0])
    parent = np.where(np.arange(len(columns.parent)) == first, -1, columns.parent)
    assert places._orphans(replace(columns, parent=parent)).nonzero()[0].tolist() == [first]
    assert not places._orphans(replace(columns, parent=np.full(len(parent), -1))).any()


def test_visits_that_waited_as_long_by_the_clock_are_alike_though_the_server_was_slow_for_one() -> None:
    lasted, work = np.array([900, 901, 780]) * MS, np.array([900, 500, 400]) * MS
    assert (alike.near(work, work[:1]) | alike.near(lasted, lasted[:1])).tolist() == [True, True, False]
    assert alike.near(work, work[1:2]).tolist() == [False, True, False], "as much work is alike, too"


def test_the_workers_of_a_server_are_counted_while_all_of_them_wait_for_calls() -> None:
    seen = tables.look(bare(_simulated("all wait")), 50 * MS)
    assert not len(lost_at(seen, "app")), "no attempt was lost, which would show it, too"
    assert (workers(seen)["app"], workers(seen)["web"]) == (10, 0)


def test_turns_are_taken_in_the_order_of_arrival() -> None:
    arrival, departure = np.array([0, 1, 2, 3]), np.array([10, 20, 30, 31])
    assert turns(arrival, departure, 1).tolist() == [0, 10, 20, 30]
    assert turns(arrival, departure, 2).tolist() == [0, 1, 10, 20]


def test_workers_take_visits_in_the_order_that_was_recorded() -> None:
    """The third visit was taken after the fourth, and a worker was free for it 5 before it was taken. In the order of
    arrival, three visits would be inside at once."""
    arrival, departure, never = np.array([0, 1, 2, 3]), np.array([10, 20, 30, 31]), 2**62
    assert taken(arrival, departure, 2, np.array([0, 1, 25, 10])).tolist() == [0, 1, 20, 10]
    assert taken(arrival, departure, 2, np.full(4, never)).tolist() == [0, 1, 10, 20]


def test_visits_that_wait_inside_need_nothing_from_the_server() -> None:
    _, known, drawn = drawn_up(_simulated("held"))
    (waited,) = drawn.pauses
    names = known.names.labels[known.names.number[waited.visits]]
    assert set(names.tolist()) == {"report"}
    assert np.all(np.abs(waited.lasts - 900 * MS) < 50 * MS)
    assert float(drawn.taken_of("app").sum()) == 0.0, "the server itself lost no capacity"


def test_visits_share_the_cpu_of_a_node_that_its_servers_fill_together() -> None:
    seen, known, _ = drawn_up(_simulated("one node"))
    shared = account._shared(seen, known)[known.number["db"]]
    (own,) = seen.view.series("db", "cpu_busy")
    crowded = shared < 0.1
    assert crowded.sum() >= 20, "in each burst, more than ten visits share it for at least 100 ms"
    assert (seen.at(own)[crowded] < 0.9).all(), "db alone does not fill it"
    assert (shared[~crowded] > 0.0).all()


def test_a_single_worker_took_visits_in_the_order_in_which_they_left() -> None:
    arrival, departure = np.array([0, 1, 2, 3]), np.array([10, 4, 11, 12])
    assert turns(arrival, departure, 1).tolist() == [4, 1, 10, 11]


def test_others_wait_behind_a_visit_although_the_server_began_with_one_that_came_after_it() -> None:
    came = np.concatenate((np.arange(100) * 10 * MS, [1000 * MS], 1007 * MS + np.arange(41) * 10 * MS))
    end = np.concatenate((came[:100] + 4 * MS, [2000 * MS, 1009 * MS], 2004 * MS + np.arange(40) * MS))
    name, labels = (np.arange(len(came)) == 100).astype(np.uint32), np.array(["page", "report"])
    assert places._heavy(replace(here(came, end), name=name, labels=labels)).nonzero()[0].tolist() == [100]


def test_visits_that_compute_at_once_are_counted_though_one_that_came_before_them_waits() -> None:
    """Four reports come within 3 ms, and a page came just before them; 40 pages wait for a place meanwhile."""
    pages = np.concatenate((np.arange(100) * 10 * MS, [999 * MS], 1010 * MS + np.arange(40) * 10 * MS))
    reports = 1000 * MS + np.arange(4) * MS
    ends = np.concatenate((pages[:100] + 4 * MS, 2001 * MS + np.arange(41) * MS // 4))
    came, end = np.concatenate((pages, reports)), np.concatenate((ends, 2000 * MS + np.arange(4) * MS))
    heavy = np.arange(len(came)) >= len(pages)
    found, begin = places._places(here(came, end), heavy)
    assert found == 4
    assert (end - begin)[heavy].min() >= 1000 * MS


@pytest.fixture(scope="module")
def throttled() -> tuple[tuple[float, float, float], ...]:
    """A quota of 20 ms in each 100 ms: the kernel books what it held back when the period ends."""
    return tuple((4.05 + 0.1 * k, 4.1 + 0.1 * k, 0.7) for k in range(8))


def test_what_a_quota_left_is_the_quotas(throttled: tuple[tuple[float, float, float], ...]) -> None:
    memory = system(Slow("app", 4.0, 4.8, speed=0.2, cpu=0.2, always=True)).sample(
        "app", "cpu_throttled", 0.0, *throttled
    )
    beside = memory.sample("neighbour", "cpu_busy", 0.3, (4.0, 4.8, 0.8))
    assert shares(memory)["cpu-quota"] >= 0.9
    assert shares(beside)["cpu-quota"] >= 0.5


def test_a_quota_that_takes_a_little_is_not_charged() -> None:
    a_little = tuple((0.05 + 0.1 * k, 0.1 + 0.1 * k, 0.05) for k in range(110))
    memory = system(Slow("app", 4.0, 4.6)).sample("app", "cpu_throttled", 0.0, *a_little)
    assert shares(memory).get("cpu-quota", 0.0) <= 0.1


@pytest.mark.parametrize("metric", ["psi_io", "writeback_bytes"])
def test_a_server_whose_threads_were_never_blocked_did_not_wait_for_a_disk(metric: str) -> None:
    of_disk = system(Slow("app", 4.0, 4.6)).sample("app", metric, 0.0, (4.0, 4.6, 0.95 if metric == "psi_io" else 1e7))
    assert shares(of_disk)["log-flush or writeback"] >= 0.9
    assert not shares(of_disk).keys() & {"log-flush", "writeback"}
    of_disk = of_disk.sample("app", "tasks_blocked", 0.0)
    assert not shares(of_disk).keys() & {"log-flush", "writeback", "log-flush or writeback"}


@pytest.mark.parametrize("blocked", [True, False])
def test_the_waits_of_a_host_are_those_of_a_server_whose_threads_were_blocked(blocked: bool) -> None:
    memory = system(Slow("app", 4.0, 4.6)).sample("machine", "psi_io", 0.01, (4.0, 4.6, 0.9))
    nodes = tuple(Node(name=node.name, host="machine") for node in memory.topology.nodes)
    memory.topology = Topology(nodes=nodes, servers=memory.topology.servers, calls=memory.topology.calls)
    memory = memory.sample("app", "processes", 2.0).sample("db", "tasks_blocked", 0.0)
    if blocked:
        memory = memory.sample("app", "tasks_blocked", 0.0, (4.0, 4.6, 2.0))
    assert (shares(memory).get("log-flush or writeback", 0.0) >= 0.9) == blocked


def test_waiting_for_memory_is_charged_to_memory() -> None:
    memory = system(Slow("app", 4.0, 4.6)).sample("app", "psi_memory", 0.01, (4.0, 4.6, 0.95))
    assert shares(memory)["memory"] >= 0.9


@pytest.mark.parametrize(("server", "usual"), [("db", 0.01), ("app", 0.9)], ids=["elsewhere", "all the time"])
def test_memory_that_took_nothing_is_not_charged(server: str, usual: float) -> None:
    memory = system(Slow("app", 4.0, 4.6)).sample(server, "psi_memory", usual, (4.0, 4.6, 0.9))
    assert shares(memory).get("memory", 0.0) <= 0.05


def blocked_on_a_disk(faults: float, usual: float = 0.2) -> Any:
    waits = system(Slow("app", 4.0, 4.6)).sample("app", "cpu_iowait", 0.01, (4.0, 4.6, 0.95))
    return waits.sample("app", "major_faults", usual, (4.0, 4.6, faults))


def test_a_wait_for_pages_that_are_read_back_is_charged_to_memory() -> None:
    found = shares(blocked_on_a_disk(40.0))
    assert found["memory"] >= 0.9


@pytest.mark.parametrize(("faults", "usual"), [(1.0, 0.2), (44.0, 40.0)], ids=["hardly any", "as usual"])
def test_a_wait_for_a_disk_without_more_major_faults_is_not_charged_to_memory(faults: float, usual: float) -> None:
    found = shares(blocked_on_a_disk(faults, usual))
    assert "memory" not in found
    assert found["log-flush or writeback"] >= 0.9


@pytest.mark.parametrize(("blocked", "charged"), [(4.0, True), (0.0, False)])
def test_allocations_that_free_memory_first_are_charged_where_threads_were_blocked(
    blocked: float, charged: bool
) -> None:
    memory = system(Slow("app", 4.0, 4.6)).sample("app", "tasks_blocked", 0.0, (4.0, 4.6, blocked))
    found = shares(memory.sample("host", "direct_reclaims", 0.0, (4.0, 4.6, 30.0)))
    assert (found.get("memory", 0.0) >= 0.9) == charged


def test_a_simulated_wait_for_memory_is_charged_to_memory() -> None:
    assert shares(_simulated("memory"))["memory"] >= 0.95


def test_a_simulated_restart_is_charged_to_the_restart() -> None:
    assert shares(_simulated("restart"))["restart"] >= 0.95


def test_where_requests_are_slow_by_themselves_the_data_that_would_show_why_are_named() -> None:
    found = diagnose(Without(_simulated("slow by themselves"), *STATES))
    wanted = [episode.findings[4].missing or "" for episode in found.episodes if episode.cause == "unknown"]
    assert wanted
    assert all("tasks_runnable and tasks_blocked of" in one for one in wanted)


def test_requests_that_came_at_once_are_a_burst_even_if_they_are_slow_by_themselves() -> None:
    found = diagnose(_simulated("slow by themselves at once"))
    assert {episode.cause for episode in found.episodes} == {"workload-burst"}


def test_a_batch_that_holds_all_places_is_a_burst_and_what_the_others_wait_for() -> None:
    found = diagnose(_simulated("slow by themselves in all places"))
    said = {episode.cause: episode.findings[4].sentence for episode in found.episodes}
    assert said.keys() == {"soft-resource", "workload-burst"}
    assert "40 of them were web report, and 40 took that long by themselves" in said["workload-burst"]


def test_a_wait_in_which_pages_are_read_back_now_and_then_is_all_memory() -> None:
    faults = tuple((4.0 + 0.1 * k, 4.05 + 0.1 * k, 40.0) for k in range(6))
    waits = system(Slow("app", 4.0, 4.6)).sample("app", "cpu_iowait", 0.01, (4.0, 4.6, 0.95))
    found = shares(waits.sample("app", "major_faults", 0.2, *faults))
    assert found["memory"] >= 0.9
    assert not found.keys() & {"log-flush", "writeback", "log-flush or writeback"}


@pytest.mark.parametrize(("attempts", "held"), [(0, False), (1, True)])
def test_visits_hold_no_places_if_only_packets_after_their_attempts_were_lost(attempts: int, held: bool) -> None:
    """A full queue refuses an attempt to connect, and then it often refuses the data, too. Such a visit held no place
    meanwhile, so its time inside says what it took."""
    run = bare(_simulated("held"))
    report = pl.col("interaction").cast(pl.String).str.contains("report")

    def lost(n: int) -> pl.Expr:
        return pl.when(report).then(n).otherwise(0).cast(pl.UInt8)

    def change(frame: pl.LazyFrame) -> pl.LazyFrame:
        seen = run.change(frame)
        return (
            seen.with_columns(data_drops=lost(1), drops=lost(attempts)) if "parent" in frame.collect_schema() else seen
        )

    assert ("soft-resource" in shares(replace(run, change=change))) == held
