"""The shape of one queue: its usual level, where it stays at a limit, and when it began to rise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

Values = Sequence[float] | npt.NDArray[np.float64] | pl.Series

MAD_TO_SD = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""

ENTRANCE_WINDOWS = 4
"""A queue reaches its limit within a few windows (0.2 s at 50 ms); it does not creep (own choice)."""


@dataclass(frozen=True)
class Baseline:
    """The usual level of a queue and its usual spread. Episodes that fill less than half the time change neither."""

    level: float
    spread: float

    def above(self, spreads: float) -> float:
        return self.level + spreads * self.spread


@dataclass(frozen=True)
class Plateau:
    """A queue length that a queue reached and did not exceed."""

    queue_length: int
    windows: int
    """Windows spent there, in all runs."""
    runs: int
    """Separate times at which it stayed there."""


def baseline(values: Values) -> Baseline:
    """Median, and median absolute deviation as a standard deviation; at least that of counting (sqrt of the level)."""
    array = _array(values)
    if array.size == 0:
        return Baseline(0.0, 0.0)
    level = float(np.median(array))
    deviation = MAD_TO_SD * float(np.median(np.abs(array - level)))
    return Baseline(level, max(deviation, float(np.sqrt(max(level, 1.0)))))


def plateau(
    queue_max: Values,
    *,
    windows_min: int = 3,
    tolerance_share: float = 0.01,
    spreads: float = 8.0,
) -> Plateau | None:
    """The length at which `queue_max` (one value per window, in order) stays, or None: an inferred limit.

    A full queue stays full, because each departure is replaced at once: `queue_max` repeats the same value, apart from
    the requests in flight, while an ordinary peak falls again. A plateau is a run of at least `windows_min` windows
    within `tolerance_share` (at least 1) of its highest value. Its rise must exceed five times that tolerance and be
    `spreads` above the baseline, and must take fewer windows than the plateau. Of several plateaus, the highest counts.
    The constants are own choices.
    """
    array = _array(queue_max)
    if array.size < windows_min:
        return None
    floor = baseline(array).above(spreads)
    best: Plateau | None = None
    for level in sorted({float(v) for v in array if v > floor}, reverse=True):
        tolerance = max(1.0, tolerance_share * level)
        flat = (array <= level) & (array >= level - tolerance)
        runs = [(a, b) for a, b in _runs(flat) if b - a >= windows_min and _entered_by_rise(array, a, 5 * tolerance)]
        held = sum(b - a for a, b in runs)
        if runs and np.count_nonzero(array > level) < held:
            best = Plateau(int(level), held, len(runs))
            break
    return best


def onset(
    windows: Sequence[int] | pl.Series,
    queue: Values,
    *,
    peak: int | None = None,
    usual: Baseline | None = None,
    spreads: float = 4.0,
    rise_share: float = 0.05,
    dips: int = 1,
) -> int | None:
    """The start of the window in which the rise towards a peak began, or None if there was no rise.

    `windows` are starts in order, `queue` a length for each (`queue_max` follows a rise soonest). `peak` is a moment in
    the rise or on its top; by default it is the highest window. The rise is everything before it that stays above
    baseline + max(`spreads` spreads, `rise_share` of the peak's height); up to `dips` windows in a row may fall below.
    `usual` is the baseline, by default that of `queue`. The constants are own choices.
    """
    array, starts = _array(queue), np.asarray(windows, dtype=np.int64)
    if array.size == 0:
        return None
    top = int(np.argmax(array)) if peak is None else max(int(np.searchsorted(starts, peak, side="right")) - 1, 0)
    usual = usual or baseline(array)
    bound = max(usual.above(spreads), usual.level + rise_share * (float(array[top]) - usual.level))
    if array[top] <= bound:
        return None
    first, below = top, 0
    for at in range(top - 1, -1, -1):
        below = 0 if array[at] > bound else below + 1
        if below > dips:
            break
        if below == 0:
            first = at
    return int(starts[first])


def stretches(frame: pl.DataFrame, where: pl.Expr, window_ns: int, *, gap: int = 0) -> pl.DataFrame:
    """Consecutive windows of one server in which `where` holds, as intervals.

    Columns `server`, `begin`, `end` (of the last window), `windows`; up to `gap` windows in between are bridged.
    """
    return (
        frame.lazy()
        .filter(where)
        .sort("server", "window")
        .with_columns(
            stretch=(pl.col("window").diff().over("server") > (gap + 1) * window_ns)
            .fill_null(value=True)
            .cum_sum()
            .over("server")
        )
        .group_by("server", "stretch", maintain_order=True)
        .agg(
            begin=pl.col("window").first(),
            end=pl.col("window").last() + window_ns,
            windows=pl.len().cast(pl.Int64),
        )
        .drop("stretch")
        .sort("begin", "server")
        .collect()
    )


def _array(values: Values) -> npt.NDArray[np.float64]:
    return np.asarray(values, dtype=np.float64)


def _runs(flags: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Half-open index ranges of consecutive true flags."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], flags, [False])).astype(np.int8)))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def _entered_by_rise(array: npt.NDArray[np.float64], at: int, rise: float) -> bool:
    """Whether the queue was at least `rise` shorter in one of the few windows before `at`."""
    before = array[max(at - ENTRANCE_WINDOWS, 0) : at]
    return before.size > 0 and float(array[at] - before.min()) >= rise
