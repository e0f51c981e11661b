"""This module defines the input of every detector, and the test that turns evidence into a verdict for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from tailrace.diagnosis import tasks
from tailrace.diagnosis.demand import Demand
from tailrace.diagnosis.evidence import Fit, fit
from tailrace.diagnosis.finding import CauseEvidence, Number, Verdict
from tailrace.diagnosis.millibottleneck import Stall
from tailrace.diagnosis.queues import DEVIATIONS
from tailrace.diagnosis.series import AT_WORK, Series
from tailrace.diagnosis.spans import Spans, contains, overlap, spans, union, where, without
from tailrace.diagnosis.view import View
from tailrace.diagnosis.vlrt import Cluster, Slow
from tailrace.diagnosis.words import clock, duration, share
from tailrace.units import MILLISECOND, SECOND

COVERAGE = 0.5
"""A cause acts during at least half of the stall that it explains. Otherwise, the other half stays unexplained."""
LIFT = 5.0
"""A cause is at least five times as present in stalls as in calm time: what is present for a fifth of calm time
coincides with one of five stalls by chance. (For several stalls, the p-value of random shifts shows the same. In a
short recording with stalls in a rhythm it cannot be small, so it only ranks what was found.)"""
LATE_SHARE = 0.2
"""A cause begins in the first fifth of the stall (or in its first window, or before the stall first affects a
request). Effects come after causes, but a queue may have been longer than usual before the cause came."""
LONG = 0.25
"""A queue is long if it is at least a quarter of the origin's own queue in the stall. The rest of the queue may have
existed before, or may wait for requests that were pushed back."""
BEFORE_NS = 2 * SECOND
"""If there was no trouble for this long before a stall, the system would have stayed calm without the stall. This is
twice the retransmission timeout, so an earlier packet loss would show."""
FEW = 0.01
"""If at most this share of the requests was very slow before, any earlier trouble had passed."""
REACH = 10
"""A cause reaches at least half of the requests. A server at up to 90 % use works off the backlog of a stall in ten
times the length of the stall: length / (1 - use). If a queue is still long after that, something else keeps it up."""


@dataclass(frozen=True)
class Sign:
    """A sign is what a detector found: when it showed, the length of a step, and a description in words and numbers."""

    when: Spans
    step_ns: int
    what: str
    place: str | None = None
    """None means the origin."""
    numbers: Mapping[str, Number] = field(default_factory=dict)
    but: str | None = None
    """If given, this reason shows that the sign is not the cause."""
    enough: bool = False
    """It is true if demand and capacity explain the stall. Then the sign is no chance, even if it is as frequent
    outside stalls (at times when no request became very slow)."""
    after: Spans = field(default_factory=lambda: spans([]))
    """These parts of `when` are an effect of a stall, and do not count as chance."""


@dataclass(frozen=True)
class Case:
    """A case is one stall with everything that may explain it."""

    view: View
    slow: Slow
    cluster: Cluster
    stall: Stall
    stalls: Spans
    """These are all stalls of the same origin, and they include this one."""
    known: dict[tuple[str, ...], bool]
    """Detectors found this out about the whole recording. The cases of a diagnosis share it."""

    @property
    def origin(self) -> str:
        return self.stall.origin

    @property
    def counted(self) -> Spans:
        """Return all stalls, and the calm time in which the origin was calm, too. If its queue was long although no
        request became very slow, it also stalled, so this time is left out. The time after a stall, until the backlog
        is worked off, is neither stall nor calm time: the stall may be the reason for what shows then."""
        return union([without(self.slow.calm, self._long), self.stalls])

    @cached_property
    def _long(self) -> Spans:
        """Return when the origin's own queue was long relative to its peak in this stall, and longer than by chance.
        Suppose that the tail of a queue is geometric (M/M/1: P(N ≥ n) = ρⁿ) and that the queue exceeds m in half of the
        time. Then it exceeds log 100 / log 2 = 6.64 times m + 1 in a hundredth of the time."""
        step = self.view.step(max(self.view.window_ns // 5, MILLISECOND))
        edges = np.arange(self.view.begin, self.view.end + step, step, dtype=np.int64)
        queue = self.view.own_queue(self.origin, edges[:-1])
        calm = queue[contains(self.slow.calm, edges[:-1])]
        high = 6.64 * (float(np.median(calm)) + 1) if len(calm) else 0.0
        return where(edges[:-1], edges[1:], queue > max(LONG * self.stall.rise.peak, high))

    @property
    def visits_per_request(self) -> float:
        """Return the usual visits to the origin per request. Use the whole recording if there are usually no
        arrivals."""
        if self.stall.arrivals_calm > 0:
            return self.stall.throughput_calm / self.stall.arrivals_calm
        came = len(self.view.asked(self.origin).arrivals)
        return len(self.view.stays[self.origin].departures) / max(came, 1)

    def demand(self, by: str | None = None) -> Demand:
        """Return the service demand of requests at the origin, or at the server behind it that sets their weight."""
        return self.view.demand(self.origin, by or self.origin, self.slow.calm)

    def usual(self, series: Series) -> float:
        return self.slow.usual(series)

    def inside(self, series: Series) -> float:
        """Return the median of the series in this stall, or 0 if it has no sample there."""
        return series.median(self.stall.begin, self.stall.end) or 0.0

    def throttled(self, server: str) -> float:
        """Return the share of the stall in which a server's quota held it back, or 0 if there are no samples of it."""
        return self.view.throttled(server, self.stall.begin, self.stall.end)

    def standing_out(self, series: Series, least: float) -> Spans:
        """Return when the series was nearer to its value in this stall than to its usual value, and was at `least`."""
        return series.above(max((self.inside(series) + self.usual(series)) / 2, least))

    def while_queued(self, table: Spans) -> Spans:
        """Return the parts in whose middle the origin's own queue was filled: idle time is not part of a stall."""
        if len(table) == 0:
            return table
        pieces = [
            (a, min(a + 100 * MILLISECOND, int(end)))
            for begin, end in table.tolist()
            for a in range(int(begin), int(end), 100 * MILLISECOND)
        ]
        middle = np.array([(a + b) // 2 for a, b in pieces], dtype=np.int64)
        filled = self.view.own_queue(self.origin, middle) > 2
        return spans([piece for piece, full in zip(pieces, filled.tolist(), strict=True) if full], gap=1)

    @property
    def waited_for_cpu(self) -> float | None:
        """Return the share of the stall in which the origin itself waited for a CPU, by its pressure. Without samples
        of the pressure, return an upper bound: the share in which one of its threads was runnable. Without samples of
        the threads, too, return None."""
        for series in self.view.series(self.origin, "psi_cpu"):
            if self.view.is_own(series.place, self.origin) and series.resolves(self.stall.begin, self.stall.end):
                return self.inside(series)
        return self.tasks.runnable if self.tasks is not None else None

    @cached_property
    def tasks(self) -> tasks.Tasks | None:
        """Return what the threads of the origin did in the stall."""
        times = np.linspace(self.stall.begin, self.stall.end, 100, dtype=np.int64)
        return tasks.of(self.view, self.origin, times)

    def cpus_of(self, place: str) -> frozenset[int]:
        """Return the CPUs that the origin, or a place of samples, may use. The set is empty if they are not known."""
        own = self.view.series(self.origin, "cpu_busy")
        sampled = own[0].place if own and place == self.origin else place
        return frozenset(self.view.topology.cpus.get(sampled, ()))

    def called(self, place: str) -> str:
        """Return the name by which a reader knows a place of samples: that of the origin, or of another server."""
        return self.origin if self.view.is_own(place, self.origin) else self.view.topology.called(place)

    def when(self, begin: int, end: int) -> str:
        return f"from {clock(self.view, begin)} for {duration(end - begin)}"

    def weigh(self, cause: str, sign: Sign) -> CauseEvidence:
        """Return the verdict on a sign."""
        stall = self._since(sign.when), self.until
        least = COVERAGE if sign.but is None else 1.1
        measured = fit(sign.when, stall, self.stalls, without(self.counted, sign.after), sign.step_ns, least)
        against = sign.but or _against(measured, self._slack(), sign.enough) or self._out_of_reach(sign.when)
        verdict: Verdict = "absent" if against else "found"
        covers = f"it covers {share(measured.coverage)} of the stall of {self.origin}"
        if measured.lift is not None and not against:
            covers += f" and is {measured.lift:,.0f} times as frequent in stalls as outside"
        sentence = f"{sign.what}; {covers}." if not against else f"{sign.what}, but {against}."
        return CauseEvidence(
            cause,
            self.called(sign.place or self.origin),
            verdict,
            sentence,
            measured.coverage,
            measured.lift,
            measured.p_value,
            measured.lead_ns,
            measured.begin,
            measured.end,
            dict(sign.numbers),
        )

    def _since(self, when: Spans) -> int:
        """Return the onset of a stall. It is accurate to one window, so a sign that begins within the first window
        moves it to the begin of the sign."""
        begin, end = self.stall.begin, min(self.stall.begin + self.view.window_ns, self.stall.end - 1)
        onset = when[int(np.searchsorted(when[:, 1], begin, "right")) :, 0][:1]
        return int(np.clip(onset, begin, end)[0]) if len(onset) and onset[0] <= end else begin

    @property
    def until(self) -> int:
        """Return the end of the time in which the stall affected requests. It is at least two windows after the begin,
        because the onset is accurate to one window. It is never after the end of the stall."""
        begin, end, over = self.stall.begin, self.stall.end, self.stall.over
        return end if over is None else min(end, max(over, begin + 2 * self.view.window_ns))

    def _slack(self) -> int:
        late = int(LATE_SHARE * (self.stall.end - self.stall.begin))
        return max(self.view.window_ns, late, self.stall.felt - self.stall.begin)

    def _out_of_reach(self, when: Spans) -> str | None:
        if self.begins_an_overload:
            return None
        if self.slow.normal_ns >= self.slow.threshold_ns:
            return f"most requests take {duration(self.slow.normal_ns)} and more: the system is overloaded"
        rows = self.slow.requests[self.cluster.rows]
        reach = spans(np.column_stack((when[:, 0], when[:, 0] + REACH * (when[:, 1] - when[:, 0]))))
        reached = overlap(reach, rows["sent"].to_numpy(), rows["end"].to_numpy()) > 0
        part = float(reached.mean())
        return None if part >= COVERAGE else f"{share(1 - part)} of the requests were sent when that was long over"

    @cached_property
    def begins_an_overload(self) -> bool:
        """Return whether almost no request was very slow before the stall, the servers had CPU to spare, and the
        request rate did not rise later. Then an overload that follows the stall without a pause would not exist without
        the stall, however long it lasts. Clients send again what they gave up, or send it twice: the overload causes
        these additional requests, so they do not count."""
        begin, until = self.view.begin, self.stall.begin - self._slack()
        sent, slow = self.view.sent_for_good, self.slow.requests["sent"].to_numpy()
        before, earlier = int(np.searchsorted(sent, until)), int(np.searchsorted(slow, until))
        if until - begin < BEFORE_NS or earlier > FEW * before:
            return False
        later = int(np.searchsorted(sent, self.cluster.end)) - before
        usual = before * (self.cluster.end - until) / (until - begin)
        if later > usual + DEVIATIONS * max(usual, 1.0) ** 0.5:
            return False
        return not any(
            (busy.mean(begin, self.stall.begin) or 0.0) >= AT_WORK * busy.capacity
            for server in self.view.chain_of(self.origin)
            for busy in (*self.view.series(server, "cpu_busy"), *self.view.shared_cpu(server))
        )

    def nothing(self, cause: str, sentence: str, numbers: Mapping[str, Number] | None = None) -> CauseEvidence:
        return CauseEvidence(cause, self.origin, "absent", sentence, coverage=0.0, numbers=dict(numbers or {}))

    def unknown(self, cause: str, missing: str | None, what: str | None = None) -> CauseEvidence:
        """Return the evidence if `what` is not recorded. `missing` is the datum from which Tailrace would read it."""
        return CauseEvidence(cause, self.origin, "unknown", f"Not recorded: {what or missing}.", missing=missing)


def _against(found: Fit, slack: int, enough: bool) -> str | None:
    if found.coverage < COVERAGE:
        return f"it covers only {share(found.coverage)} of the stall" if found.coverage > 0 else "not in the stall"
    if found.lift is not None and found.lift < LIFT and not enough:
        return f"it is about as frequent outside stalls (lift {found.lift:.1f})"
    if found.lead_ns is not None and found.lead_ns < -slack:
        return f"it began {duration(-found.lead_ns)} after the stall"
    return None
