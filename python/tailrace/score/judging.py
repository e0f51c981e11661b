"""Chooses the judge of a run: a simulated system is simulated again; a recording is judged by the stalls of its
truth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from os import PathLike
from typing import Any

import polars as pl

from tailrace.bounds import SCORED_BYTES, SCORED_LONGER, SCORED_LONGER_NS, SCORED_TIMES
from tailrace.dataset import Dataset
from tailrace.errors import InputError
from tailrace.experiment import from_table
from tailrace.score import covering, figures, stalls, stated
from tailrace.score.figures import Score
from tailrace.units import format_duration

Told = Mapping[str, Any]
"""The content of a diagnosis.json."""


def score(run: Dataset, told: Told, truth: str | PathLike[str] | None = None) -> Score:
    """Compare a diagnosis with the truth.toml of its run folder, or with another truth.toml."""
    path = run.path if truth is None else truth
    table = stalls.simulated(path)
    if table is None:
        return by_covering(run, told, path)
    _refuse_longer(run, path, table)
    return by_removing(run, told, path, table)


def _refuse_longer(run: Dataset, path: str | PathLike[str], table: Mapping[str, Any]) -> None:
    """Raise InputError if the experiment lasts so much longer than the run that it did not make it."""
    lasts = from_table(table, path).duration
    span = run.requests().select((pl.col("end").max() - pl.col("sent").min()).fill_null(0)).collect().item()
    if lasts > SCORED_LONGER * span + SCORED_LONGER_NS:
        found = f"its experiment lasts {format_duration(lasts)}, and the run {format_duration(span)}"
        raise InputError(path, found, "give the truth.toml of this run")


def by_removing(run: Dataset, told: Told, truth: str | PathLike[str], table: Mapping[str, Any]) -> Score:
    """The run was made from the experiment `table`."""
    from tailrace.score import removing, without

    counts = figures.causes_of(told["episodes"])
    vlrt = without.count(run, told["threshold_ns"])
    most = max(SCORED_BYTES, SCORED_TIMES * without.held(run.path))
    credit = without.credit(removing.complete(table), vlrt, counts, told["threshold_ns"], most)
    return _compared(run, told, vlrt, [(counts, credit)], stalls.read(truth, run.topology))


def by_covering(run: Dataset, told: Told, truth: str | PathLike[str]) -> Score:
    """Each episode is judged alone."""
    known, requests = stalls.read(truth, run.topology), covering.held(run, told["threshold_ns"])
    judged = []
    for episode in told["episodes"]:
        inside = [request for request in requests if episode["begin"] <= request[0] <= episode["end"]]
        judged.append((figures.causes_of([episode]), covering.credit(inside, known)))
    return _compared(run, told, len(requests), judged, known)


def _compared(
    run: Dataset,
    told: Told,
    vlrt: int,
    judged: Iterable[tuple[Counter[str], Mapping[str, int]]],
    known: tuple[stalls.Stall, ...],
) -> Score:
    requests = int(run.requests().select(pl.len()).collect().item())
    origins = stated.origins(told, known)
    return figures.compare(requests, vlrt, judged, stated.right_droppers(run, told), origins)
