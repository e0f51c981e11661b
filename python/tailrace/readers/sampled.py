"""Samples that a reader finds one by one, until no more fit into memory."""

from __future__ import annotations

from array import array

import polars as pl

from tailrace.bounds import EARLIEST_NS, LATEST_NS, NAMES, SAMPLE_INTERVAL_NS, SAMPLE_NAME, VALUE_MAX
from tailrace.dataset.metrics import SHARES
from tailrace.errors import InputError
from tailrace.readers import intervals, localclock, metrics, outliers, room
from tailrace.readers.source import Found, Source


class Sampled:
    """Columns of the samples; place and metric by their number in `names`."""

    def __init__(self, *, standard: bool = False, in_cpus: bool = False) -> None:
        """`standard`: metrics get the record's names and units at the end, from those that others use. `in_cpus`: a
        share may count CPUs, and be larger than 1. Otherwise shares are from 0 to 1, and others are unusable."""
        self.standard, self.judged = standard, not (standard or in_cpus)
        self.time, self.interval, self.value = array("q"), array("q"), array("d")
        self.place, self.metric = array("i"), array("i")
        self.names: dict[str, int] = {}
        self.most = room.samples()
        self.unusable = 0

    @property
    def full(self) -> bool:
        return len(self.time) >= self.most

    def add(self, moment: int, interval_ns: int | None, place: str, metric: str, value: float | None) -> None:
        """Add a sample, or count it as unusable. An unknown interval is None."""
        if value is not None and self.judged and metric in SHARES:
            value = metrics.share(value)
        known = value is not None and abs(value) <= VALUE_MAX and EARLIEST_NS <= moment <= LATEST_NS
        if value is None or not known or not self._nameable(place) or not self._nameable(metric):
            self.unusable += 1
            return
        self.time.append(moment)
        self.interval.append(interval_ns if interval_ns is not None and 0 < interval_ns <= SAMPLE_INTERVAL_NS else 0)
        self.place.append(self.names.setdefault(place, len(self.names)))
        self.metric.append(self.names.setdefault(metric, len(self.names)))
        self.value.append(value)

    def _nameable(self, name: str) -> bool:
        return name in self.names or (len(self.names) < NAMES and 0 < len(name.encode(errors="replace")) <= SAMPLE_NAME)

    def into(
        self, found: Found, source: Source, empty: str, *, whole_seconds: bool = False, local: bool = False
    ) -> None:
        """Put the samples into `found`; InputError with the sentence `empty` if there are none.
        `whole_seconds`: a note says that the stamps are. `local`: their time zone is unknown, so their clock may have
        been set back."""
        found.lose("samples without a usable time, name or value", self.unusable)
        if not self.time:
            raise InputError(source.path, empty, "docs/reference/readers.md lists what is read")
        names = pl.Series([name.encode(errors="replace").decode() for name in self.names], dtype=pl.String)
        frame = pl.DataFrame(
            {
                "time": pl.Series(self.time, dtype=pl.Int64),
                "interval_ns": pl.Series(self.interval, dtype=pl.Int64),
                "place": names.gather(pl.Series(self.place, dtype=pl.Int32)).cast(pl.Categorical),
                "metric": names.gather(pl.Series(self.metric, dtype=pl.Int32)).cast(pl.Categorical),
                "value": pl.Series(self.value, dtype=pl.Float64),
            }
        ).with_columns(interval_ns=pl.when(pl.col("interval_ns") > 0).then(pl.col("interval_ns")))
        name = source.path.name
        if local:
            frame, notes = localclock.set_back(frame)
            found.notes += [f"{name}: {note}" for note in notes]
        once = _once(frame, found, name, whole_seconds=whole_seconds)
        frame, notes = intervals.complete(outliers.without(once, "time", found, name))
        found.notes += [f"{name}: {note}" for note in notes]
        if self.full:
            found.filled(name, self.most)
        if self.standard:
            frame, notes, shares = metrics.standardise(frame)
            found.lose(metrics.NO_SHARES, shares)
            found.notes += [f"{name}: {note}" for note in notes]
        if whole_seconds:
            found.notes.append(f"{name}: its stamps are whole seconds, so its samples are good to 1 s only")
        found.samples.append(frame)


def _once(frame: pl.DataFrame, found: Found, name: str, *, whole_seconds: bool) -> pl.DataFrame:
    """One sample of each moment: the first, if the file holds samples twice. Where stamps are whole seconds and values
    of one second differ, there were several samples in it, and their mean counts: they are of equal parts of it."""
    once = frame.unique(_KEY, keep="first", maintain_order=True)
    further = frame.height - once.height
    if not whole_seconds or not further or frame.unique([*_KEY, "value"]).height == once.height:
        found.lose("samples that the file holds twice", further)
        return once
    found.notes.append(
        f"{name}: {further} samples have the second of others: there are several in a second, and stamps are whole "
        "seconds, so their mean counts"
    )
    mean = frame.group_by(_KEY, maintain_order=True).agg(pl.col("interval_ns").first(), pl.col("value").mean())
    return mean.select(frame.columns)


_KEY = ["time", "place", "metric"]
