"""Plain samples: a CSV or Parquet table of (time, place, metric, value), and optionally `interval`.

`time` is the end of the sampling interval: ISO 8601, or Unix time in s, ms, µs or ns, as its size shows. `interval` is
in seconds (`interval_ms`, `interval_us`, `interval_ns` in these units). If it is absent, it is the time since the
previous sample of the same place and metric, or the usual interval after a hole. Times go from text to nanoseconds
without a float. Damaged lines are counted and the first are named; a file without one valid line is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress

import polars as pl

from tailrace import units
from tailrace.bounds import EARLIEST_NS, LATEST_NS, SAMPLE_INTERVAL_NS, SAMPLE_NAME
from tailrace.errors import InputError
from tailrace.readers import intervals, localclock, localdates, metrics, numerals, outliers, room
from tailrace.readers.layout import MISSING, Layout, csv_rows, layout_of, parquet_rows
from tailrace.readers.numerals import Column, Form
from tailrace.readers.source import Found, Source, text_head

_DAMAGE_NAMED = 3


def sniff(name: str, head: bytes) -> bool:
    if head.startswith(b"PAR1"):
        return True
    text = text_head(head)
    return text is not None and layout_of(text) is not None


def read(source: Source) -> Found:
    found = Found()
    parquet = source.head().startswith(b"PAR1")
    layout, blocks = parquet_rows(source) if parquet else csv_rows(source, found)
    form, said = (None, []) if parquet else _form(source, layout)
    order = None if parquet else _order(source)
    said += [localdates.note(order)] if order else []
    damage = _Damage("row" if parquet else "line")
    frames: list[pl.DataFrame] = []
    scale, most, count = layout.time_scale, room.samples(), 0
    local = False
    for rows in blocks:
        scale = scale or _usual_scale(rows.get_column("time"))
        local = local or any(map(localdates.is_zoneless, rows.get_column("time").drop_nulls().head(1)))
        moments = _moments(rows.get_column("time"), scale, order)
        frames.append(_numbers(rows, moments, layout, source.place, damage, form).head(most - count))
        count += frames[-1].height
        if count == most:
            found.filled(source.path.name, most)
            break
    samples = pl.concat(frames) if frames else pl.DataFrame()
    frames.clear()
    if samples.is_empty():
        why = next(iter((*said, *damage.named)), "there is no sample in it")
        raise InputError(source.path, why, "docs/reference/readers.md shows the form")
    if local:
        samples, moved = localclock.set_back(samples)
        said += [*([] if order else [localdates.ZONELESS]), *moved]
    samples = outliers.without(samples, "time", found, source.path.name)
    samples, notes, shares = metrics.standardise(samples)
    found.lose(metrics.NO_SHARES, shares)
    samples, more = intervals.complete(samples)
    found.notes += [f"{source.path.name}: {note}" for note in [*said, *damage.notes(), *notes, *more]]
    found.lose("damaged lines", damage.count)
    found.lose("samples without a value", damage.empty)
    found.samples.append(samples)
    return found


class _Damage:
    """Rows that could not be read: how many, and the first few by number."""

    def __init__(self, unit: str) -> None:
        self.unit = unit
        self.count = 0
        self.empty = 0
        self.named: list[str] = []

    def add(self, rows: pl.DataFrame) -> None:
        """Rows with columns `row` and `why`."""
        self.count += rows.height
        for row, why in rows.select("row", "why").head(_DAMAGE_NAMED - len(self.named)).iter_rows():
            self.named.append(f"{self.unit} {row}: {why}")

    def notes(self) -> list[str]:
        if not self.count:
            return []
        more = "" if self.count == len(self.named) else " …"
        return [f"{self.count} damaged {self.unit}s were left out ({'; '.join(self.named)}{more})"]


def _form(source: Source, layout: Layout) -> tuple[Form | None, list[str]]:
    """How the numbers of the values are written, and what to say of it; None if all are plain. All of them decide, and
    those of shares are never in the thousands."""
    if not numerals.may_be_local(source, layout.delimiter):
        return None, []
    of_shares, others = Column(), Column()
    for rows in csv_rows(source, Found())[1]:
        for metric, text in rows.select("metric", "value").drop_nulls().unique().iter_rows():
            (of_shares if metrics.standard_name(metric)[1] != "none" else others).add(text)
    found, said = numerals.forms({"shares": of_shares, "other values": others}, ["shares"])
    return found["other values"], said


def _plain(rows: pl.DataFrame, form: Form | None) -> pl.DataFrame:
    """The rows with column `number` (null if the value is none), and with the unit of percentages in their names."""
    if form is None:
        return rows.with_columns(number=pl.col("value").cast(pl.Float64, strict=False))
    values = {text: form.value(text) for text in rows.get_column("value").drop_nulls().unique()}
    number = pl.col("value").replace_strict(values, default=None, return_dtype=pl.Float64)
    percents = {name: metrics.as_percent(name) for name in rows.get_column("metric").drop_nulls().unique()}
    of_percent = pl.col("value").str.ends_with("%")
    metric = pl.when(of_percent).then(pl.col("metric").replace(percents)).otherwise(pl.col("metric"))
    return rows.with_columns(number=number, metric=metric)


def _numbers(
    rows: pl.DataFrame,
    moments: Mapping[str, int],
    layout: Layout,
    place: str | None,
    damage: _Damage,
    form: Form | None,
) -> pl.DataFrame:
    """Rows of text → time, interval_ns (null if unknown), place, metric, value; the rest goes to `damage`."""
    rows = _plain(rows, form)
    lower = pl.col("value").str.to_lowercase()
    number = pl.col("number")
    rows = rows.with_columns(
        moment=pl.col("time").replace_strict(moments, default=None, return_dtype=pl.Int64),
        number=pl.when(number.is_finite()).then(number),
        empty=pl.col("value").is_null() | lower.is_in(list(MISSING)),
        place=pl.col("place").fill_null(pl.lit(place, pl.String)),
    )
    shown = pl.col("time").str.slice(0, 40)
    why = (
        pl.when(pl.col("time").is_null() | pl.col("metric").is_null())
        .then(pl.lit(f"it does not have the columns {', '.join(layout.needed)}"))
        .when(pl.col("moment").is_null())
        .then(pl.format("'{}' is not a time", shown))
        .when(pl.col("moment") < EARLIEST_NS)
        .then(pl.format("its time {} is a time since some start, not a moment", shown))
        .when(pl.col("moment") > LATEST_NS)
        .then(pl.format("its time {} is after the year 2200", shown))
        .when(pl.col("place").is_null())
        .then(pl.lit("it has no place; name the server or node with NAME=FILE"))
        .when(pl.max_horizontal(pl.col("place", "metric").str.len_bytes()) > SAMPLE_NAME)
        .then(pl.lit(f"its place or metric has more than {SAMPLE_NAME:,} bytes"))
        .when(~pl.col("empty") & pl.col("number").is_null())
        .then(pl.format("'{}' is not a number", pl.col("value").str.slice(0, 40)))
    )
    rows = rows.with_columns(why=why)
    damage.add(rows.filter(pl.col("why").is_not_null()))
    good = rows.filter(pl.col("why").is_null())
    damage.empty += int(good.get_column("empty").sum())
    length = (pl.col("interval").cast(pl.Float64, strict=False) * layout.interval_scale).round()
    return good.filter(~pl.col("empty")).select(
        time=pl.col("moment"),
        interval_ns=pl.when((length > 0) & (length <= SAMPLE_INTERVAL_NS)).then(length).cast(pl.Int64),
        place=pl.col("place").cast(pl.Categorical),
        metric=pl.col("metric").cast(pl.Categorical),
        value=pl.col("number"),
    )


def _usual_scale(times: pl.Series) -> int | None:
    """The unit of most Unix times in the file; None if they are ISO 8601."""
    scales: Counter[int] = Counter()
    for text in times.drop_nulls().unique(maintain_order=True).head(1000):
        number = units.parse_number(text)
        if number is not None:
            scales[units.moment_scale(number)] += 1
    return scales.most_common(1)[0][0] if scales else None


def _order(source: Source) -> localdates.Order | None:
    """What comes first in dates of other countries; None if the first time is no such date."""
    blocks = (rows.get_column("time").drop_nulls() for rows in csv_rows(source, Found())[1])
    first = next((times[0] for times in blocks if len(times)), "")
    if not localdates.is_local(first):
        return None
    every = (text for rows in csv_rows(source, Found())[1] for text in rows.get_column("time").drop_nulls().unique())
    order = localdates.order(every)
    if not order:
        raise InputError(source.path, localdates.refusal(first), localdates.ADVICE)
    return order


def _moments(times: pl.Series, scale: int | None, order: localdates.Order | None) -> dict[str, int]:
    """Every sampling moment occurs once for each metric, so each text is parsed only once, exactly."""
    moments: dict[str, int] = {}
    for text in times.drop_nulls().unique():
        with suppress(ValueError):
            moments[text] = localdates.moment(text, order) if order else units.parse_moment(text, scale=scale)
    return moments
