"""The interval of each sample, if the file does not give it, and which end of it is stamped."""

from __future__ import annotations

import polars as pl

from tailrace import units

# A sampler is late by a part of its interval; an interval that is more than half as long again means a missing sample.
_HOLE = 1.5
# Stamps are moved only if the evidence is clear: a second of samples at 50 ms, and one interpretation with ten times
# the error of the other (the right one is off by microseconds of rounding, the wrong one by the sampler's jitter).
_STEPS_MIN = 20
_ERROR_RATIO = 10


def complete(samples: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """Every sample with its interval, stamped at its end; and notes."""
    if not samples.get_column("time").is_sorted():
        samples = samples.sort("time", maintain_order=True)
    notes: list[str] = []
    missing = samples.get_column("interval_ns").null_count()
    if missing:
        samples = _deduced(samples)
        unknown = samples.get_column("interval_ns").null_count()
        samples = samples.with_columns(pl.col("interval_ns").fill_null(0))
        usual = samples.get_column("interval_ns").median()
        length = units.format_duration(int(usual)) if isinstance(usual, float) else "unknown"
        notes.append(f"{missing} samples without an interval: taken as the time since the one before, usually {length}")
        if unknown:
            notes.append(f"{unknown} samples have no neighbour: their interval is unknown and written as 0")
    elif _stamped_at_begin(samples):
        samples = samples.with_columns(pl.col("time") + pl.col("interval_ns")).sort("time", maintain_order=True)
        notes.append("its times match the begin of the intervals, not their end, so they were moved to the end")
    return samples, notes


def _deduced(samples: pl.DataFrame) -> pl.DataFrame:
    series = ["place", "metric"]
    step = pl.col("time").diff().over(series)
    with_step = samples.with_columns(step=pl.when(step > 0).then(step))
    middle = pl.col("step").quantile(0.5, "lower")
    usual = middle.over(series).fill_null(middle)
    length = pl.when(pl.col("step") <= usual * _HOLE).then(pl.col("step")).otherwise(usual).round().cast(pl.Int64)
    return with_step.with_columns(pl.col("interval_ns").fill_null(length)).drop("step")


def _stamped_at_begin(samples: pl.DataFrame) -> bool:
    """A sampler's jitter shows it: the time from one stamp to the next is the later sample's interval if stamps are
    ends, and the earlier one's if they are begins. Equal intervals cannot show it, and count as ends."""
    longest = samples.group_by("place", "metric").len().sort("len", "place", "metric").tail(1)
    series = samples.join(longest, on=["place", "metric"], how="semi").select("time", "interval_ns")
    steps = series.with_columns(
        step=pl.col("time").diff(), before=pl.col("interval_ns").shift(1), here=pl.col("interval_ns")
    ).filter((pl.col("step") > 0) & (pl.col("step") < pl.col("interval_ns").median() * _HOLE))
    if steps.height < _STEPS_MIN:
        return False
    as_end = (steps["step"] - steps["here"]).abs().sum()
    as_begin = (steps["step"] - steps["before"]).abs().sum()
    return bool(as_begin * _ERROR_RATIO < as_end)
