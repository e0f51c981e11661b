"""Visits and requests, window by window, and what the windows alone show.

`windows` is the exact reduction (docs/design.md, section 5). The rest are pure functions over its frames: which windows
are congested or frozen, where a queue stays at its limit, and when it began to rise. They describe; the diagnosis
judges.
"""

from tailrace.timeline.congestion import (
    CongestionPoint,
    classify,
    congestion_point,
    intervention_point,
    service_times,
    work_throughput,
)
from tailrace.timeline.queues import Baseline, Plateau, baseline, onset, plateau, stretches
from tailrace.timeline.windows import vlrt_by_sent, windows

__all__ = [
    "Baseline",
    "CongestionPoint",
    "Plateau",
    "baseline",
    "classify",
    "congestion_point",
    "intervention_point",
    "onset",
    "plateau",
    "service_times",
    "stretches",
    "vlrt_by_sent",
    "windows",
    "work_throughput",
]
