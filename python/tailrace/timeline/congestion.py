"""Fine-grained congestion of a server from load and throughput (Wang et al., ICDCS'13).

For each window, load L is `queue_mean`, and throughput X is the work that departed, counted in units so that a window
of heavy interactions does not look slow. X grows with L up to the congestion point N* and no further. A window with L
above N* is congested. If a congested window has hardly any throughput, it is a freeze (a stopped virtual machine, a
stalled disk). Steps and constants follow the paper; all are options.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
import polars as pl

from tailrace.timeline.queues import Values

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class CongestionPoint:
    """The load above which throughput no longer follows load."""

    queue_length: float
    """N*."""
    throughput: float
    """Throughput of the main curve at N*, in the unit of the input."""
    slope: float
    """Throughput per unit of load below N*."""
    slope_above: float
    """The same above N*: near 0, or negative where more load means less throughput."""
    intervention: float | None
    """N* by Wang's own intervention analysis, for comparison; None if it finds none."""


def service_times(
    visits: pl.DataFrame | pl.LazyFrame,
    windows: pl.DataFrame,
    window_ns: int,
    *,
    quiet_share: float = 0.25,
    visits_min: int = 5,
    resolution: int = 4,
) -> pl.DataFrame:
    """The service time of one visit of each interaction when the server is otherwise idle.

    It is the own time (departure - arrival - downstream) of the visits that arrived in the quietest `quiet_share` of
    their server's busy windows; the median, so that stragglers do not count. Interactions with fewer than `visits_min`
    quiet visits take the server's median. The work unit of a server is its shortest service time divided by
    `resolution`. Columns `server`, `interaction`, `service_ns` f64, `units` i64 (at least 1).
    """
    own = pl.col("departure") - pl.col("arrival") - pl.col("downstream_ns").fill_null(0)
    quiet = (
        windows.lazy()
        .filter(pl.col("arrivals") > 0)
        .filter(pl.col("queue_mean") <= pl.col("queue_mean").quantile(quiet_share, "higher").over("server"))
        .select(pl.col("server").cast(pl.String), "window")
    )
    arrived = (
        _with_columns(visits, {"downstream_ns": pl.Int64, "interaction": pl.String})
        .with_columns(pl.col("server").cast(pl.String), pl.col("interaction").cast(pl.String))
        .filter(pl.col("departure") >= pl.col("arrival"))
        .with_columns(own=own.clip(lower_bound=1), window=pl.col("arrival") - pl.col("arrival") % window_ns)
    )
    calm = arrived.join(quiet, on=["server", "window"])
    of_class = calm.group_by("server", "interaction").agg(pl.col("own").median().alias("service_ns"), n=pl.len())
    of_server = calm.group_by("server").agg(pl.col("own").median().alias("usual"))
    return (
        arrived.select("server", "interaction")
        .unique()
        .join(of_class.filter(pl.col("n") >= visits_min), on=["server", "interaction"], how="left", nulls_equal=True)
        .join(of_server, on="server", how="left")
        .with_columns(pl.coalesce("service_ns", "usual").cast(pl.Float64).alias("service_ns"))
        .drop_nulls("service_ns")
        .with_columns(units=pl.col("service_ns") / (pl.col("service_ns").min().over("server") / resolution))
        .select("server", "interaction", "service_ns", pl.col("units").round().cast(pl.Int64).clip(lower_bound=1))
        .sort("server", "interaction")
        .collect()
    )


def work_throughput(windows: pl.DataFrame, service: pl.DataFrame, window_ns: int) -> pl.DataFrame:
    """Load and throughput per server and window, from windows by interaction and `service_times`.

    Columns `server`, `window`, `queue_mean`, `departures`, `work` (units departed per second; a visit is credited
    wholly to the window it departs in).
    """
    names = [pl.col("server").cast(pl.String), pl.col("interaction").cast(pl.String)]
    units = service.lazy().select("server", "interaction", "units")
    return (
        windows.lazy()
        .with_columns(names)
        .join(units, on=["server", "interaction"], how="left", nulls_equal=True)
        .group_by("server", "window")
        .agg(
            queue_mean=pl.col("queue_area_ns").sum() / window_ns,
            departures=pl.col("departures").sum(),
            work=(pl.col("departures") * pl.col("units").fill_null(1)).sum() * 1e9 / window_ns,
        )
        .sort("server", "window")
        .collect()
    )


def congestion_point(
    load: Values,
    throughput: Values,
    *,
    bins: int = 100,
    bin_windows_min: int = 5,
    slope_share: float = 0.2,
    confidence: float = 0.9,
) -> CongestionPoint | None:
    """N* of one server, or None if its data show no congestion.

    The main curve is the mean throughput in `bins` equal bins of load (neighbours are joined until they hold
    `bin_windows_min` windows). N* is where the best two straight lines meet. The first goes through the origin, and
    each bin is weighted by its windows. The slope of the second must be less than `slope_share` of the first, with
    two-sided `confidence`. Wang's intervention analysis takes the mean of all slopes so far, so it answers late when
    most of the curve is flat; it is given for comparison.
    """
    xs, ys, weights = _main_curve(_floats(load), _floats(throughput), bins, bin_windows_min)
    if xs.size < 5:
        return None
    pieces = [_two_pieces(xs, ys, weights, float(knee)) for knee in xs[1:-2]]
    best = min(pieces, key=lambda fit: fit.error)
    above = best.above + NormalDist().inv_cdf((1 + confidence) / 2) * best.above_deviation
    if best.below <= 0 or above >= slope_share * best.below:
        return None
    intervention = intervention_point(xs, ys, slope_share, confidence)
    return CongestionPoint(best.knee, best.below * best.knee, best.below, best.above, intervention)


def intervention_point(
    load: Values, throughput: Values, slope_share: float = 0.2, confidence: float = 0.9
) -> float | None:
    """Wang's N* of a main curve: where the lower bound of the mean slope falls below a share of the first slope.

    Slopes d1 = X1/L1, di = (Xi - Xi-1)/(Li - Li-1); bound Bn = mean(d1..dn) - t(n-1) sd(d1..dn)/sqrt(n), t the upper
    end of the two-sided interval of `confidence`.
    """
    xs, ys = _floats(load), _floats(throughput)
    if xs.size < 3 or xs[0] <= 0:
        return None
    slopes = np.concatenate(([ys[0] / xs[0]], np.diff(ys) / np.diff(xs)))
    for n in range(3, slopes.size + 1):
        so_far = slopes[:n]
        bound = so_far.mean() - _student((1 + confidence) / 2, n - 1) * so_far.std(ddof=1) / np.sqrt(n)
        if bound < slope_share * slopes[0]:
            return float(xs[n - 1])
    return None


def classify(
    windows: pl.DataFrame,
    point: CongestionPoint,
    *,
    throughput: str = "work",
    freeze_share: float = 0.05,
    expected_departures_min: float = 3.0,
) -> pl.DataFrame:
    """The windows of one server with a column `state`: "free", "congested" or "freeze".

    A freeze is a congested window whose throughput is below `freeze_share` of that at N*. It is reported only where
    windows just below N* have at least `expected_departures_min` departures: with an expected 3, an empty window still
    happens by chance in 5 % of windows (e^-3), and would not be evidence.
    """
    busy = pl.col("queue_mean").is_between(point.queue_length / 2, point.queue_length)
    expected = windows.filter(busy).get_column("departures").mean()
    tells = isinstance(expected, float) and expected >= expected_departures_min
    frozen = (pl.col(throughput) < freeze_share * point.throughput) & pl.lit(tells)
    congested = pl.col("queue_mean") > point.queue_length
    state = pl.when(congested & frozen).then(pl.lit("freeze")).when(congested).then(pl.lit("congested"))
    return windows.with_columns(state=state.otherwise(pl.lit("free")))


@dataclass(frozen=True)
class _TwoPieces:
    """Least squares of y = below * min(x, knee) + above * max(x - knee, 0)."""

    knee: float
    below: float
    above: float
    above_deviation: float
    error: float


def _two_pieces(xs: Floats, ys: Floats, weights: Floats, knee: float) -> _TwoPieces:
    design = np.stack([np.minimum(xs, knee), np.maximum(xs - knee, 0.0)], axis=1)
    normal = np.linalg.inv(design.T @ (weights[:, None] * design))
    below, above = normal @ (design.T @ (weights * ys))
    error = float((weights * (ys - design @ np.array([below, above])) ** 2).sum())
    deviation = np.sqrt(normal[1, 1] * error / (xs.size - 2))
    return _TwoPieces(knee, float(below), float(above), float(deviation), error)


def _main_curve(load: Floats, throughput: Floats, bins: int, population: int) -> tuple[Floats, Floats, Floats]:
    """Mean load, mean throughput and number of windows of each bin, by rising load. Idle windows are left out."""
    busy = load > 0
    load, throughput = load[busy], throughput[busy]
    if load.size == 0 or load.min() == load.max():
        empty = np.empty(0)
        return empty, empty, empty
    at = np.minimum(((load - load.min()) / (load.max() - load.min()) * bins).astype(np.int64), bins - 1)
    sums = np.stack([np.bincount(at, w, bins) for w in (load, throughput, np.ones_like(load))], axis=1)
    joined: list[Floats] = []
    held = np.zeros(3)
    for row in sums:
        held = held + row
        if held[2] >= population:
            joined.append(held)
            held = np.zeros(3)
    if held[2] > 0 and joined:
        joined[-1] = joined[-1] + held
    table = np.asarray(joined).reshape(-1, 3)
    return table[:, 0] / table[:, 2], table[:, 1] / table[:, 2], table[:, 2]


def _student(p: float, freedom: int) -> float:
    """Quantile of Student's t from the normal's (Abramowitz and Stegun 26.7.5); within 2 % from 2 degrees on."""
    z = NormalDist().inv_cdf(p)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum((term / float(freedom) ** (i + 1) for i, term in enumerate(terms)), 0.0)


def _floats(values: Values) -> Floats:
    return np.asarray(values, dtype=np.float64)


def _with_columns(frame: pl.DataFrame | pl.LazyFrame, wanted: dict[str, type[pl.DataType]]) -> pl.LazyFrame:
    """The frame; columns that it lacks are added as nulls."""
    lazy = frame.lazy()
    present = lazy.collect_schema().names()
    return lazy.with_columns(pl.lit(None, kind).alias(name) for name, kind in wanted.items() if name not in present)
