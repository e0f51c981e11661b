"""Recorded requests from a file, CSV or Parquet: the column `time` and, where they are known, `interaction`, `client`
with `think`, `factor.TIER` and `first.TIER`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tailrace.errors import InputError
from tailrace.experiment import rows
from tailrace.units import SECOND, parse_moment, parse_number

if TYPE_CHECKING:
    import polars as pl

FACTOR, FIRST = "factor.", "first."
KEPT = 4
"""Files whose requests are kept: recorded requests, and some of them once more for a surge."""
LAST = 2**32 - 1
"""No request follows."""
_HOW = "docs/reference/experiment.md lists the columns"
_COLUMNS = "name it there: time, or time,interaction"
_SOME_NAMES = ("some rows have an interaction and some have none", "give it in all rows or none")


@dataclass(frozen=True)
class Requests:
    """One value for each request in each list, in the order of `times`."""

    times: list[int]
    """When each was sent, ns after the ramp."""
    names: list[str]
    """Interactions; empty: unknown."""
    clients: list[int | None]
    """Empty: each request has a client of its own."""
    thinks: list[int | None]
    """How long, ns, its client thought after the answer to its previous request; None: it is sent at its time."""
    factors: dict[str, list[float]]
    """Column → a factor for the work of each request in a tier: for its work before the first call there (FIRST), or
    for all of it, or the rest (FACTOR)."""


class Lowered(dict[str, Any]):
    """Requests as a part of a plan. Many plans share it, so nobody may change it."""

    @cached_property
    def text(self) -> str:
        """It as JSON with sorted keys."""
        return json.dumps(self, sort_keys=True)


def read(file: str) -> Requests:
    """Many experiments name the same file, so what was read last is kept: nobody may change it. Raises InputError with
    file and row."""
    return _read(file, *_version(file))


def lowered(file: str, ramp: int, class_of: Callable[[str], int], tiers: Sequence[str]) -> Lowered:
    """The same as `plan` of the requests of a file."""
    names = dict.fromkeys(read(file).names)
    return _lowered(file, _version(file), ramp, tuple((name, class_of(name)) for name in names), tuple(tiers))


def _version(file: str) -> tuple[int, int]:
    """It differs if the file does. One that cannot be read has none, and reading it says why."""
    try:
        found = Path(file).stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


@lru_cache(maxsize=KEPT)
def _read(file: str, changed: int, size: int) -> Requests:
    return _of_parquet(file) if file.endswith(".parquet") else _of_csv(file)


@lru_cache(maxsize=KEPT)
def _lowered(
    file: str, version: tuple[int, int], ramp: int, classes: tuple[tuple[str, int], ...], tiers: tuple[str, ...]
) -> Lowered:
    return Lowered(plan(_read(file, *version), ramp, dict(classes).__getitem__, tiers))


def plan(requests: Requests, ramp: int, class_of: Callable[[str], int], tiers: Sequence[str]) -> dict[str, Any]:
    """The form that the simulator takes: first the requests that are sent at their times, then those that follow an
    answer. Of each request, it has a factor for each tier, and then one for the work before the first call there."""
    follows = _follows(requests)
    order = [row for row, before in enumerate(follows) if before is None]
    opens = len(order)
    order += [row for row, before in enumerate(follows) if before is not None]
    found: dict[str, Any] = {
        "times": [ramp + requests.times[row] if follows[row] is None else requests.thinks[row] for row in order],
        "classes": [class_of(requests.names[row]) for row in order] if requests.names else [],
    }
    if opens < len(order):
        place = {row: at for at, row in enumerate(order)}
        after = {before: place[row] for row, before in enumerate(follows) if before is not None}
        found |= {"opens": opens, "next": [after.get(row, LAST) for row in order]}
    if requests.factors:
        ones = [1.0] * len(order)
        rest = [requests.factors.get(FACTOR + tier, ones) for tier in tiers]
        first = [requests.factors.get(FIRST + tier, usual) for tier, usual in zip(tiers, rest, strict=True)]
        columns = [*rest, *first]
        found["factors"] = [column[row] for row in order for column in columns]
    return found


def _follows(requests: Requests) -> list[int | None]:
    """For each request the one before it of the same client, if it is sent after the answer to that one."""
    last: dict[int, int] = {}
    found: list[int | None] = [None] * len(requests.times)
    for row, client in enumerate(requests.clients):
        if client is not None:
            if requests.thinks[row] is not None:
                found[row] = last.get(client)
            last[client] = row
    return found


def _of_parquet(file: str) -> Requests:
    import polars as pl

    from tailrace.dataset import tables

    tables.shape(Path(file))
    try:
        frame = tables.scan(file).collect()
    except tables.FAULTS as error:
        raise tables.unreadable(Path(file), error) from error
    if frame.schema.get("time") != pl.Float64:
        raise InputError(file, "it has no column time of float64", f"time is in seconds; {_HOW}")
    frame = frame.sort("time", maintain_order=True)
    names = frame["interaction"].cast(pl.String).to_list() if "interaction" in frame.columns else []
    if any(name is None for name in names):
        raise InputError(file, *_SOME_NAMES)
    has_clients = {"client", "think"} <= set(frame.columns)
    return Requests(
        _nanoseconds(file, frame, "time"),
        names,
        _column(file, frame, "client", pl.Int64) if has_clients else [],
        _nanoseconds(file, frame, "think") if has_clients else [],
        {name: _column(file, frame, name, pl.Float64) for name in frame.columns if name.startswith((FACTOR, FIRST))},
    )


def _column(file: str, frame: pl.DataFrame, name: str, kind: Any) -> list[Any]:
    import polars as pl

    try:
        return frame[name].cast(kind).to_list()
    except pl.exceptions.PolarsError as error:
        raise InputError(file, f"not numbers ({error})", _HOW, column=name) from error


def _nanoseconds(file: str, frame: pl.DataFrame, name: str) -> list[Any]:
    import polars as pl

    seconds = frame.select((pl.col(name) * float(SECOND)).round())
    return _column(file, seconds, name, pl.Int64)


class _Row(NamedTuple):
    time: int
    name: str
    client: int | None
    think: int | None
    factors: dict[str, float]


def _of_csv(file: str) -> Requests:
    found = []
    for number, row in rows.read(file, {"time"}, "the first line names no column time", _COLUMNS):
        try:
            found.append(_row(row))
        except ValueError as error:
            raise InputError(file, str(error), "times are seconds since the end of the ramp", row=number) from error
    found.sort(key=lambda row: row.time)
    names = [row.name for row in found]
    if any(names) and not all(names):
        raise InputError(file, *_SOME_NAMES)
    columns = dict.fromkeys(name for row in found for name in row.factors)
    return Requests(
        [row.time for row in found],
        names if any(names) else [],
        [row.client for row in found],
        [row.think for row in found],
        {name: [row.factors.get(name, 1.0) for row in found] for name in columns},
    )


def _row(row: dict[str, str | None]) -> _Row:
    def number(name: str) -> float | None:
        text = row.get(name)
        found = parse_number(text) if text else None
        if text and (found is None or found < 0):
            raise ValueError(f"{name} must be a number from 0 on, got {text!r}")
        return None if found is None else float(found)

    time = parse_moment(row["time"] or "", scale=SECOND)
    client, think = number("client"), row.get("think")
    factors = {name: number(name) for name in row if name and name.startswith((FACTOR, FIRST))}
    return _Row(
        time,
        row.get("interaction") or "",
        None if client is None else int(client),
        parse_moment(think, scale=SECOND) if think and number("think") is not None else None,
        {name: factor for name, factor in factors.items() if factor is not None},
    )
