"""The content of the report as plain values, between gathering from a Dataset and rendering.

The values are small (a few numbers for each window), so a page can be rendered, and tested, without a Dataset.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.int64]
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Axis:
    """The times of some lines: the middle of each window or sampling interval, in ns since the Unix epoch.

    `episode` is the number of the episode that a fine axis covers; None for the whole recording.
    `step_ns` is the usual distance between two times: the width of a column.
    """

    times: Times
    step_ns: int
    episode: int | None = None


@dataclass(frozen=True)
class Line:
    """One metric of one place on an axis. NaN means: not known.

    The metrics are those of samples.parquet, and those of the windows: `vlrt`, `drops`, `queue_length`, `arrivals`.
    """

    axis: int
    place: str
    metric: str
    values: Values


@dataclass(frozen=True)
class Span:
    """An event with a duration, as in events.parquet."""

    place: str
    kind: str
    begin: int
    end: int
    detail: str | None = None


LOST, NOTHING, NOTE = "Lost while recording or reading", "nothing", "Note of the reader"
"""Labels of the parts of the provenance that may make the numbers of a recording wrong."""


@dataclass(frozen=True)
class Recording:
    """The part of a run that the report shows."""

    begin: int
    end: int
    window_ns: int
    servers: tuple[str, ...]
    """In the order in which a request visits them, the entry first."""
    axes: tuple[Axis, ...]
    lines: tuple[Line, ...]
    spans: tuple[Span, ...] = ()
    means: tuple[tuple[str, str], ...] = ()
    """(server, place) where samples of another place describe a server: its node, its address, its core."""
    calls: tuple[tuple[str, str], ...] = ()
    """Callers and the servers that they call, each pair once."""
    traces: Mapping[tuple[int, int], str] = field(default_factory=dict)
    """When a VLRT was sent and ended → the id of its trace."""
    responses: tuple[tuple[int, int, int], ...] = ()
    """Response times of all requests in equal bins, finer than those of the diagnosis: (from ns, to ns, requests)."""
    response_ns_p50: int | None = None
    provenance: tuple[tuple[str, str], ...] = ()
    """How the recording was made, as labels and values: maker, versions, losses, clock offsets."""

    @property
    def flaws(self) -> tuple[str, ...]:
        """The losses, and the notes of the makers."""
        lost = [f"{label}: {said}" for label, said in self.provenance if label == LOST and said != NOTHING]
        return (*lost, *(said for label, said in self.provenance if label == NOTE))

    @cached_property
    def _lines(self) -> dict[tuple[str, str], dict[int | None, int]]:
        """Place and metric → the episode of the axis → the line. For an episode it is the first such line, for the
        whole recording the last."""
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

    @cached_property
    def order(self) -> dict[str, int]:
        """Place → its number: first the servers, then other places in the order of the lines."""
        places = dict.fromkeys((*self.servers, *(line.place for line in self.lines)))
        return {place: number for number, place in enumerate(places)}

    @cached_property
    def _beside(self) -> dict[str, list[str]]:
        """Server → those that it calls, and those that call it."""
        found: dict[str, list[str]] = {}
        for caller, server in self.calls:
            found.setdefault(caller, []).append(server)
            found.setdefault(server, []).append(caller)
        return found

    def away(self, servers: Iterable[str]) -> dict[str, int]:
        """Server → the number of calls between it and the nearest of `servers`, in either direction; those that no
        call leads to are not there."""
        found = dict.fromkeys(servers, 0)
        waiting = deque(found)
        while waiting:
            server = waiting.popleft()
            for other in self._beside.get(server, ()):
                if other not in found:
                    found[other] = found[server] + 1
                    waiting.append(other)
        return found

    @cached_property
    def _having(self) -> dict[str, tuple[str, ...]]:
        found: dict[str, dict[str, None]] = {}
        for line in self.lines:
            found.setdefault(line.metric, {})[line.place] = None
        return {metric: tuple(sorted(places, key=self.order.__getitem__)) for metric, places in found.items()}

    def having(self, metric: str) -> tuple[str, ...]:
        """The places that have the metric: first the servers, in their order."""
        return self._having.get(metric, ())

    def line(self, place: str, metric: str, episode: int | None = None) -> int | None:
        """Index of the finest line that covers the episode; None if there is no line."""
        known = self._lines.get((place, metric), {})
        return known.get(episode, known.get(None))

    def metrics(self, place: str) -> tuple[str, ...]:
        """The metrics of the place, each once, in the order of the lines."""
        return tuple(self._metrics.get(place, ()))

    def places(self, server: str) -> tuple[str, ...]:
        """Other places whose samples describe the server."""
        return tuple(self._places.get(server, ()))
