"""Which thread waits behind which, from a trace of switches (benches/record/behind.py)."""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benches" / "record"))

from behind import Wait, delays, waits


def line(cpu: int, us: int, running: int, said: str) -> str:
    return f"  a thread-{running}  [00{cpu}] d..2.  7.{us:06}: {said}"


def switch(cpu: int, us: int, before: int, after: int, state: str = "S") -> str:
    return line(
        cpu,
        us,
        before,
        f"sched_switch: prev_comm=a b prev_pid={before} prev_prio=120 prev_state={state} ==> "
        f"next_comm=c next_pid={after} next_prio=120",
    )


def wake(cpu: int, us: int, running: int, woken: int, on: int) -> str:
    return line(cpu, us, running, f"sched_wakeup: comm=a pid={woken} prio=120 target_cpu=00{on}")


def move(cpu: int, us: int, running: int, moved: int, to: int) -> str:
    return line(cpu, us, running, f"sched_migrate_task: comm=a pid={moved} prio=120 orig_cpu=0 dest_cpu={to}")


def seen(*lines: str) -> list[tuple[int, int, int, int]]:
    """Waiting thread, running thread, begin and end in µs."""
    begin = 7_000_000_000
    return [(w.thread, w.behind, (w.begin - begin) // 1000, (w.end - begin) // 1000) for w in waits(lines)]


def test_a_preempted_thread_waits_behind_the_one_that_runs_instead() -> None:
    found = seen(switch(0, 0, 0, 5), switch(0, 10, 5, 9, "R"), switch(0, 40, 9, 5))
    assert found == [(5, 9, 10, 40)]


def test_a_woken_thread_waits_behind_each_that_runs_before_it() -> None:
    found = seen(switch(0, 0, 0, 9), wake(1, 10, 0, 5, 0), switch(0, 30, 9, 8, "R+"), switch(0, 50, 8, 5))
    assert sorted(found) == [(5, 8, 30, 50), (5, 9, 10, 30), (9, 8, 30, 50)]


def test_a_migrated_thread_waits_behind_the_one_that_runs_there() -> None:
    found = seen(
        switch(0, 0, 0, 9), switch(1, 0, 0, 8), wake(0, 10, 9, 5, 0), move(1, 20, 8, 5, 1), switch(1, 50, 8, 5)
    )
    assert found == [(5, 9, 10, 20), (5, 8, 20, 50)]


def test_no_thread_waits_for_an_idle_cpu_whose_switches_are_not_traced() -> None:
    # Thread 5 wakes up on a CPU that idles; that it runs there is only seen when it no longer does.
    assert seen(switch(1, 0, 9, 0), wake(1, 10, 0, 5, 1), switch(1, 500, 5, 0)) == []


def test_requests_wait_as_long_as_any_other_that_was_under_way() -> None:
    requests = pl.DataFrame({"sent": [0, 100_000, 400_000], "end": [90_000, 300_000, 900_000]})
    found = [
        Wait(5, 9, 120_000, 260_000),
        Wait(6, 9, 140_000, 180_000),  # at the same time: it counts once
        Wait(5, 8, 400_000, 500_000),  # behind another thread
        Wait(7, 9, 0, 90_000),  # one that is not measured
        Wait(5, 9, 700_000, 760_000),
    ]
    told = delays("a run", found, {9: "sampler"}, {5, 6}, requests)
    assert (told.any, told.over_50_us, told.over_100_us) == pytest.approx((2 / 3, 2 / 3, 1 / 3))
    assert told.most_ms == pytest.approx(0.14)
    assert told.waited_ms == {"sampler": pytest.approx(0.24)}
    assert told.response_p999_ms - told.without_p999_ms == pytest.approx(0.06, abs=0.001)
