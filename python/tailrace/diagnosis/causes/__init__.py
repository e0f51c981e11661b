"""Step 5: what caused the millibottleneck. Detectors compete on evidence, and ties are reported as ties. Where nothing
is convincing, the cause is "unknown", and the report names the datum that would settle it.

A new detector needs three things. The first is a file with `CAUSE` and `detect(case) -> CauseEvidence`, documented
under the four headings of the others. The second is its line in DETECTORS. The third is its golden cases (a positive, a
negative, a confusable one) in tests/unit/test_causes.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tailrace.diagnosis import millibottleneck
from tailrace.diagnosis.causes import (
    balancer,
    concurrency_overhead,
    cpu_quota,
    freeze,
    frequency_step,
    garbage_collection,
    log_flush,
    neighbour,
    soft_resource,
    workload_burst,
    writeback,
)
from tailrace.diagnosis.causes.case import Case
from tailrace.diagnosis.drops import Drops
from tailrace.diagnosis.finding import CauseEvidence, Finding, Number
from tailrace.diagnosis.millibottleneck import Kind, Stall
from tailrace.diagnosis.overflow import Overflow
from tailrace.diagnosis.view import View
from tailrace.diagnosis.vlrt import Cluster, Slow
from tailrace.diagnosis.words import listing

Detector = Callable[[Case], CauseEvidence]

DETECTORS: tuple[Detector, ...] = (
    garbage_collection.detect,
    frequency_step.detect,
    neighbour.detect,
    log_flush.detect,
    writeback.detect,
    workload_burst.detect,
    concurrency_overhead.detect,
    balancer.detect,
    soft_resource.detect,
    cpu_quota.detect,
    freeze.detect,
)

AMPLIFIERS = (balancer.CAUSE, concurrency_overhead.CAUSE, soft_resource.CAUSE)
"""They make a stall worse rather than start one (`balancers` III-C, `average` 4). They win if nothing else does, and if
the load on the origin was higher than its capacity. None of them makes a server answer less than usual from the
start."""

RESIDUAL = freeze.CAUSE
"""This cause is inferred from what is missing (no CPU, no answer). It therefore yields to any cause that explains
why."""

TIE = 0.1
"""Causes whose strengths differ by less are reported as a tie. One sampling interval at either end of a stall of half a
second changes its coverage by as much."""

UNKNOWN = "unknown"
PACKET_LOSS = "packet-loss"
"""This cause belongs to no server, and so to no detector. The network, or a filter before the accept queue, lost the
packets."""


@dataclass(frozen=True)
class Cause:
    name: str
    evidence: tuple[CauseEvidence, ...]
    finding: Finding

    @property
    def starts_it(self) -> bool:
        """Return whether the cause is known and can start a stall. The `AMPLIFIERS` cannot, because they only make a
        stall worse. A soft resource is the exception: its limit belongs to one server, so it identifies that server as
        the origin."""
        names = set(self.name.split(" or "))
        return self.name != UNKNOWN and not names & (set(AMPLIFIERS) - {soft_resource.CAUSE})


def find(
    view: View, slow: Slow, lost: tuple[Drops, ...], overflows: tuple[Overflow, ...], stalls: tuple[Stall | None, ...]
) -> tuple[Cause, ...]:
    known: dict[tuple[str, ...], bool] = {}
    origins = {stall.origin: millibottleneck.intervals(stalls, stall.origin) for stall in stalls if stall is not None}
    return tuple(
        _of(Case(view, slow, cluster, stall, origins[stall.origin], known))
        if stall is not None
        else _without_origin(cluster, drops, overflow)
        for stall, cluster, drops, overflow in zip(stalls, slow.clusters, lost, overflows, strict=True)
    )


def _without_origin(cluster: Cluster, lost: Drops, overflow: Overflow) -> Cause:
    if lost.astray and lost.strayed >= lost.unplaced:
        of = "" if lost.strayed == cluster.vlrt else f" of {cluster.vlrt:,}"
        lost_by = "1 request" if lost.strayed == cluster.vlrt == 1 else f"{lost.strayed:,}{of} requests"
        sentence = f"Packets of {lost_by} were lost on the way, and sent again."
        return Cause(PACKET_LOSS, (), Finding("cause", "found", sentence, None, lost.first, lost.last))
    sentence = "The cause is unknown: no origin is known, so no resource can be examined."
    return Cause(UNKNOWN, (), Finding("cause", "unknown", sentence, missing=overflow.finding.missing))


def _of(case: Case) -> Cause:
    evidence = tuple(sorted((detect(case) for detect in DETECTORS), key=strength, reverse=True))
    winners = compete(evidence, case.stall.kind)
    sleeps = case.tasks is not None and case.tasks.slept and case.stall.has("frozen")
    finding = _finding(case.stall, evidence, winners, sleeps)
    return Cause(" or ".join(w.cause for w in winners) or UNKNOWN, evidence, finding)


def strength(evidence: CauseEvidence) -> float:
    """Return the coverage, less what chance would do. Only evidence with the verdict "found" competes."""
    if evidence.verdict != "found":
        return -1.0 if evidence.verdict == "unknown" else -2.0
    chance = evidence.p_value if evidence.p_value is not None else 0.0
    return min(evidence.coverage or 0.0, 1.0) * (1.0 - chance)


def compete(evidence: tuple[CauseEvidence, ...], kind: Kind) -> tuple[CauseEvidence, ...]:
    found = [e for e in evidence if e.verdict == "found"]
    starters = [e for e in found if e.cause not in AMPLIFIERS] or (found if kind == "overload" else [])
    starters = [e for e in starters if e.cause != RESIDUAL] or starters
    best = max((strength(e) for e in starters), default=0.0)
    return tuple(e for e in starters if strength(e) > best - TIE)


def _finding(
    stall: Stall, evidence: tuple[CauseEvidence, ...], winners: tuple[CauseEvidence, ...], sleeps: bool
) -> Finding:
    worse = [e for e in evidence if e.verdict == "found" and e.cause in AMPLIFIERS and e not in winners]
    also = "".join(f" It made it worse that: {e.sentence}" for e in worse)
    if not winners:
        excluded = [e.cause for e in evidence if e.verdict == "absent"]
        sentence = f"The cause is unknown. Excluded: {listing(excluded)}." if excluded else "The cause is unknown."
        if sleeps:
            slept = f"All threads of {stall.origin} slept: they waited for something that was not recorded."
            sentence = f"{slept} {sentence}"
        sentence += also
        missing = "; ".join(_awaited(stall) if sleeps else dict.fromkeys(_wanted(stall, evidence))) or None
        return Finding("cause", "unknown", sentence, stall.origin, stall.begin, stall.end, {}, missing)
    first = winners[0]
    numbers: dict[str, Number] = {
        **first.numbers,
        "cause": " or ".join(w.cause for w in winners),
        "coverage": first.coverage,
        "lift": first.lift,
        "p_value": first.p_value,
        "lead_ns": first.lead_ns,
    }
    sentence = " ".join(winner.sentence for winner in winners)
    if len(winners) > 1:
        sentence = f"The recording does not distinguish these causes: {sentence}"
    sentence += also
    return Finding("cause", "found", sentence, first.place, first.begin, first.end, numbers)


def _awaited(stall: Stall) -> list[str]:
    """Return the data that would show what a server waits for when all its threads sleep."""
    return [f"what {stall.origin} waited for: a capture of the calls that it makes, if it makes any, or its lock waits"]


def _wanted(stall: Stall, evidence: tuple[CauseEvidence, ...]) -> list[str]:
    """Return each datum once that would distinguish the causes that are still possible."""
    open_ = [e for e in evidence if e.verdict == "unknown" and e.missing and plausible(stall, e.cause)]
    if stall.sampled == "yes" or not stall.finding.missing:
        return [str(e.missing) for e in open_]
    # Nothing of the origin was sampled. The data that the fourth step needs come first, then data of other places.
    others = [str(e.missing) for e in open_ if e.cause in (garbage_collection.CAUSE, neighbour.CAUSE)]
    return [stall.finding.missing, *others]


def plausible(stall: Stall, cause: str) -> bool:
    """Return whether a cause that was not recorded is still possible, given what was recorded."""
    saturated = {r.metric for r in stall.resources if r.saturated}
    if cause in (neighbour.CAUSE, cpu_quota.CAUSE, freeze.CAUSE, log_flush.CAUSE, writeback.CAUSE):
        return stall.kind == "collapse" and "cpu_busy" not in saturated
    if cause == garbage_collection.CAUSE:
        return stall.kind == "collapse" and not saturated & {"cpu_withheld", "frozen"}
    if cause in (frequency_step.CAUSE, concurrency_overhead.CAUSE):
        return not saturated & {"cpu_withheld", "frozen"} and stall.throughput_ratio > 0.2
    return True
