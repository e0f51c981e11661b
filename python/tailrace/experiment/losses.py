"""Recorded losses of capacity: `[[losses]]`, and the files that they name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from tailrace.errors import InputError
from tailrace.experiment import rows
from tailrace.toml import Name, Table
from tailrace.units import SECOND, parse_moment, parse_share

Steps = list[tuple[int, float]]
"""A time in ns after the ramp, and a share from then on."""
NEIGHBOUR = "neighbour"
"""The cause of what something else on the node took."""
STANDS_STILL = 0.02
"""A server with less of its speed accepts nothing, if what takes it stops its processes: the last step of a stop may
have such a share."""
CRAWLS = 1e-6
"""The share of its speed that is left to a server whose free workers still take connections: it computes nothing."""


class Loss(Table):
    """Capacity that a server lacked at each time, as it was recorded. Losses of one server add up. Without any left it
    accepts nothing, as a frozen one, unless all that takes it has `stops = false`."""

    place: Name
    """A server."""
    cause: Name = "unknown"
    """What took it."""
    stops: bool = True
    """Whether it stops the processes of the server. What does not, as a disk or a neighbour, delays the visits at work,
    and free workers take connections."""
    file: Name
    """CSV, beside the experiment: `time` in seconds since the end of the ramp, and `lost`, the share of the server's
    speed that is lost from then on."""


def read(file: str) -> Steps:
    """Times in ns after the ramp, in order, and the share that is lost from each to the next.

    Raises InputError with file and row.
    """
    found: Steps = []
    for number, row in rows.read(file, {"time", "lost"}, "the first line must be: time,lost"):
        try:
            time, lost = parse_moment(row["time"] or "", scale=SECOND), parse_share(row["lost"] or "")
        except ValueError as error:
            raise InputError(file, str(error), "give seconds, and a share from 0 to 1", row=number) from error
        if found and time <= found[-1][0]:
            raise InputError(file, "the times are not in order", row=number)
        found.append((time, lost))
    return found


def changes(series: Sequence[Steps]) -> Iterator[tuple[int, tuple[float, ...]]]:
    """Each time at which one of these losses changes, and what each of them loses from then on."""
    steps = sorted((time, number, lost) for number, one in enumerate(series) for time, lost in one)
    now = [0.0] * len(series)
    for time, same in groupby(steps, key=lambda step: step[0]):
        for _, number, lost in same:
            now[number] = lost
        yield time, tuple(now)


def left(series: Sequence[Steps], stops: Sequence[bool]) -> Steps:
    """What these losses together leave, from each time to the next; `stops` is whether each stops the processes."""
    found: Steps = []
    for time, lost in changes(series):
        share = 1.0 - sum(lost)
        if share < STANDS_STILL:
            stopped = any(one and part > 0.0 for one, part in zip(stops, lost, strict=True))
            share = 0.0 if stopped else max(share, CRAWLS)
        if not found or found[-1][1] != share:
            found.append((time, share))
    return found
