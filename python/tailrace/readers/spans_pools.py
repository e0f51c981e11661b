"""Waits for a connection of a pool: the work of no server, and part of the visits that wait.

How many wait at the same time is `pool_waiting` of the record, at moments that are `STEP` apart. It is known where some
wait, and for a second around that; elsewhere it is 0, and not written down.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tailrace.readers.sampled import Sampled
from tailrace.readers.source import Found, Source
from tailrace.readers.spans_columns import CLIENT, Linked
from tailrace.units import MILLISECOND, SECOND

if TYPE_CHECKING:
    from tailrace._core import FoundVisits

STEP = 50 * MILLISECOND
_AROUND = 20
"""Steps without a wait that are written down before and after one."""
_SHORT = 5 * MILLISECOND
"""A pool that has a connection gives it in less."""
_LONGEST = 3600 * SECOND
"""A longer wait is damage, or a pool that gave no connection for so long that other evidence is clear."""
_MOST = 2_000_000
_SEEN, _NEARLY = 20, 0.9
"""A pool was seen full if some waited for it at so many steps, and nearly always as many calls were open as ever."""
Ints = NDArray[np.integer[Any]]


class Pools:
    """Waits of each service, and the calls that were open meanwhile."""

    def __init__(self) -> None:
        self.services = set[int]()
        self.count = self.longest = self.total = 0
        self._waits, self._calls = Open(), Open()

    def add(self, spans: Linked, visits: FoundVisits) -> None:
        """Add the waits of a part of the spans, whose visits these are."""
        if not spans.connections:
            return
        each = spans.columns
        waits = np.flatnonzero(each["connection"])
        took = each["end"][waits] - each["begin"][waits]
        self.services.update(np.unique(each["service"][waits]).tolist())
        self.count, self.longest = self.count + len(waits), max(self.longest, int(took.max()))
        self.total += sum(took.tolist())
        # A pool that opens a connection meanwhile is not full: the call that opens it is inside the wait.
        opens = np.zeros(len(each["kind"]), dtype=bool)
        opens[each["above"][(each["kind"] == CLIENT) & (each["above"] >= 0)]] = True
        waits = waits[(took > _SHORT) & (took <= _LONGEST) & ~opens[waits]]
        services = each["service"][waits]
        self._waits.add(services, services, each["begin"][waits], each["end"][waits])
        calls = pl.DataFrame(visits.of_callers())
        self._calls.add(*(calls[name].to_numpy() for name in ("caller", "server", "sent", "departure")))

    def samples(self, texts: Sequence[str], found: Found, source: Source) -> None:
        """Put `pool_waiting` of each service into `found`."""
        samples = Sampled()
        for (service, _), changes in sorted(self._waits.changes.items()):
            for step, level in levels(changes):
                if samples.full:
                    break
                samples.add(step * STEP, STEP, texts[service], "pool_waiting", level)
        found.lose("waits for a connection beyond the first", self._waits.left_out)
        if len(samples.time):
            samples.into(found, source, "")

    def full(self) -> dict[tuple[int, int], int]:
        """The sizes of pools that were seen full, by caller and server: where some waited, as many calls were open as
        ever at one time. Of a caller that this would be true of for several servers, the pool is unknown."""
        found: dict[int, list[tuple[int, int]]] = defaultdict(list)
        if self._calls.left_out or self._waits.left_out:
            return {}
        waits = {service: _until(changes) for (service, _), changes in self._waits.changes.items()}
        for (caller, server), changes in self._calls.changes.items():
            if caller not in waits:
                continue
            steps, waited = waits[caller]
            changed, opened = _sums(changes)
            most, so_far = int(opened.max()), np.interp(changed, steps, waited)
            at_most = float(np.diff(so_far)[opened[:-1] == most].sum())
            if waited[-1] >= _SEEN and at_most >= _NEARLY * waited[-1]:
                found[caller].append((server, most))
        return {(caller, servers[0][0]): servers[0][1] for caller, servers in found.items() if len(servers) == 1}


class Open:
    """How many waits or calls begin, less how many end, at each step: of each pair of services."""

    def __init__(self) -> None:
        self.changes: dict[tuple[int, int], Counter[int]] = defaultdict(Counter)
        self.left_out = self._held = 0

    def add(self, first: Ints, second: Ints, begin: Ints, end: Ints) -> None:
        """Only those that are open at a step are held. If there is no room for all of them, none is: a begin without
        its end would be open for ever."""
        begin, end = (-(-times.astype(np.int64) // STEP) for times in (begin, end))
        rows = end > begin
        both = np.stack([first.astype(np.int64), second.astype(np.int64)])[:, rows]
        found = [
            (change, *np.unique(np.concatenate([both, steps[None]]), axis=1, return_counts=True))
            for steps, change in ((begin[rows], 1), (end[rows], -1))
        ]
        if self._held + sum(len(counts) for _, _, counts in found) > _MOST:
            self.left_out += int(rows.sum())
            return
        for change, different, counts in found:
            for (one, other, step), count in zip(different.T.tolist(), counts.tolist(), strict=True):
                changes = self.changes[one, other]
                self._held += step not in changes
                changes[step] += change * count


def _sums(changes: Counter[int]) -> tuple[Ints, Ints]:
    """The steps at which the level changes, in their order, and the level from each on."""
    steps = sorted(changes)
    return np.array(steps), np.cumsum([changes[step] for step in steps])


def _until(changes: Counter[int]) -> tuple[Ints, Ints]:
    """The same steps, and how many steps with a wait there were until each."""
    steps, level = _sums(changes)
    return steps, np.append(0, np.cumsum(np.diff(steps) * (level[:-1] > 0)))


def levels(changes: Counter[int]) -> Iterator[tuple[int, float]]:
    """The step and the number of waits, where there are some, and around."""
    steps = sorted(changes)
    level = 0
    for step in range(steps[0] - _AROUND, steps[0]):
        yield step, 0.0
    for step, after in pairwise([*steps, steps[-1] + _AROUND]):
        level += changes[step]
        near: Sequence[int] = range(step, after)
        if level == 0 and len(near) > 2 * _AROUND:
            near = [*near[:_AROUND], *near[-_AROUND:]]
        for one in near:
            yield one, float(level)
