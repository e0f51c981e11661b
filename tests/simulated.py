"""Simulated experiments, and their measures over replications."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from plans import REPLICATIONS, with_integer_times
from tailrace import experiment, sim

Tables = dict[str, Any]
RAMP_S = 10


@dataclass(frozen=True)
class Seen:
    requests: pl.DataFrame
    visits: pl.DataFrame
    samples: pl.DataFrame
    outcome: sim.Outcome


Measure = Callable[[Seen], float]


def seen(folder: Path, parts: Tables) -> Seen:
    outcome = sim.simulate(experiment.from_table(parts), folder / "run", overwrite=True)

    def table(name: str) -> pl.DataFrame:
        return with_integer_times(pl.read_parquet(folder / "run" / f"{name}.parquet"))

    return Seen(table("requests"), table("visits"), table("samples"), outcome)


def measured(folder: Path, seconds: int, measures: Sequence[Measure], parts: Tables) -> list[list[float]]:
    """Each measure, over the replications."""
    base = {"duration": f"{seconds} s", "ramp": f"{RAMP_S} s", "latency": "0 s", "sampling": {"interval": "0 s"}}
    found: list[list[float]] = [[] for _ in measures]
    for number in range(REPLICATIONS):
        one = seen(folder, {**base, **parts, "replication": number})
        for values, measure in zip(found, measures, strict=True):
            values.append(measure(one))
    return found


def response(interaction: str) -> Measure:
    """Mean response time in seconds of answered requests."""
    took = (pl.col("end") - pl.col("sent")).filter(pl.col("status") == "ok", pl.col("interaction") == interaction)
    return lambda one: float(one.requests.select(took.mean()).item()) / 1e9


def longer(seconds: float) -> Measure:
    """The share of requests that took longer."""
    return lambda one: float(one.requests.select((pl.col("end") - pl.col("sent") > seconds * 1e9).mean()).item())


def stay(server: str) -> Measure:
    took = (pl.col("departure") - pl.col("arrival")).filter(pl.col("server") == server)
    return lambda one: float(one.visits.select(took.mean()).item()) / 1e9


def sampled(place: str, metric: str) -> Measure:
    values = pl.col("value").filter(pl.col("place") == place, pl.col("metric") == metric)
    return lambda one: float(one.samples.select(values.mean()).item())


def arriving(rate: float, **more: Any) -> Tables:
    return {"kind": "poisson", "rate": rate, **more}
