"""What every detector is given, and how evidence becomes a verdict: the same test for all of them."""

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
"""A cause acts through at least half of the stall that it explains; else the other half stays unexplained."""
LIFT = 5.0
"""… and is at least five times as present in stalls as in calm time: what is there for a fifth of calm time lies in one
of five stalls by chance. (The p-value of random shifts tells the same of several stalls, but in a short recording with
stalls in a rhythm it cannot be small. It only ranks what was found.)"""
LATE_SHARE = 0.2
"""… and does not begin later than a fifth into the stall (or one window, or when it was first felt): effects come after
causes, but a queue may have been longer than usual already when the cause came."""
LONG = 0.25
"""A queue a quarter as long as the origin's own in the stall is long: the rest may have been there before, or wait for
what was pushed back."""
BEFORE_NS = 2 * SECOND
"""Time without trouble before a stall that tells that a system would have gone on so: twice as long as a lost packet
waits to be sent again, so that what was lost before would show."""
FEW = 0.01
"""So few were very slow before that their trouble, if it was any, had passed."""
REACH = 10
"""… and reached at least half of the requests: what could not be served in a stall is worked off, at up to 90 % use, in
ten times its length (length / (1 - use)). A queue that does not come down by then is kept up by something else."""


@dataclass(frozen=True)
class Sign:
    """What a detector found: when it showed, in steps of what length, and what it was, in words and numbers."""

    when: Spans
    step_ns: int
    what: str
    place: str | None = None
    """The origin, if not told."""
    numbers: Mapping[str, Number] = field(default_factory=dict)
    but: str | None = None
    """A reason why it is not the cause all the same."""
    enough: bool = False
    """Whether it explains the stall by what was asked and what could be done: then chance is no explanation, be it as
    frequent outside (in stalls that made no request very slow)."""
    after: Spans = field(default_factory=lambda: spans([]))
    """What of it is there because of a stall, and no chance either."""


@dataclass(frozen=True)
class Case:
    """One stall with everything that may explain it."""

    view: View
    slow: Slow
    cluster: Cluster
    stall: Stall
    stalls: Spans
    """All stalls of the same origin, this one included."""
    known: dict[tuple[str, ...], bool]
    """What detectors found out about the recording as a whole: shared by the cases of a diagnosis."""

    @property
    def origin(self) -> str:
        return self.stall.origin

    @property
    def counted(self) -> Spans:
        """Stalls, and calm time in which the origin was calm, too: where its queue was long though nobody became very
        slow, it stalled as well. What lasts after a stall, until its backlog is worked off, is neither, and may well be
        there because of it."""
        return union([without(self.slow.calm, self._long), self.stalls])

    @cached_property
    def _long(self) -> Spans:
        """When the origin's own queue was long against its peak in this stall, and longer than chance makes it: a queue
        whose tail is geometric (M/M/1: P(N ≥ n) = ρⁿ) and that exceeds m in half of the time exceeds log 100 / log 2 =
        6.64 times m + 1 in a hundredth of it."""
        step = self.view.step(max(self.view.window_ns // 5, MILLISECOND))
        edges = np.arange(self.view.begin, self.view.end + step, step, dtype=np.int64)
        queue = self.view.own_queue(self.origin, edges[:-1])
        calm = queue[contains(self.slow.calm, edges[:-1])]
        high = 6.64 * (float(np.median(calm)) + 1) if len(calm) else 0.0
        return where(edges[:-1], edges[1:], queue > max(LONG * self.stall.rise.peak, high))

    @property
    def visits_per_request(self) -> float:
        """Of the origin, as usual; in the whole recording if there are usually no arrivals."""
        if self.stall.arrivals_calm > 0:
            return self.stall.throughput_calm / self.stall.arrivals_calm
        came = len(self.view.asked(self.origin).arrivals)
        return len(self.view.stays[self.origin].departures) / max(came, 1)

    def demand(self, by: str | None = None) -> Demand:
        """What requests ask of the origin, or of a server behind it that decides what they count."""
        return self.view.demand(self.origin, by or self.origin, self.slow.calm)

    def usual(self, series: Series) -> float:
        return self.slow.usual(series)

    def inside(self, series: Series) -> float:
        """Its median in this stall; 0 where it has no sample there."""
        return series.median(self.stall.begin, self.stall.end) or 0.0

    def throttled(self, server: str) -> float:
        """Share of the stall in which a server's quota held it back; 0 where that was not sampled."""
        return self.view.throttled(server, self.stall.begin, self.stall.end)

    def standing_out(self, series: Series, least: float) -> Spans:
        """When the series was nearer to its value in this stall than to its usual one, and at `least`."""
        return series.above(max((self.inside(series) + self.usual(series)) / 2, least))

    def while_queued(self, table: Spans) -> Spans:
        """The parts in whose middle the origin's own queue was filled: idle time is no stall."""
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
        """The share of the stall in which the origin itself waited for a CPU, by its pressure; or, where that was not
        sampled, at most: in which one of its threads was runnable. None: not sampled either."""
        for series in self.view.series(self.origin, "psi_cpu"):
            if self.view.is_own(series.place, self.origin) and series.resolves(self.stall.begin, self.stall.end):
                return self.inside(series)
        return self.tasks.runnable if self.tasks is not None else None

    @cached_property
    def tasks(self) -> tasks.Tasks | None:
        """What the threads of the origin did in the stall."""
        times = np.linspace(self.stall.begin, self.stall.end, 100, dtype=np.int64)
        return tasks.of(self.view, self.origin, times)

    def cpus_of(self, place: str) -> frozenset[int]:
        """CPUs that the origin, or a place of samples, may use; empty where that is not known."""
        own = self.view.series(self.origin, "cpu_busy")
        sampled = own[0].place if own and place == self.origin else place
        return frozenset(self.view.topology.cpus.get(sampled, ()))

    def called(self, place: str) -> str:
        """A place of samples as a reader knows it: the origin, or another server, by name."""
        return self.origin if self.view.is_own(place, self.origin) else self.view.topology.called(place)

    def when(self, begin: int, end: int) -> str:
        return f"from {clock(self.view, begin)} for {duration(end - begin)}"

    def weigh(self, cause: str, sign: Sign) -> CauseEvidence:
        """The verdict on a sign."""
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
        """The onset of a stall, which is good to a window: what shows that soon after shows from the begin on."""
        begin, end = self.stall.begin, min(self.stall.begin + self.view.window_ns, self.stall.end - 1)
        onset = when[int(np.searchsorted(when[:, 1], begin, "right")) :, 0][:1]
        return int(np.clip(onset, begin, end)[0]) if len(onset) and onset[0] <= end else begin

    @property
    def until(self) -> int:
        """Until when the stall did something to the requests; two windows at least, for its onset is good to one."""
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
        """Whether nobody was very slow before the stall, the servers had CPU to spare, and no more came later: what
        follows it without a pause would not be there without it, however long it lasts. What clients gave up they asked
        again, or had asked twice: that more came of it is what the overload did."""
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
        """`what` is not recorded; `missing` is the datum that Tailrace would read of it."""
        return CauseEvidence(cause, self.origin, "unknown", f"Not recorded: {what or missing}.", missing=missing)


def _against(found: Fit, slack: int, enough: bool) -> str | None:
    if found.coverage < COVERAGE:
        return f"it covers only {share(found.coverage)} of the stall" if found.coverage > 0 else "not in the stall"
    if found.lift is not None and found.lift < LIFT and not enough:
        return f"it is about as frequent outside stalls (lift {found.lift:.1f})"
    if found.lead_ns is not None and found.lead_ns < -slack:
        return f"it began {duration(-found.lead_ns)} after the stall"
    return None
