"""Step 3: find where a queue overflowed, and which server's own queue rose first.

The dropper is often not the server in trouble. A server that stalls fills the queue of its caller, which fills that of
its own caller, until one overflows (cross-tier queue overflow). So this step follows the call graph from the dropper.
It looks for the origin: the *own* queue of this server (see `queues`) rose first and stayed up until the overflow.

    upstream       the origin lies behind the dropper: the wave was pushed back against the calls
    downstream     the origin calls the dropper, or is the dropper and its caller does not block: the wave ran with the
                   calls
    local          the origin is the dropper itself, which clients or a server that blocks call
    soft-resource  a limit of the origin was used up, which step 5 decides
    unknown        the recording does not show where the overflow began
    none           no packet was dropped
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tailrace.diagnosis import lasting, sampling, settle, slowly
from tailrace.diagnosis.constants import ALIKE, FINE_NS, LONG_NS, LOOKBACK_NS, MOMENTS, MOSTLY, SHORTEST_NS
from tailrace.diagnosis.drops import Drops
from tailrace.diagnosis.finding import Ctqo, Finding, LimitSource, Number, PushBack, Verdict
from tailrace.diagnosis.lasting import Lasting
from tailrace.diagnosis.queues import Rise, Stays, Times, held_from, is_more, plateau, rises
from tailrace.diagnosis.unanswered import NAMED_MAX
from tailrace.diagnosis.view import View
from tailrace.diagnosis.vlrt import SCHEDULES, THRESHOLD_NS, Cluster, Slow
from tailrace.diagnosis.waiting import Level, Usual, onset, sent_to, waited_for
from tailrace.diagnosis.words import clock, count, duration, listing
from tailrace.units import SECOND

FOLLOWED = 64
"""The queues of at most this many servers are followed around a group of requests. Systems of the papers have up to
30."""


@dataclass(frozen=True)
class Overflow:
    origin: str | None
    rise: Rise | None
    """It is the rise of the origin's own queue."""
    ctqo: Ctqo
    wave: tuple[PushBack, ...]
    finding: Finding
    levels: Mapping[str, float] = field(default_factory=dict, compare=False)
    """It maps each server to the length above which its own queue was long."""
    lasting: bool = False
    """It lasts for most of the recording, so nothing shows what is usual for the origin."""
    look: Callable[[str], Overflow] | None = field(default=None, compare=False)

    def at(self, server: str) -> Overflow:
        """Return the overflow with this server as its origin. The ledger finds which server lost capacity."""
        return self if self.look is None or server == self.origin else self.look(server)


@dataclass(frozen=True)
class _Followed:
    """It holds the own queues around one cluster, and shows which of them rose."""

    times: Times
    queues: dict[str, Times]
    risen: dict[str, Rise]
    risen_at: dict[str, NDArray[np.bool_]]
    """It shows for each server whether its own queue is above its usual high level, at each of `times`."""
    levels: dict[str, float]
    """It holds the typical level of all servers. Above it, a queue has begun to rise or has not fallen again."""


def find(view: View, slow: Slow, drops: tuple[Drops, ...], known: Usual) -> tuple[Overflow, ...]:
    own = tuple(_of_dropper(view, lost) for lost in drops)
    followed = tuple(_follow(view, cluster, lost, known) for cluster, lost in zip(slow.clusters, own, strict=True))
    held = _plateaus(view, followed)
    parts = zip(slow.clusters, own, followed, strict=True)
    return tuple(_of_cluster(view, slow, known, cluster, lost, part, held) for cluster, lost, part in parts)


def origin_of(view: View, cluster: Cluster, lost: Drops, known: Usual) -> str | None:
    own = _of_dropper(view, lost)
    return _origin(view, known, cluster, own, _follow(view, cluster, own, known))[0]


def _of_dropper(view: View, lost: Drops) -> Drops:
    """Start from the first packet that the dropper lost. Another server may have lost packets earlier, when the queue
    in question had not risen."""
    if lost.first is None or lost.last is None or lost.dropper not in view.stays:
        return lost
    own = view.lost_between(lost.first, lost.last).filter(pl.col("server") == lost.dropper)
    return replace(lost, first=int(own["sent"][0])) if len(own) else lost


def _plateaus(view: View, followed: tuple[_Followed, ...]) -> dict[str, int]:
    """Map each server to the highest number that its queue was held at in any cluster. It is the server's limit if the
    limit is not known."""
    held: dict[str, int] = {}
    for part in followed:
        for server, rise in part.risen.items():
            inside = part.times[(part.times >= rise.begin) & (part.times <= rise.end)]
            limit = plateau(view.stays[server].queue(inside))
            if limit is not None:
                held[server] = max(held.get(server, 0), limit)
    return held


def _of_cluster(
    view: View, slow: Slow, known: Usual, cluster: Cluster, lost: Drops, part: _Followed, held: dict[str, int]
) -> Overflow:
    if not view.stays:
        finding = Finding("overflow", "unknown", sampling.unknown(view), missing=settle.visits(None))
        return Overflow(None, None, "unknown", (), finding)
    unseen = _older_than_recording(view, cluster, lost)
    pushed = (_push_back(view, server, rise, part.times, held) for server, rise in part.risen.items())
    wave = tuple(sorted(pushed, key=lambda p: p.rise))

    def told(origin: str | None, rise: Rise | None, full: Lasting | None = None) -> Overflow:
        ctqo = judge(view, lost.dropper, origin, part.times)
        finding = unseen or _finding(view, cluster, lost, origin, rise, ctqo, wave, full)
        return Overflow(origin, rise, ctqo, wave, finding, part.levels, full is not None, at)

    def at(server: str) -> Overflow:
        rise = _led_up_to(part, server, *_lasts(cluster, lost)) or part.risen.get(server)
        return told(server, rise or _crest(part.times, view.own_queue(server, part.times)))

    nowhere = _without_queue(slow, cluster, lost)
    if nowhere is not None:
        # In an overload as long as the recording, all requests seem slow by themselves; the ledger may know better.
        look = at if slow.is_by_itself(cluster) else None
        ctqo: Ctqo = "unknown" if nowhere.verdict == "unknown" else "none"
        return Overflow(None, None, ctqo, (), nowhere, look=look)
    if unseen:
        return replace(told(None, None), look=None)
    found = told(*_origin(view, known, cluster, lost, part))
    if found.origin is None and (full := _lasting(view, cluster, lost)):
        return told(full.server, _crest(part.times, view.stays[full.server].queue(part.times)), full)
    return found


def _lasting(view: View, cluster: Cluster, lost: Drops) -> Lasting | None:
    """Return the server at which the queue stayed long, if that lasted for most of the recording."""
    if lost.dropper in view.stays:
        return lasting.find(view, lost.dropper)
    place, most = _place(view, cluster, lost), (cluster.end - cluster.begin) * 2 > view.end - view.begin
    return lasting.crowded(view, place) if most and place else None


def _crest(times: Times, queue: Times) -> Rise:
    """Return the stretch around the longest queue in which it was at least half as long."""
    top = int(np.argmax(queue))
    short = np.flatnonzero(queue * 2 < queue[top])
    first = int(short[short < top].max(initial=-1)) + 1
    last = int(short[short > top].min(initial=len(queue))) - 1
    return Rise(int(times[first]), int(times[last]), int(queue[top]), int(times[top]))


def _without_queue(slow: Slow, cluster: Cluster, lost: Drops) -> Finding | None:
    """Return the finding for a cluster in which no queue is looked for. Either most of its requests lost packets that
    no server is known to have dropped, or its requests take that long at any time."""
    span = None, cluster.begin, cluster.end
    if slow.is_by_itself(cluster):
        named = slow.requests["interaction"].gather(cluster.rows)
        names = named.cast(pl.String).unique().sort().to_list()
        more = [f"{len(names) - NAMED_MAX} other kinds of"] if len(names) > NAMED_MAX else []
        whose = listing(names[:NAMED_MAX] + more)
        sentence = f"Nearly all {whose} requests take that long: they are slow by themselves."
        figures = {"slow_by_themselves": True, "sent_slowly": bool(slowly.are(named).all())}
        return Finding("overflow", "absent", sentence, *span, figures)
    if not lost.astray:
        return None
    if lost.strayed >= lost.unplaced:
        return Finding("overflow", "absent", "No queue overflowed: the packets were lost on the way.", *span)
    sentence = "No queue was long when the packets were lost. Whether an accept queue overflowed is not known."
    return Finding("overflow", "unknown", sentence, *span, missing=lost.finding.missing)


def _older_than_recording(view: View, cluster: Cluster, lost: Drops) -> Finding | None:
    """Report that the recording does not show where the overload began. The requests that were seen to arrive cannot
    have filled the dropper's queue, so it was full before the recording began. An overload that lasts for most of the
    recording is left out, because its beginning does not matter. In that case, Tailrace reports the server at which the
    queue stays long."""
    if not lost.before or lost.dropper is None or lost.first is None:
        return None
    if (cluster.end - view.begin) * 2 > view.end - view.begin:
        return None
    came = int(np.searchsorted(view.stays[lost.dropper].arrivals, lost.first + FINE_NS, "right"))
    before = count(came, "request") if came else "no request"
    sentence = (
        f"The overload was there when the recording began: {lost.dropper} dropped packets from "
        f"{clock(view, lost.first)} on, when {before} had been seen to come to it. Where it began is not known."
    )
    numbers: dict[str, Number] = {"older_than_recording": True, "requests_come": came}
    span = cluster.begin, cluster.end
    return Finding("overflow", "unknown", sentence, lost.dropper, *span, numbers, settle.EARLIER)


def _follow(view: View, cluster: Cluster, lost: Drops, known: Usual) -> _Followed:
    """Follow the own queues from well before the cluster until its last packet was lost, or until the earliest possible
    answer. Begin at a moment at which no queue was up: look back twice as far, until none was, or for as long as the
    longest schedule of `vlrt.SCHEDULES`."""
    until = max(cluster.end, lost.last if lost.last is not None else cluster.end + cluster.shortest_ns) + LONG_NS
    back = LOOKBACK_NS
    while True:
        begin = max(cluster.begin - back, view.begin)
        step = max(FINE_NS, (until - begin) // 20_000)
        times = np.arange(begin, until + SECOND, step, dtype=np.int64)
        near = _near(view, cluster, lost, begin, until + SECOND)
        queues = {server: view.own_queue(server, times) for server in near}
        risen = any(queue[0] > known.queues[server].high for server, queue in queues.items())
        if not risen or begin == view.begin or back >= max(map(max, SCHEDULES.values())):
            break
        back *= 2
    span = cluster.begin - LONG_NS, until
    part = _risen(times, queues, known.queues, span, lost.first)
    place = _place(view, cluster, lost)
    if place not in queues or _led_up_to(part, place, *_lasts(cluster, lost)) is not None:
        return part
    long = min(cluster.shortest_ns, THRESHOLD_NS) // 2
    lower = {s: _where_waits_are_long(view.stays[s], queue, times, span, long) for s, queue in queues.items()}
    level = lower[place]
    if level is None or _is_mostly_above(view, place, level.high):
        return part
    levels = {server: level or known.queues[server] for server, level in lower.items()}
    return _risen(times, queues, levels, span, lost.first)


def _near(view: View, cluster: Cluster, lost: Drops, begin: int, end: int) -> list[str]:
    """Return the servers at which queues may rise meanwhile, the nearest to the clients first. The queue of a server
    with at most one request inside does not rise. If there are many servers, keep those that calls connect with the
    place where the requests waited, and those that are crowded for longest."""
    near = view.crowds.during(begin, end)
    if len(near) > FOLLOWED:
        chain = _chain(view, cluster, lost)
        near = sorted(near, key=lambda server: server not in chain)[:FOLLOWED]
    place = _place(view, cluster, lost)
    near += [place] if place and place not in near else []
    return sorted(near, key=lambda server: (view.depth[server], server))


def _is_mostly_above(view: View, server: str, high: float) -> bool:
    """Return whether its own queue is above `high` for most of the time in which requests are sent. Such a queue is
    not a stall any more."""
    times = np.linspace(view.begin, int(view.sent[-1]), MOMENTS).astype(np.int64)
    return float(np.mean(view.own_queue(server, times) > high)) > MOSTLY


def _risen(
    times: Times, queues: dict[str, Times], levels: Mapping[str, Level], span: tuple[int, int], lost: int | None
) -> _Followed:
    found = {s: main_rise(times, q, levels[s], span, lost) for s, q in queues.items()}
    risen = {server: rise for server, rise in found.items() if rise is not None}
    kept = {server: queues[server] for server in risen}
    risen_at = {s: queue > levels[s].high for s, queue in kept.items()}
    return _Followed(times, kept, risen, risen_at, {s: level.typical for s, level in levels.items()})


def _where_waits_are_long(stays: Stays, queue: Times, times: Times, span: tuple[int, int], long: int) -> Level | None:
    """Return half of the queue length at which a request waits for so long, or None where no request does. If stalls
    fill as much of the recording as pauses do, calm time also contains stalls, and no queue rises above its usual
    length."""
    left = np.searchsorted(stays.departures, times, "right")
    ends = np.append(stays.departures, times[-1])
    waits = ends[np.minimum(left + queue, len(ends)) - 1] - times
    held = queue[(queue > 0) & (waits >= long) & (times >= span[0]) & (times <= span[1])]
    # A single request does not wait: a rise holds at least two.
    high = max(float(np.median(held)) / 2, 1.0) if len(held) else 0.0
    return Level(high / 2, high) if len(held) else None


def main_rise(times: Times, queue: Times, level: Level, span: tuple[int, int], lost: int | None) -> Rise | None:
    """Return the first rise during the span that reaches half of the highest one. If there are rises before the first
    packet was lost, only these count: packets that are sent again arrive together and make queues rise higher than the
    rise that lost them."""
    until = None if lost is None else lost + SHORTEST_NS
    found = [
        rise
        for rise in rises(times, queue, level.typical, level.high, LONG_NS, until)
        if rise.end >= span[0] and rise.begin <= span[1] and rise.end - rise.begin >= SHORTEST_NS
    ]
    if until is not None:
        found = [rise for rise in found if rise.begin <= until] or found
    highest = max((rise.peak for rise in found), default=0)
    return next((rise for rise in found if rise.peak * 2 >= highest), None)


def _origin(view: View, known: Usual, cluster: Cluster, lost: Drops, part: _Followed) -> tuple[str | None, Rise | None]:
    """Return the origin and its rise. The origin is connected with the dropper by calls. Its own queue rose first and
    stayed up until the overflow or, where no packet was dropped, for as long as the first requests waited."""
    chain = _in_time(view, known, cluster, lost, part)
    lasts = _lasts(cluster, lost)
    led = {s: _led_up_to(part, s, *lasts) for s in part.risen if s in chain}
    lasting = {server: rise for server, rise in led.items() if rise is not None}
    told: tuple[str | None, Rise | None] = None, None
    while lasting:
        origin = _first(view, part, lasting)
        rise = lasting.pop(origin)
        waited = onset(known, origin, rise)
        behind = waited_for(view, known, origin, waited)
        if not behind:
            return origin, rise
        if stalled := chain.intersection(behind):
            return _behind(view, stalled, waited, rise)
        # It only waited, but for a server that these requests do not use.
        told = told if told[0] else (origin, rise)
    return told


def _place(view: View, cluster: Cluster, lost: Drops) -> str | None:
    """Return the dropper, or the server at which the requests waited, if visits to it are recorded."""
    place = lost.dropper or cluster.place
    return place if place in view.stays else None


def _chain(view: View, cluster: Cluster, lost: Drops) -> frozenset[str]:
    """Return the servers that calls connect with this place, or all servers without it."""
    place = _place(view, cluster, lost)
    return view.chain_of(place) if place else frozenset(view.stays)


def _first(view: View, part: _Followed, lasting: dict[str, Rise]) -> str:
    first = min(rise.begin for rise in lasting.values())
    # The order of rises so close together shows nothing. Queues are pushed back, so the server furthest from the
    # clients is taken.
    level = [server for server, rise in lasting.items() if rise.begin <= first + SHORTEST_NS]
    # Prefer the queues that stay up: a batch passes through all servers at once, and gathers where it is served last.
    over = max(lasting[server].end for server in level)
    up = {server: _stays_up(part, server, replace(lasting[server], begin=first), over) for server in level}
    level = [server for server in level if up[server] >= MOSTLY * max(up.values())]
    return max(level, key=lambda server: (view.depth[server], lasting[server].peak))


def _behind(view: View, stalled: frozenset[str], waited: Times, rise: Rise) -> tuple[str, Rise]:
    """Return the server furthest from the clients of those that stalled while others waited for them, and its rise. Of
    several at the same distance, it is the one with the longest queue. It rose when they began to wait: its queue need
    not be longer than usual, because a pool or few workers let no more requests through to the server."""
    origin = max(stalled, key=lambda name: (view.depth[name], int(view.own_queue(name, waited).sum())))
    return origin, replace(rise, peak=int(view.own_queue(origin, waited).max()))


def _lasts(cluster: Cluster, lost: Drops) -> tuple[int, int]:
    """Return until when and for how long at least the queue of an origin is up."""
    if lost.first is not None:
        # A queue that overflows at once (by a batch of requests) rises and drops packets within one step.
        return lost.first + SHORTEST_NS, 0
    # A request that only waited may have been in service for the other half of its time.
    return cluster.begin + cluster.shortest_ns, int(MOSTLY * cluster.shortest_ns)


def _led_up_to(part: _Followed, server: str, until: int, least: int) -> Rise | None:
    """Return the server's rise, if its queue stayed up for most of the time until then. The queue of a healthy server
    that receives work in batches rises and falls meanwhile. Otherwise return the last part of it, after the queue was
    down for longer than `SHORTEST_NS`: a smaller rise shortly before may have been taken for the beginning of the rise
    that mattered. The last part takes `least` nanoseconds or more."""
    rise = part.risen.get(server)
    if rise is None or _stays_up(part, server, rise, until) >= MOSTLY:
        return rise
    up = part.times[part.risen_at[server] & (part.times >= rise.begin) & (part.times <= until)]
    if len(up) == 0 or until - up[-1] > SHORTEST_NS:
        return None
    breaks = np.flatnonzero(np.diff(up) > SHORTEST_NS)
    begin = int(up[breaks[-1] + 1]) if len(breaks) else int(up[0])
    if until - begin < least:
        return None
    return replace(rise, begin=begin) if begin < rise.end else _stretch(part, server, begin)


def _stretch(part: _Followed, server: str, begin: int) -> Rise:
    """Return the rise from `begin` on, for as long as the queue is up."""
    up = np.flatnonzero(part.risen_at[server] & (part.times >= begin))
    gaps = np.flatnonzero(np.diff(part.times[up]) > LONG_NS)
    last = int(up[gaps[0]]) if len(gaps) else int(up[-1])
    queue = part.queues[server][up[0] : last + 1]
    top = int(np.argmax(queue))
    return Rise(begin, int(part.times[last]), int(queue[top]), int(part.times[up[0] + top]))


def _in_time(view: View, known: Usual, cluster: Cluster, lost: Drops, part: _Followed) -> frozenset[str]:
    """Return the servers connected with the dropper by calls. If the dropper overflowed at once, leave out the servers
    behind it: there was no time for push-back from them."""
    chain = _chain(view, cluster, lost)
    if lost.first is None or lost.dropper not in part.risen or not _at_once(view, known, lost.dropper, lost.first):
        return chain
    return chain - view.downstream_of(lost.dropper)


def _at_once(view: View, known: Usual, server: str, time: int) -> bool:
    """Return whether most of the queue had arrived within `SHORTEST_NS` when it overflowed by a packet sent at `time`.
    A packet sent together with it takes up to a step to arrive. Where no more requests arrived than usual, a short
    queue filled because no request left it. Requests that were lost before and sent again count as arrivals."""
    times = np.array([time - SHORTEST_NS, time, time + FINE_NS])
    before, then, soon = view.stays[server].queue(times).tolist()
    came = sum(int(one.arrived(times[[0, 2]])[0]) for one in sent_to(view, server))
    came = max(came, int(view.stays[server].arrived(times[[0, 2]])[0]))
    return bool(before * 2 < max(then, soon)) and is_more(came, known.sent[server] * (SHORTEST_NS + FINE_NS) / SECOND)


def _stays_up(part: _Followed, server: str, rise: Rise, until: int) -> float:
    inside = (part.times >= rise.begin) & (part.times <= until)
    return float(part.risen_at[server][inside].mean()) if inside.any() else 0.0


def judge(view: View, dropper: str | None, origin: str | None, times: Times) -> Ctqo:
    if dropper is None:
        return "none"
    if origin is None:
        return "unknown"
    if origin in view.downstream_of(dropper):
        return "upstream"
    if dropper in view.downstream_of(origin):
        return "downstream"
    callers = view.callers_of(dropper)
    if dropper == origin and callers and not all(blocks(view, caller, times) for caller in callers):
        return "downstream"
    return "local"


def blocks(view: View, server: str, times: Times) -> bool:
    """Return whether a worker of the server is held while it waits. The topology shows it, or the server's queue was
    held at a limit while the server behind it overflowed. A server that does not block accepts every request."""
    known = view.topology.server(server)
    if known is not None and known.kind is not None:
        return known.kind == "sync"
    queue = view.stays[server].queue(times)
    return plateau(queue[queue > queue.max() // 2]) is not None


def _push_back(view: View, server: str, rise: Rise, times: Times, held: dict[str, int]) -> PushBack:
    inside = times[(times >= rise.begin) & (times <= rise.end)]
    queue = view.stays[server].queue(inside)
    limit, source = limit_of(view, server, queue, held)
    at_limit = np.flatnonzero(queue >= held_from(limit)) if limit is not None else np.empty(0)
    full = int(inside[int(at_limit[0])]) if len(at_limit) else None
    return sampling.scaled(view, PushBack(server, rise.begin, full, int(queue.max(initial=0)), limit, source))


def limit_of(view: View, server: str, queue: Times, held: dict[str, int]) -> tuple[int | None, LimitSource]:
    known = view.topology.server(server)
    if known is not None and known.queue_max is not None:
        return known.queue_max, "topology"
    backlogs = [int(s.value.max()) for s in view.series(server, "accept_queue_limit") if len(s.value)]
    if known is not None and known.workers is not None and (known.backlog is not None or backlogs):
        # A backlog of N holds N + 1 connections (the kernel tests `>`).
        # Each port has its own.
        backlog = known.backlog if known.backlog is not None else max(backlogs)
        return known.workers + backlog + 1, "topology" if known.backlog is not None else "samples"
    # A plateau seen elsewhere is not a limit of a queue that did not reach it or that passed it.
    limit = held.get(server)
    reached = limit is not None and held_from(limit) <= int(queue.max(initial=0)) <= limit * (1.0 + ALIKE) + 1
    return (limit, "plateau") if reached else (None, "unknown")


def _half_open(view: View, cluster: Cluster, server: str) -> int:
    """Return how many connection attempts the kernel of a server dropped because too many handshakes had not ended, if
    these are most of those that it dropped."""
    dropped = {
        name: sum(
            float(one.value[one.around(cluster.begin, cluster.end)].sum()) for one in view.series(server, name)[:1]
        )
        for name in ("syn_queue_drops", "listen_drops")
    }
    half = dropped["syn_queue_drops"]
    return round(half) if half > MOSTLY * dropped["listen_drops"] else 0


def _finding(
    view: View,
    cluster: Cluster,
    lost: Drops,
    origin: str | None,
    rise: Rise | None,
    ctqo: Ctqo,
    wave: tuple[PushBack, ...],
    full: Lasting | None,
) -> Finding:
    if origin is None or rise is None:
        these = "this request was" if cluster.vlrt == 1 else "these requests were"
        sentence = f"No server's queue rose while {these} under way."
        if wave:
            rose = listing([step.server for step in wave])
            sentence = f"No queue rose for as long as {these} under way (for less long: {rose})."
        numbers: dict[str, Number] = {"servers_risen": len(wave)}
        if lost.dropper is not None and lost.by_server:
            if half := _half_open(view, cluster, lost.dropper):
                sentence = (
                    f"The queue of {lost.dropper} for connections whose handshake has not ended was full: its kernel "
                    f"counted {count(half, 'connection attempt')} that it dropped for this reason."
                )
                found = cluster.begin, cluster.end, numbers, settle.half_open(lost.dropper)
                return Finding("overflow", "found", sentence, lost.dropper, *found)
            missing = settle.origin_behind(view, lost.dropper)
            return Finding("overflow", "unknown", sentence, lost.dropper, cluster.begin, cluster.end, numbers, missing)
        return Finding("overflow", "absent", sentence, None, cluster.begin, cluster.end, numbers)
    numbers = {"origin": origin, "ctqo": ctqo, "own_queue_max": sampling.estimate(view, origin, rise.peak)}
    if full is not None:
        numbers |= {"lasting": True, "queue_length_max": full.length}
        sentence = f"{full.sentence} {_verdict(ctqo, lost.dropper, origin)}"
        return Finding("overflow", "found", sentence, origin, rise.begin, rise.end, numbers)
    order = [f"{step.server} at {clock(view, step.rise)}{_to(step)}" for step in wave]
    first = next((step for step in wave if step.server == origin), None)
    others = [step for step in wave if step.server != origin and step.rise <= rise.begin]
    level = [step.server for step in others if step.rise >= rise.begin - SHORTEST_NS]
    earlier = [step.server for step in others if step.server not in level]
    sentence = f"The own queue of {origin} rose {'' if earlier else 'first, '}at {clock(view, rise.begin)}"
    if level:
        furthest = all(view.depth[origin] >= view.depth[server] for server in level)
        why = "the furthest from the clients" if furthest else "which stayed up"
        sentence = (
            f"The own queues of {listing([*level, origin])} rose within {duration(SHORTEST_NS)}, that of {origin}, "
            f"{why}, at {clock(view, rise.begin)}"
        )
    if earlier:
        sentence += f" (those of {listing(earlier)} rose before, and were down again or only waited for it)"
    if lost.first is not None and lost.by_server:
        lead = duration(max(lost.first - rise.begin, 0))
        sentence += f", {lead} before {lost.dropper} dropped the first of these packets"
    sentence += f". In order: {listing(order)}. {_verdict(ctqo, lost.dropper, origin)}"
    sentence += sampling.note(view, wave)
    if first is not None:
        numbers["rise_to_drop_ns"] = None if lost.first is None else lost.first - rise.begin
    verdict: Verdict = "found" if lost.dropper is not None else "absent"
    return Finding("overflow", verdict, sentence, origin, rise.begin, rise.end, numbers)


def _to(step: PushBack) -> str:
    if step.queue_length_error:
        return sampling.length(step)
    if step.queue_max is None:
        return f" (up to {count(step.queue_length_max, 'request')}, no limit seen)"
    if step.full is None:
        return f" (up to {step.queue_length_max:,} of {step.queue_max:,})"
    at = "held at" if step.limit_source == "plateau" else "full at its limit of"
    return f" ({at} {step.queue_max:,})"


def _verdict(ctqo: Ctqo, dropper: str | None, origin: str) -> str:
    if ctqo == "upstream":
        return f"{dropper} overflowed because {origin} behind it did not answer: upstream cross-tier queue overflow."
    if ctqo == "downstream" and dropper == origin:
        return (
            f"{origin} itself overflowed: its caller does not block and kept sending: downstream cross-tier queue "
            "overflow."
        )
    if ctqo == "downstream":
        return f"{origin} released what it held onto {dropper}, which overflowed: downstream cross-tier queue overflow."
    if ctqo == "local":
        return f"{dropper} itself overflowed: its own queue rose first."
    return "Nothing was dropped: the requests waited."
