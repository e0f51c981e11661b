"""Other names of the record's metrics, and their units.

Counters (`listen_drops`, `context_switches`, …) are counts within the sampling interval. Shares run from 0 to 1.
Percentages are recognised as follows:

- a metric whose name has `percent`, `pct` or `%` is a percentage; one with `ratio` is a share;
- the other shares of a file are judged together, since an idle machine's 0.8 % of iowait alone looks like a share: none
  above 1.5 → shares (a sampler's jitter pushes a saturated CPU a little above 1); one above 16 → percentages (at 50 ms
  one 10 ms tick is already 20 %); in between it could be percent or cores, so the unit is unknown and the metric is
  kept under the name `<metric> (unit unknown)`, where no diagnosis takes it for a share.
"""

from __future__ import annotations

import re
from typing import Literal

import polars as pl

from tailrace.dataset.metrics import METRICS, SHARES
from tailrace.foreign import listed

_SHARE_MAX = 1.5
_PERCENT_MIN = 16.0
_BELOW = -0.02
"""Shares that are computed from counters, which do not change at the same time, can be so much below 0."""
_RATIO_MAX = 150.0
"""A ratio may be of one CPU, and is believed up to a number of CPUs that a server has."""
NO_SHARES = "values that no share has"

_SYNONYMS = {
    "cpu_busy": "cpu cpu_usage cpu_util cpu_utilization cpu_utilisation cpu_used cpu_total cpu_load_share",
    "cpu_iowait": "iowait cpu_wait io_wait cpu_wa",
    "cpu_steal": "steal cpu_st cpu_stolen",
    "cpu_throttled": "throttled cpu_throttling throttled_share",
    "cpu_hz": "cpu_freq_hz cpu_frequency_hz frequency_hz node_cpu_scaling_frequency_hertz",
    "cpu_hz_max": "cpu_freq_max_hz cpu_frequency_max_hz frequency_max_hz node_cpu_frequency_max_hertz",
    "run_queue": "runq run_queue_length runqueue procs_running runnable",
    "accept_queue": "accept_queue_length recv_q listen_queue",
    "accept_queue_limit": "somaxconn listen_backlog accept_queue_max",
    "listen_drops": "listendrops listen_overflows listenoverflows tcpext_listendrops",
    "syn_retransmits": "tcpsynretrans syn_retrans tcp_syn_retrans tcpext_tcpsynretrans",
    "workers_busy": "busy_workers busyworkers threads_busy current_threads_busy",
    "pool_in_use": "pool_active connections_in_use",
    "pool_waiting": "pool_pending threads_awaiting_connection",
    "dirty_bytes": "dirty_page_bytes nr_dirty_bytes",
    "writeback_bytes": "nr_writeback_bytes",
    "disk_busy": "disk_util disk_utilization disk_utilisation io_util",
    "gc_share": "gc_time_share",
    "rss_bytes": "rss resident_bytes",
    "context_switches": "ctxt ctx_switches context_switch cs",
    "psi_cpu": "cpu_some cpu_pressure",
    "psi_io": "io_some io_pressure",
    "psi_memory": "memory_some memory_pressure",
}
_BY_SYNONYM = {synonym: name for name, words in _SYNONYMS.items() for synonym in words.split()}
_UNIT = re.compile(r"_?(?:(?P<percent>percentage|percent|pct|%)|(?P<ratio>ratio))$")

Unit = Literal["percent", "ratio", "unsaid", "none"]
"""The kind of a metric from its name; `none`: it is not a share."""


def share(value: float) -> float | None:
    """The share from 0 to 1; None for a value that no share has, because of damage or of another unit: a program that
    uses four CPUs shows 400 %, which does not say how busy its CPUs were."""
    return round(min(max(value, 0.0), 1.0), 9) if _BELOW <= value <= _SHARE_MAX else None


def standard_name(name: str) -> tuple[str, Unit]:
    """The record's name of a metric (or its own), and the unit in its name."""
    plain = re.sub(r"[\s.\-/]+", "_", name.strip().lower())
    said = _UNIT.search(plain)
    bare = plain[: said.start()] if said else plain
    known = _BY_SYNONYM.get(bare, bare)
    if known not in METRICS:
        return name.strip(), "none"
    if known not in SHARES:
        return known, "none"
    return known, "unsaid" if said is None else "percent" if said["percent"] else "ratio"


def as_percent(name: str) -> str:
    """The name of a metric whose numbers have percent signs."""
    return f"{name.strip()}_percent" if standard_name(name)[1] == "unsaid" else name


def standardise(samples: pl.DataFrame) -> tuple[pl.DataFrame, list[str], int]:
    """Metrics renamed (column `metric`, text) and shares scaled to 0 to 1; notes; and how many values, which are left
    out, no share can have."""
    names = samples.get_column("metric").cast(pl.String).unique(maintain_order=True).to_list()
    standard = {name: standard_name(name) for name in names}
    metric = pl.col("metric").cast(pl.String)
    percents, ratios, shares = (
        [name for name, (_, unit) in standard.items() if unit == of] for of in ("percent", "ratio", "unsaid")
    )
    renamed = {name: known for name, (known, _) in standard.items()}
    notes: list[str] = []
    usable = pl.col("value").is_between(100 * _BELOW, 100 * _SHARE_MAX)
    highest = samples.filter(metric.is_in(shares) & usable).get_column("value").max()
    top = float(highest) if isinstance(highest, float) else 0.0
    if top > _PERCENT_MIN:
        percents += shares
        notes.append(f"shares reach {top:g}: {listed(sorted(shares))} are taken as percentages")
    elif top > _SHARE_MAX:
        renamed |= {name: f"{renamed[name]} (unit unknown)" for name in shares}
        notes.append(
            f"shares reach {top:g}, neither a share of 1 nor clearly a percentage: {listed(sorted(shares))} "
            "are left out of the diagnosis; end the names of shares from 0 to 1 in _ratio, the others in _percent"
        )
    unknown = sorted({name for name in renamed.values() if name not in METRICS and "(unit unknown)" not in name})
    if unknown:
        notes.append(f"kept, but the diagnosis does not use these metrics: {listed(unknown)}")
    fractions = shares if top <= _SHARE_MAX else []
    value = pl.when(metric.is_in(percents)).then(pl.col("value") / 100).otherwise(pl.col("value"))
    most = pl.when(metric.is_in([*percents, *fractions])).then(_SHARE_MAX).when(metric.is_in(ratios)).then(_RATIO_MAX)
    scaled = samples.with_columns(value=value).filter(most.is_null() | pl.col("value").is_between(_BELOW, most))
    scaled = scaled.with_columns(value=pl.when(most.is_null()).then(pl.col("value")).otherwise(pl.col("value").clip(0)))
    left = samples.height - scaled.height
    if left:
        notes.append(f"values larger than any share, or below 0, were left out ({left}); is their unit CPUs?")
    return scaled.with_columns(metric=metric.replace(renamed).cast(pl.Categorical)), notes, left
