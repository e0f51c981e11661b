"""The data of a run that figures show: distributions of response times, and series over time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import polars as pl

from tailrace.dataset.metrics import METRICS, SHARES
from tailrace.errors import UsageError
from tailrace.study.measured import Measured
from tailrace.toml import wrong_name
from tailrace.units import SECOND

Json = dict[str, Any]
Unit = Literal["count", "share", "bytes", "hertz", "duration", "rate"]


def histogram(run: Measured, edges: list[int], place: str | None = None) -> list[int]:
    """Answered requests by response time: in [edges[i], edges[i + 1]), and in the last entry those above."""
    took = run.requests(place).filter(pl.col("ok"))["response"].to_numpy()
    counts, _ = np.histogram(took, bins=np.array([*edges, 2**62], dtype=np.int64))
    return [int(count) for count in counts]


def series(
    run: Measured, series: str, place: str, begin: int, end: int, window: int, interaction: str | None = None
) -> list[Json]:
    """One metric of each server of a place in windows from `begin` to `end` (ns after the ramp), of all requests or of
    one interaction.

    Each as `label`, `first` (middle of the first window, ns after the ramp), `values` (null where there is none).
    """
    found = values(run, series, place, window, interaction)
    first, count = begin // window, max(1, -(-(end - begin) // window))
    grid = pl.DataFrame({"window": np.arange(first, first + count) * window})
    lines = []
    for (label,), rows in found.sort("label").group_by("label", maintain_order=True):
        whole = grid.join(rows, on="window", how="left", maintain_order="left")["value"]
        if series in COUNTED:
            whole = whole.fill_null(0)
        digits = [None if value is None else float(f"{value:.5g}") for value in whole.to_list()]
        lines.append({"label": label, "first": first * window + window // 2, "values": digits})
    return lines


def values(run: Measured, series: str, place: str, window: int, interaction: str | None = None) -> pl.DataFrame:
    """One metric of each server of a place: `label`, `window` (its begin, ns after the ramp) and `value`. Windows
    without a row are empty. With an `interaction`, only its requests count, and the visits that they cause."""
    wrong = problem(series, interaction)
    if wrong:
        raise UsageError(wrong)
    if interaction:
        return OF_INTERACTION[series](run, place, window, interaction)
    return SERIES[series](run, place, window) if series in SERIES else sampled(run, series, place, window)


def problem(series: str, interaction: str | None, where: str = "") -> str | None:
    """A sentence about a series that does not exist, or that cannot be of one interaction; or None."""
    if series not in KNOWN:
        return wrong_name(f"{where}series", series, KNOWN, "series")
    if interaction and series not in OF_INTERACTION:
        return f"{where}interaction is for the series {' and '.join(OF_INTERACTION)}, got {series}"
    return None


def unit_of(series: str) -> Unit:
    if series in SHARES or series == "collecting":
        return "share"
    if series in ("response", "throughput"):
        return "duration" if series == "response" else "rate"
    return "bytes" if series.endswith("_bytes") else "hertz" if "_hz" in series else "count"


def sampled(run: Measured, metric: str, place: str, window: int) -> pl.DataFrame:
    """A sampled metric; a window wider than the sampling interval gets the mean of its samples."""
    found = run.samples(place, metric)
    interval = run.experiment.sampling.interval
    started = (pl.col("time") - interval - run.begin) // window * window
    return found.group_by(label="place", window=started).agg(pl.col("value").mean())


def queue(run: Measured, place: str, window: int) -> pl.DataFrame:
    """The largest number of simultaneous requests in each server."""
    return _windows(run, place, window, pl.col("queue_max").cast(pl.Float64))


def queue_mean(run: Measured, place: str, window: int) -> pl.DataFrame:
    """The number of requests in each server, averaged over the window."""
    return _windows(run, place, window, pl.col("queue_area_ns") / window)


def arrivals(run: Measured, place: str, window: int) -> pl.DataFrame:
    """Requests that arrived at each server."""
    return _windows(run, place, window, pl.col("arrivals").cast(pl.Float64))


def assigned(run: Measured, place: str, window: int) -> pl.DataFrame:
    """Requests that went to each server, by the window in which their callers took them: as the callers' logs count,
    even while a request waits for a connection."""
    found = run.assigned(place).select(pl.col("server").cast(pl.String).alias("place"), at="start").collect()
    return _counted(found, run, window)


def collecting(run: Measured, place: str, window: int) -> pl.DataFrame:
    """The share of the window in which each server collects garbage; 0 in the windows between its collections."""
    found = run.events(place, "gc").with_columns(pl.col("begin", "end").cast(pl.Int64) - run.begin)
    numbers = pl.int_range(-(-run.length // window), dtype=pl.Int64, eager=True)
    grid = found.select("place").unique().join(pl.DataFrame({"window": numbers * window}), how="cross")
    inside = pl.min_horizontal("end", pl.col("window") + window) - pl.max_horizontal("begin", "window")
    shares = (
        found.with_columns(
            window=pl.int_ranges(pl.col("begin") // window, pl.col("end") // window + 1) * window,
        )
        .explode("window")
        .group_by("place", "window")
        .agg(value=inside.clip(0).sum() / window)
    )
    rows = grid.join(shares, on=["place", "window"], how="left").fill_null(0)
    return rows.select("window", "value", label="place")


def drops(run: Measured, place: str, window: int) -> pl.DataFrame:
    """Connection attempts lost by each server."""
    found = run.events(place, "drop")
    return _counted(found.select("place", at=pl.col("begin")), run, window)


def vlrt(run: Measured, place: str, window: int, over: int = SECOND) -> pl.DataFrame:
    """Requests that took this long, by the window in which they were sent."""
    found = run.requests(place).filter(pl.col("response") >= over)
    return _counted(found.select(at="sent", place=pl.lit("VLRT")), run, window)


def throughput(run: Measured, place: str, window: int) -> pl.DataFrame:
    """Requests a second that each server answered."""
    rate = pl.col("departures").cast(pl.Float64) / window * SECOND
    return _windows(run, place, window, rate)


def response(run: Measured, place: str, window: int, interaction: str | None = None) -> pl.DataFrame:
    """Mean response time, in s, of the requests sent in the window: the point-in-time response time. For a tier that
    receives no client requests, that of the visits that arrived in it."""
    found, label = run.requests(place).filter(pl.col("ok")), "mean response time"
    if found.is_empty():
        took = pl.col("departure") - pl.col("arrival")
        ok = run.visits(place, interaction).filter(pl.col("status").cast(pl.String) == "ok")
        found, label = ok.select(sent="arrival", response=took).collect(), f"mean time in {place}"
    elif interaction:
        found = found.filter(pl.col("interaction") == interaction)
    started = (pl.col("sent") - run.begin) // window * window
    return (
        found.group_by(window=started).agg(value=pl.col("response").mean() / SECOND).with_columns(label=pl.lit(label))
    )


def queue_of(run: Measured, place: str, window: int, interaction: str) -> pl.DataFrame:
    """The largest number of simultaneous requests of one interaction in each server."""
    begin, end = (pl.col(moment) - run.begin for moment in ("arrival", "departure"))
    visits = run.visits(place, interaction).select(label=pl.col("server").cast(pl.String), begin=begin, end=end)
    # each window begins with what the one before it ended with, where no visit begins or ends
    grid = pl.DataFrame({"at": np.arange(-(-run.length // window)) * window}).lazy()
    looks = grid.join(visits.select("label").unique(), how="cross")
    found = inside(visits, looks).filter(pl.col("at") < run.length)
    return found.group_by("label", window=pl.col("at") // window * window).agg(pl.col("value").max()).collect()


def inside(stays: pl.LazyFrame, looks: pl.LazyFrame | None = None) -> pl.LazyFrame:
    """How many of the stays (`label`, `begin`, `end`) of each label there are at a time: `label`, `at`, `value`. Each
    begin, each end and each of the `looks` (`label`, `at`) has a row. A stay without an end goes on."""
    moments = [
        stays.select("label", at="begin", step=pl.lit(1, pl.Int64)),
        stays.select("label", at="end", step=pl.lit(-1, pl.Int64)),
    ]
    if looks is not None:
        moments.append(looks.select("label", "at", step=pl.lit(0, pl.Int64)))
    # at the same instant, departures come before arrivals
    steps = pl.concat(moments).drop_nulls("at").sort("at", "step")
    return steps.select("label", "at", value=pl.col("step").cum_sum().over("label").cast(pl.Float64))


SERIES: dict[str, Callable[[Measured, str, int], pl.DataFrame]] = {
    "queue": queue,
    "queue_mean": queue_mean,
    "arrivals": arrivals,
    "assigned": assigned,
    "collecting": collecting,
    "drops": drops,
    "vlrt": vlrt,
    "throughput": throughput,
    "response": response,
}
"""Series besides the metrics of samples.parquet. Frames have `label`, `window` (its start after the ramp) and
`value`."""
OF_INTERACTION: dict[str, Callable[[Measured, str, int, str], pl.DataFrame]] = {"queue": queue_of, "response": response}
"""Series that can be of one interaction alone."""
KNOWN = {*SERIES, *METRICS}
COUNTED = ("arrivals", "assigned", "drops", "vlrt")
"""Series in which a missing row means 0."""


def _windows(run: Measured, place: str, window: int, value: pl.Expr) -> pl.DataFrame:
    found = run.windows_of(place, window)
    # windows are multiples since the epoch, and the ramp's end need not be one
    started = (pl.col("window") - run.begin) // window * window
    return found.select(label="server", window=started, value=value)


def _counted(rows: pl.DataFrame, run: Measured, window: int) -> pl.DataFrame:
    started = (pl.col("at") - run.begin) // window * window
    return rows.group_by(label="place", window=started).agg(value=pl.len().cast(pl.Float64))
