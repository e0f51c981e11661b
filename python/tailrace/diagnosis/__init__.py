"""Why did these requests take seconds? Five steps answer this, and each gives a verdict and its evidence."""

from __future__ import annotations

from tailrace.diagnosis import (
    basis,
    cause,
    chain,
    drops,
    episodes,
    ledger,
    losses,
    millibottleneck,
    overflow,
    tables,
    vlrt,
    waiting,
)
from tailrace.diagnosis.constants import WINDOW_NS
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


def diagnose(dataset: tables.Tables, *, threshold_ns: int | None = None, window_ns: int = WINDOW_NS) -> Diagnosis:
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
    verdicts = ledger.judge(seen, slow)
    explained = tuple(
        cause.explain(seen, *each[:3], lambda there: millibottleneck.find(seen, slow, there), each[3])
        for each in zip(slow.clusters, lost, overflows, verdicts, strict=True)
    )
    found = seen.clock.restore(chain.link(seen, slow, lost_packets, lost, explained, verdicts))
    return basis.named(found, dataset.topology, dataset.inputs)
