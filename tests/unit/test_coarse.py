"""Samples that are hardly finer than the stalls they must show."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from builders import T0
from systems import Memory, Slow, at, system
from tailrace import readers, sim
from tailrace.dataset import Dataset
from tailrace.diagnosis import diagnose, tables
from tailrace.diagnosis.series import Series, within_cores
from tailrace.experiment import from_table
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
def test_one_sample_inside_a_stop_shows_it_and_none_does_not(
    step_ms: int, first_ms: int, until: float, told: str
) -> None:
    found = diagnose(every(system(Slow("app", 4.0, until)), step_ms, first_ms))
    assert {(e.dropper, e.origin, e.cause) for e in found.episodes if e.vlrt > 5} == {("web", "app", told)}


def test_a_stop_is_the_cause_of_what_does_not_occur_without_it() -> None:
    """Stopped for 0.2 s and slow for the next 0.5 s. Without the stop, 35 of 147 requests are very slow."""
    found = diagnose(every(system(Slow("app", 4.0, 4.2), Slow("app", 4.2, 4.7, speed=0.3, cpu=0.3)), 200, 0))
    assert {(e.origin, e.cause) for e in found.episodes if e.vlrt > 5} == {("app", "freeze")}
    assert diagnose(system(Slow("app", 4.2, 4.7, speed=0.3, cpu=0.3))).vlrt < 0.3 * found.vlrt


@pytest.mark.parametrize(("step_s", "cause"), [(1.0, "unknown"), (0.05, "concurrency-overhead")])
def test_samples_longer_than_a_stall_do_not_show_that_a_full_cpu_was_its_cause(
    tmp_path: Path, step_s: float, cause: str
) -> None:
    """The log of a real nginx, whose upstream server was stopped for 0.8 s while other programs filled the CPU."""
    began = 1_795_802_637.0
    rows = [f"{began + i * step_s:.3f},app,cpu_busy,1.0" for i in range(round(20 / step_s))]
    (tmp_path / "samples.csv").write_text("\n".join(["time,place,metric,value", *rows]) + "\n")
    log = Path(__file__).parents[1] / "golden" / "together" / "full-cpu.log.gz"
    names = {"web": "127.0.0.11:8081", "app": "127.0.0.12:8090"}
    found = diagnose(readers.read(f"web={log}", tmp_path / "samples.csv", servers=names))
    assert {(e.dropper, e.origin, e.cause, e.vlrt) for e in found.episodes} == {("app", "app", cause, 45)}


@pytest.mark.parametrize(("begin", "end", "seen"), [(90, 310, True), (110, 310, False), (110, 510, True)])
def test_a_sample_describes_the_stop_that_contains_it(begin: int, end: int, seen: bool) -> None:
    begins = np.arange(0, 1000, 200, dtype=np.int64) * MS + at(0.1)
    series = Series("app", "cpu_busy", begins, begins + 200 * MS, np.zeros(len(begins)))
    assert series.resolves(at(begin / 1e3), at(end / 1e3)) == seen


def test_nothing_is_known_where_nothing_was_sampled() -> None:
    """Samples from 0.1 s to 0.5 s, and from 0.9 s to 1.1 s: each also describes a sampling interval around it."""
    begins = np.array([100, 300, 900], dtype=np.int64) * MS
    series = Series("app", "cpu_busy", begins, begins + 200 * MS, np.array([0.2, 0.4, 0.8]))
    times = np.array([-150, -50, 150, 350, 600, 750, 1000, 1250, 1350]) * MS
    known = [None if np.isnan(value) else value for value in series.at(times)]
    assert known == [None, 0.2, 0.2, 0.4, None, 0.8, 0.8, 0.8, None]
    assert series.extended(times).tolist() == [0.2, 0.2, 0.2, 0.4, 0.8, 0.8, 0.8, 0.8, 0.8]


def test_a_batch_is_attributed_to_the_time_of_its_overflow(tmp_path: Path) -> None:
    """150 at once: web, which could serve them, refuses 50 within 30 ms. Not all samples show app's work on the rest,
    and without them half of the batches were reported."""
    batch = {"kind": "batch", "size": 153, "first": "2.24 s", "every": "3.57 s", "interaction": "page"}
    experiment = {
        "duration": "16 s",
        "ramp": "2 s",
        "sampling": {"interval": "100 ms"},
        "kernel": {"syn": "linux-3.3"},
        "tiers": {
            "web": {"workers": 40, "backlog": 64, "calls": ["app"]},
            "app": {"workers": 165, "calls": ["db"]},
            "db": {"workers": 20},
        },
        "interactions": {
            "page": {"at": {"web": {"compute": "0.22 ms", "calls": {"servlet": 1}}}},
            "servlet": {"at": {"app": {"compute": "0.96 ms", "calls": {"query": 1}}}},
            "query": {"at": {"db": {"compute": "0.89 ms"}}},
        },
        "workloads": {"users": {"kind": "poisson", "rate": 530, "interaction": "page"}, "batch": batch},
    }
    told: Counter[tuple[str | None, str]] = Counter()
    for seed in range(1, 7):
        sim.simulate(from_table({**experiment, "seed": seed}), tmp_path / f"run{seed}")
        told.update((e.dropper, e.cause) for e in diagnose(Dataset.open(tmp_path / f"run{seed}")).episodes)
    assert told.total() == 24
    assert told["web", "workload-burst"] >= 22


def test_what_processes_used_before_they_were_found_belongs_to_the_second_before() -> None:
    """Samples of 50 ms on two cores. At 2 s, one has what new processes used for a second."""
    end = np.arange(1, 61) * 50 * MILLISECOND
    begin, value = end - 50 * MILLISECOND, np.full(60, 0.1)
    value[39], value[5] = 20.0, 2.2
    value[59] = 60.0
    found = within_cores(begin, end, value, 2)
    assert found[20:40] == pytest.approx((19 * 0.1 + 20.0) / 20)
    assert found[5] == 2.2, "samples jitter"
    assert found[40:].tolist() == [2.0] * 20, "no more than there are"
    assert np.delete(found[:20], 5) == pytest.approx(0.1)
    assert within_cores(begin, end, np.full(60, 30.0), 2).min() == 30.0, "the number of cores is wrong"
    assert within_cores(end, end, value, 2).tolist() == value.tolist(), "these samples have no length"


def test_a_server_uses_no_more_cpus_than_its_node_has() -> None:
    run = system(Slow("app", 4.0, 4.6)).sample("app", "cpu_busy", 0.5, (6.0, 6.05, 19.0))
    nodes = tuple(node.model_copy(update={"cores": 2}) for node in run.topology.nodes)
    known = replace(run, topology=run.topology.model_copy(update={"nodes": nodes}))
    (own,) = tables.look(known, 50 * MILLISECOND).series("app", "cpu_busy")
    assert own.value.max() <= 2.0
