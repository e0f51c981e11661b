"""This module separates servers that stalled from servers that only waited for them.

A server that waits for one behind it neither works nor answers. Its own queue still fills if calls hold all its workers
or connections: the requests that wait for a worker or connection do not wait for a server behind. A server that is
stopped itself has hardly a call open, because the servers behind it answer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from tailrace.diagnosis.constants import FINE_NS, LEAST_LIMIT, MANY, WINDOW_NS
from tailrace.diagnosis.queues import Rise, Stays, Times, grid, held_from, levels
from tailrace.diagnosis.series import TAKEN
from tailrace.diagnosis.spans import length, spans
from tailrace.diagnosis.view import View
from tailrace.diagnosis.vlrt import Slow
from tailrace.units import SECOND

T = TypeVar("T")

COLLAPSED = 0.7
"""A server with a queue answers at its full speed, which is faster than usual. If it answers less than 70 % of the
usual, it was held up. At 20 answers a step, chance alone goes this low in one step of eleven, so several steps are
needed."""


@dataclass(frozen=True)
class Level:
    """It describes the length of a queue in calm time."""

    typical: float
    high: float


@dataclass(frozen=True)
class Usual:
    """It describes what is usual in calm time."""

    queues: Mapping[str, Level]
    """It maps each server to the level of its own queue."""
    behind: Mapping[str, Level]
    """It shows for each caller how many requests are inside the servers behind it."""
    answered: Mapping[str, float]
    """It shows for each caller how many of its calls the servers behind it answer per second."""
    most: Mapping[str, int]
    """It shows how many calls a caller can have open at once. This is the size of all its pools together, or the number
    of its workers if they are fewer and calls hold them. If the size of a pool is not known, it is the most calls seen
    at any time."""
    sent: Mapping[str, float]
    """It shows how many requests are sent to a server per second. A lost request counts once."""


class _Asked(dict[str, T]):
    """A value for each server, which is computed when it is first asked for: of ten thousand servers, few are near a
    very slow request."""

    def __init__(self, value: Callable[[str], T]) -> None:
        super().__init__()
        self._value = value

    def __missing__(self, server: str) -> T:
        self[server] = self._value(server)
        return self[server]


def usual(view: View, slow: Slow) -> Usual:
    calm = grid(slow.calm, max(view.window_ns // 5, FINE_NS))
    return Usual(
        _Asked(lambda server: Level(*levels(view.own_queue(server, calm)))),
        _Asked(lambda caller: Level(*levels(_behind(view, caller, calm)))),
        _Asked(lambda of: sum(per_second(one.departures, slow) for one in _calls(view, of).values())),
        _Asked(lambda caller: _most(view, caller)),
        _Asked(lambda to: sum(per_second(one.arrivals, slow) for one in sent_to(view, to))),
    )


def sent_to(view: View, server: str) -> tuple[Stays, ...]:
    """Return the calls of each server that calls it, and the requests that clients send to it directly. If it has
    neither, return all requests of the clients that may come to it."""
    calls = tuple(view.calls[caller][server] for caller in view.callers_of(server))
    direct = view.direct.get(server)
    return calls + ((direct,) if direct is not None else ()) or (view.asked(server),)


def _most(view: View, caller: str) -> int:
    sizes: dict[str, int] = {}
    for pool in view.topology.pools_of(caller):
        for callee in view.topology.members(pool.callee):
            sizes[callee] = sizes.get(callee, 0) + pool.size
    callees = view.callees_of(caller)
    if callees and all(callee in sizes for callee in callees):
        known = view.topology.server(caller)
        held = known.workers if known is not None and known.kind == "sync" else None
        return min(sum(sizes[callee] for callee in callees), held or sys.maxsize)
    whole = grid(spans([(view.begin, view.end)]), max(view.window_ns // 5, FINE_NS))
    return int(_behind(view, caller, whole).max(initial=0))


def per_second(times: Times, slow: Slow) -> float:
    """Return how often an event happened per second in calm time. `times` must be sorted."""
    counts = np.searchsorted(times, slow.calm[:, 1]) - np.searchsorted(times, slow.calm[:, 0])
    return float(counts.sum()) / max(length(slow.calm) / SECOND, 1e-9)


def onset(known: Usual, server: str, rise: Rise) -> Times:
    """Return the first moments of a rise, which are long enough to show how fast the server's calls are answered."""
    least = int(MANY / max(known.answered[server], 1e-9) * SECOND)
    return np.arange(rise.begin, rise.begin + WINDOW_NS + min(least, SECOND) + FINE_NS, FINE_NS, dtype=np.int64)


def waited_for(view: View, known: Usual, server: str, times: Times) -> list[str]:
    """Return the servers behind that it waited for at these times, directly or through others, and that did not wait
    for another server themselves."""
    reached, ends = [server], []
    for name in reached:  # the loop appends to this list
        waits = _waits(view, known, name, times)
        reached += [callee for callee in waits if callee not in reached]
        if not waits and name != server:
            ends.append(name)
    return ends


def _waits(view: View, known: Usual, caller: str, times: Times) -> list[str]:
    """Return the servers behind that the caller waits for. These are the servers that hold most, if they answer fewer
    calls than usual although as many are inside as in the fullest hundredth of calm time: by Little's law, each call
    takes longer. They are also the servers that hold most, if all connections are used and hardly any call is answered.
    This excludes a caller that is stopped itself, because its calls are answered. If all connections of the caller are
    in use, the CPUs behind are full and its own CPU is not, they are all servers behind, however many calls they
    answer."""
    calls = _calls(view, caller)
    inside = float(np.median(_behind(view, caller, times))) if calls else 0.0
    if not calls:
        return []
    most = known.most[caller]
    all_in_use = most >= LEAST_LIMIT and inside >= held_from(most)
    has_cpu_left = bool(view.series(caller, "cpu_busy")) and not _at_work(view, caller, times)
    if all_in_use and has_cpu_left and all(_at_work(view, callee, times) for callee in calls):
        return list(calls)
    answers = sum(int(one.departed(times[[0, -1]])[0]) for one in calls.values())
    usually = known.answered[caller] * int(times[-1] - times[0]) / SECOND
    if answers >= COLLAPSED * usually or inside < known.behind[caller].high:
        return []
    held = {callee: int(view.stays[callee].queue(times).sum()) for callee in calls}
    return [callee for callee, inside in held.items() if inside * 2 >= max(held.values())]


def _at_work(view: View, server: str, times: Times) -> bool:
    """Return whether its CPU was full, or its quota was used up."""
    begin, end = int(times[0]), int(times[-1])
    throttled = ((series.mean(begin, end) or 0.0) >= TAKEN for series in view.series(server, "cpu_throttled"))
    return any(series.at_work(begin, end) for series in view.cpu_of_way[server]) or any(throttled)


def _calls(view: View, caller: str) -> dict[str, Stays]:
    return {callee: view.calls[caller][callee] for callee in view.callees_of(caller)}


def _behind(view: View, caller: str, times: Times) -> Times:
    """Return how many requests are inside the servers that it calls. Calls that it has sent and they have not accepted
    may not be theirs: the caller may lack the CPU to open its connections."""
    return sum((view.stays[callee].queue(times) for callee in view.callees_of(caller)), np.zeros_like(times))
