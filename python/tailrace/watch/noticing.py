"""Finds the signs of a cluster of VLRT in a closed segment of a recording, and words them as sentences.

| sign | from |
|---|---|
| connection attempts lost and repeated | events of kind `drop`: packets |
| connections refused by the kernel | `listen_drops` |
| an accept queue at its limit | `accept_queue`, `accept_queue_limit` |
| requests that took very long | visits |

A segment is a second long. A sign must exceed its usual number at the same place.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from tailrace.dataset import scan
from tailrace.dataset.tables import FAULTS
from tailrace.units import MILLISECOND, format_duration

CLUSTER = 5
"""At 10,000 connections a second with one packet in 10⁵ lost by chance, five losses in one second happen by chance once
in five months (Poisson with mean 0.1)."""
FULL = 1
"""One sample of a full accept queue is enough: the queue refuses connections at that moment."""
UNUSUAL = 10
"""Factor over the mean of the last minute: a minute of constant overload has one incident, at its beginning."""
USUAL_SEGMENTS = 60
VLRT_NS = 950 * MILLISECOND
"""A lost SYN is repeated after 1 s; the diagnosis uses the same value if response times show no gap."""

Counts = dict[str, int]
"""Place → how often."""


@dataclass(frozen=True)
class Sign:
    table: str
    count: Callable[[pl.DataFrame], Counts]
    least: int
    sentence: str


def lost(events: pl.DataFrame) -> Counts:
    """Connection attempts that were lost and repeated."""
    return _counted(events.filter(pl.col("kind").cast(pl.String) == "drop"), "place")


def refused(samples: pl.DataFrame) -> Counts:
    """Connections that the kernel refused."""
    drops = _samples_of(samples, "listen_drops").group_by("place").agg(pl.col("value").sum())
    return {place: int(value) for place, value in drops.iter_rows() if value}


def _full(samples: pl.DataFrame) -> Counts:
    queue, limit = _samples_of(samples, "accept_queue"), _samples_of(samples, "accept_queue_limit")
    both = queue.join(limit, on=["time", "place"], suffix="_limit")
    return _counted(both.filter(pl.col("value") >= pl.col("value_limit").clip(lower_bound=1)), "place")


def _slow(stays: pl.DataFrame) -> Counts:
    return _counted(stays.filter(pl.col("departure") - pl.col("sent") >= VLRT_NS), "server")


SIGNS: tuple[Sign, ...] = (
    Sign("events", lost, CLUSTER, "{count} connection attempts to {place} were lost"),
    Sign("samples", refused, CLUSTER, "{place} refused {count} connections"),
    Sign("samples", _full, FULL, "the accept queue of {place} was full in {count} samples"),
    Sign("stays", _slow, CLUSTER, "{count} requests to {place} took " + format_duration(VLRT_NS) + " or longer"),
)


@dataclass
class Notice:
    """Remembers what is usual. Call `see` once for each closed segment, in order."""

    usual: dict[Sign, deque[Counts]] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    """Place → what to call it."""

    def see(self, segment: Path) -> list[str]:
        """The unusual signs in this second; empty if the file is gone or incomplete."""
        read = self.read(segment)
        return self.judge(*read) if read else []

    def read(self, segment: Path) -> tuple[str, pl.DataFrame] | None:
        """The table of a closed segment and its rows; None if the file is gone, incomplete, or of no such table."""
        table = next((sign.table for sign in SIGNS if segment.name.endswith(f".{sign.table}.parquet")), None)
        try:
            return (table, scan(segment).collect()) if table else None
        except (OSError, *FAULTS):
            return None

    def judge(self, table: str, rows: pl.DataFrame) -> list[str]:
        """The unusual signs in the rows of a segment."""
        signs = [sign for sign in SIGNS if sign.table == table]
        return [sentence for sign in signs for sentence in self._unusual(sign, sign.count(rows))]

    def _unusual(self, sign: Sign, counts: Counts) -> list[str]:
        before = self.usual.setdefault(sign, deque(maxlen=USUAL_SEGMENTS))
        found = [
            sign.sentence.format(count=count, place=self.names.get(place, place))
            for place, count in sorted(counts.items())
            if count >= max(sign.least, UNUSUAL * sum(past.get(place, 0) for past in before) / USUAL_SEGMENTS)
        ]
        before.append(counts)
        return found


def _samples_of(samples: pl.DataFrame, metric: str) -> pl.DataFrame:
    wanted = samples.filter(pl.col("metric").cast(pl.String) == metric)
    return wanted.select("time", pl.col("place").cast(pl.String), "value")


def _counted(rows: pl.DataFrame, by: str) -> Counts:
    counted = rows.group_by(pl.col(by).cast(pl.String)).len()
    return {place: count for place, count in counted.iter_rows() if place is not None}
