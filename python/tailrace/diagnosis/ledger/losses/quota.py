"""The CPU quota of the server's group was used up: `cpu_throttled`, the share of time in which it was held back."""

from __future__ import annotations

from tailrace.diagnosis.causes.cpu_quota import CAUSE
from tailrace.diagnosis.ledger.losses.loss import Loss, Seen

__all__ = ["CAUSE", "EVENTS", "METRICS", "PLAIN", "SAYS", "find"]

SAYS = "the CPU quota of {server}"
PLAIN = "the CPU quota of {origin} was used up"
METRICS, EVENTS = ("cpu_throttled",), ()


def find(seen: Seen, server: str) -> Loss | None:
    return seen.sampled(server, "cpu_throttled")
