"""An extract holds the account around one episode as sums and as columns. It shows what became of the capacity of each
server, and its queue in the recording and in the replay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.constants import MOSTLY, STEP_NS
from tailrace.diagnosis.finding import UNKNOWN
from tailrace.diagnosis.judged import DONE, IDLE, UNACCOUNTED, Columns, Lost, Sheet
from tailrace.diagnosis.ledger.steps import Shares
from tailrace.diagnosis.queues import Times


def half_ns(lasted: Times) -> float:
    """Return a length: those that last longer make up half of the sum of all."""
    ordered = np.sort(lasted)
    sums = np.cumsum(ordered)
    return float(ordered[np.searchsorted(sums, sums[-1] * MOSTLY)]) if len(ordered) else 0.0


@dataclass(frozen=True)
class ServerExtract:
    """It describes one server. Columns have a value for each step, or for each visit that arrived."""

    cores: float
    taken: Mapping[str, Shares]
    """This is the share of its capacity that each cause took."""
    busy: Shares
    """This is the share of its cores at work."""
    recorded: Shares
    """This is how many visits are inside in the middle of each step."""
    replayed: Shares
    arrived: NDArray[np.int32]
    """For each visit, this is the step in which it arrived; the visits are in the order of their arrival."""
    own_ns: Times
    """For each visit, this is the time in which it was inside and had no call open."""
    calm_ns: float
    """This is the median of the same time of the visits that arrived in calm time."""
    calm_half_ns: float
    """Of these, those that stayed for longer than this make up half of the own queue."""

    def own(self, steps: int) -> tuple[float, float, float]:
        """Return the mean own queue in the first steps. Also return how many times as long as usual half of the visits
        stayed, and those that make up half of that queue."""
        took = self.own_ns[: int(np.searchsorted(self.arrived, steps))]
        if not len(took):
            return 0.0, 0.0, 0.0
        typical = float(np.median(took)) / max(self.calm_ns, 1.0)
        return float(took.sum()) / (steps * STEP_NS), typical, half_ns(took) / max(self.calm_half_ns, 1.0)


@dataclass(frozen=True)
class Extract:
    """`begins` are the begins of its steps. It has at least one."""

    begins: Times
    depth: Mapping[str, int]
    """It holds the distance of each server from the clients."""
    of: Mapping[str, ServerExtract]

    @property
    def servers(self) -> tuple[str, ...]:
        return tuple(self.of)

    def unlike(self, low: float, high: float) -> tuple[str, ...]:
        """Return the servers with a mean queue in the replay of less than `low` times or more than `high` times the
        recorded one. The most different server comes first. Queues that differ by less than one visit are the same."""
        found = []
        for server, its in self.of.items():
            recorded, replayed = float(its.recorded.mean()), float(its.replayed.mean())
            apart = abs(replayed - recorded)
            if apart >= 1.0 and not low * recorded <= replayed <= high * recorded:
                found.append((apart, server))
        return tuple(server for _, server in sorted(found, key=lambda one: -one[0]))

    def lost_most(self) -> str | None:
        """Return the server that lost the most capacity, or None where no server lost any."""
        lost = {server: sum(float(share.sum()) for share in its.taken.values()) for server, its in self.of.items()}
        most = max(lost, key=lost.__getitem__, default=None)
        return most if most is not None and lost[most] > 0.0 else None

    def is_accounted(self, server: str) -> bool:
        """Return whether recorded causes took most of what this server lacked."""
        taken = {} if server not in self.of else self.of[server].taken
        lacked = {cause: float(share.sum()) for cause, share in taken.items()}
        return lacked.get(UNKNOWN, 0.0) < MOSTLY * sum(lacked.values())

    def took(self, cause: str, server: str, least: float) -> tuple[int, int, int | None, int | None]:
        """Return the CPU time that a cause took of a server and the CPU time that the server lacked, in nanoseconds.
        Also return when it began and ended to take at least the share `least` of the server; None if it never did."""
        its = self.of.get(server)
        if its is None or cause not in its.taken:
            return 0, 0, None, None
        share, unit = its.taken[cause], its.cores * STEP_NS
        lacked = round(unit * float(sum(its.taken.values(), np.zeros(len(self.begins))).sum()))
        acts = np.flatnonzero(share >= least)
        span = (int(self.begins[acts[0]]), int(self.begins[acts[-1]]) + STEP_NS) if len(acts) else (None, None)
        return round(unit * float(share.sum())), lacked, *span

    def narrowest(self, until: int | None, slowed: float = 1.0 / MOSTLY, dropper: str | None = None) -> str | None:
        """Return the server furthest from the clients of those in which half of the visits stayed for `slowed` times as
        long as in calm time, so that most of their time is unusual. Its own queue was at least a quarter as long as the
        longest one. For the one that dropped packets, it is enough that its queue was the longest, and that visits that
        stayed for so long made up half of it. Visits that arrived after `until` (nanoseconds since the Unix epoch) do
        not count."""
        steps = len(self.begins) if until is None else max(int(np.searchsorted(self.begins, until, "right")), 1)
        own = {name: its.own(steps) for name, its in self.of.items()}
        longest = max((queue for queue, *_ in own.values()), default=0.0)
        found = [name for name, (queue, slower, _) in own.items() if queue * 4 >= longest > 0 and slower >= slowed]
        if found and dropper in own and own[dropper][0] == longest and own[dropper][2] >= slowed:
            found.append(dropper)
        return max(found, key=lambda name: self.depth[name], default=None)

    def sheet(self, server: str, moments: int) -> Sheet:
        """Return the sums of a server, and at most `moments` moments of its columns."""
        shares, cores = self._shares(server), self.of[server].cores
        capacity = round(cores * STEP_NS * len(self.begins))
        sums = {name: round(cores * STEP_NS * float(share.sum())) for name, share in shares.items()}
        lost = tuple(Lost(name, ns) for name, ns in sums.items() if name not in (DONE, IDLE, UNACCOUNTED))
        left = capacity - sum(one.lost_ns for one in lost) - sums[UNACCOUNTED]
        done = min(sums[DONE], left)
        columns = self._columns(server, shares, moments)
        end = int(self.begins[-1]) + STEP_NS
        return Sheet(server, columns.begin, end, capacity, done, left - done, lost, sums[UNACCOUNTED], columns)

    def _shares(self, server: str) -> dict[str, Shares]:
        """Return the shares of the capacity in each step. They add up to 1."""
        its = self.of[server]
        lines = dict(its.taken)
        unaccounted = lines.pop(UNKNOWN, np.zeros(len(self.begins)))
        taken = {cause: share for cause, share in lines.items() if share.any()}
        left = np.clip(1.0 - np.sum([unaccounted, *taken.values()], axis=0), 0.0, 1.0)
        done = left * its.busy
        return {DONE: done, **taken, UNACCOUNTED: unaccounted, IDLE: left - done}

    def _columns(self, server: str, shares: dict[str, Shares], moments: int) -> Columns:
        every = max(-(-len(self.begins) // max(moments, 1)), 1)
        its, means = self.of[server], {name: _means(share, every) for name, share in shares.items()}
        begin = int(self.begins[0])
        return Columns(begin, every * STEP_NS, means, _means(its.recorded, every), _means(its.replayed, every))


def _means(values: Shares, every: int) -> NDArray[np.float64]:
    """Return the mean of each `every` values. The last mean covers the values that are left."""
    bounds = np.arange(0, len(values), every)
    counts = np.diff(np.append(bounds, len(values)))
    means: NDArray[np.float64] = np.add.reduceat(values, bounds) / counts
    return means
