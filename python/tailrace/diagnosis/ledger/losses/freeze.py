"""The server stood still: the recording has events of kind `freeze`, or samples of stopped threads. Without these,
`account` attributes to a stop what the server lacked while it used no CPU. If some of its processes were stopped and
others answered, the visits that left late and when the stop was over were held up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tailrace.diagnosis import tasks
from tailrace.diagnosis.constants import LONG_NS, MOSTLY, STEP_NS
from tailrace.diagnosis.ledger.delays import Delays
from tailrace.diagnosis.ledger.losses.loss import Loss, Seen, most
from tailrace.diagnosis.ledger.recorded import Recorded
from tailrace.diagnosis.ledger.steps import NEVER
from tailrace.diagnosis.series import Series
from tailrace.diagnosis.spans import Spans, spans
from tailrace.diagnosis.view import View
from tailrace.units import MICROSECOND

CAUSE = "freeze"
SAYS = "the stop of {server}"
PLAIN = "{origin} neither answered nor used its CPU, as if it was stopped or all its workers waited"
SEEN = "a signal, a debugger or a frozen control group stopped {origin}"
"""It replaces `PLAIN` where the states of the threads show it."""
METRICS, EVENTS = ("cpu_busy", "tasks_stopped"), ()
COMPUTES = False

WOKEN_NS = 5 * MICROSECOND
"""A thread that is woken uses at least so much CPU: two context switches of a few microseconds each."""


def find(seen: Seen, server: str) -> Loss | None:
    whole = most(seen.recorded(server, "freeze"), stopped(seen, server))
    held_up = None if seen.recorded_visits is None else _held_up(seen, seen.recorded_visits, server)
    return replace(whole, delays=held_up) if whole is not None and held_up is not None else whole


def _held_up(seen: Seen, recorded: Recorded, server: str) -> Delays | None:
    """Return the late visits that left when a stop of some processes was over, and how long it held each up."""
    stops, apart = _of_some(seen, server)
    if not len(stops):
        return None
    here = np.flatnonzero(recorded.server == recorded.number[server])
    here = here[recorded.late(here, recorded.start[here])]
    start, left = recorded.start[here], recorded.departure[here]
    lasts = np.zeros(len(here), dtype=np.int64)
    for first, last in seen.steps.shortened(stops).tolist():
        # The recorder reads a process that uses no CPU in one of four rounds, of 50 ms by default.
        soonest = last - 2 * LONG_NS
        held = (start < soonest) & (left >= soonest) & (left <= last + apart)
        lasts = np.where(held, left - np.maximum(start, first), lasts)
    return Delays.paused(here[lasts > 0], lasts[lasts > 0]) if lasts.any() else None


def _of_some(seen: Seen, server: str) -> tuple[Spans, int]:
    """Return the stops in which visits left all the same, and how far apart the samples are that show them."""
    for threads in seen.view.series(server, METRICS[1])[:1]:
        apart, moments = threads.interval_ns, threads.end[threads.value >= 1.0]
        # Samples that follow each other are one stop, also if one of them is missing.
        stops = spans(np.column_stack((moments - 2 * apart, moments)))
        left = np.searchsorted(seen.view.stays[server].departures, stops)
        return stops[left[:, 0] < left[:, 1]], apart
    return np.empty((0, 2), dtype=np.int64), 0


def stopped(seen: Seen, server: str) -> Loss | None:
    """Return the steps in which something stopped threads, or None if that was not sampled. A sample shows
    one moment. Its stop is between the last visit that left before it and the first that left after it, and not longer
    than to the samples on either side."""
    left = np.concatenate(([-NEVER], seen.view.stays[server].departures, [NEVER]))
    for threads in seen.view.series(server, METRICS[1])[:1]:
        moments, apart = threads.end[threads.value >= 1.0], threads.interval_ns
        begin = np.maximum(left[np.searchsorted(left, moments, "left") - 1], moments - apart)
        end = np.minimum(left[np.searchsorted(left, moments, "right")], moments + apart)
        covered = seen.covered([np.column_stack((begin, end))])
        return Loss((covered > MOSTLY).astype(float), 0)
    return None


def is_seen(view: View, server: str, begin: int, end: int) -> bool:
    """Return whether the states of its threads show that a server was stopped for most of this time."""
    threads = tasks.of(view, server, np.arange(begin, end, STEP_NS, dtype=np.int64))
    return threads is not None and threads.stopped >= MOSTLY


def ran(seen: Seen, own: Series, first: int, last: int) -> bool:
    """Return whether a server used any CPU in the steps [first, last). A stopped one uses none at all. The samples at
    the edges do not count: they also contain what it used before and after."""
    begin, end = int(seen.steps.begins[first]), int(seen.steps.begins[last - 1]) + STEP_NS
    inside = (own.begin >= begin + own.interval_ns) & (own.end <= end - own.interval_ns)
    return bool((own.value[inside] * own.interval_ns >= WOKEN_NS).any())


def missing(view: View, server: str) -> str | None:
    known = view.events_of("freeze") or view.series(server, "cpu_busy")
    return None if known else f"cpu_busy of {server}"
