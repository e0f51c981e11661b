"""What arises by itself on the testbed, and how long it was there: counters and tables in, stalls out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import polars as pl

from tailrace import experiment
from tailrace.dataset import EVENTS, REQUESTS
from tailrace.experiment import places, truth
from tailrace.experiment.machines import Disk, Governor, Node, Writeback
from tailrace.testbed import stalls
from tailrace.testbed.clock import Clock
from tailrace.testbed.settings import settings
from tailrace.testbed.stalls.contention import starved, system_of
from tailrace.testbed.stalls.injection import joined
from tailrace.testbed.stalls.writing import Busy
from tailrace.testbed.system import System
from tailrace.units import MILLISECOND, SECOND

EXPERIMENTS = Path(__file__).parents[2] / "experiments/testbed"


def of(name: str, tmp_path: Path) -> System:
    """Servers that are known and not up."""
    found = experiment.read(EXPERIMENTS / name)
    addresses = dict.fromkeys(places.nodes(found), "10.77.0.2")
    return System(found, cast(Any, None), settings(found, addresses, tmp_path), {}, tmp_path)


def sent(folder: Path, rows: list[tuple[int, int]]) -> None:
    """A table of requests: when each was meant to be sent, and when it was."""
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


def test_collections_of_a_heap_are_told_from_the_first_request_on(tmp_path: Path) -> None:
    sent(tmp_path, [(SECOND, SECOND)])
    rows = [("app", "gc", 0, 9), ("app", "gc", 2 * SECOND, 3 * SECOND), ("app", "safepoint", SECOND, 2 * SECOND)]
    pl.DataFrame(rows, schema=["place", "kind", "begin", "end"], orient="row").write_parquet(tmp_path / EVENTS.file)
    collected = of("collection", tmp_path)
    assert stalls.arose(collected, tmp_path) == [truth.Stall("garbage-collection", "app", 2 * SECOND, 3 * SECOND)]
    without = replace(collected, settings={"web": collected.settings["web"]})
    assert stalls.arose(without, tmp_path) == []


class Group:
    """A control group that used what it is told."""

    path = "tailrace/app-node"

    def __init__(self) -> None:
        self.used = 0
        self.cpus: list[float | None] = []

    def used_ns(self) -> int:
        return self.used

    def share(self, cpus: float | None) -> None:
        self.cpus.append(cpus)


def test_a_cpu_at_half_its_clock_rate_is_busy_for_twice_as_long() -> None:
    group = Group()
    clock = Clock(cast(Any, group), 1.0, Governor.model_validate({"frequencies": ["1 GHz", "1.5 GHz", "2 GHz"]}))
    assert (clock.hz, clock.busy_ns(cast(Any, group)), group.cpus) == (1e9, 0, [0.5])
    group.used = 100
    clock.step(0.9)
    group.used = 175
    clock.step(0.8)
    group.used = 275
    assert (clock.hz, clock.busy_ns(cast(Any, group)), group.cpus) == (2e9, 200 + 100 + 100, [0.5, 0.75, None])
    clock.step(0.6)
    clock.step(0.4)
    assert clock.hz == 1.5e9


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
    busy = Busy("db-node", Node(memory=1000), Disk(writeback=settings), cast(Any, None), Path(), ["db"])
    assert not busy.is_due(settings, 99, 29 * SECOND, wakes=True)
    assert busy.is_due(settings, 1, 30 * SECOND, wakes=True)
    assert busy.is_due(settings, 100, 0, wakes=True)
    assert not busy.is_due(settings, 199, 60 * SECOND, wakes=False)
    assert busy.is_due(settings, 200, 0, wakes=False)
    busy.jobs.append(("log-flush", 100, 200))
    assert [busy.kind(*wait) for wait in joined([(90, 110), (112, 150), (300, 400)], 5)] == ["log-flush", "writeback"]
