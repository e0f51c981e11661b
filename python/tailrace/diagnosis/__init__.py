"""Why did these requests take seconds? Five steps answer this, and each gives a verdict and its evidence."""

from __future__ import annotations

from tailrace.diagnosis import (
    causes,
    chain,
    confirmed,
    drops,
    episodes,
    ledger,
    losses,
    millibottleneck,
    overflow,
    sustained,
    tables,
    vlrt,
    waiting,
)
from tailrace.diagnosis.finding import (
    CauseEvidence,
    Diagnosis,
    Episode,
    Finding,
    Mode,
    PushBack,
    SummaryRow,
    Unknown,
)

__all__ = [
    "CauseEvidence",
    "Diagnosis",
    "Episode",
    "Finding",
    "Mode",
    "PushBack",
    "SummaryRow",
    "Unknown",
    "diagnose",
]


def diagnose(dataset: tables.Tables, *, threshold_ns: int | None = None, window_ns: int = 50_000_000) -> Diagnosis:
    """Explain the very long response times of a dataset. `threshold_ns` defines what is very long (the default is
    0.95 s or a gap between the modes of the response times). `window_ns` is the step in which the order of events is
    judged."""
    seen = tables.look(dataset, window_ns)
    slow = vlrt.find(seen, threshold_ns)
    known = waiting.usual(seen, slow)
    lost_packets = losses.find(seen, slow)
    slow = episodes.separate(seen, slow, lost_packets, known)
    lost = drops.find(seen, slow, lost_packets)
    overflows = overflow.find(seen, slow, lost, known)
    stalls = millibottleneck.find(seen, slow, overflows, known)
    found = causes.find(seen, slow, lost, overflows, stalls)
    others = millibottleneck.elsewhere(seen, slow, overflows, stalls, known)
    explained = tuple(zip(overflows, stalls, found, strict=True))
    if others != overflows:
        # An origin with neither a saturated resource nor a cause yields to one that has both, or a limit.
        there = millibottleneck.find(seen, slow, others, known)
        why = causes.find(seen, slow, lost, others, there)
        pairs = zip(explained, zip(others, there, why, strict=True), strict=True)
        explained = tuple(new if old[2].name == causes.UNKNOWN and new[2].starts_it else old for old, new in pairs)
    parts = zip(slow.clusters, lost, explained, strict=True)
    explained = tuple(sustained.explain(seen, slow, *part) for part in parts)
    verdicts = ledger.judge(seen, slow)
    explained = tuple(
        confirmed.confirm(*each, lambda other: millibottleneck.find(seen, slow, (other,), known)[0])
        for each in zip(explained, verdicts, strict=True)
    )
    return seen.clock.restore(chain.link(seen, slow, lost_packets, lost, explained, verdicts))
