"""All runs of a sweep in one tidy table: a row for each run, with the varied keys, the seed, and every measure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import polars as pl

from tailrace import whole
from tailrace.engines import Mapping
from tailrace.errors import UsageError
from tailrace.experiment import Experiment
from tailrace.experiment import read as read_experiment
from tailrace.study import runs
from tailrace.study.engines import Progress
from tailrace.study.intervals import Interval, interval
from tailrace.study.runs import Question, Runs
from tailrace.sweep.varying import Varied, combinations
from tailrace.units import MILLISECOND, SECOND, exact_duration, parse_duration

TABLE = "sweep.parquet"
RUNS_MAX = 100_000
DURATIONS = ("over", "under", "window", "begin", "end")
"""Separates the values of measures."""

Column = tuple[str, dict[str, Any]]
"""A measure and its values."""
DEFAULT: dict[str, Column] = {
    "throughput": ("throughput", {}),
    "response_mean": ("response_mean", {}),
    **{f"response_p{p}": ("response_percentile", {"percentile": p}) for p in (50, 95, 99)},
    "share_over_1s": ("share_over", {"over": SECOND}),
    "share_over_3s": ("share_over", {"over": 3 * SECOND}),
    "share_under_10ms": ("share_under", {"under": 10 * MILLISECOND}),
    "drops": ("drops", {}),
}
"""The measures of every sweep, besides the CPU of each tier."""


@dataclass(frozen=True)
class Sweep:
    """`frame` has a row for each run; `columns` are its measures, in the units of docs/reference/measures.md."""

    experiment: str
    varied: tuple[Varied, ...]
    seeds: int
    columns: dict[str, Column]
    frame: pl.DataFrame

    def interval(self, column: str, values: Sequence[str]) -> Interval:
        """The interval of a measure over the seeds, where the keys have these values."""
        chosen = [pl.col(one.key) == _typed(one, value) for one, value in zip(self.varied, values, strict=True)]
        return interval(self.frame.filter(*chosen)[column].to_list())


def sweep(
    path: Path,
    varied: Sequence[Varied],
    out: Path,
    seeds: int = 5,
    changes: Sequence[str] = (),
    extra: Sequence[Column] = (),
    workers: int | None = None,
    progress: Progress | None = None,
    *,
    add: bool = False,
    cluster: Mapping | None = None,
) -> Sweep:
    """Run every combination with every seed, except runs that are kept in `out`/runs, and write `out`/sweep.parquet.
    `add` allows names that the experiment does not have. A `cluster`'s workers make the runs instead of this machine.

    Raises UsageError for keys and measures that are not possible, before anything runs.
    """
    keys = [one.key for one in varied]
    if len(set(keys)) < len(keys):
        raise UsageError(f"--vary {keys[-1]}: a key can be varied once")
    if "seed" in keys:
        raise UsageError(
            "--vary seed: every combination is run with several seeds", advice="set their number with --seeds"
        )
    count = prod(len(one.values) for one in varied)
    if count * seeds > RUNS_MAX:
        raise UsageError(f"{count:,} combinations, {seeds} seeds: over {RUNS_MAX:,} runs", advice="vary less")
    kept = Runs(out / "runs")
    rows = []
    columns: dict[str, Column] = {}
    for values in combinations(list(varied)):
        sets = [f"{one.key}={value}" for one, value in zip(varied, values, strict=True)]
        experiment = read_experiment(path, [*changes, *sets], add=add)
        columns = columns or _columns(experiment, extra)
        questions = {name: Question.of(*column) for name, column in columns.items()}
        for number in range(seeds):
            seeded = experiment.model_copy(update={"seed": experiment.seed + number})
            job = kept.ask(seeded, questions.values(), ", ".join([*sets, f"seed={seeded.seed}"]))
            rows.append((values, seeded.seed, questions, job))
    kept.make(workers, progress, cluster)
    frame = pl.DataFrame(
        [
            {
                **{one.key: _typed(one, value) for one, value in zip(varied, values, strict=True)},
                "seed": seed,
                **{name: job.answers[question.key] for name, question in questions.items()},
            }
            for values, seed, questions, job in rows
        ]
    )
    _write(frame, out / TABLE)
    return Sweep(str(path), tuple(varied), seeds, columns, frame)


def column(text: str) -> Column:
    """A measure of the command line: `drops`, `queue_max:place=web`, `share_over:over=3s,place=web`."""
    name, _, listed = text.partition(":")
    values: dict[str, Any] = {}
    for part in filter(None, listed.split(",")):
        key, equals, value = part.partition("=")
        key, value = key.strip(), value.strip()
        if not (equals and value):
            raise UsageError(f"--measure {text}: expected MEASURE:KEY=VALUE,KEY=VALUE")
        if key in values:
            raise UsageError(f"--measure {text}: {key} occurs twice")
        values[key] = _value(text, key, value)
    problem = runs.check(name, values, f"--measure {text}: ")
    if problem:
        raise UsageError(problem)
    return name, values


def _columns(experiment: Experiment, extra: Sequence[Column]) -> dict[str, Column]:
    """The papers' measures, and the requested ones."""
    sampled = experiment.sampling.interval > 0
    found: dict[str, Column] = {
        **DEFAULT,
        **{f"utilisation_{tier}": ("utilisation", {"place": tier}) for tier in experiment.tiers if sampled},
    }
    for name, values in extra:
        found["_".join([name, *(_written(key, value) for key, value in values.items())])] = (name, values)
    return found


def _written(key: str, value: Any) -> str:
    return exact_duration(value).replace(" ", "") if key in DURATIONS else str(value)


def _value(text: str, key: str, value: str) -> Any:
    try:
        if key in DURATIONS:
            return parse_duration(value)
        return float(value) if key == "percentile" else value
    except ValueError as error:
        wrong = f"percentile must be a number, got {value}" if key == "percentile" else str(error)
        raise UsageError(f"--measure {text}: {wrong}") from error


def _typed(one: Varied, value: str) -> float | int | str:
    """A column of plain numbers is numeric; values with a unit or a name are text."""
    if any(one.number(each) is None for each in one.values) or one.unit:
        return value
    numbers = [one.number(each) or 0.0 for each in one.values]
    number = one.number(value) or 0.0
    return int(number) if all(each.is_integer() for each in numbers) else number


def _write(frame: pl.DataFrame, file: Path) -> None:
    with whole.replacing(file) as table:
        frame.write_parquet(table)
