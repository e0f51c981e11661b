"""What each input carries of the steps of a diagnosis: `tailrace info` shows it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import polars as pl

from tailrace import units
from tailrace.dataset.manifest import COUNTED, SEEN, Input
from tailrace.dataset.metrics import SHARES
from tailrace.readers.source import Found

_NAMES = 1000
"""A file with more servers or places names none of them."""
_COUNTERS = ("listen_drops", "syn_retransmits")
_POOLS = ("pool_in_use", "pool_waiting", "pool_wait_seconds")
_STALL_INTERVALS = 2
"""Samples show what lasts so many of their intervals, or longer (diagnosis: coarse samples)."""


def of_found(
    file: str,
    kind: str,
    found: Found,
    *,
    counted: bool,
    visits: bool,
    servers: Collection[str],
    places: Collection[str],
) -> Input:
    """What a file of text carries. `counted`: its requests are those of the run folder; `visits`: so are its visits.
    `servers` are those of these, and `places` those of its samples and events."""
    carries = {
        "responses": (COUNTED if counted else "another input counts") if found.requests else "",
        "losses": found.attempts or _counters(found.samples),
        "queues": "without the accept queue" if visits else "",
        "resources": _resources(found),
    }
    known = {step: said for step, said in carries.items() if said}
    return Input(
        file, kind, known, *(tuple(sorted(names)) if len(names) <= _NAMES else () for names in (servers, places))
    )


def of_packets(names: Sequence[str], kind: str, samples: str = "") -> list[Input]:
    """What captures carry, and with `samples` a recording of this host."""
    carries = {"responses": COUNTED, "losses": SEEN, "queues": "whole"}
    if samples:
        carries["resources"] = samples
    return [Input(name, kind, carries) for name in names]


def _counters(samples: Sequence[pl.DataFrame]) -> str:
    metrics = {name for frame in samples for name in frame.get_column("metric").cast(pl.String).unique()}
    return "counts of a host" if metrics.intersection(_COUNTERS) else ""


def _resources(found: Found) -> str:
    """The shortest stall that samples can show, and what events are of."""
    shares = [
        interval
        for frame in found.samples
        for interval in frame.filter(pl.col("metric").cast(pl.String).is_in(list(SHARES)))
        .select(pl.col("interval_ns").median())
        .to_series()
        .drop_nulls()
    ]
    said = [f"what lasts {units.format_duration(int(min(shares)) * _STALL_INTERVALS)} or longer"] if shares else []
    kinds = {str(kind) for frame in found.events for kind in frame.get_column("kind").unique()}
    said += [", ".join(sorted(kinds)[:4])] if kinds else []
    metrics = {name for frame in found.samples for name in frame.get_column("metric").cast(pl.String).unique()}
    said += ["waits for a pool"] if metrics.intersection(_POOLS) else []
    return "; ".join(said)
