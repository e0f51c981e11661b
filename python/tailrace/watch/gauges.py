"""Counts what the segments of a recording hold, server by server, for a monitoring system.

```text
segment of a second ─▶ Gauges.see ─▶ counters since the start; gauges over the last minute ─▶ exposition
```

A queue counts the visits that have ended: a visit that a server still holds shows up when it ends.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tailrace.units import MILLISECOND, SECOND
from tailrace.watch.exposition import Exemplar, Family
from tailrace.watch.listing import Incident
from tailrace.watch.noticing import VLRT_NS, lost, refused

STEP_NS = 10 * MILLISECOND
"""Between two looks at a queue: a fifth of the window in which the diagnosis orders events."""
LAST_NS = 60 * SECOND
"""Gauges are over this time, so that a scraper with the usual interval of 15 s to 60 s misses no peak."""
SERVERS_MAX = 1_000
"""Each server has 48 KB of queue lengths, and its own lines at each scrape."""
OTHERS = "(other servers)"
SERVER = "tailrace.server"
"""A name that the user or the recorder gave; `server.address` would have to be an address."""
_STEPS = LAST_NS // STEP_NS


@dataclass
class Queue:
    """The queue length of the last minute, as its change in each step."""

    begin: int
    """The number of the first step, counted from the epoch."""
    change: NDArray[np.int64] = field(default_factory=lambda: np.zeros(_STEPS + 1, dtype=np.int64))

    def add(self, arrivals: NDArray[np.int64], departures: NDArray[np.int64]) -> None:
        for times, by in ((arrivals, 1), (departures, -1)):
            steps = np.clip(times // STEP_NS - self.begin, 0, _STEPS)
            self.change += by * np.bincount(steps, minlength=_STEPS + 1)

    def advance(self, now: int) -> None:
        """Let the last minute end at `now`. A clock that was set back changes nothing until it has caught up."""
        steps = now // STEP_NS - _STEPS - self.begin
        if steps <= 0:
            return
        gone = int(self.change[:steps].sum())
        kept = self.change[steps:]
        self.change = np.concatenate((kept, np.zeros(_STEPS + 1 - len(kept), dtype=np.int64)))
        self.change[0] += gone
        self.begin += steps

    def lengths(self) -> NDArray[np.int64]:
        lengths: NDArray[np.int64] = np.cumsum(self.change[:_STEPS])
        return lengths


@dataclass
class Server:
    queue: Queue
    requests: int = 0
    vlrt: int = 0
    response_ns: int = 0
    longest: deque[tuple[int, int]] = field(default_factory=deque)
    """When a segment came, and the longest response time in it."""


@dataclass
class Gauges:
    version: str
    names: Mapping[str, str] = field(default_factory=dict)
    """Place → what to call it."""
    servers: dict[str, Server] = field(default_factory=dict)
    lost: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    incidents: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By cause and origin."""
    latest: dict[tuple[str, str], Exemplar] = field(default_factory=dict)
    unexplained: int = 0
    seen_ns: int = 0

    def see(self, table: str, rows: pl.DataFrame, now: int) -> None:
        """Count the rows of a closed segment, which was seen at `now`."""
        self.seen_ns = now
        if table == "stays":
            self._stays(rows, now)
        elif table == "events":
            self._add(self.lost, lost(rows))
        elif table == "samples":
            self._add(self.refused, refused(rows))

    def incident(self, incident: Incident, now: int) -> None:
        if incident.failed is not None:
            self.unexplained += 1
            return
        key = (incident.cause or "none", incident.origin or "")
        key = key if key in self.incidents or len(self.incidents) < SERVERS_MAX else ("unknown", OTHERS)
        self.incidents[key] += 1
        traced = incident.traces[0] if incident.traces else (None, None)
        self.latest[key] = Exemplar({"tailrace.incident": incident.name}, now, *traced)

    def _add(self, counter: Counter[str], counts: Mapping[str, int]) -> None:
        for place, count in counts.items():
            counter[self._known(place, counter)] += count

    def _known(self, place: str, among: Mapping[str, object]) -> str:
        name = self.names.get(place, place)
        return name if name in among or len(among) < SERVERS_MAX else OTHERS

    def _stays(self, rows: pl.DataFrame, now: int) -> None:
        times = rows.select(pl.col("server").cast(pl.String), "sent", "arrival", "departure").drop_nulls(
            ["server", "arrival", "departure"]
        )
        for (place,), mine in times.group_by("server"):
            name = self._known(str(place), self.servers)
            server = self.servers.get(name)
            if server is None:
                server = self.servers[name] = Server(Queue(now // STEP_NS - _STEPS))
            server.queue.advance(now)
            arrivals, departures = mine["arrival"].to_numpy(), mine["departure"].to_numpy()
            server.queue.add(arrivals, departures)
            waits = departures - mine["sent"].fill_null(mine["arrival"]).to_numpy()
            server.requests += len(mine)
            server.vlrt += int((waits >= VLRT_NS).sum())
            server.response_ns += int((departures - arrivals).sum())
            server.longest.append((now, int(waits.max())))

    def families(self, now: int) -> Iterator[Family]:
        """Everything, as a monitoring system reads it."""
        rows = sorted(self.servers.items())
        queues = {}
        for name, server in rows:
            server.queue.advance(now)
            while server.longest and server.longest[0][0] < now - LAST_NS:
                server.longest.popleft()
            queues[name] = server.queue.lengths()
        by = {name: ((SERVER, name),) for name, _ in rows}
        yield Family(
            "tailrace.requests",
            "counter",
            "{request}",
            "Visits that ended.",
            [(by[n], s.requests, None) for n, s in rows],
        )
        yield Family(
            "tailrace.vlrt",
            "counter",
            "{request}",
            "Visits of 0.95 s or longer.",
            [(by[n], s.vlrt, None) for n, s in rows],
        )
        yield Family(
            "tailrace.response.time",
            "counter",
            "s",
            "Time that ended visits spent in the server. Its rate is the mean queue length.",
            [(by[n], s.response_ns / SECOND, None) for n, s in rows],
        )
        yield Family(
            "tailrace.response.max",
            "gauge",
            "s",
            "Longest visit of the last minute, from when its request was sent.",
            [(by[n], max((ns for _, ns in s.longest), default=0) / SECOND, None) for n, s in rows],
        )
        for what, of in (("max", np.max), ("mean", np.mean)):
            yield Family(
                f"tailrace.queue.length.{what}",
                "gauge",
                "{request}",
                f"Queue length of the last minute, {what} of values that are 10 ms apart.",
                [(by[n], float(of(queues[n])), None) for n, _ in rows],
            )
        yield from self._totals()

    def _totals(self) -> Iterator[Family]:
        for name, unit, what, counter in (
            ("lost_connection_attempts", "{attempt}", "Connection attempts that were lost and repeated.", self.lost),
            ("refused_connections", "{connection}", "Connections that the kernel refused.", self.refused),
        ):
            counted = [(((SERVER, place),), n, None) for place, n in sorted(counter.items())]
            yield Family(f"tailrace.{name}", "counter", unit, what, counted)
        explained = [
            ((("tailrace.cause", cause), ("tailrace.origin", origin)), n, self.latest.get((cause, origin)))
            for (cause, origin), n in sorted(self.incidents.items())
        ]
        yield Family("tailrace.incidents", "counter", "{incident}", "Incidents that were explained.", explained)
        yield Family(
            "tailrace.incidents_unexplained",
            "counter",
            "{incident}",
            "Incidents that could not be explained.",
            [((), self.unexplained, None)],
        )
        yield Family(
            "tailrace.watch.last_segment.timestamp",
            "gauge",
            "s",
            "When the watch last saw a new second of its recording, since the epoch.",
            [((), self.seen_ns / SECOND, None)],
        )
        about = (("service.name", "tailrace"), ("service.version", self.version))
        yield Family("target", "info", "", "The sender of these metrics.", [(about, 1, None)])
