"""Why did these requests take seconds? Five steps, each with a verdict and its evidence."""

from __future__ import annotations

from tailrace.diagnosis import causes, chain, drops, episodes, millibottleneck, overflow, view, vlrt
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


def diagnose(dataset: view.Tables, *, threshold_ns: int | None = None, window_ns: int = 50_000_000) -> Diagnosis:
    """Explain the very long response times of a dataset. `threshold_ns` says what is very long (else 0.95 s or a gap
    between the modes of the response times); `window_ns` is the step in which the order of events is judged."""
    seen = view.look(dataset, window_ns)
    slow = episodes.separate(seen, vlrt.find(seen, threshold_ns))
    lost = drops.find(seen, slow)
    overflows = overflow.find(seen, slow, lost)
    stalls = millibottleneck.find(seen, slow, overflows)
    found = causes.find(seen, slow, lost, overflows, stalls)
    return chain.link(seen, slow, lost, overflows, stalls, found)
