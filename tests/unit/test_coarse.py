"""What samples tell that are hardly finer than what they are asked about."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from builders import T0
from systems import Memory, Slow, at, system
from tailrace.diagnosis import diagnose
from tailrace.diagnosis.series import Series
from tailrace.units import MILLISECOND

MS = MILLISECOND


def every(memory: Memory, step_ms: int, first_ms: int) -> Memory:
    """The same, sampled at longer steps of which one begins `first_ms` after the run."""
    step = pl.lit(step_ms * MS)
    number = (pl.col("time") - pl.col("interval_ns") - T0 - first_ms * MS).floordiv(step)
    groups = memory.tables["samples"].group_by(number.alias("step"), "place", "metric").agg(pl.col("value").mean())
    samples = groups.select(
        (T0 + first_ms * MS + (pl.col("step") + 1) * step).alias("time"), step.alias("interval_ns"), "place", "metric",
        "value",
    ).sort("time")  # fmt: skip
    return replace(memory, tables={**memory.tables, "samples": samples})


@pytest.mark.parametrize(
    ("step_ms", "first_ms", "until", "told"),
    [
        (200, 100, 4.35, "freeze"),  # 4.1 to 4.3 s
        (200, 150, 4.30, "unknown"),  # 3.95 to 4.15 s, and 4.15 to 4.35 s
        (200, 80, 4.45, "freeze"),  # 4.08 to 4.28 s, less than half of it
    ],
)
def test_one_sample_within_a_stop_tells_it_and_none_does_not(
    step_ms: int, first_ms: int, until: float, told: str
) -> None:
    found = diagnose(every(system(Slow("app", 4.0, until)), step_ms, first_ms))
    assert {(e.dropper, e.origin, e.cause) for e in found.episodes if e.vlrt > 5} == {("web", "app", told)}


def test_who_answers_at_the_edges_of_a_sample_did_not_stand_still_there() -> None:
    """Stopped for 0.2 of 0.6 s in which it is held up: a sample without CPU is stretched only to its next answer."""
    found = diagnose(every(system(Slow("app", 4.0, 4.2), Slow("app", 4.2, 4.7, speed=0.3, cpu=0.3)), 200, 0))
    assert {(e.origin, e.cause) for e in found.episodes if e.vlrt > 5} == {("app", "unknown")}


@pytest.mark.parametrize(("begin", "end", "seen"), [(90, 310, True), (110, 310, False), (110, 510, True)])
def test_a_sample_tells_of_what_it_lies_in(begin: int, end: int, seen: bool) -> None:
    begins = np.arange(0, 1000, 200, dtype=np.int64) * MS + at(0.1)
    series = Series("app", "cpu_busy", begins, begins + 200 * MS, np.zeros(len(begins)))
    assert series.resolves(at(begin / 1e3), at(end / 1e3)) == seen
