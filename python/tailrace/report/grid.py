"""The windows that the report draws: those in which something happened, and some windows around each.

The cost follows the number of events and not the length of the recording: an idle hour costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from tailrace import timeline
from tailrace.dataset import Dataset
from tailrace.report.recording import Axis, Line, Times, Values
from tailrace.units import SECOND

IDLE_WINDOWS = 20
"""Windows that are kept on either side of an event: a second at 50 ms, which shows that a queue was empty before."""
WINDOWS_MAX = 2_000_000
"""Windows of a recording; where there are more events, fewer windows are kept around each."""
ROWS_MAX = 8_000_000
"""Windows of all servers together, below the engine's limit of 10 million. Beyond it, windows are wider."""
WIDEST_NS = 10 * SECOND
"""The widest window that the engine accepts."""


@dataclass(frozen=True)
class Grid:
    starts: Times
    """The begin of each window, in order; there may be gaps between windows."""
    window_ns: int
    idle: int
    too_many: bool
    """Whether there are too many servers to draw the queue of each."""

    @property
    def axis(self) -> Axis:
        return Axis(self.starts + self.window_ns // 2, self.window_ns)

    def count(self, rows: pl.LazyFrame, metric: str) -> list[Line]:
        """The number of these rows (`place`, `moment`) in each window, a line for each place."""
        window = pl.col("moment") - pl.col("moment") % self.window_ns
        counts = (
            rows.with_columns(pl.col("place").cast(pl.String), window=window)
            .group_by("place", "window")
            .len()
            .sort("place", "window")
            .collect()
        )
        lines = []
        for (place,), part in counts.group_by("place", maintain_order=True):
            values = np.zeros(len(self.starts))
            _put(values, self.starts, part["window"].to_numpy(), part["len"].cast(pl.Float64).to_numpy())
            lines.append(Line(0, str(place), metric, values))
        return lines

    def queues(self, dataset: Dataset) -> tuple[list[Line], list[str]]:
        """For each server, the longest queue and the arrivals of each window; and the servers with visits."""
        if self.too_many or not dataset.has("visits"):
            return [], []
        begin, end = int(self.starts[0]), int(self.starts[-1]) + self.window_ns
        frame = timeline.windows(
            dataset, self.window_ns, begin=begin, end=end, percentiles=False, idle=self.idle
        ).with_columns(pl.col("server").cast(pl.String))
        lines, seen = [], []
        for (server,), part in frame.group_by("server", maintain_order=True):
            seen.append(str(server))
            known = part["window"].to_numpy()
            arrivals = np.zeros(len(self.starts))
            _put(arrivals, self.starts, known, part["arrivals"].cast(pl.Float64).to_numpy())
            standing = (part["queue_start"] + part["arrivals"] - part["departures"]).cast(pl.Float64).to_numpy()
            before = np.searchsorted(known, self.starts, "right") - 1
            queue = np.where(before >= 0, standing[before], 0.0)
            _put(queue, self.starts, known, part["queue_max"].cast(pl.Float64).to_numpy())
            lines += [Line(0, str(server), "queue_length", queue), Line(0, str(server), "arrivals", arrivals)]
        return lines, seen


def grid(dataset: Dataset, begin: int, end: int, window_ns: int) -> Grid:
    """The windows of the recording from `begin` to `end`."""
    servers = int(dataset.visits().select(pl.col("server").n_unique()).collect().item())
    while True:
        busy = _busy(dataset, begin, end, window_ns)
        idle = int(np.clip(WINDOWS_MAX // (2 * len(busy)), 1, IDLE_WINDOWS))
        starts = _around(busy, idle, window_ns)
        starts = starts[(starts + window_ns > begin) & (starts < end)]
        many = len(starts) * servers > ROWS_MAX
        if not many or window_ns * 2 > WIDEST_NS:
            return Grid(starts, window_ns, idle, many)
        window_ns *= 2


def _busy(dataset: Dataset, begin: int, end: int, window_ns: int) -> Times:
    """Windows in which a request or a visit began or ended, and the first and the last window."""
    columns = [
        *(dataset.requests().select(moment=column) for column in ("sent", "end")),
        *(dataset.visits().select(moment=column) for column in ("sent", "arrival", "departure")),
    ]
    window = pl.col("moment") - pl.col("moment") % window_ns
    moments = pl.concat([column.select(window.unique()) for column in columns]).collect()["moment"].drop_nulls()
    ends = np.array([begin, max(end - 1, begin)], dtype=np.int64)
    return np.unique(np.concatenate((moments.to_numpy(), ends - ends % window_ns)))


def _around(busy: Times, idle: int, window_ns: int) -> Times:
    """These windows, and `idle` windows on either side of each."""
    wide = idle * window_ns
    apart = np.flatnonzero(np.diff(busy) > 2 * wide + window_ns)
    first = busy[np.concatenate(([0], apart + 1))] - wide
    last = busy[np.concatenate((apart, [len(busy) - 1]))] + wide
    counts = (last - first) // window_ns + 1
    within = np.arange(int(counts.sum()), dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
    starts: Times = np.repeat(first, counts) + within * window_ns
    return starts


def _put(values: Values, starts: Times, windows: Times, what: Values) -> None:
    """Put the numbers of `windows` into the windows of `starts`; numbers of other windows are left out."""
    at = np.searchsorted(starts, windows)
    at = np.minimum(at, len(starts) - 1)
    inside = starts[at] == windows
    values[at[inside]] = what[inside]
