"""Arrivals from a file: CSV with a column `time`, in seconds since the end of the ramp, and optionally
`interaction`."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from tailrace.bounds import TRACE_BYTES
from tailrace.errors import InputError
from tailrace.units import SECOND, parse_moment
from tailrace.untrusted import read_text


def read(file: str) -> tuple[list[int], list[str]]:
    """Send times in ns after the ramp, in order, and the interaction of each if the file has them.

    Raises InputError with file and row.
    """
    timed: list[tuple[int, str]] = []
    for number, row in _rows(file):
        try:
            timed.append((parse_moment(row["time"] or "", scale=SECOND), row.get("interaction") or ""))
        except ValueError as error:
            raise InputError(file, str(error), "give seconds since the end of the ramp", row=number) from error
    timed.sort(key=lambda row: row[0])
    names = [name for _, name in timed]
    if any(names) and not all(names):
        raise InputError(file, "some rows have an interaction and some have none", "give it in all rows or none")
    return [time for time, _ in timed], names if any(names) else []


def _rows(file: str) -> Iterator[tuple[int, dict[str, str | None]]]:
    """The rows with their numbers."""
    lines = csv.DictReader(io.StringIO(read_text(file, TRACE_BYTES), newline=""))
    try:
        if "time" not in (lines.fieldnames or ()):
            raise InputError(file, "the first line names no column time", "name it there: time, or time,interaction")
        yield from enumerate(lines)
    except csv.Error as error:
        raise InputError(file, f"not CSV: {error}") from error
