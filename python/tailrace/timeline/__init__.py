"""Visits and requests, window by window, and what can be read from the windows alone.

`windows` is the exact reduction (design, section 5); the rest are pure functions over its frames: which windows are
congested or frozen, where a queue sticks at its limit, when it began to rise. Nothing here judges; the diagnosis does.
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
