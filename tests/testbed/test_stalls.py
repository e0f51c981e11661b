"""Stalls that arise on the testbed, and their times: counters and tables in, stalls out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import polars as pl

from tailrace import experiment, readers
from tailrace.dataset import EVENTS, REQUESTS
from tailrace.experiment import places, truth
from tailrace.experiment.machines import Disk, Governor, Node, Writeback
from tailrace.testbed import stalls
from tailrace.testbed.clock import Clock, Look, sampled
from tailrace.testbed.epoch import Epoch
from tailrace.testbed.settings import settings
from tailrace.testbed.stalls.contention import starved, system_of
from tailrace.testbed.stalls.injection import joined
from tailrace.testbed.stalls.writing import Busy
from tailrace.testbed.system import System
from tailrace.units import MILLISECOND, SECOND

EXPERIMENTS = Path(__file__).parents[2] / "experiments/testbed"


def of(name: str, tmp_path: Path) -> System:
    """Servers that are known and not running."""
    found = experiment.read(EXPERIMENTS / name)
    addresses = dict.fromkeys(places.nodes(found), "10.77.0.2")
    return System(found, cast(Any, None), settings(found, addresses, tmp_path), {}, tmp_path)


def sent(folder: Path, rows: list[tuple[int, int]]) -> None:
    """A table of requests: when each was due, and when it was sent."""
    folder.mkdir(parents=True, exist_ok=True)
    times = {"intended": [row[0] for row in rows], "sent": [row[1] for row in rows]}
    pl.DataFrame({"server": ["web"] * len(rows), **times}).write_parquet(folder / REQUESTS.file)


def test_a_batch_lasts_from_its_first_request_to_its_last(tmp_path: Path) -> None:
    steady = [(number * MILLISECOND, number * MILLISECOND) for number in range(10_000)]
    batch = [(4 * SECOND, 4 * SECOND + 100_000 * number) for number in range(600)]
    sent(tmp_path / "raw/load", steady + batch)
    sent(tmp_path, steady)
    assert stalls.arose(of("burst", tmp_path), tmp_path) == [
        truth.Stall("workload-burst", "web", 4 * SECOND, 4 * SECOND + 59_900_000)
    ]


def test_surges_that_overlap_are_one_burst_at_their_place(tmp_path: Path) -> None:
    sent(tmp_path, [(0, 0)])
    (tmp_path / "raw/load").mkdir(parents=True)
    rows = [
        ("web", "surge", 3 * SECOND, 4 * SECOND),
        ("web", "surge", SECOND, 5 * SECOND),
        ("load", "load_late", 2 * SECOND, 9 * SECOND),
        ("web", "surge", 7 * SECOND, 8 * SECOND),
        ("high-web", "surge", 2 * SECOND, 3 * SECOND),
    ]
    schema = ["place", "kind", "begin", "end"]
    pl.DataFrame(rows, schema=schema, orient="row").write_parquet(tmp_path / "raw/load" / EVENTS.file)
    bursts = {(stall.place, stall.begin, stall.end) for stall in stalls.arose(of("four", tmp_path), tmp_path)}
    assert bursts == {
        ("web", SECOND, 5 * SECOND),
        ("web", 7 * SECOND, 8 * SECOND),
        ("high-web", 2 * SECOND, 3 * SECOND),
    }


def test_collections_of_a_heap_count_from_the_first_request(tmp_path: Path) -> None:
    sent(tmp_path, [(SECOND, SECOND)])
    rows = [("app", "gc", 0, 9), ("app", "gc", 2 * SECOND, 3 * SECOND), ("app", "safepoint", SECOND, 2 * SECOND)]
    pl.DataFrame(rows, schema=["place", "kind", "begin", "end"], orient="row").write_parquet(tmp_path / EVENTS.file)
    collected = of("collection", tmp_path)
    assert stalls.arose(collected, tmp_path) == [truth.Stall("garbage-collection", "app", 2 * SECOND, 3 * SECOND)]
    without = replace(collected, settings={"web": collected.settings["web"]})
    assert stalls.arose(without, tmp_path) == []


class Group:
    """A control group with this limit of CPUs."""

    def __init__(self) -> None:
        self.cpus: list[float | None] = []

    def share(self, cpus: float | None) -> None:
        self.cpus.append(cpus)


def test_a_clock_rate_follows_the_use_of_the_last_period() -> None:
    group = Group()
    clock = Clock(cast(Any, group), dict, 1.0, Governor.model_validate({"frequencies": ["1 GHz", "1.5 GHz", "2 GHz"]}))
    rates = [clock.hz]
    for use in (0.9, 0.8, 0.9, 0.6, 0.4):
        clock.step(use)
        rates.append(clock.hz)
    assert rates == [1e9, 1.5e9, 2e9, 2e9, 2e9, 1.5e9]
    assert group.cpus == [0.5, 0.75, None, None, 0.75]


def test_a_cpu_at_half_its_clock_rate_is_busy_for_twice_as_long(tmp_path: Path) -> None:
    clock = Clock(cast(Any, Group()), dict, 1.0, Governor.model_validate({"frequencies": ["1 GHz", "2 GHz"]}))
    begin = Look(0, 0, {"app": 0, "other": 0})
    with sampled({"node": clock}, Epoch(), tmp_path / "clocks.csv"):
        assert clock.slices is not None
        clock.slices.append(clock.between(begin, Look(100, 48, {"app": 40, "other": 8})))
        clock.step(0.96)
        clock.slices.append(clock.between(begin, Look(100, 48, {"app": 40, "other": 8})))
    slow, fast = clock.slices
    assert (slow.busy, slow.use, slow.hz) == ({"app": 0.8, "other": 0.16}, 0.96, 1e9)
    assert (fast.busy, fast.use, fast.hz) == ({"app": 0.4, "other": 0.08}, 0.48, 2e9)
    assert clock.saturated() == [(slow.begin, slow.end)]
    told = readers.read(tmp_path / "clocks.csv").samples().collect()
    told = told.select(pl.col("place", "metric").cast(pl.String), "interval_ns", "value")
    assert told.rows()[:4] == [
        ("node", "cpu_hz", 100, 1e9),
        ("node", "cpu_hz_max", 100, 2e9),
        ("app", "cpu_busy", 100, 0.8),
        ("other", "cpu_busy", 100, 0.16),
    ]


def test_a_cpu_is_taken_by_servers_of_another_system_and_only_while_it_is_full() -> None:
    found = experiment.read(EXPERIMENTS / "neighbour")
    assert system_of(found, "app") == {"web", "app", "db"}
    assert system_of(found, "bursty-db") == {"bursty-web", "bursty-app", "bursty-db"}
    strangers = {"app": ["bursty-app"], "bursty-app": ["app"]}
    assert starved({"app": 0.2, "bursty-app": 0.78}, strangers) == ["app"]
    assert starved({"app": 0.5, "bursty-app": 0.5}, strangers) == ["app", "bursty-app"]
    assert starved({"app": 0.2, "bursty-app": 0.7}, strangers) == []


def test_dirty_pages_are_written_back_when_they_are_old_or_many() -> None:
    settings = Writeback()  # Linux' defaults: 10 % and 20 % of the memory, 30 s
    busy = Busy("db-node", Node(memory=1000), Disk(writeback=settings), cast(Any, None), Path(), ["db"], Epoch(0))
    assert not busy.is_due(settings, 99, 29 * SECOND, wakes=True)
    assert busy.is_due(settings, 1, 30 * SECOND, wakes=True)
    assert busy.is_due(settings, 100, 0, wakes=True)
    assert not busy.is_due(settings, 199, 60 * SECOND, wakes=False)
    assert busy.is_due(settings, 200, 0, wakes=False)
    busy.jobs.append(("log-flush", 100, 200))
    assert [busy.kind(*wait) for wait in joined([(90, 110), (112, 150), (300, 400)], 5)] == ["log-flush", "writeback"]
