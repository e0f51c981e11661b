"""Small synthetic n-tier systems: a discrete-event model with queues, overflows, drops and repetitions.

    clients ──► web ──► app ──► db        one CPU each, first come first served, at a speed that `Slow` can change
                 workers + backlog + 1 requests fit into a server; the next connection attempt is dropped

It is independent of Tailrace's simulator. It exists so that a test can state "app stands still from 4.0 to 4.5 s" and
get the visits, requests and CPU samples that follow. Everything else has a default.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import polars as pl

from builders import T0, events
from tailrace import dataset
from tailrace.diagnosis import Diagnosis
from tailrace.topology import Balancer, Call, Node, Server, Topology

S = 1_000_000_000
MS = 1_000_000
SYN = (1 * S, 2 * S, 3 * S, 4 * S, 5 * S, 7 * S, 11 * S)


@dataclass(frozen=True)
class Slow:
    """From `begin` to `end` (seconds) the server works at `speed` (1 = full) and its group uses `cpu` of a core while
    it works (None: as usual), or at any time if `always`."""

    server: str
    begin: float
    end: float
    speed: float = 0.0
    cpu: float | None = 0.0
    always: bool = False


@dataclass(frozen=True)
class Tier:
    name: str
    demand_ms: float
    callees: tuple[str, ...] = ()
    workers: int | None = None
    backlog: int | None = None
    pool: int | None = None
    """Calls to each callee at once."""
    delay_ms: float = 0.0
    """Time that takes no CPU: a disk, a network, another service."""
    inflation: float = 0.0
    """Demand grows by this share per request inside: concurrency overhead."""

    @property
    def room(self) -> int | None:
        return None if self.workers is None or self.backlog is None else self.workers + self.backlog + 1


SYNC = (Tier("web", 0.2, ("app",), 60, 40), Tier("app", 1.2, ("db",), 80, 128), Tier("db", 0.3))
NX1 = (Tier("web", 0.2, ("app",)), Tier("app", 1.2, ("db",), 60, 40), Tier("db", 0.3))
NX2 = (Tier("web", 0.2, ("app",)), Tier("app", 1.0, ("db",)), Tier("db", 0.9, (), 60, 40))
NX3 = (Tier("web", 0.2, ("app",)), Tier("app", 1.2, ("db",)), Tier("db", 0.3))


@dataclass
class Memory:
    """A dataset in memory, with the interface `tailrace.diagnosis.view.Tables`."""

    topology: Topology
    tables: dict[str, pl.DataFrame] = field(default_factory=dict)
    connections: dataset.Connections = field(default_factory=dataset.Connections)
    inputs: tuple[dataset.Input, ...] = ()

    def requests(self) -> pl.LazyFrame:
        return self._table(dataset.REQUESTS)

    def visits(self) -> pl.LazyFrame:
        return self._table(dataset.VISITS)

    def samples(self) -> pl.LazyFrame:
        return self._table(dataset.SAMPLES)

    def events(self) -> pl.LazyFrame:
        return self._table(dataset.EVENTS)

    def _table(self, table: dataset.Table) -> pl.LazyFrame:
        frame = self.tables.get(table.name, pl.DataFrame(schema=table.schema))
        return dataset.schema.conform(frame.lazy(), table)

    def without(self, *tables: str) -> Memory:
        return replace(self, tables={name: frame for name, frame in self.tables.items() if name not in tables})

    def only_places(self, *places: str) -> Memory:
        kept = self.tables["samples"].filter(pl.col("place").cast(pl.String).is_in(places))
        return replace(self, tables={**self.tables, "samples": kept})

    def sample(
        self, place: str, metric: str, usual: float, *steps: tuple[float, float, float], step_ms: int = 50
    ) -> Memory:
        """Add a metric: `usual`, but `value` from `begin` to `end` (seconds) for each step."""
        ends = np.arange(T0 + step_ms * MS, self.end() + 1, step_ms * MS, dtype=np.int64)
        values = np.full(len(ends), float(usual))
        for begin, end, value in steps:
            share = np.clip(np.minimum(ends, T0 + end * S) - np.maximum(ends - step_ms * MS, T0 + begin * S), 0, None)
            values += (value - usual) * share / (step_ms * MS)
        rows = _series(place, metric, ends, values, step_ms)
        old = self.tables.get("samples")
        joined = rows if old is None else pl.concat([old, rows], how="diagonal")
        return replace(self, tables={**self.tables, "samples": joined.sort("time")})

    def ramp(self, place: str, metric: str, *points: tuple[float, float]) -> Memory:
        """Add a metric that is linear from point to point (seconds, value)."""
        ends = np.arange(T0 + 50 * MS, self.end() + 1, 50 * MS, dtype=np.int64)
        values = np.interp((ends - T0) / S, [p[0] for p in points], [p[1] for p in points])
        old = self.tables.get("samples")
        rows = _series(place, metric, ends, values, 50)
        joined = rows if old is None else pl.concat([old, rows], how="diagonal")
        return replace(self, tables={**self.tables, "samples": joined.sort("time")})

    def event(self, place: str, kind: str, begin: float, end: float) -> Memory:
        row = events({"place": place, "kind": kind, "begin": at(begin), "end": at(end)})
        old = self.tables.get("events")
        joined = row if old is None else pl.concat([old, row], how="diagonal").sort("begin")
        return replace(self, tables={**self.tables, "events": joined})

    def end(self) -> int:
        return int(self.tables["requests"]["end"].max())  # type: ignore[arg-type]


def at(seconds: float) -> int:
    return T0 + round(seconds * S)


def _series(place: str, metric: str, ends: np.ndarray, values: np.ndarray, step_ms: int) -> pl.DataFrame:
    frame = pl.DataFrame({"time": ends, "value": values}).with_columns(
        interval_ns=pl.lit(step_ms * MS), place=pl.lit(place), metric=pl.lit(metric)
    )
    return frame.select("time", "interval_ns", "place", "metric", "value")


@dataclass
class _Station:
    """A running tier."""

    tier: Tier
    slow: tuple[Slow, ...]
    free_at: int = 0
    inside: int = 0
    serving: int = 0
    waiting: deque[Callable[[int], None]] = field(default_factory=deque)
    open_calls: dict[str, int] = field(default_factory=dict)
    pool_waiting: dict[str, deque[Callable[[int], None]]] = field(default_factory=dict)
    work: list[tuple[int, int]] = field(default_factory=list)

    def serve(self, now: int, demand: float) -> int:
        """When work that is added now is done: it waits for the rest and runs at the speed of the time."""
        begin = time = max(now, self.free_at)
        left = demand * (1 + self.tier.inflation * self.inside)
        while True:
            speed, until = self.speed(time)
            done = time + left / speed if speed > 0 else float("inf")
            if done <= until:
                break
            left -= (until - time) * speed
            time = int(until)
        self.free_at = int(done)
        self.work.append((begin, self.free_at))
        return self.free_at

    def speed(self, time: int) -> tuple[float, float]:
        """The current speed, and until when it holds."""
        later = float("inf")
        for slow in self.slow:
            if at(slow.begin) <= time < at(slow.end):
                return slow.speed, at(slow.end)
            if time < at(slow.begin):
                later = min(later, at(slow.begin))
        return 1.0, later


class _Run:
    def __init__(self, tiers: tuple[Tier, ...], slow: tuple[Slow, ...], schedule: tuple[int, ...], seed: int) -> None:
        self.random = random.Random(seed)
        self.stations = {t.name: _Station(t, tuple(s for s in slow if s.server == t.name)) for t in tiers}
        self.heap: list[tuple[int, int, Callable[[int], None]]] = []
        self.ticket = itertools.count()
        self.visit_ids = itertools.count(1)
        self.schedule = schedule
        self.visits: list[tuple[object, ...]] = []
        self.requests: list[tuple[object, ...]] = []
        self.choose: Callable[[str, tuple[str, ...], int], str] = lambda caller, callees, now: callees[
            next(self.ticket) % len(callees)
        ]

    def later(self, time: int, what: Callable[[int], None]) -> None:
        heapq.heappush(self.heap, (time, next(self.ticket), what))

    def run(self) -> None:
        while self.heap:
            time, _, what = heapq.heappop(self.heap)
            what(time)

    def client(self, sent: int, request: int, entry: str) -> None:
        def answered(now: int, connected: int, drops: int) -> None:
            self.requests.append((request, entry, sent, connected, now, drops))

        self.connect(sent, entry, "client", request, None, sent, 0, answered)

    def connect(
        self,
        now: int,
        name: str,
        caller: str,
        request: int,
        parent: int | None,
        sent: int,
        drops: int,
        answered: Callable[[int, int, int], None],
    ) -> None:
        station = self.stations[name]
        room = station.tier.room
        if room is not None and station.inside >= room:
            if drops < len(self.schedule):
                again = sent + self.schedule[drops] + self.random.randrange(30 * MS)
                self.later(again, lambda t: self.connect(t, name, caller, request, parent, sent, drops + 1, answered))
            return
        station.inside += 1
        visit = next(self.visit_ids)
        arrival = now

        def start(time: int) -> None:
            station.serving += 1
            half = station.tier.demand_ms * MS / 2 * self.random.expovariate(1.0)
            self.later(
                station.serve(time, half), lambda t: self.call(t, name, request, visit, lambda u: finish(u, half))
            )

        def finish(time: int, half: float) -> None:
            self.later(station.serve(time, half), depart)

        def depart(time: int) -> None:
            station.inside -= 1
            station.serving -= 1
            self.visits.append((visit, parent, request, name, caller, sent, arrival, time, drops))
            if station.waiting:
                station.waiting.popleft()(time)
            answered(time, arrival, drops)

        if station.tier.workers is not None and station.serving >= station.tier.workers:
            station.waiting.append(start)
        else:
            start(now)

    def call(self, now: int, name: str, request: int, visit: int, then: Callable[[int], None]) -> None:
        station = self.stations[name]
        if not station.tier.callees:
            self.later(now + round(station.tier.delay_ms * MS), then)
            return
        callee = self.choose(name, station.tier.callees, now)

        def go(time: int) -> None:
            station.open_calls[callee] = station.open_calls.get(callee, 0) + 1
            self.connect(time, callee, name, request, visit, time, 0, lambda t, _c, _d: back(t))

        def back(time: int) -> None:
            station.open_calls[callee] -= 1
            waiting = station.pool_waiting.get(callee)
            if waiting:
                waiting.popleft()(time)
            then(time)

        if station.tier.pool is not None and station.open_calls.get(callee, 0) >= station.tier.pool:
            station.pool_waiting.setdefault(callee, deque()).append(go)
        else:
            go(now)


def system(
    *slow: Slow,
    tiers: tuple[Tier, ...] = SYNC,
    seconds: float = 12.0,
    rate: float = 500.0,
    bursts: tuple[tuple[float, float, float], ...] = (),
    schedule: tuple[int, ...] = SYN,
    choose: Callable[[_Run], Callable[[str, tuple[str, ...], int], str]] | None = None,
    seed: int = 1,
) -> Memory:
    """Run the system: visits, requests, and CPU samples of every tier each 50 ms."""
    run = _Run(tiers, slow, schedule, seed)
    if choose is not None:
        run.choose = choose(run)
    time, request = 0.0, 0
    while time < seconds:
        now = next((r for b, e, r in bursts if b <= time < e), rate)
        time += run.random.expovariate(now)
        # A gap drawn at the usual rate must not jump over a burst.
        skipped = next((b for b, _, r in bursts if time - 1 / rate * 8 < b <= time and now == rate), None)
        if skipped is not None and time - skipped > 1 / rate:
            time = skipped
        request += 1
        run.later(at(time), lambda t, r=request: run.client(t, r, tiers[0].name))
    run.run()
    memory = Memory(_topology(tiers), _tables(run))
    for name, station in run.stations.items():
        memory = _cpu(memory, name, station)
    return memory


def _topology(tiers: tuple[Tier, ...]) -> Topology:
    names = [t.name for t in tiers]
    balanced = [(t.name, t.callees) for t in tiers if len(t.callees) > 1]
    return Topology(
        nodes=tuple(Node(name=f"{name}-node") for name in names),
        servers=tuple(Server(name=name, node=f"{name}-node") for name in names),
        calls=tuple(Call(caller=t.name, callee=c) for t in tiers for c in t.callees),
        balancers=tuple(Balancer(name=f"{n}-balancer", server=n, candidates=c) for n, c in balanced),
    )


def _tables(run: _Run) -> dict[str, pl.DataFrame]:
    visits = pl.DataFrame(
        run.visits,
        schema=["visit", "parent", "request", "server", "caller", "sent", "arrival", "departure", "drops"],
        orient="row",
        infer_schema_length=None,
    ).with_columns(status=pl.lit("ok"), data_drops=pl.lit(0))
    requests = pl.DataFrame(
        run.requests, schema=["request", "server", "sent", "connected", "end", "drops"], orient="row"
    ).with_columns(status=pl.lit("ok"), data_drops=pl.lit(0))
    return {"visits": visits.sort("departure"), "requests": requests.sort("end")}


def _cpu(memory: Memory, name: str, station: _Station) -> Memory:
    """CPU use in 50 ms steps: busy time, at what the group uses while slowed."""
    end = memory.end()
    fine = np.arange(T0, end + 1, 5 * MS, dtype=np.int64)
    work = np.array(station.work, dtype=np.int64).reshape(-1, 2)
    done = np.interp(fine, *_cumulative(work)) if len(work) else np.zeros(len(fine))
    busy = np.diff(done) / (5 * MS)
    for slow in station.slow:
        inside = (fine[:-1] >= at(slow.begin)) & (fine[:-1] < at(slow.end))
        if slow.cpu is not None:
            busy[inside] = slow.cpu if slow.always else slow.cpu * np.minimum(busy[inside], 1)
    steps = len(busy) // 10
    values = busy[: steps * 10].reshape(steps, 10).mean(axis=1)
    rows = _series(name, "cpu_busy", fine[10 : steps * 10 + 1 : 10], values, 50)
    old = memory.tables.get("samples")
    joined = rows if old is None else pl.concat([old, rows], how="diagonal")
    return replace(memory, tables={**memory.tables, "samples": joined.sort("time")})


def _cumulative(work: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = work[np.argsort(work[:, 0])]
    times = order.ravel()
    lengths = np.zeros(len(times))
    lengths[1::2] = order[:, 1] - order[:, 0]
    return np.maximum.accumulate(times), np.cumsum(lengths)


@cache
def starved() -> Memory:
    """app gets a fifth of its core, 4.0 to 4.8 s."""
    return system(Slow("app", 4.0, 4.8, speed=0.2, cpu=0.2))


def cause(diagnosis: Diagnosis) -> str:
    """For the episode with the most VLRT requests."""
    return max(diagnosis.episodes, key=lambda e: e.vlrt).cause
