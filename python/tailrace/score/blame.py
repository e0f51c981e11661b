"""Which stall a very slow request belongs to, by causality alone. What the diagnosis found plays no part.

A request was held up at a server D at a time t: there its SYN was lost (D's accept queue was full), or, if it lost
nothing, there it spent most of its time (its longest stay, less the calls it waited for).

    stall of O  ├──────┤
    O is busy    ├─────────────┤            the stall's reach: until O's queue is back to normal
    D is busy       ├───────────────┤       D calls O or is called by it, and its busy time touches the reach
    held up               t                 so t belongs to the stall
    D is busy again                    ├─┤  an echo: at least half as many lost packets come back as are lost now

"Busy" is `busy.elevated`. A request with several losses belongs to the stalls of any of them. Of the stalls that reach
it, those shorter than a quarter of the longest did not matter; and where all together cover less than a tenth of D's
busy time up to t, none did: at up to 90 % use a backlog is worked off in ten times the stall. A burst always matters,
and is no measure for stalls: it takes no time away, however long it lasts. Of the stay of a request that lost nothing
and was answered, what stalls reach must be half. Nothing left means "overload" (or a request
slow by itself), and the right answer is that the cause is unknown. Limits that never rest and balancers that prefer one
server are nobody's injected stall; they are read from the record and are as right. So is a clock rate or a quota that
slows servers down for a quarter of an overload.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from tailrace.diagnosis.evidence import coverage
from tailrace.diagnosis.spans import spans
from tailrace.score.busy import COVERS, JOIN_NS, Interval, Record, Times
from tailrace.score.stalls import BALANCER, BURST, FREQUENCY, QUOTA, SOFT, Stall
from tailrace.units import SECOND

MATTERS = 0.25
WAITED = 0.5
"""So much of its longest stay must be within what stalls reach, if it lost nothing and was answered: else it took that
long by itself."""
UNANSWERED = frozenset({"503", "refused", "timeout", "reset", "abandoned", "unknown"})
"""Who waited for somebody's patience, and not for a queue."""
FILLS = 1 / 3
"""So many more than usual fill a server that is usually at three quarters of its CPU …"""
WAVE_NS = SECOND // 2
"""… and, if they come for so long, make as long a queue as a stall of a sixth of a second. Of what is over sooner, as
many more have to come as in so long."""


@dataclass(frozen=True)
class Blame:
    """The right answers for one request."""

    sent: int
    droppers: frozenset[str | None]
    """Who lost a packet of it; {None} where nobody did."""
    stalls: tuple[Stall, ...]
    """Any of them; none: overload, or slow by itself."""
    overloaded: bool = False
    """Nothing stalled, or a server on its way never had a CPU, a worker or a connection to spare: then it is right,
    too, that the cause is unknown."""


def blame(record: Record, stalls: tuple[Stall, ...], threshold_ns: int) -> tuple[Blame, ...]:
    """For each request of `threshold_ns` and more, in the order of `sent`."""
    slow = record.requests.filter(pl.col("end") - pl.col("sent") >= threshold_ns)
    reach = _Reach(record, stalls)
    lost = _losses(record, slow)
    waited = _longest_stay(record, slow.filter(~pl.col("request").is_in(list(lost))))
    by_themselves = _slow_by_themselves(record, slow, threshold_ns)
    lasting = _lasting(record, stalls)
    found = []
    for request, sent, status in slow.select("request", "sent", pl.col("status").cast(pl.String)).iter_rows():
        held = lost.get(request) or waited.get(request, [])
        reached = {s for server, begin, end in held for s in reach.of(server, begin, end)}
        if request not in lost and status not in UNANSWERED and not all(reach.hold(reached, *one) for one in held):
            reached = set()
        droppers: frozenset[str | None] = frozenset(server for server, _, _ in lost.get(request, ()))
        if request in by_themselves:
            reached = set()
        near = {other for server, _, _ in held for other in record.connected.get(server, ())}
        full, exhausted = near & record.saturated, near & record.exhausted
        overloaded = not reached or bool(full | exhausted)
        # With a CPU that is always full neither a limit nor a balancer is to blame.
        if request not in by_themselves and not full:
            reached |= {s for server, begin, end in held for s in reach.preferred_near(server, begin, end)}
            if exhausted:
                reached.add(Stall(SOFT, frozenset({SOFT}), frozenset(exhausted), *record.sending, 0))
        if overloaded:
            reached |= {stall for stall in lasting if stall.origins & near}
        stalled = tuple(sorted(reached, key=lambda s: s.begin))
        found.append(Blame(sent, droppers or frozenset({None}), stalled, overloaded))
    return tuple(found)


def _lasting(record: Record, stalls: tuple[Stall, ...]) -> tuple[Stall, ...]:
    """What slowed some server or other down for a quarter of the time in which requests were sent, as one stall."""
    found = []
    for kind in (FREQUENCY, QUOTA):
        own = [stall for stall in stalls if stall.kind == kind]
        if coverage(spans([(stall.begin, stall.end) for stall in own]), *record.sending) >= MATTERS:
            origins = frozenset(origin for stall in own for origin in stall.origins)
            found.append(Stall(kind, frozenset({kind}), origins, *record.sending, sum(s.stalled_ns for s in own)))
    return tuple(found)


def _slow_by_themselves(record: Record, slow: pl.DataFrame, threshold_ns: int) -> set[int]:
    """Requests of interactions of which nine in ten take that long, whatever happens."""
    usual = record.requests.group_by("interaction").agg((pl.col("end") - pl.col("sent")).quantile(0.1).alias("fast"))
    always = usual.filter((pl.col("fast") >= threshold_ns) & pl.col("interaction").is_not_null())
    return set(slow.join(always, on="interaction", how="semi")["request"].to_list())


Held = list[tuple[str, int, int]]
"""(server, from, to)."""


def _losses(record: Record, slow: pl.DataFrame) -> dict[int, Held]:
    """Each lost packet of each request: where and when. Repeats are found by the drop events' next attempts."""
    again = {(place, begin): end for place, begin, end in record.drops.iter_rows()}
    lossy = (pl.col("drops") > 0) | (pl.col("data_drops") > 0)
    entry = slow.filter(lossy).select("request", "server", "sent")
    deeper = (
        record.visits.filter(lossy & pl.col("caller").is_not_null())
        .join(slow.select("request"), on="request")
        .select("request", "server", "sent")
    )
    begins: dict[str, np.ndarray] = {
        str(place): np.sort(frame["begin"].to_numpy())
        for (place,), frame in record.drops.partition_by("place", as_dict=True).items()
    }
    found: dict[int, Held] = defaultdict(list)
    for request, server, sent in pl.concat([entry, deeper]).iter_rows():
        found[request].append((server, sent, sent))
        of_server = begins.get(server, np.empty(0, dtype=np.int64))
        at = int(np.searchsorted(of_server, sent))
        time = int(of_server[at]) if at < len(of_server) else None
        while time is not None and (time := again.get((server, time))) is not None and (server, time) in again:
            found[request].append((server, time, time))
    return dict(found)


def _longest_stay(record: Record, slow: pl.DataFrame) -> dict[int, Held]:
    rows = (
        record.visits.join(slow.select("request"), on="request")
        .with_columns(own=pl.col("departure") - pl.col("arrival") - pl.col("downstream_ns").fill_null(0))
        .sort("own")
        .group_by("request", maintain_order=True)
        .last()
    )
    return {
        request: [(server, arrival, departure)]
        for request, server, arrival, departure in rows.select("request", "server", "arrival", "departure").iter_rows()
    }


class _Reach:
    """Busy intervals of each server, and which stalls they belong to."""

    def __init__(self, record: Record, stalls: tuple[Stall, ...]) -> None:
        self.record = record
        between = _between_bursts(record, stalls)
        known = (stall if stall.kind != BURST else _worth_the_name(record, stall, between) for stall in stalls)
        self.stalls = tuple(_since_full(record, one) for stall in known if stall for one in _of_burst(record, stall))
        self.of_stall = {s: self._reach(s) for s in self.stalls}
        self.preferred = tuple(self._preferred())
        self.of_busy: dict[str, list[tuple[Interval, frozenset[Stall]]]] = {
            server: self._belonging(server) for server in record.busy
        }

    def of(self, server: str, begin: int, end: int) -> frozenset[Stall]:
        """The stalls that mattered to who was held up at the server."""
        found: set[Stall] = set()
        for (first, last), stalls in self.of_busy.get(server, ()):
            if first - JOIN_NS > end or last + JOIN_NS < begin:
                continue
            bursts = {s for s in stalls if s.begin <= end and s.kind == BURST}
            before = {s for s in stalls if s.begin <= end} - bursts
            longest = max((s.stalled_ns for s in before), default=0)
            significant = {s for s in before if s.stalled_ns >= MATTERS * longest}
            covered = sum(min(s.stalled_ns, end - s.begin) for s in significant)
            found |= bursts
            # What began it made it, however long a limit or an overload then keeps it up.
            began = {s for s in significant if s.begin <= first <= s.end + JOIN_NS}
            found |= significant if covered >= COVERS * (end - first) else began
        return frozenset(found)

    def hold(self, stalls: set[Stall], server: str, begin: int, end: int) -> bool:
        """Whether they reach most of that time, or what they made busy of the server does."""
        busy = [times for times, of in self.of_busy.get(server, ()) if of & stalls]
        return coverage(spans([*busy, *(self.of_stall[stall] for stall in stalls)]), begin, end) >= WAITED

    def preferred_near(self, server: str, begin: int, end: int) -> set[Stall]:
        """What balancers did to who was held up there."""
        near = (s for s in self.preferred if s.origins & self.record.connected.get(server, frozenset()))
        return {s for s in near if s.begin <= end and begin <= s.end + JOIN_NS}

    def _preferred(self) -> Iterator[Stall]:
        """Nobody injects what a balancer does. Of a server that stalls itself it only makes more wait."""
        for server, intervals in self.record.busy.items():
            own = [s for s in self.stalls if server in s.origins and s.kind != BURST]
            for begin, end in intervals:
                stalled = sum(s.stalled_ns for s in own if s.begin <= end and s.end >= begin)
                if stalled < COVERS * (end - begin) and self.record.preferred(server, begin, end):
                    yield Stall(BALANCER, frozenset({BALANCER}), frozenset({server}), begin, end, end - begin)

    def _reach(self, stall: Stall) -> Interval:
        """From its begin until the queues of its origins are back to normal."""
        ends = [
            last
            for origin in stall.origins
            for first, last in self.record.busy.get(origin, ())
            if first <= stall.end + JOIN_NS and last >= stall.begin
        ]
        return stall.begin, max([stall.end, *ends])

    def _belonging(self, server: str) -> list[tuple[Interval, frozenset[Stall]]]:
        near = [s for s in self.stalls if s.origins & self.record.connected.get(server, frozenset())]
        mine = self.record.drops.filter(pl.col("place") == server)
        lost, back = mine["begin"].to_numpy(), mine["end"].to_numpy()
        found: list[tuple[Interval, frozenset[Stall]]] = []
        for first, last in self.record.busy[server]:
            reached = {s for s in near if self.of_stall[s][0] <= last and first <= self.of_stall[s][1] + JOIN_NS}
            now = int(((lost >= first - JOIN_NS) & (lost <= last)).sum())
            for (earlier, until), stalls in found:
                echoes = (lost >= earlier - JOIN_NS) & (lost <= until) & (back >= first - JOIN_NS) & (back <= last)
                if now and int(echoes.sum()) * 2 >= now:
                    reached |= stalls
            found.append(((first, last), frozenset(reached)))
        return found


def _since_full(record: Record, stall: Stall) -> Stall:
    """A governor looks at whole periods: the clock was too low already when the CPU became full in the one before,
    which is no longer than the stall."""
    if stall.kind != FREQUENCY:
        return stall
    begins = [
        max(first, stall.begin - stall.stalled_ns)
        for origin in stall.origins
        for first, last in record.busy.get(origin, ())
        if first < stall.begin <= last and record.works_at_full(origin, first, stall.begin)
    ]
    return replace(stall, begin=min([stall.begin, *begins]))


def _of_burst(record: Record, stall: Stall) -> tuple[Stall, ...]:
    """A burst begins in whatever it fills: besides the entries, the servers whose accept queues overflow, or whose CPUs
    or workers are all at work while they are busy, until the entries' queues are back to normal (for a second at most:
    then requests that were lost come back). Where workers were the limit and CPUs were not, it is as right to call that
    a soft resource."""
    if stall.kind != BURST:
        return (stall,)
    ends = [last for entry in stall.origins for _, last in _touching(record, entry, stall.begin, stall.end)]
    until = min(max([stall.end + JOIN_NS, *ends]), stall.end + SECOND)
    near = {server for entry in stall.origins for server in record.connected.get(entry, ())}
    times = {
        name: [(max(a, stall.begin), min(b, until)) for a, b in _touching(record, name, stall.begin, until)]
        for name in near
    }
    at_work = {name for name in near if any(record.works_at_full(name, *busy) for busy in times[name])}
    limited = {name for name in near if any(record.is_limited(name, *busy) for busy in times[name])}
    limited |= set(record.drops.filter(pl.col("begin").is_between(stall.begin, until))["place"]) & near
    burst = replace(stall, origins=stall.origins | at_work | limited)
    soft = replace(stall, origins=frozenset(limited - at_work), causes=frozenset({SOFT}))
    return (burst, soft) if soft.origins else (burst,)


def _touching(record: Record, server: str, begin: int, end: int) -> list[Interval]:
    """When it was busy around then."""
    return [(a, b) for a, b in record.busy.get(server, ()) if a <= end + JOIN_NS and b >= begin]


def _between_bursts(record: Record, stalls: tuple[Stall, ...]) -> tuple[Times, Times]:
    """When no burst was on while requests were sent: begins and ends."""
    first, last = record.sending
    edges = [first]
    # All of a batch are sent in one moment, which is its begin and its end.
    for begin, end in sorted((s.begin, max(s.end, s.begin + JOIN_NS)) for s in stalls if s.kind == BURST):
        if end > edges[-1] and begin < last:
            edges += [max(begin, edges[-1]), end]
    edges.append(max(last, edges[-1]))
    return np.array(edges[::2], dtype=np.int64), np.array(edges[1::2], dtype=np.int64)


def _worth_the_name(record: Record, burst: Stall, between: tuple[Times, Times]) -> Stall | None:
    """A burst for as long as, since it began, twice as many and twenty more came than between bursts, of all requests
    or of those of one interaction (which may come to servers that others do not): to its end, or of clients who all
    come at once and stay, until what they asked at first is no longer much. (Those of the other bursts are not usual,
    however much of the run they fill.) A third more are enough where a server on their way has no CPU, worker or
    connection to spare meanwhile."""
    begin = max(burst.begin, record.sending[0])
    length = max(burst.end - begin, JOIN_NS)
    apart = max(int((between[1] - between[0]).sum()), length)
    way = {name for entry in burst.origins for name in record.connected.get(entry, ())}
    times = begin, begin + length
    filled = any(record.works_at_full(name, *times) or record.is_limited(name, *times) for name in way)
    lasted = 0
    for sent in record.sent:
        usual = int((np.searchsorted(sent, between[1]) - np.searchsorted(sent, between[0])).sum()) / apart
        first, last = np.searchsorted(sent, (begin, begin + length))
        lengths = np.append(np.maximum(sent[first:last] - begin, JOIN_NS), length)
        came = np.searchsorted(sent, begin + lengths, "right") - first
        enough = came >= np.maximum(2 * usual * lengths, usual * lengths + 20)
        if filled:
            enough |= came >= usual * lengths + np.maximum(FILLS * usual * np.maximum(lengths, WAVE_NS), 20)
        lasted = max(lasted, int(lengths[enough].max(initial=0)))
    return None if lasted == 0 else burst if lasted >= length else replace(burst, end=begin + lasted)
