"""Recorded losses of capacity: `[[losses]]`, and the files that they name."""

from __future__ import annotations

from collections.abc import Iterable

from tailrace.errors import InputError
from tailrace.experiment import rows
from tailrace.toml import Name, Table
from tailrace.units import SECOND, parse_moment, parse_share

STANDS_STILL = 0.02
"""A server with less of its speed accepts nothing: the last step of a stop may have such a share."""


class Loss(Table):
    """Capacity that a server lacked at each time, as it was recorded. Losses of one server add up; without any left it
    accepts nothing, as a frozen one."""

    place: Name
    """A server."""
    cause: Name = "unknown"
    """What took it."""
    file: Name
    """CSV, beside the experiment: `time` in seconds since the end of the ramp, and `lost`, the share of the server's
    speed that is lost from then on."""


def read(file: str) -> list[tuple[int, float]]:
    """Times in ns after the ramp, in order, and the share that is lost from each to the next.

    Raises InputError with file and row.
    """
    found: list[tuple[int, float]] = []
    for number, row in rows.read(file, {"time", "lost"}, "the first line must be: time,lost"):
        try:
            time, lost = parse_moment(row["time"] or "", scale=SECOND), parse_share(row["lost"] or "")
        except ValueError as error:
            raise InputError(file, str(error), "give seconds, and a share from 0 to 1", row=number) from error
        if found and time <= found[-1][0]:
            raise InputError(file, "the times are not in order", row=number)
        found.append((time, lost))
    return found


def left(series: Iterable[list[tuple[int, float]]]) -> list[tuple[int, float]]:
    """What these losses together leave, from each time to the next."""
    steps = [(time, number, lost) for number, one in enumerate(series) for time, lost in one]
    now: dict[int, float] = {}
    found: list[tuple[int, float]] = []
    for time, number, lost in sorted(steps):
        now[number] = lost
        share = 1.0 - sum(now.values())
        share = 0.0 if share < STANDS_STILL else share
        if found and found[-1][0] == time:
            found.pop()
        if not found or found[-1][1] != share:
            found.append((time, share))
    return found
