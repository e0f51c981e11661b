"""Who stalled, and who only waited for it: a server that waits for one behind it neither works nor answers.

Its own queue fills all the same where its workers or connections are all held by calls: those who wait for one do not
wait for a server behind. A server that is stopped itself has hardly a call open, for the servers behind it answer.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np

from tailrace.diagnosis.queues import EARLIER_NS, LEAST_LIMIT, Rise, Stays, Times, every, grid, held_from, levels
from tailrace.diagnosis.series import TAKEN
from tailrace.diagnosis.spans import length, spans
from tailrace.diagnosis.view import View
from tailrace.diagnosis.vlrt import Slow
from tailrace.units import MILLISECOND, SECOND

COLLAPSED = 0.7
"""A server with a queue answers at its full speed, faster than usual; under 70 % of the usual, it was held up. At 20
answers a step, chance alone goes this low in one step of eleven, so it takes several."""
ANSWERS_PER_STEP = 20
SILENT = 0.1
"""Share of the usual answers below which a server answers nothing: of 10 that are expected, one at most (1 in 2,000 by
chance)."""
STEP_NS = 5 * MILLISECOND
"""Step at which queues are followed: the waves of `lightning` figure 6 take tens of milliseconds per server."""


@dataclass(frozen=True)
class Level:
    """What a queue is like in calm time."""

    typical: float
    high: float


@dataclass(frozen=True)
class Usual:
    """What is usual in calm time."""

    queues: dict[str, Level]
    """Own queues, by server."""
    behind: dict[str, Level]
    """By caller, how many are inside the servers behind …"""
    answered: dict[str, float]
    """… and how many of its calls these answer per second."""
    most: dict[str, int]
    """How many calls it can have open at once: its pools together, or its workers where these are fewer and held by
    calls; or else the most seen at any time."""
    opened: dict[str, Level]
    """By caller, how many of its calls are open: sent, whether accepted or not."""
    sent: dict[str, float]
    """How many requests are sent to a server per second, lost ones once."""


def usual(view: View, slow: Slow) -> Usual:
    calm = grid(slow.calm, max(view.window_ns // 5, STEP_NS))
    return Usual(
        {server: Level(*levels(view.own_queue(server, calm))) for server in view.servers},
        {caller: Level(*levels(_behind(view, caller, calm))) for caller in view.calls},
        {
            caller: sum(per_second(calls.departures, slow) for calls in _calls(view, caller).values())
            for caller in view.calls
        },
        {caller: _most(view, caller) for caller in view.calls},
        {caller: Level(*levels(_opened(view, caller, calm))) for caller in view.calls},
        {server: sum(per_second(one.arrivals, slow) for one in sent_to(view, server)) for server in view.servers},
    )


def sent_to(view: View, server: str) -> tuple[Stays, ...]:
    """The calls of each server that calls it, and what clients ask of it themselves; else all that the clients ask."""
    calls = tuple(view.calls[caller][server] for caller in view.callers_of(server))
    direct = view.direct.get(server)
    return calls + ((direct,) if direct is not None else ()) or (view.asked(server),)


def _most(view: View, caller: str) -> int:
    sizes: dict[str, int] = {}
    for pool in view.topology.pools:
        if pool.caller == caller:
            sizes[pool.callee] = sizes.get(pool.callee, 0) + pool.size
    callees = view.callees_of(caller)
    if callees and all(callee in sizes for callee in callees):
        known = view.topology.server(caller)
        held = known.workers if known is not None and known.kind == "sync" else None
        return min(sum(sizes[callee] for callee in callees), held or sys.maxsize)
    whole = grid(spans([(view.begin, view.end)]), max(view.window_ns // 5, STEP_NS))
    return int(_behind(view, caller, whole).max(initial=0))


def per_second(times: Times, slow: Slow) -> float:
    """How often something happened in calm time; `times` are sorted."""
    counts = np.searchsorted(times, slow.calm[:, 1]) - np.searchsorted(times, slow.calm[:, 0])
    return float(counts.sum()) / max(length(slow.calm) / SECOND, 1e-9)


def onset(known: Usual, server: str, rise: Rise) -> Times:
    """The first moments of a rise: long enough to tell how fast the server's calls are answered."""
    least = int(ANSWERS_PER_STEP / max(known.answered.get(server, 0.0), 1e-9) * SECOND)
    return np.arange(rise.begin, rise.begin + EARLIER_NS + min(least, SECOND) + STEP_NS, STEP_NS, dtype=np.int64)


def waited_for(view: View, known: Usual, server: str, times: Times) -> list[str]:
    """The servers behind that it waited for at these times, directly or through others, and that waited for nobody
    themselves."""
    reached, ends = [server], []
    for name in reached:  # grows while it is walked
        waits = _waits(view, known, name, times)
        reached += [callee for callee in waits if callee not in reached]
        if not waits and name != server:
            ends.append(name)
    return ends


def since_it_waits(view: View, known: Usual, server: str, begin: int, end: int, window_ns: int) -> int | None:
    """From when on until the end it did nothing but wait for servers behind it; None where it did not. Where it waited
    for most of the time, the first answers may have come in the last window: the end is good to that."""
    if not view.callees_of(server):
        return None
    step = max(window_ns, int(ANSWERS_PER_STEP / max(known.answered[server], 1e-9) * SECOND))
    for until in (end, end - window_ns):
        since = None
        for first in range(until - step, begin, -step):
            if not _waits(view, known, server, every(first, first + step, STEP_NS)):
                break
            since = first
        if since is not None:
            return since if until == end or (since - begin) * 2 <= end - begin else None
    return None


def _waits(view: View, known: Usual, caller: str, times: Times) -> list[str]:
    """The servers behind that hold most, where they answer fewer calls than usual though as many are inside as in the
    fullest hundredth of calm time: by Little's law each takes longer. Or where all connections are used and they answer
    hardly any call: those of a server that is stopped itself are answered. And all of them, however many they answer,
    where all of its connections are in use, the CPUs behind are full, and its own is not."""
    calls = _calls(view, caller)
    inside = float(np.median(_behind(view, caller, times))) if calls else 0.0
    if not calls:
        return []
    most = known.most[caller]
    all_in_use = most >= LEAST_LIMIT and inside >= held_from(most)
    has_cpu_left = bool(view.series(caller, "cpu_busy")) and not _at_work(view, caller, times)
    if all_in_use and has_cpu_left and all(_at_work(view, callee, times) for callee in calls):
        return list(calls)
    if _answers(view, caller, times) >= COLLAPSED * _usually(known, caller, times):
        return []
    if inside < known.behind[caller].high and not _is_silent(view, known, caller, times, has_cpu_left):
        return []
    held = {callee: int(view.stays[callee].queue(times).sum()) for callee in calls}
    return [callee for callee, inside in held.items() if inside * 2 >= max(held.values())]


def _is_silent(view: View, known: Usual, caller: str, times: Times, has_cpu_left: bool) -> bool:
    """Whether its connections are used up, though no more of them than usual may be, for some waited for one all the
    while (a pool may be shared by calls to several servers), and hardly any call is answered. Or more calls are open
    than usual, which who stands still has not accepted, though the caller's own CPU could open connections. With no
    call open at all (visits that lack the CPU to go on hold their connections, too) nobody is waited for."""
    usual = _usually(known, caller, times)
    if usual < ANSWERS_PER_STEP / 2 or _answers(view, caller, times) > SILENT * usual:
        return False
    opened = float(np.median(_opened(view, caller, times)))
    if opened < 1.0:
        return False
    if has_cpu_left and opened >= known.opened[caller].high:
        return True
    waiting = (series.during(int(times[0]), int(times[-1])) for series in view.series(caller, "pool_waiting"))
    return any(len(values) and values.min() >= 1.0 for values in waiting)


def _answers(view: View, caller: str, times: Times) -> int:
    return sum(int(one.departed(times[[0, -1]])[0]) for one in _calls(view, caller).values())


def _usually(known: Usual, caller: str, times: Times) -> float:
    return known.answered[caller] * int(times[-1] - times[0]) / SECOND


def _at_work(view: View, server: str, times: Times) -> bool:
    """Whether its CPU was full, or its quota used up."""
    begin, end = int(times[0]), int(times[-1])
    at_work = any(series.at_work(begin, end) for series in view.cpu_of_way[server])
    return at_work or view.throttled(server, begin, end) >= TAKEN


def _calls(view: View, caller: str) -> dict[str, Stays]:
    return {callee: view.calls[caller][callee] for callee in view.callees_of(caller)}


def _opened(view: View, caller: str, times: Times) -> Times:
    """How many of its calls are open."""
    return sum((one.queue(times) for one in _calls(view, caller).values()), np.zeros_like(times))


def _behind(view: View, caller: str, times: Times) -> Times:
    """How many are inside the servers that it calls. What it has sent and they have not accepted need not be theirs: it
    may lack the CPU to open its connections."""
    return sum((view.stays[callee].queue(times) for callee in view.callees_of(caller)), np.zeros_like(times))
