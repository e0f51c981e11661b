"""Processes of the server wrote to a pipe that was full, because nobody read it: a log shipper that stands still, for
example. A thread of the process was sampled in that state while none ran."""

from __future__ import annotations

from tailrace.diagnosis.ledger.losses.loss import Loss, Seen
from tailrace.diagnosis.view import View

CAUSE = "pipe"
SAYS = "the writes of {server} to a full pipe"
PLAIN = "{origin} wrote to a pipe that nobody read (such as that of a log), and waited"
METRICS, EVENTS = ("tasks_pipe_full",), ()
COMPUTES = False


def find(seen: Seen, server: str) -> Loss | None:
    return seen.of_processes(server, METRICS[0])


def missing(view: View, server: str) -> str | None:
    """Return nothing: few servers write to pipes, so a missing sample of this is no reason to record again."""
    return None
