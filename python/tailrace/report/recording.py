"""What the report draws, as plain values: the seam between gathering from a Dataset and rendering.

Everything here is small (a few numbers a window), so a page can be rendered, and tested, without a Dataset.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.int64]
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Axis:
    """The moments of some lines: the middle of each window or sampling interval, ns since the Unix epoch.

    `episode` is the number of the one episode that a fine axis was cut for; None = the whole recording.
    `step_ns` is the usual distance of two moments: the width of a column.
    """

    times: Times
    step_ns: int
    episode: int | None = None


@dataclass(frozen=True)
class Line:
    """One metric of one place on an axis. NaN = not known there.

    Metrics are those of samples.parquet, and from the windows: `vlrt`, `drops`, `queue_length`, `arrivals`.
    """

    axis: int
    place: str
    metric: str
    values: Values


@dataclass(frozen=True)
class Span:
    """Something that lasted, as in events.parquet."""

    place: str
    kind: str
    begin: int
    end: int
    detail: str | None = None


LOST, NOTHING, NOTE = "Lost while recording or reading", "nothing", "Note of the reader"
"""Of a recording's provenance, what may make its numbers wrong."""


@dataclass(frozen=True)
class Recording:
    """The part of a run that the report shows."""

    begin: int
    end: int
    window_ns: int
    servers: tuple[str, ...]
    """In the order a request meets them, the entry first."""
    axes: tuple[Axis, ...]
    lines: tuple[Line, ...]
    spans: tuple[Span, ...] = ()
    means: tuple[tuple[str, str], ...] = ()
    """(server, place) where samples of another place speak for a server: its node, its address, its core."""
    responses: tuple[tuple[int, int, int], ...] = ()
    """Response times of all requests in equal bins, finer than the diagnosis keeps them: (from ns, to ns, requests)."""
    response_ns_p50: int | None = None
    provenance: tuple[tuple[str, str], ...] = ()
    """How the recording was made: maker, versions, losses, clock offsets, as label and value."""

    @property
    def flaws(self) -> tuple[str, ...]:
        """What was lost, and what else its makers noted."""
        lost = [f"{label}: {said}" for label, said in self.provenance if label == LOST and said != NOTHING]
        return (*lost, *(said for label, said in self.provenance if label == NOTE))

    @cached_property
    def _lines(self) -> dict[tuple[str, str], dict[int | None, int]]:
        """Place and metric → the episode of each axis → the line: the first of an episode, the last of the whole."""
        found: dict[tuple[str, str], dict[int | None, int]] = {}
        for index, line in enumerate(self.lines):
            episode = self.axes[line.axis].episode
            known = found.setdefault((line.place, line.metric), {})
            if episode is None or episode not in known:
                known[episode] = index
        return found

    @cached_property
    def _metrics(self) -> dict[str, dict[str, None]]:
        found: dict[str, dict[str, None]] = {}
        for line in self.lines:
            found.setdefault(line.place, {})[line.metric] = None
        return found

    @cached_property
    def _places(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for server, place in self.means:
            if place != server:
                found.setdefault(server, []).append(place)
        return found

    def line(self, place: str, metric: str, episode: int | None = None) -> int | None:
        """Index of a line, the finest that covers the episode; None if there is none."""
        known = self._lines.get((place, metric), {})
        return known.get(episode, known.get(None))

    def metrics(self, place: str) -> tuple[str, ...]:
        """Metrics that the place has, each once, in the order of the lines."""
        return tuple(self._metrics.get(place, ()))

    def places(self, server: str) -> tuple[str, ...]:
        """Other places whose samples speak for a server."""
        return tuple(self._places.get(server, ()))
