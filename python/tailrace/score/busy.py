"""When each server was busier than usual, exactly: the intervals through which one stall reaches a lost packet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tailrace.dataset import Dataset
from tailrace.units import MILLISECOND

STEP_NS = 5 * MILLISECOND
JOIN_NS = 100 * MILLISECOND
"""A queue that is down for less has not recovered; and what begins this soon after something else may come from it
(the window in which a server notices that its neighbour in the call graph has stalled or let go)."""

COVERS = 0.1
"""At up to 90 % use a backlog is worked off in ten times the stall: what covers less of a busy time did not make it."""
FULL = 0.9
"""A CPU that is used this much is full: sampling jitters."""
SATURATED = 0.97
"""… and this much for most of a run, it never rests."""

Times = NDArray[np.int64]
Interval = tuple[int, int]


@dataclass(frozen=True)
class Record:
    """The tables that the truth is worked out from."""

    requests: pl.DataFrame
    visits: pl.DataFrame
    drops: pl.DataFrame
    cpu: dict[str, tuple[Times, NDArray[np.float64]]]
    """Server → end of each sampling interval, and the share of its CPUs that it used."""
    workers: dict[str, tuple[Times, NDArray[np.float64]]]
    """Likewise, and the share of its workers that were busy."""
    waiting: dict[str, tuple[Times, NDArray[np.float64]]]
    """Likewise, and how many of them waited for a connection of a pool."""
    calls: frozenset[tuple[str, str]]
    balanced: tuple[frozenset[str], ...] = ()
    """Servers over which somebody spreads calls."""
    throttled: dict[str, tuple[Times, NDArray[np.float64]]] = field(default_factory=dict)
    """As `cpu`, and the share of the time for which a quota held it back."""
    machines: tuple[frozenset[str], ...] = ()
    """Servers that share one."""

    @cached_property
    def times(self) -> Times:
        begin, end = int(self.requests["sent"].min() or 0), int(self.requests["end"].max() or 0)  # type: ignore[arg-type]
        return np.arange(begin, end + STEP_NS, STEP_NS, dtype=np.int64)

    @cached_property
    def inside(self) -> dict[str, Times]:
        """Server → visits inside at each of `times`."""
        return {
            str(name): _inside(frame["arrival"].to_numpy(), frame["departure"].to_numpy(), self.times)
            for (name,), frame in self.visits.partition_by("server", as_dict=True).items()
        }

    @cached_property
    def busy(self) -> dict[str, tuple[Interval, ...]]:
        # What is usual is usual while requests are sent: then lost packets come back for up to a minute and a half.
        sent = int(np.searchsorted(self.times, self.sending[1], "right"))
        lost = {
            str(name): frame["begin"].to_numpy()
            for (name,), frame in self.drops.partition_by("place", as_dict=True).items()
        }
        return {name: elevated(self.times, queue, sent, lost.get(name)) for name, queue in self.inside.items()}

    @cached_property
    def connected(self) -> dict[str, frozenset[str]]:
        """Server → itself, all that it leads to and all that lead to it."""
        servers = {name for call in self.calls for name in call} | set(self.inside)
        below = {name: reached(name, {a: {b for x, b in self.calls if x == a} for a in servers}) for name in servers}
        return {
            name: frozenset(below[name] | {other for other in servers if name in below[other]} | {name})
            for name in servers
        }

    @cached_property
    def used(self) -> dict[str, tuple[Times, NDArray[np.float64]]]:
        """As `cpu`, with what others that lead to a server, or to which it leads, use of the same CPUs: together they
        may fill them when none does alone. (What somebody else uses, a neighbour, is no use of its own.)"""
        found = dict(self.cpu)
        for machine in self.machines:
            for name in machine & set(self.cpu):
                times, own = self.cpu[name]
                others = (machine & self.connected.get(name, frozenset()) & set(self.cpu)) - {name}
                found[name] = times, np.sum([own, *(np.interp(times, *self.cpu[other]) for other in others)], axis=0)
        return found

    @cached_property
    def saturated(self) -> frozenset[str]:
        """Servers whose CPUs are full for most of the time in which requests are sent; of those over which calls are
        spread, all of them together: one alone may be full by how they are spread."""
        first, last = self.sending
        found = set()
        for place, (times, _) in self.cpu.items():
            used = self._together(place, times[(times > first) & (times <= last + JOIN_NS)])
            if len(used) and float(np.median(used)) >= SATURATED:
                found.add(place)
        return frozenset(found)

    @cached_property
    def exhausted(self) -> frozenset[str]:
        """Servers whose workers or connections are all in use for most of that time, though their CPUs are not full."""
        limited = (name for name in self.inside if self.is_limited(name, *self.sending))
        return frozenset(limited) - self.saturated

    @cached_property
    def sent(self) -> tuple[Times, ...]:
        """When requests were sent, in order: all, and those of each interaction."""
        each = self.requests.filter(pl.col("interaction").is_not_null()).partition_by("interaction")
        return tuple(frame["sent"].sort().to_numpy() for frame in (self.requests, *each))

    @property
    def sending(self) -> Interval:
        sent = self.requests["sent"]
        return (int(sent[0]), int(sent[-1])) if len(sent) else (0, 0)

    def works_at_full(self, server: str, begin: int, end: int) -> bool:
        """Whether most samples that end within say that its CPUs were all in use, or all that its quota leaves of
        them."""
        times, used = self.used.get(server, (np.empty(0, dtype=np.int64), np.empty(0)))
        if server in self.throttled:
            used = used + np.interp(times, *self.throttled[server])
        inside = (times > begin) & (times <= end + JOIN_NS)
        return bool(inside.any()) and float(np.median(used[inside])) >= FULL

    def is_limited(self, server: str, begin: int, end: int) -> bool:
        """Whether most samples say that all of its workers were busy, or that some waited for a pool."""
        return any(
            len(inside := values[(times > begin) & (times <= end + JOIN_NS)]) > 0 and float(np.median(inside)) >= 1.0
            for times, values in (of[server] for of in (self.workers, self.waiting) if server in of)
        )

    def preferred(self, server: str, begin: int, end: int) -> bool:
        """Whether it got what others should have: for a share of this time that matters (`COVERS`) its CPU was full and
        it answered more than usual, while all over which its callers spread their calls had CPU to spare together:
        evenly spread, none would have been full."""
        if not self._spread_with(server):
            return False
        times, used = self.used[server]
        inside = (times > begin) & (times <= end + JOIN_NS)
        full = times[inside & (used >= FULL)]
        if len(full) < max(COVERS * int(inside.sum()), 1):
            return False
        departures = np.sort(self.visits.filter(pl.col("server") == server)["departure"].to_numpy())
        step = int(np.median(np.diff(times)))
        answered = np.searchsorted(departures, full) - np.searchsorted(departures, full - step)
        usual = np.diff(np.searchsorted(departures, self.sending))[0] / max(self.sending[1] - self.sending[0], 1)
        return bool(answered.mean() / step > usual and self._together(server, full).mean() < FULL)

    def _spread_with(self, server: str) -> set[str]:
        """The other servers over which its callers spread their calls, as far as their CPUs were sampled."""
        groups = (group for group in self.balanced if server in group and server in self.cpu)
        return {name for group in groups for name in group if name in self.cpu} - {server}

    def _together(self, server: str, times: Times) -> NDArray[np.float64]:
        """What it and those used of their CPUs at these times."""
        used = [np.interp(times, *self.used[name]) for name in {server} | self._spread_with(server)]
        together: NDArray[np.float64] = np.mean(used, axis=0)
        return together

    def below(self, name: str) -> set[str]:
        return reached(name, {a: {b for x, b in self.calls if x == a} for a, _ in self.calls}) - {name}


def reached(name: str, callees: Mapping[str, Iterable[str]]) -> set[str]:
    """A server or tier, and all that it leads to."""
    found = [name]
    for one in found:  # grows while it is walked
        found += [callee for callee in callees.get(one, ()) if callee not in found]
    return set(found)


def record(run: Dataset) -> Record:
    text = pl.col("server").cast(pl.String)
    drops = run.events().filter(pl.col("kind").cast(pl.String).is_in(["drop", "data_drop"]))
    visits = run.visits().with_columns(text, pl.col("caller").cast(pl.String)).collect()
    return Record(
        run.requests().with_columns(text).collect().sort("sent"),
        visits,
        drops.select(pl.col("place").cast(pl.String), "begin", "end").collect().sort("begin"),
        _sampled(run, "cpu_busy", {}),
        _sampled(run, "workers_busy", {s.name: s.workers for s in run.topology.servers if s.workers}),
        _sampled(run, "pool_waiting", {}),
        frozenset((call.caller, call.callee) for call in run.topology.calls),
        tuple({frozenset(balancer.candidates) for balancer in run.topology.balancers}),
        _sampled(run, "cpu_throttled", {}),
        tuple(frozenset(s.name for s in run.topology.servers_on(node.name)) for node in run.topology.nodes),
    )


def _sampled(run: Dataset, metric: str, limits: dict[str, int]) -> dict[str, tuple[Times, NDArray[np.float64]]]:
    rows = run.samples().filter(pl.col("metric").cast(pl.String) == metric)
    groups = rows.select(pl.col("place").cast(pl.String), "time", "value").collect().partition_by("place", as_dict=True)
    return {
        str(place): (frame["time"].to_numpy(), frame["value"].to_numpy() / limits.get(str(place), 1))
        for (place,), frame in groups.items()
        if not limits or place in limits
    }


def elevated(times: Times, queue: Times, usual: int | None = None, lost: Times | None = None) -> tuple[Interval, ...]:
    """Where a queue is above twice its median, or half of its highest where it is that long all the time, or loses
    packets: a server that stands still accepts nobody, and its backlog may be short. The median is that of the first
    `usual` values."""
    limit = min(2 * float(np.median(queue[:usual])) + 2, float(queue.max(initial=0)) / 2)
    above = queue > limit
    if lost is not None:
        above[np.clip(np.searchsorted(times, lost), 0, len(times) - 1)] = True
    edges = np.flatnonzero(np.diff(np.concatenate(([0], above.astype(np.int8), [0]))))
    found: list[Interval] = []
    for start, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        begin, end = int(times[start]) - STEP_NS, int(times[stop - 1]) + STEP_NS
        if found and begin - found[-1][1] <= JOIN_NS:
            found[-1] = found[-1][0], end
        else:
            found.append((begin, end))
    return tuple(found)


def _inside(arrivals: Times, departures: Times, times: Times) -> Times:
    return np.searchsorted(np.sort(arrivals), times, "right") - np.searchsorted(np.sort(departures), times, "right")
