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
from tailrace.bounds import LATEST_NS, LINE, YEAR_NS
from tailrace.readers.accesslog_layout import TIMERS
from tailrace.readers.accesslog_lines import status_of

Numbers = NDArray[np.int64]
RUN_MIN = 50
"""Fewer lines in a row are read one by one; columns of so few would cost more."""
NONE = -1
_DURATION_MAX_NS = 10**8 * units.SECOND
_TIMER_MAX_MS = YEAR_NS // units.MILLISECOND
_NAME_MAX = 255


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


def of(rows: pl.DataFrame, *, at_end: bool, scales: Mapping[str, int]) -> Rows:
    """The lines' values. Raises UnusualError."""
    proxy = rows["state"].null_count() < rows.height
    whole = _timers(rows)["all"] if proxy else _scaled(rows["duration"], scales.get("duration", 1))
    timed = pl.Series(whole >= 0)
    untimed, rows, duration = int((~timed).sum()), rows.filter(timed), whole[timed.to_numpy()]
    _check((duration < _DURATION_MAX_NS).all())
    stamp = _stamps(rows, scales)
    return Rows(
        begin=stamp - duration if at_end else stamp,
        duration=duration,
        stamp=stamp,
        asked=_asked(rows),
        bytes_out=_numbers(rows["bytes"]),
        ended=_of_proxy(rows, duration) if proxy else _of_nginx(rows),
        untimed=untimed,
    )


def _check(usual: object) -> None:
    if not usual:
        raise UnusualError


def _numbers(column: pl.Series) -> Numbers:
    """Numbers of which none is negative, with `NONE` for null."""
    _check(not (column < 0).any())
    return column.fill_null(NONE).to_numpy().astype(np.int64)


def _scaled(column: pl.Series, scale: int) -> Numbers:
    numbers = _numbers(column)
    _check((numbers <= LATEST_NS // scale).all())
    return np.where(numbers < 0, NONE, numbers * scale)


def _stamps(rows: pl.DataFrame, scales: Mapping[str, int]) -> Numbers:
    iso = each(rows["iso"], lambda text: None if text is None else units.parse_moment(text), pl.Int64)
    stamps = pl.Series(_scaled(rows["stamp"], scales.get("stamp", 1)))
    found = pl.DataFrame({"stamp": stamps.set(stamps < 0, None), "iso": iso, "clock": rows["clock"]})
    merged = found.select(pl.coalesce("stamp", "iso", "clock")).to_series()
    _check(not merged.null_count())
    return merged.to_numpy().astype(np.int64)


def each(column: pl.Series, of: Callable[[str | None], object], dtype: pl.DataType | type[pl.DataType]) -> pl.Series:
    """A function of each different value."""
    texts = column.cast(pl.String)
    different = texts.unique(maintain_order=True)
    try:
        values = [of(text) for text in different]
    except ValueError as error:
        raise UnusualError from error
    return texts.replace_strict(different, pl.Series(values, dtype=dtype), return_dtype=dtype)


def _asked(rows: pl.DataFrame) -> pl.Series:
    asked = pl.col("asked").cast(pl.String)
    method = pl.coalesce(pl.col("method").cast(pl.String), asked.str.extract(r"^(\S*) "), pl.lit(""))
    path = pl.col("uri").cast(pl.String).str.slice(0, 1000).str.extract(r"^([^?#]*)")
    target = pl.coalesce(path, asked.str.extract(r"^\S* (.*)$"), pl.lit(""))
    separate = rows["method"].null_count() + rows["uri"].null_count() < 2 * rows.height
    return rows.select(pl.concat_str(method, pl.lit(" "), target) if separate else asked.fill_null(" ")).to_series()


def _of_nginx(rows: pl.DataFrame) -> Outcomes:
    took, connect = _numbers(rows["took"]), _numbers(rows["connect"])
    _check((took < _DURATION_MAX_NS).all() and (connect < _DURATION_MAX_NS).all())
    called = pl.Series(took >= 0)
    address = each(rows["address"], lambda text: text or "upstream", pl.String)
    nothing = np.zeros(rows.height, np.int64)
    return Outcomes(
        status=each(rows["status"], _three_digits, pl.String),
        address=address.set(~called, None),
        took=took,
        connect=connect,
        answer=each(rows["address_status"], lambda text: status_of(text or "") or "unknown", pl.String),
        before=nothing,
        queued=nothing,
    )


def _three_digits(text: str | None) -> str:
    status = status_of(text or "")
    _check(status)
    return status or ""


def _timers(rows: pl.DataFrame) -> dict[str, Numbers]:
    """HAProxy's, in ns; negative where the request did not come so far."""
    _check(not any(rows[timer].null_count() or (rows[timer].abs() > _TIMER_MAX_MS).any() for timer in TIMERS))
    return {timer: rows[timer].to_numpy().astype(np.int64) * units.MILLISECOND for timer in TIMERS}


def _of_proxy(rows: pl.DataFrame, duration: Numbers) -> Outcomes:
    timers = _timers(rows)
    queued = np.maximum(timers["waiting"], 0)
    before = np.maximum(timers["asking"], 0) + queued
    connecting, answered = timers["connecting"], pl.Series(timers["answering"] >= 0)
    _check(each(rows["state"], lambda text: len(text or "") == 4, pl.Boolean).all())
    without = each(rows["state"], lambda text: "timeout" if text and text[0] in "sS" else "unknown", pl.String)
    codes = each(rows["status"], lambda text: status_of(text or ""), pl.String)
    has_server = each(rows["address"], _has_server, pl.Boolean).to_numpy()
    called = has_server & (timers["waiting"] >= 0) & (duration >= before)
    return Outcomes(
        status=codes.fill_null("abandoned"),
        address=rows["address"].cast(pl.String).set(pl.Series(~called), None),
        took=np.where(called, duration - before, NONE),
        connect=np.where(connecting >= 0, connecting, NONE),
        answer=codes.fill_null("unknown").zip_with(answered, without),
        before=before,
        queued=queued,
    )


def _has_server(text: str | None) -> bool:
    backend, _, server = (text or "").partition("/")
    _check(0 < len(backend) <= _NAME_MAX and 0 < len(server) <= _NAME_MAX)
    return server != "<NOSRV>"
