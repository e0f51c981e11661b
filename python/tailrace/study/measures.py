"""The measures of a run, one function each (docs/reference/measures.md).

A function takes the run and named values, and returns one number in the measure's own dimension: requests a second, a
share from 0 to 1, ns, or a count. To add one, write the function, its line in MEASURES, and its case in
tests/unit/test_measures.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any, Literal

import numpy as np
import polars as pl

from tailrace.experiment import places
from tailrace.experiment.workloads import Closed
from tailrace.study import drawn
from tailrace.study.episodes import SATURATED, When, by_chance, find, met
from tailrace.study.measured import WINDOW, Measured
from tailrace.units import SECOND

Dimension = Literal["rate", "share", "ns", "count", "bytes", "hertz"]
Statistic = Literal["mean", "max", "sd", "cv"]


@dataclass(frozen=True)
class Measure:
    compute: Callable[..., float]
    dimension: Dimension
    """Dimension of the result; if it depends on the metric or statistic, see `dimension`."""


def throughput(run: Measured, place: str | None = None) -> float:
    """Requests answered within the interval a second, whenever they were sent."""
    return run.answered(place) / run.length * SECOND


def clients(run: Measured) -> float:
    """Closed clients of the experiment."""
    return float(sum(load.clients for load in run.experiment.workloads.values() if isinstance(load, Closed)))


def requests(run: Measured, place: str | None = None) -> float:
    """Requests sent, answered or not."""
    return float(run.requests(place).height)


def failures(run: Measured, place: str | None = None) -> float:
    """Requests that were given up or answered with an error."""
    return float((~run.requests(place)["ok"]).sum())


def response_mean(run: Measured, place: str | None = None, interaction: str | None = None) -> float:
    """Mean response time of answered requests; 0 without any."""
    return _number(_responses(run, place, interaction).mean())


def response_percentile(
    run: Measured, percentile: float, place: str | None = None, interaction: str | None = None
) -> float:
    """The response time that this percentage of the answered requests does not exceed; 0 without any."""
    took = _responses(run, place, interaction).sort()
    return _number(took[max(ceil(percentile / 100 * len(took)), 1) - 1]) if len(took) else 0.0


def share_over(run: Measured, over: int, place: str | None = None) -> float:
    """Share of requests that took at least this long, including those without an answer."""
    took = run.requests(place)["response"]
    return _number((took >= over).mean())


def count_over(run: Measured, over: int, place: str | None = None) -> float:
    """Requests that took at least this long."""
    return float((run.requests(place)["response"] >= over).sum())


def share_under(run: Measured, under: int, place: str | None = None) -> float:
    """Share of requests that took less than this and were answered: the normal ones."""
    found = run.requests(place)
    return _number((found["ok"] & (found["response"] < under)).mean())


def count_between(run: Measured, over: int, under: int, place: str | None = None) -> float:
    """Requests that took at least `over` and less than `under`: a cluster of the distribution."""
    took = run.requests(place)["response"]
    return float(((took >= over) & (took < under)).sum())


def share_between(run: Measured, over: int, under: int, place: str | None = None) -> float:
    """The same as a share of all requests."""
    took = run.requests(place)["response"]
    return _number(((took >= over) & (took < under)).mean())


def retransmitted(run: Measured, place: str | None = None) -> float:
    """Share of requests whose SYN or first data was lost at least once (TCP retransmission)."""
    return _number((run.requests(place)["drops"] > 0).mean())


def drops(run: Measured, place: str | None = None) -> float:
    """Connection attempts that the servers of a place lost; without a place, of all servers."""
    return float(run.events(place, "drop").height)


def utilisation(run: Measured, place: str) -> float:
    """Mean CPU share, over all servers of a tier."""
    return _number(run.samples(place, "cpu_busy")["value"].mean())


def overhead(run: Measured, place: str, demand: int) -> float:
    """CPU share beyond this demand for each answered request, over all cores that a tier can use: the part that does
    not grow in proportion to the load."""
    every = places.cores(run.experiment)
    means = run.samples(place, "cpu_busy").group_by("place").agg(pl.col("value").mean())
    busy = sum(every[name] * _number(value) for name, value in means.sort("place").iter_rows())
    known = place in run.experiment.tiers
    cores = places.cores_of_tier(run.experiment, place) if known else every[place]
    return (busy - throughput(run) * demand / SECOND) / cores


def cache_misses(run: Measured, place: str, demand: int, least: float, each: float) -> float:
    """Cache misses by a model, because the simulator has no caches: `least`, and `each` for a hundredth of the CPU that
    is overhead."""
    return least + each * overhead(run, place, demand) * 100


def utilisation_max(run: Measured, place: str | None = None) -> float:
    """Mean CPU share of the busiest tier on the path of requests to `place`; "highest average CPU"."""
    return max(utilisation(run, tier) for tier in _passed(run, place))


def level(run: Measured, metric: str, place: str, statistic: Statistic = "mean") -> float:
    """Any sampled metric (docs/reference/dataset.md) at a place, over servers and samples."""
    return _statistic(run.samples(place, metric)["value"], statistic)


def lead(run: Measured, metric: str, server: str, place: str, begin: int, end: int) -> float:
    """How far a sampled metric of one server is above the mean of the others of its tier, from `begin` to `end`."""
    found = run.samples(place, metric).filter(pl.col("time").is_between(run.begin + begin, run.begin + end))
    own = found["place"] == run.one_of(place, server)
    return _number(found.filter(own)["value"].mean()) - _number(found.filter(~own)["value"].mean())


def clock_rate(run: Measured, place: str, statistic: Statistic = "mean") -> float:
    """The CPU's clock rate."""
    return level(run, "cpu_hz", place, statistic)


def saturated_longest(run: Measured, place: str, metric: str = "cpu_busy") -> float:
    """The longest uninterrupted time in which a server's samples were saturated: a millibottleneck's length."""
    best = 0
    for _, found in run.samples(place, metric).sort("time").group_by("place", maintain_order=True):
        full = (found["value"] >= SATURATED).cast(pl.Int64)
        lengths = full.rle().struct.unnest().filter(pl.col("value") == 1)["len"]
        best = max(best, int(_number(lengths.max())))
    return float(best * run.experiment.sampling.interval)


def saturated_share(run: Measured, place: str, metric: str = "cpu_busy") -> float:
    """Share of samples that were saturated."""
    return _number((run.samples(place, metric)["value"] >= SATURATED).mean())


def queue_max(run: Measured, place: str) -> float:
    """The most simultaneous requests in one server of a place, including those waiting to be accepted."""
    return _number(run.windows_of(place)["queue_max"].max())


def queue_mean(run: Measured, place: str) -> float:
    """Mean number of requests in a server."""
    return _number(run.windows_of(place)["queue_mean"].mean())


def arrivals(run: Measured, place: str, statistic: Statistic = "mean", window: int = WINDOW) -> float:
    """Arrivals a second at all servers of a place together, for each whole window; `cv` is a plain number."""
    at = run.visits(place).select((pl.col("arrival") - run.begin) // window).collect().to_series()
    counts = np.bincount(at.to_numpy(), minlength=run.length // window)[: run.length // window]
    return _statistic(pl.Series(counts / window * SECOND), statistic)


def fluctuation(
    run: Measured,
    series: str,
    place: str,
    window: int = WINDOW,
    statistic: Statistic = "sd",
    interaction: str | None = None,
) -> float:
    """Variation over windows of a series that timelines draw (queue, response, a sampled metric), all servers
    pooled; with an interaction, of the queue or the response time of its requests alone."""
    lines = drawn.series(run, series, place, 0, run.length, window, interaction)
    values = pl.Series([value for line in lines for value in line["values"] if value is not None], dtype=pl.Float64)
    seconds = drawn.unit_of(series) == "duration" and statistic != "cv"
    return _statistic(values, statistic) * (SECOND if seconds else 1)


def visit_mean(run: Measured, place: str, interaction: str | None = None) -> float:
    """Mean time of a visit at a place, from its arrival to its departure; 0 without any."""
    found = run.visits(place)
    if interaction:
        found = found.filter(pl.col("interaction").cast(pl.String) == interaction)
    return _number(found.select((pl.col("departure") - pl.col("arrival")).mean()).collect().item())


def visit_share(run: Measured, server: str, place: str, begin: int = 0, end: int | None = None) -> float:
    """Share of the visits to a tier that went to one of its servers, of those that arrived from `begin` to `end`."""
    last = run.end if end is None else run.begin + end
    came = run.visits(place).filter(pl.col("arrival").is_between(run.begin + begin, last))
    return _number(came.select((pl.col("server").cast(pl.String) == run.one_of(place, server)).mean()).collect().item())


def assigned_share(run: Measured, server: str, place: str, begin: int, end: int) -> float:
    """Share of a tier's visits that went to one of its servers, of those whose callers got a worker from `begin` to
    `end`. As in the caller's own log, a visit counts from the time when its caller has the request, even while it waits
    for a connection."""
    own = pl.col("server").cast(pl.String) == run.one_of(place, server)
    within = pl.col("start").is_between(run.begin + begin, run.begin + end)
    return _number(run.assigned(place).filter(within).select(own.mean()).collect().item())


def assigned_max(run: Measured, place: str) -> float:
    """The most simultaneous requests that went to one server of a place, counted from the callers' logs: from when a
    caller got a worker until it answered, including requests that wait for a connection."""
    calls = run.assigned(place).unique().select(label="server", begin="start", end="departure")
    return _number(drawn.inside(calls).select(pl.col("value").max()).collect().item())


def collection_per_minute(run: Measured, place: str) -> float:
    """Time in garbage collections in a minute, all servers of a place together."""
    found = run.events(place, "gc")
    return float((found["end"] - found["begin"]).sum()) / run.length * 60 * SECOND


def collection_longest(run: Measured, place: str) -> float:
    """The longest garbage collection; 0 without any."""
    found = run.events(place, "gc")
    return _number((found["end"] - found["begin"]).max())


def collections(run: Measured, place: str) -> float:
    """Garbage collections."""
    return float(run.events(place, "gc").height)


def episodes(run: Measured, when: When, per: int | None = None) -> float:
    """Episodes of a series, or their mean number in a time of this length."""
    return len(find(run, when).begin) * (per / run.length if per else 1.0)


def episode_period(run: Measured, when: When, statistic: Statistic = "mean") -> float:
    """Time between the begins of successive episodes; 0 with fewer than two."""
    return _statistic(pl.Series(np.diff(find(run, when).begin)), statistic)


def episode_length(run: Measured, when: When, statistic: Statistic = "mean") -> float:
    """How long episodes last; 0 without any."""
    found = find(run, when)
    return _statistic(pl.Series(found.end - found.begin), statistic)


def episode_size(run: Measured, when: When, statistic: Statistic = "mean") -> float:
    """The sum of the series in an episode, such as the VLRT of a cluster; 0 without any."""
    return _statistic(pl.Series(find(run, when).total), statistic)


def coincidence(run: Measured, when: When, meets: When, near: int = WINDOW) -> float:
    """Share of the episodes of `when` that overlap an episode of `meets`, or are at most `near` away; 0 without any."""
    overlap, _ = met(find(run, when), find(run, meets), near)
    return float(overlap.mean()) if len(overlap) else 0.0


def coincidence_by_chance(run: Measured, when: When, meets: When, near: int = WINDOW) -> float:
    """The same share if the episodes of `when` began at random times."""
    return by_chance(find(run, when), find(run, meets), near, run.length)


def lag(run: Measured, when: When, meets: When, near: int = WINDOW) -> float:
    """The median of how much later an episode of `when` begins than the one of `meets` that it overlaps; 0 if none
    does."""
    _, later = met(find(run, when), find(run, meets), near)
    return float(np.median(later)) if len(later) else 0.0


def queue_together(run: Measured, place: str) -> float:
    """The most simultaneous requests in all servers of a place together: the largest sum over a window of 50 ms."""
    found = run.windows_of(place).group_by("window").agg(pl.col("queue_max").sum())
    return _number(found["queue_max"].max())


MEASURES: dict[str, Measure] = {
    "throughput": Measure(throughput, "rate"),
    "clients": Measure(clients, "count"),
    "requests": Measure(requests, "count"),
    "failures": Measure(failures, "count"),
    "response_mean": Measure(response_mean, "ns"),
    "response_percentile": Measure(response_percentile, "ns"),
    "share_over": Measure(share_over, "share"),
    "count_over": Measure(count_over, "count"),
    "share_under": Measure(share_under, "share"),
    "count_between": Measure(count_between, "count"),
    "share_between": Measure(share_between, "share"),
    "retransmitted": Measure(retransmitted, "share"),
    "drops": Measure(drops, "count"),
    "utilisation": Measure(utilisation, "share"),
    "overhead": Measure(overhead, "share"),
    "cache_misses": Measure(cache_misses, "count"),
    "utilisation_max": Measure(utilisation_max, "share"),
    "level": Measure(level, "count"),
    "lead": Measure(lead, "count"),
    "clock_rate": Measure(clock_rate, "hertz"),
    "saturated_longest": Measure(saturated_longest, "ns"),
    "saturated_share": Measure(saturated_share, "share"),
    "queue_max": Measure(queue_max, "count"),
    "queue_mean": Measure(queue_mean, "count"),
    "queue_together": Measure(queue_together, "count"),
    "arrivals": Measure(arrivals, "rate"),
    "fluctuation": Measure(fluctuation, "count"),
    "visit_mean": Measure(visit_mean, "ns"),
    "visit_share": Measure(visit_share, "share"),
    "assigned_share": Measure(assigned_share, "share"),
    "assigned_max": Measure(assigned_max, "count"),
    "collection_per_minute": Measure(collection_per_minute, "ns"),
    "collection_longest": Measure(collection_longest, "ns"),
    "collections": Measure(collections, "count"),
    "episodes": Measure(episodes, "count"),
    "episode_period": Measure(episode_period, "ns"),
    "episode_length": Measure(episode_length, "ns"),
    "episode_size": Measure(episode_size, "count"),
    "coincidence": Measure(coincidence, "share"),
    "coincidence_by_chance": Measure(coincidence_by_chance, "share"),
    "lag": Measure(lag, "ns"),
}


def dimension(name: str, values: Mapping[str, Any]) -> Dimension:
    """The dimension of a measure with these values."""
    if values.get("statistic") == "cv":
        return "count"
    if name not in ("level", "lead", "fluctuation"):
        return MEASURES[name].dimension
    unit = drawn.unit_of(str(values.get("series") or values["metric"]))
    return "ns" if unit == "duration" else unit


def _responses(run: Measured, place: str | None, interaction: str | None) -> pl.Series:
    found = run.requests(place).filter(pl.col("ok"))
    if interaction:
        found = found.filter(pl.col("interaction") == interaction)
    return found["response"]


def _passed(run: Measured, place: str | None) -> list[str]:
    """The tier of a place and all tiers that it calls, directly or not."""
    servers = run.servers(place)
    own = [name for name in run.experiment.tiers if name == place or set(servers) & set(run.servers(name))][:1]
    return own + places.behind(run.experiment, own)


def _statistic(values: pl.Series, statistic: Statistic) -> float:
    if statistic == "max":
        return _number(values.max())
    mean, deviation = _number(values.mean()), _number(values.std(ddof=0))
    if statistic == "sd":
        return deviation
    if statistic == "cv":
        return deviation / mean if mean else 0.0
    return mean


def _number(value: object) -> float:
    """A result of Polars as a number; an empty result is 0."""
    return float(value) if isinstance(value, int | float) else 0.0
