"""A machine's clock that is set during a run: the testbed's times continue by the steady clock."""

from __future__ import annotations

import csv
import threading
import time
from pathlib import Path
from typing import Any, cast

import polars as pl
import pytest

from tailrace import readers, testbed
from tailrace.dataset import EVENTS
from tailrace.experiment.machines import Governor
from tailrace.testbed import stalls
from tailrace.testbed.clock import Clock, Look, sampled
from tailrace.testbed.epoch import Epoch
from tailrace.testbed.stalls.injection import Injection
from tailrace.units import MILLISECOND, SECOND

STEP = 5 * SECOND


@pytest.fixture
def epoch(monkeypatch: pytest.MonkeyPatch) -> Epoch:
    """Of a run that began before the clock was set."""
    begun, before = Epoch(), time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: before() - STEP)
    return begun


def test_a_stall_is_as_long_as_it_was_and_begins_when_it_did(epoch: Epoch) -> None:
    asked = epoch.unix(time.monotonic_ns())
    injection = Injection("freeze", "app", lambda: None, lambda: None)
    stall = stalls.inject(injection, epoch, 20 * MILLISECOND, threading.Event())
    assert 0 <= stall.begin - asked < SECOND
    assert 20 * MILLISECOND <= stall.end - stall.begin < SECOND
    assert abs(time.time_ns() + STEP - stall.end) < SECOND


def test_samples_of_a_clock_rate_go_on(epoch: Epoch, tmp_path: Path) -> None:
    class Group:
        def share(self, cpus: float | None) -> None: ...

    clock = Clock(cast(Any, Group()), dict, 1.0, Governor.model_validate({"frequencies": ["1 GHz"]}))
    with sampled({"node": clock}, epoch, tmp_path / "clocks.csv"):
        assert clock.slices is not None
        clock.slices.append(clock.between(Look(SECOND, 0, {}), Look(2 * SECOND, 0, {})))
    with (tmp_path / "clocks.csv").open() as lines:
        assert {row["time"] for row in csv.DictReader(lines)} == {str(epoch.unix(2 * SECOND))}


def test_collections_of_a_jvm_are_put_on_the_runs_clock(tmp_path: Path) -> None:
    log, epoch = tmp_path / "gc.log", Epoch(1_800_000_000 * SECOND)
    log.write_text(
        "[2026-11-22T07:57:49.995+0000][84079126495062ns][info][gc] Using Serial\n"
        "[2026-11-22T07:57:44.123+0000][84080126000000ns][info][gc] GC(0) Pause Young (A) 4M->0M(48M) 9.000ms\n"
    )
    epoch.restamp(log)
    run = readers.read(f"app={log}", out=tmp_path / "run")
    [event] = pl.read_parquet(run.path / EVENTS.file).select("begin", "end").rows()
    end = epoch.unix(84080_126_000_000)
    assert event == (end - 9 * MILLISECOND, end)


def test_only_one_module_reads_the_system_clock() -> None:
    files = Path(testbed.__file__).parent.rglob("*.py")
    assert [file.name for file in files if "time_ns()" in file.read_text().replace("monotonic_ns()", "")] == [
        "epoch.py"
    ]
