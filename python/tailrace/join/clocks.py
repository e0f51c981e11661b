"""What two hosts' clocks differ by, from visits that both saw.

```text
caller's host  ──●──────────────────────●──▶     a visit: on the way to the server it is late by its delay,
                  └─▶              ┌──▶           on the way back early by it:
server's host  ────●────────────────●────▶       arrival(caller) - arrival(server) ≤ offset
                                                  offset ≤ departure(caller) - departure(server)
```

First the difference that most visits of equal sizes and durations share is found. Pairs within it give bounds, whose
middle is the offset. Where the middles of successive parts lie on a slope, the clocks drift, and the slope is taken
out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tailrace.join.pairs import ALIKE, paired
from tailrace.units import MILLISECOND

WIDTHS_NS = (MILLISECOND // 2, 5 * MILLISECOND, 50 * MILLISECOND)
"""How much the delay of a network varies: within a rack, within a region, between regions."""
SAMPLED = 1_000
"""Visits of one host that are compared with all visits of the other."""
CANDIDATES_MAX = 4_000_000
MATCHES_LEAST = 4
"""As for captures (crates/core/src/capture/clocks.rs): one is convincing, a few more guard against damage."""
DISTINCT = 2
"""The best difference must have twice the matches of the next. Requests at a fixed rate fit at each multiple of their
period, and then the clocks are not known."""
PARTS, PART_MATCHES = 32, 16
CONTRADICTING_MAX = 0.05
"""Share of the pairs that may be left out because their bounds contradict the others: those are different visits."""

Times = NDArray[np.int64]


@dataclass(frozen=True)
class Offset:
    """Time of this host + `offset_ns` + `drift` * (time - `at`) = time of the first host, to within `bound_ns`."""

    offset_ns: int
    bound_ns: int
    within_ns: int
    """Two views of one visit differ by at most this, when the offset is taken out."""
    drift: float = 0.0
    at: int = 0

    def shift(self, column: pl.Expr) -> pl.Expr:
        moved = column + self.offset_ns
        if not self.drift:
            return moved
        return moved + ((column - self.at).cast(pl.Float64) * self.drift).round().cast(pl.Int64)


def offset(ours: pl.DataFrame, theirs: pl.DataFrame) -> Offset | None:
    """The clock of `theirs` against that of `ours`; None if their visits do not show it."""
    for width in WIDTHS_NS:
        rough = _rough(ours, theirs, width)
        if rough is not None:
            return _exact(ours, theirs, rough, width)
    return None


def _rough(ours: pl.DataFrame, theirs: pl.DataFrame, width: int) -> int | None:
    """The difference of departures that most visits share which look alike and last as long."""
    lasted = (pl.col("departure") - pl.col("arrival")).alias("lasted")
    mine = ours.select(*ALIKE, "departure", lasted).join(theirs.select(*ALIKE).unique(), on=ALIKE, how="semi")
    mine = mine.gather_every(max(1, mine.height // SAMPLED))
    other = theirs.select(*ALIKE, "departure", lasted)
    most = int(mine.join(other.group_by(ALIKE).len(), on=ALIKE, how="left")["len"].sum() or 0)
    if most > CANDIDATES_MAX:
        mine = mine.gather_every(-(-most // CANDIDATES_MAX))
    both = mine.with_row_index("row").join(other, on=ALIKE, suffix="_other")
    both = both.filter((pl.col("lasted") - pl.col("lasted_other")).abs() <= width)
    apart = (both["departure"] - both["departure_other"]).to_numpy()
    order = np.argsort(apart, kind="stable")
    return _densest(apart[order], both["row"].to_numpy()[order], width)


def _densest(apart: Times, rows: NDArray[np.uint32], width: int) -> int | None:
    """The middle of the interval of this width that has the most values; None if another one has nearly as many."""
    if len(apart) < MATCHES_LEAST:
        return None
    counts = np.searchsorted(apart, apart + width, side="right") - np.arange(len(apart))
    best = int(np.argmax(counts))
    inside = slice(best, best + int(counts[best]))
    if len(np.unique(rows[inside])) < MATCHES_LEAST:
        return None
    away = np.abs(apart - apart[best]) > 2 * width
    if away.any() and counts[away].max() * DISTINCT > counts[best]:
        return None
    return int(np.median(apart[inside]))


def _exact(ours: pl.DataFrame, theirs: pl.DataFrame, rough: int, width: int) -> Offset | None:
    both = paired(ours, theirs.with_columns(pl.col("arrival", "departure") + rough), 4 * width)
    if both.height < MATCHES_LEAST:
        return None
    lower, upper = _bounds(both)
    at = both["departure_other"].to_numpy() - rough
    middle = int(np.median(at))
    drift = _drift(at - middle, (lower + upper) / 2)
    slope = np.rint(drift * (at - middle)).astype(np.int64)
    lower, upper = lower - slope, upper - slope
    low, high = _agreed(lower, upper)
    bound = max(abs(high - low) // 2, 1)
    return Offset(rough + (low + high) // 2, bound, 4 * width, drift, middle)


def _bounds(both: pl.DataFrame) -> tuple[Times, Times]:
    """The bounds that each pair gives, beyond the rough offset. The caller's host sees a visit last longer: if it is
    theirs, the bounds change places."""
    arrivals = both["arrival"] - both["arrival_other"]
    departures = both["departure"] - both["departure_other"]
    longer = both.select("server", longer=departures - arrivals)
    ours = longer.with_columns(pl.col("longer").median().over("server") >= 0)["longer"].to_numpy()
    first, last = arrivals.to_numpy(), departures.to_numpy()
    return np.where(ours, first, last), np.where(ours, last, first)


def _drift(at: Times, middles: NDArray[np.float64]) -> float:
    """The slope of the middles (the median of slopes between parts, by Theil and Sen), if it is more than their
    scatter explains."""
    parts = min(PARTS, len(at) // PART_MATCHES)
    if parts < 3:
        return 0.0
    order = np.argsort(at, kind="stable")
    points = [(np.median(at[part]), np.median(middles[part])) for part in np.array_split(order, parts)]
    x, y = (np.array(values, dtype=np.float64) for values in zip(*points, strict=True))
    i, j = np.triu_indices(parts, 1)
    apart = x[j] - x[i]
    slopes = ((y[j] - y[i])[apart > 0]) / apart[apart > 0]
    if not len(slopes):
        return 0.0
    slope = float(np.median(slopes))
    left = np.abs(y - slope * x - np.median(y - slope * x)).max()
    return slope if abs(slope) * (x[-1] - x[0]) > 4 * left else 0.0


def _agreed(lower: Times, upper: Times) -> tuple[int, int]:
    """The strictest bounds of pairs that agree. Pairs that contradict the others the most are left out, up to a share;
    if the rest still disagrees, the distance between the bounds is what is not known."""
    low, high = np.sort(lower)[::-1], np.sort(upper)
    for left_out in range(int(len(low) * CONTRADICTING_MAX) + 1):
        if low[left_out] <= high[left_out]:
            break
    return int(low[left_out]), int(high[left_out])
