"""What every detector is given, and how evidence becomes a verdict: the same test for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tailrace.diagnosis.evidence import fit
from tailrace.diagnosis.finding import CauseEvidence, Number, Verdict
from tailrace.diagnosis.millibottleneck import Stall
from tailrace.diagnosis.series import Series
from tailrace.diagnosis.spans import Spans, spans
from tailrace.diagnosis.view import View
from tailrace.diagnosis.vlrt import Slow
from tailrace.diagnosis.words import clock, duration
from tailrace.units import MILLISECOND

COVERAGE = 0.5
"""A cause acts through at least half of the stall that it explains; else the other half stays unexplained."""
LIFT = 3.0
"""… and is at least three times as present in stalls as elsewhere; what is always there explains nothing."""
P_VALUE = 0.2
"""… and would cover as much of stalls put at random times in under a fifth of the cases. Lenient, for a short
recording with a few stalls in a rhythm cannot show less; coverage, lift and order carry the weight."""
LATE_SHARE = 0.2
"""… and does not begin later than a fifth into the stall (or one window, or when it was first felt): effects come after
causes, but a queue may have been longer than usual already when the cause came."""


@dataclass(frozen=True)
class Case:
    """One stall with everything that may explain it."""

    view: View
    slow: Slow
    stall: Stall
    stalls: Spans
    """All stalls of the same origin, this one included."""
    known: dict[tuple[str, ...], bool]
    """What detectors found out about the recording as a whole: shared by the cases of a diagnosis."""

    @property
    def origin(self) -> str:
        return self.stall.origin

    @property
    def recording(self) -> tuple[int, int]:
        return self.view.begin, self.view.end

    def usual(self, series: Series) -> float:
        return self.slow.usual(series)

    def busy(self, series: Series) -> bool:
        """Whether the values in this stall stand out from the usual ones at all."""
        inside = series.median(self.stall.begin, self.stall.end)
        return inside is not None and inside > 1.5 * self.usual(series)

    def standing_out(self, series: Series, least: float) -> Spans:
        """When the series was nearer to its value in this stall than to its usual one, and at `least`."""
        inside = series.median(self.stall.begin, self.stall.end) or 0.0
        return series.above(max((inside + self.usual(series)) / 2, least))

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

    def when(self, begin: int, end: int) -> str:
        return f"from {clock(self.view, begin)} for {duration(end - begin)}"

    def weigh(
        self,
        cause: str,
        evidence: Spans,
        resolution: int,
        *,
        what: str,
        numbers: Mapping[str, Number] | None = None,
        place: str | None = None,
        but: str | None = None,
        late_share: float = LATE_SHARE,
    ) -> CauseEvidence:
        """The verdict on evidence given as intervals. `what` happened, in words; `but` is a reason against it."""
        stall = self.stall.begin, self.stall.end
        least = COVERAGE if but is None else 1.1
        measured = fit(evidence, stall, self.stalls, self.recording, resolution, least)
        slack = max(
            self.view.window_ns,
            int(late_share * (self.stall.end - self.stall.begin)),
            self.stall.felt - self.stall.begin,
        )
        against = but or _against(measured.coverage, measured.lift, measured.p_value, measured.lead_ns, slack)
        verdict: Verdict = "absent" if against else "found"
        covers = f"it covers {measured.coverage:.0%} of the stall of {self.origin}"
        if measured.lift is not None and not against:
            covers += f" and is {measured.lift:,.0f} times as frequent in stalls as outside"
        sentence = f"{what}; {covers}." if not against else f"{what}, but {against}."
        return CauseEvidence(
            cause,
            place or self.origin,
            verdict,
            sentence,
            measured.coverage,
            measured.lift,
            measured.p_value,
            measured.lead_ns,
            measured.begin,
            measured.end,
            dict(numbers or {}),
        )

    def nothing(self, cause: str, sentence: str, numbers: Mapping[str, Number] | None = None) -> CauseEvidence:
        return CauseEvidence(cause, self.origin, "absent", sentence, coverage=0.0, numbers=dict(numbers or {}))

    def unknown(self, cause: str, missing: str) -> CauseEvidence:
        return CauseEvidence(cause, self.origin, "unknown", f"Not recorded: {missing}.", missing=missing)


def _against(coverage: float, lift: float | None, p_value: float | None, lead: int | None, slack: int) -> str | None:
    if coverage < COVERAGE:
        return f"it covers only {coverage:.0%} of the stall" if coverage > 0 else "not in the stall"
    if lift is not None and lift < LIFT:
        return f"it is about as frequent outside stalls (lift {lift:.1f})"
    if lead is not None and lead < -slack:
        return f"it began {duration(-lead)} after the stall"
    if p_value is not None and p_value > P_VALUE:
        return f"chance alone covers as much in {p_value:.0%} of random shifts"
    return None
