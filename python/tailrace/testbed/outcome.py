"""The results of a run, in the same numbers as those of the simulator."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from tailrace.dataset import REQUESTS, VISITS, scan
from tailrace.experiment import truth
from tailrace.units import SECOND


@dataclass(frozen=True)
class Outcome:
    requests: int
    answered: int
    failed: int
    over_1s: int
    response_ns_mean: float | None
    """Mean over the requests that were answered; None if there are none."""
    drops: dict[str, int]
    """Lost connection attempts of each server that had any."""
    stalls: tuple[truth.Stall, ...]


def outcome(folder: Path, stalls: tuple[truth.Stall, ...]) -> Outcome:
    """From the tables in a run folder, complete or not."""
    if not (folder / REQUESTS.file).exists():
        return Outcome(0, 0, 0, 0, None, {}, stalls)
    response = pl.col("end") - pl.col("sent")
    answered = pl.col("status").cast(pl.String) == "ok"
    [counts] = (
        scan(folder / REQUESTS.file)
        .select(
            requests=pl.len(),
            answered=answered.sum(),
            failed=(~answered).sum(),
            over_1s=(answered & (response > SECOND)).sum(),
            response_ns_mean=response.filter(answered).mean(),
        )
        .collect()
        .to_dicts()
    )
    drops = (
        scan(folder / VISITS.file)
        .group_by(pl.col("server").cast(pl.String))
        .agg(pl.col("drops").cast(pl.Int64).sum())
        .filter(pl.col("drops") > 0)
        .sort("server")
        .collect()
    )
    return Outcome(**counts, drops=dict(drops.iter_rows()), stalls=stalls)
