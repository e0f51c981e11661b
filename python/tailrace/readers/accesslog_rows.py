"""Many lines of an access log at once: the columns that the engine cut (`accesslog_layout`) become visits.

Whatever is unusual goes to the slow reader, which gives the same visits for the same lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tailrace import _core, units
from tailrace.bounds import LATEST_NS, LINE

Numbers = NDArray[np.int64]
RUN_MIN = 50
"""Fewer lines in a row are read one by one; columns of so few would cost more."""
NONE = -1
DURATION_MAX_NS = 10**8 * units.SECOND


class UnusualError(Exception):
    """One of these lines needs the slow reader."""


@dataclass(frozen=True)
class Outcomes:
    """How the requests ended, and the only call of each to a server behind."""

    status: pl.Series
    address: pl.Series
    """The server that was called; null: none."""
    took: Numbers
    connect: Numbers
    answer: pl.Series
    """The status of its answer."""
    before: Numbers
    queued: Numbers
    flags: pl.Series | None = None
    """Envoy's."""
    retries: Numbers | None = None
    """HAProxy's, with how many requests left its queue before each."""
    ahead: Numbers | None = None


@dataclass(frozen=True)
class Software:
    """What the columns of the lines of a program mean: the duration in ns, `NONE` where there is none; and the
    outcomes of lines with these durations."""

    duration: Callable[[pl.DataFrame, Mapping[str, int]], Numbers]
    outcomes: Callable[[pl.DataFrame, Numbers, Mapping[str, int]], Outcomes]
    at_begin: bool = False
    """Its lines are stamped at the begin of a request, whatever others of the same form are."""
    stamp: Callable[[pl.DataFrame], Numbers] | None = None
    """The stamps, where the usual columns do not have them."""


@dataclass(frozen=True)
class Rows:
    """Lines with a duration, in nanoseconds since the Unix epoch and nanoseconds; `NONE` is unknown."""

    begin: Numbers
    duration: Numbers
    stamp: Numbers
    asked: pl.Series
    """Method, a space, and path."""
    bytes_out: Numbers
    ended: Outcomes
    untimed: int


def parts(block: bytes, plan: str) -> Iterator[pl.DataFrame | tuple[int, str]]:
    """In their order: the columns of lines that have a layout, and each other line with its number, from 0. A plan
    without layouts gives each line."""
    rows = pl.DataFrame(_core.cut_lines(block, plan))
    if rows.height == block.count(b"\n") + 1:
        yield rows
        return
    lines, done = block.split(b"\n"), 0
    numbers = rows["line"].to_numpy().astype(np.int64)
    edges = [0, *(np.flatnonzero(np.diff(numbers) > 1) + 1).tolist(), rows.height]
    for first, end in pairwise(edges):
        if end - first >= RUN_MIN:
            line = int(numbers[first])
            yield from _singly(lines[done:line], done)
            yield rows[first:end]
            done = line + end - first
    yield from _singly(lines[done:], done)


def singly(rows: pl.DataFrame, block: bytes) -> Iterator[tuple[int, str]]:
    """The lines of these rows, one by one."""
    first, last = rows["line"][0], rows["line"][-1]
    return _singly(block.split(b"\n")[first : last + 1], first)


def _singly(lines: list[bytes], first: int) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(lines, first):
        if text := line.decode("utf-8", errors="replace")[:LINE].rstrip("\r"):
            yield number, text


def of(rows: pl.DataFrame, software: Software, *, at_end: bool, scales: Mapping[str, int]) -> Rows:
    """The lines' values. Raises UnusualError."""
    whole = software.duration(rows, scales)
    timed = pl.Series(whole >= 0)
    untimed, rows, duration = int((~timed).sum()), rows.filter(timed), whole[timed.to_numpy()]
    check((duration < DURATION_MAX_NS).all())
    stamp = _stamps(rows, scales) if software.stamp is None else software.stamp(rows)
    return Rows(
        begin=stamp - duration if at_end else stamp,
        duration=duration,
        stamp=stamp,
        asked=_asked(rows),
        bytes_out=numbers(rows["bytes"]),
        ended=software.outcomes(rows, duration, scales),
        untimed=untimed,
    )


def check(usual: object) -> None:
    if not usual:
        raise UnusualError


def numbers(column: pl.Series) -> Numbers:
    """Numbers of which none is negative, with `NONE` for null."""
    check(not (column < 0).any())
    return column.fill_null(NONE).to_numpy().astype(np.int64)


def scaled(column: pl.Series, scale: int) -> Numbers:
    values = numbers(column)
    check((values <= LATEST_NS // scale).all())
    return np.where(values < 0, NONE, values * scale)


def _stamps(rows: pl.DataFrame, scales: Mapping[str, int]) -> Numbers:
    iso = rows["iso"].cast(pl.String)
    if rows["day"].null_count() < rows.height:
        day, time = (rows[name].cast(pl.String) for name in ("day", "time"))
        check((day.str.contains(_DAY) & time.str.contains(_TIME)).all())
        iso = day + "T" + time + "Z"
    stamps = pl.Series(scaled(rows["stamp"], scales.get("stamp", 1)))
    found = pl.DataFrame({"stamp": stamps.set(stamps < 0, None), "iso": moments(iso), "clock": rows["clock"]})
    merged = found.select(pl.coalesce("stamp", "iso", "clock")).to_series()
    check(not merged.null_count())
    return merged.to_numpy().astype(np.int64)


def is_utc(column: pl.Series) -> bool:
    """Whether all are moments like `2026-11-20T16:49:00.310Z`."""
    return not column.null_count() and bool(column.cast(pl.String).str.contains(_UTC).all())


def moments(column: pl.Series) -> pl.Series:
    """The moments of ISO 8601 texts in ns since the Unix epoch; null of null."""
    texts = column.cast(pl.String)
    if not texts.null_count() and texts.str.contains(_LOCAL).all():
        texts = texts.str.replace(" ", "T", literal=True).str.replace(",", ".", literal=True) + "Z"
    if is_utc(texts):
        return texts.str.to_datetime("%Y-%m-%dT%H:%M:%S%.fZ", time_unit="ns", strict=False).cast(pl.Int64)
    return each(texts, lambda text: None if text is None else units.parse_moment(text), pl.Int64)


_DAY, _TIME = r"^(?:19[789]|20\d|21\d)\d-\d\d-\d\d$", r"^\d\d:\d\d:\d\d$"
_UTC = r"^(?:19[789]|20\d|21\d)\d-\d\d-\d\dT\d\d:\d\d:[0-5]\d(?:\.\d{1,9})?Z$"
_LOCAL = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,]\d{3,6}$"
"""Moments in the years of which nanoseconds fit, in UTC."""


def each(column: pl.Series, of: Callable[[str | None], object], dtype: pl.DataType | type[pl.DataType]) -> pl.Series:
    """A function of each different value."""
    texts = column.cast(pl.String)
    different = texts.unique(maintain_order=True)
    try:
        values = pl.Series([of(text) for text in different], dtype=dtype)
    except (ValueError, TypeError, OverflowError) as error:  # the last two: a moment that does not fit
        raise UnusualError from error
    return texts.replace_strict(different, values, return_dtype=dtype)


def _asked(rows: pl.DataFrame) -> pl.Series:
    asked = pl.col("asked").cast(pl.String)
    method = pl.coalesce(pl.col("method").cast(pl.String), asked.str.extract(r"^(\S*) "), pl.lit(""))
    path = pl.col("uri").cast(pl.String).str.slice(0, 1000).str.extract(r"^([^?#]*)")
    target = pl.coalesce(path, asked.str.extract(r"^\S* (.*)$"), pl.lit(""))
    separate = rows["method"].null_count() + rows["uri"].null_count() < 2 * rows.height
    return rows.select(pl.concat_str(method, pl.lit(" "), target) if separate else asked.fill_null(" ")).to_series()
