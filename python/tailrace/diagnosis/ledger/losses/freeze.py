"""The server stood still: the recording has events of kind `freeze`. Without events, `account` attributes to a stop
what the server lacked while it used no CPU."""

from __future__ import annotations

from tailrace.diagnosis.causes.freeze import CAUSE
from tailrace.diagnosis.ledger.losses.loss import Loss, Seen

__all__ = ["CAUSE", "EVENTS", "METRICS", "PLAIN", "SAYS", "find"]

SAYS = "the stop of {server}"
PLAIN = "{origin} neither answered nor used its CPU, as if it was stopped or all its workers waited,"
METRICS, EVENTS = ("cpu_busy", "tasks_stopped"), ()


def find(seen: Seen, server: str) -> Loss | None:
    return seen.recorded(server, "freeze")
