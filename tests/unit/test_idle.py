"""An idle span costs nothing and changes nothing: the diagnosis' clock, the drawn windows, damaged times."""

from __future__ import annotations

import resource
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import T0, requests, run, samples, visits
from systems import MS, Memory, S, Slow, at, system
from tailrace import timeline
from tailrace.diagnosis import Diagnosis, diagnose
from tailrace.diagnosis.clock import IDLE_NS, REAL, UNDER_WAY_NS, Clock, clock_of
from tailrace.diagnosis.constants import STEP_NS
from tailrace.diagnosis.queues import Stays, every
from tailrace.report import series

DAY = 86_400 * S
WEEK = 7 * DAY
MONTH = 30 * DAY


def later(memory: Memory, after: float, by: int) -> Memory:
    """The same recording with an idle span: everything after that moment is this much later."""
    edge = at(after)
    columns = ("sent", "connected", "end", "arrival", "departure", "begin", "time")
    tables = {
        name: frame.with_columns(
            pl.when(pl.col(c) > edge).then(pl.col(c) + by).otherwise(pl.col(c)).alias(c)
            for c in columns
            if c in frame.columns
        )
        for name, frame in memory.tables.items()
    }
    return Memory(memory.topology, tables, memory.connections)


def without_those_under_way(memory: Memory, moment: float) -> Memory:
    kept = {
        "requests": (pl.col("sent") > at(moment)) | (pl.col("end") <= at(moment)),
        "visits": (pl.col("sent") > at(moment)) | (pl.col("departure") <= at(moment)),
    }
    return replace(memory, tables={n: f.filter(kept[n]) if n in kept else f for n, f in memory.tables.items()})


def chains(found: Diagnosis) -> list[tuple[object, ...]]:
    return [(row.dropper, row.origin, row.cause, row.ctqo, row.vlrt) for row in found.summary]


stays = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 30)), min_size=1, max_size=30)


@given(stays)
def test_the_clock_keeps_order_and_gives_every_moment_back(rows: list[tuple[int, int]]) -> None:
    begins = np.array([begin * 60 * S for begin, _ in rows], dtype=np.int64)
    ends = begins + np.array([length * S for _, length in rows], dtype=np.int64)
    clock = clock_of([Stays.of(begins, ends)])
    for moments in (begins, ends):
        assert [clock.real(int(t)) for t in clock.of(moments)] == moments.tolist()
    whole = np.sort(np.concatenate((begins, ends)))
    moved = clock.of(whole)
    assert moved[0] == whole[0]
    steps, real = np.diff(moved), np.diff(whole)
    assert (steps >= 0).all()
    assert (steps <= real).all()
    idle = real > IDLE_NS
    assert (steps[~idle] == real[~idle]).all()


def test_what_is_under_way_keeps_its_length_for_an_hour() -> None:
    hung = Stays.of(np.array([0, 300 * S]), np.array([290 * S, 301 * S]))
    assert clock_of([hung]) is REAL
    open_for_days = Stays.of(np.array([0, 9 * DAY]), np.array([10 * DAY, 9 * DAY + S]))
    assert clock_of([open_for_days]).of(np.array([9 * DAY])).tolist() == [UNDER_WAY_NS]


def test_a_clock_without_an_idle_span_is_the_real_one() -> None:
    assert clock_of([]) is REAL
    assert clock_of([Stays.of(np.arange(9) * S, np.arange(9) * S + MS)]) is REAL
    assert REAL.real(5) == 5
    found = diagnose(system())
    assert REAL.restore(found) is found


def test_an_idle_span_before_or_after_changes_nothing_but_moments() -> None:
    memory = system(Slow("app", 6.0, 6.6), seconds=16.0)
    for after, moved in ((2.0, MONTH), (13.0, 0)):
        whole = without_those_under_way(memory, after)
        found, again = diagnose(whole), diagnose(later(whole, after, MONTH))
        assert chains(again) == chains(found)
        (one,), (other,) = found.episodes, again.episodes
        assert other.begin - one.begin == moved
        assert [(p.server, p.rise - moved) for p in other.wave] == [(p.server, p.rise) for p in one.wave]
        for mine, theirs in zip(one.findings, other.findings, strict=True):
            assert mine.verdict == theirs.verdict
            late = (theirs.begin or 0) - (mine.begin or 0) - (moved if mine.begin else 0)
            assert abs(late) <= (STEP_NS if mine.step == "cause" else 0), "the ledger counts in steps"
        assert again.end == (found.end or 0) + MONTH


def test_an_idle_span_costs_neither_time_nor_memory(tmp_path: Path) -> None:
    rows = [{"sent": T0 + n * WEEK, "arrival": T0 + n * WEEK, "departure": T0 + n * WEEK + MS} for n in range(50)]
    asked = [{"sent": row["sent"], "end": row["departure"]} for row in rows]
    folder = run(tmp_path / "run", requests=requests(*asked), visits=visits(*rows))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = diagnose(folder)
    drawn = series.gather(folder, found)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert found.requests == 50
    assert max(len(axis.times) for axis in drawn.axes) < 50 * 45
    assert grown < 300_000, "kB: a year of 50 ms is 630 million windows"


def test_queues_stand_still_over_what_is_left_out(tmp_path: Path) -> None:
    """One visit lasts for a day."""
    table = visits(
        {"sent": T0, "arrival": T0, "departure": T0 + DAY},
        {"sent": T0 + DAY // 2, "arrival": T0 + DAY // 2, "departure": T0 + DAY // 2 + 120 * MS},
    )
    folder = run(tmp_path / "run", requests=requests({"sent": T0, "end": T0 + DAY}), visits=table)
    drawn = series.gather(folder, diagnose(folder))
    queue = drawn.lines[drawn.line("web", "queue_length") or 0].values
    times = drawn.axes[0].times
    assert len(times) < 400
    assert set(queue[(times > T0 + S) & (times < T0 + DAY // 2)]) == {1.0}
    assert queue.max() == 2.0


def test_windows_in_the_middle_of_an_idle_span_are_left_out(tmp_path: Path) -> None:
    table = visits(*({"arrival": T0 + n * DAY, "sent": T0 + n * DAY, "departure": T0 + n * DAY + MS} for n in range(5)))
    folder = run(tmp_path / "run", visits=table)
    assert len(timeline.windows(folder, 50 * MS, idle=3)) == 5 * 7 - 6
    assert timeline.windows(folder, 50 * MS)["arrivals"].sum() == 5
    with pytest.raises(ValueError, match="fewer idle windows"):
        timeline.windows(folder, MS, idle=None)


def test_one_damaged_time_of_a_sample_asks_for_no_memory(tmp_path: Path) -> None:
    """A digit too many: the sample is of the year 2086."""
    moments = [T0 + n * 50 * MS for n in range(200)]
    rows = [{"time": t, "value": 0.5} for t in (*moments, T0 + 60 * 365 * DAY)]
    for tables in ({}, {"requests": requests({}), "visits": visits({})}):
        folder = run(tmp_path / f"run{len(tables)}", samples=samples(*rows), **tables)
        found = diagnose(folder)
        drawn = series.gather(folder, found)
        assert sum(len(line.values) for line in drawn.lines) < 2_000


def test_steps_of_one_array_are_bounded() -> None:
    assert len(every(0, 10 * S, 5 * MS)) == 2000
    assert len(every(0, 100 * MONTH, 5 * MS)) <= 4_000_001


def test_moments_within_a_cut_are_at_its_begin() -> None:
    clock = Clock(np.array([100, 200]), np.array([50, 80]), np.array([2, 2]))
    assert clock.of(np.array([0, 100, 120, 150, 170, 200, 230, 231])).tolist() == [0, 100, 100, 100, 120, 150, 150, 151]
    assert [clock.real(t) for t in (0, 100, 101, 120, 150, 151)] == [0, 100, 151, 170, 200, 231]
