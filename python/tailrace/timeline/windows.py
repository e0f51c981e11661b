"""Windows of visits (by the engine) and of requests (by the moment when they were sent)."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Literal

import polars as pl

from tailrace import _core
from tailrace.dataset import Dataset
from tailrace.dataset.schema import VISITS
from tailrace.units import MILLISECOND, SECOND

Source = Dataset | str | PathLike[str] | Sequence[str | PathLike[str]]
"""A run folder, a visits table, or several visits tables that together are one."""


IDLE_WINDOWS = 600
"""Half a minute at 50 ms, on either side of an idle stretch."""


def windows(
    source: Source,
    window_ns: int = 50 * MILLISECOND,
    *,
    by: Literal["server", "interaction"] = "server",
    begin: int | None = None,
    end: int | None = None,
    vlrt_ns: int = SECOND,
    queue_max: bool = True,
    percentiles: bool = True,
    open_from: int | None = None,
    idle: int | None = IDLE_WINDOWS,
    threads: int = 0,
) -> pl.DataFrame:
    """One row per server (and interaction) and window, sorted by name and window.

    A window w = [s, s + D) is named by its start s, a multiple of D since the epoch; D is from 1 ms to 10 s. A visit is
    present in [arrival, departure). With `begin` and `end`, the windows that overlap [begin, end), the queue at their
    start included; without, from the first to the last event. In a stretch in which no visit arrives or departs
    anywhere, only `idle` windows at either end are kept; `idle=None` keeps all. More than 10 million rows are refused.

    | column | meaning | |---|---|
    | `server`, `interaction`? | names, as categoricals; `interaction` only with by="interaction", null where unknown |
    | `window` | s |
    | `arrivals`, `departures` | visits that arrived, departed in w |
    | `queue_start` | visits present just before s |
    | `queue_area_ns`, `queue_mean` | time spent in the server during w by all visits: whole ns, and divided by D |
    | `queue_max`? | most visits present at an instant of w; at an equal ns departures come first |
    | `response_ns_mean` | mean of departure - arrival over the visits that departed in w; null when none did |
    | `response_ns_p50` `_p95` `_p99` `_p999`? | of the same visits: nearest rank ceil(q n), as the midpoint of a bucket
      of at most 1/32 of its value (within 1.6 %) |
    | `vlrt`, `drops` | of the visits that arrived in w: those with departure - sent >= `vlrt_ns`; sum of `drops` |
    | `complete` | false where visits may be missing because they had not ended: windows that end after `open_from`, the
      earliest arrival of an unfinished visit; null when `open_from` is not given |

    Invalid visits (no arrival, departure or server, or a departure before its arrival) are left out. `queue_max` and
    `percentiles` need a second pass over the table; switch them off if you do not need them.
    """
    table = _core.reduce(
        _files(source),
        window_ns,
        by_interaction=by == "interaction",
        begin=begin,
        end=end,
        vlrt_ns=vlrt_ns,
        queue_max=queue_max,
        percentiles=percentiles,
        idle_windows=idle,
        threads=threads,
    )
    frame = pl.DataFrame(table)
    complete = pl.lit(None, pl.Boolean) if open_from is None else pl.col("window") + window_ns <= open_from
    return frame.with_columns(complete=complete)


def vlrt_by_sent(
    requests: pl.DataFrame | pl.LazyFrame,
    window_ns: int = 50 * MILLISECOND,
    threshold: int = SECOND,
) -> pl.DataFrame:
    """Requests and VLRT requests by the window in which they were *sent* (columns `window`, `requests`, `vlrt`).

    The papers plot VLRT at the time when they were sent, because the drop happened then. It needs `sent` and `end`;
    requests without either are left out. Only windows in which a request was sent are returned, sorted.
    """
    sent, length = pl.col("sent"), pl.col("end") - pl.col("sent")
    return (
        requests.lazy()
        .filter(sent.is_not_null() & pl.col("end").is_not_null())
        .group_by(window=sent - sent % window_ns)
        .agg(requests=pl.len().cast(pl.Int64), vlrt=(length >= threshold).sum().cast(pl.Int64))
        .sort("window")
        .collect()
    )


def _files(source: Source) -> list[str]:
    if isinstance(source, Dataset):
        return source.files("visits")
    if isinstance(source, (str, PathLike)):
        path = Path(source)
        return [str(path / VISITS.file if path.is_dir() else path)]
    return [fspath(path) for path in source]
