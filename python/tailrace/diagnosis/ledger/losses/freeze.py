"""The server stood still: the recording has events of kind `freeze`, or samples of stopped threads. Without these,
`account` attributes to a stop what the server lacked while it used no CPU."""

from __future__ import annotations

from tailrace.diagnosis.ledger.losses.loss import Loss, Seen, blur, most
from tailrace.diagnosis.series import Series
from tailrace.diagnosis.view import View

CAUSE = "freeze"
SAYS = "the stop of {server}"
PLAIN = "{origin} neither answered nor used its CPU, as if it was stopped or all its workers waited,"
METRICS, EVENTS = ("cpu_busy", "tasks_stopped"), ()
COMPUTES = False


def find(seen: Seen, server: str) -> Loss | None:
    return most(seen.recorded(server, "freeze"), *(_stopped(seen, one) for one in seen.view.series(server, METRICS[1])))


def _stopped(seen: Seen, threads: Series) -> Loss:
    """Return the time in which threads were stopped by a signal or a debugger."""
    return Loss((seen.at(threads) >= 1.0).astype(float), blur(threads))


def missing(view: View, server: str) -> str | None:
    known = view.events_of("freeze") or view.series(server, "cpu_busy")
    return None if known else f"cpu_busy of {server}"
