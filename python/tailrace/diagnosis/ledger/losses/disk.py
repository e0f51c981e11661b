"""This module finds the time spent waiting for I/O, and which bytes moved.

log flush   bytes are handed over at once and forced out:      dirty ___|▔▔\\____
writeback   dirty pages gather for seconds before               dirty __/▔▔▔▔\\___
memory      pages are read back: more major faults than usual
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tailrace.diagnosis.constants import LONG_NS, STEP_NS
from tailrace.diagnosis.ledger.losses.loss import Loss, Seen, blur, most
from tailrace.diagnosis.series import TAKEN, Series
from tailrace.diagnosis.spans import where
from tailrace.diagnosis.view import View
from tailrace.units import SECOND

OFTEN = 100.0
"""Per second. The slowest disks read a page in 10 ms, so a server that waits for pages all the time waits for a hundred
a second or more. A reclaim frees 32 pages, so an allocation waits for one more often than once in ten milliseconds."""
EVENTS = ("log_flush", "writeback")
"""Where one of these is recorded, no bytes need to show what the disk did."""
WAITS = ("psi_io", "cpu_iowait", "disk_busy")
LEAST_BYTES = 1_000_000
"""Smaller movements of dirty memory go on all the time, and a disk needs only milliseconds for them."""


def waits(seen: Seen, server: str, gathered: bool | None) -> Loss | None:
    """Return the waits for I/O whose bytes had gathered, or had not, or for which this is not known (None)."""
    own = _sampled_waits(seen, server)
    if own is None and (found := _waits_of_host(seen, server)) is not None:
        return found if gathered is None else None
    # If waits were not sampled, the time in which pages were written back shows them.
    found = own or _written(seen, server)
    if found is None:
        return None
    dirty, written = (seen.nearest(server, metric) for metric in ("dirty_bytes", "writeback_bytes"))

    def is_it(begin: int, end: int) -> bool:
        had_gathered = None if dirty is None else _had_gathered(dirty, written, begin, end)
        return had_gathered == gathered and not _reads_back(seen, server, begin, end)

    return _only(seen, found, is_it)


def read_back(seen: Seen, server: str) -> Loss | None:
    """Return the waits for I/O while pages were read back from a disk more often than usual."""
    found = _sampled_waits(seen, server)
    return found and _only(seen, found, lambda begin, end: _reads_back(seen, server, begin, end))


def _only(seen: Seen, found: Loss, is_it: Callable[[int, int], bool]) -> Loss:
    """Return these waits without the stretches for which it is not so."""
    begins, share = seen.steps.begins, np.where(found.share >= TAKEN, found.share, 0.0)
    for begin, end in where(begins, begins + STEP_NS, share > 0.0, gap=found.blur * STEP_NS).tolist():
        if not is_it(begin, end):
            share[(begins >= begin) & (begins < end)] = 0.0
    return Loss(share, found.blur, found.place)


def _reads_back(seen: Seen, server: str, begin: int, end: int) -> bool:
    """Return whether pages were read back from a disk more often than usual in this time."""
    faults = seen.nearest(server, "major_faults")
    if faults is None or not len(inside := faults.during(begin, end)):
        return False
    return float(inside.mean()) >= seen.unusual(faults, OFTEN)


def _sampled_waits(seen: Seen, server: str) -> Loss | None:
    return _in_kernel(seen, server, most(*(seen.sampled(server, metric) for metric in WAITS)))


def _waits_of_host(seen: Seen, server: str) -> Loss | None:
    """Return the waits of the server's host, where only its threads show when the server waited in the kernel, too. The
    host's share is a mean over its CPUs; the part of the processes that were blocked may be larger."""
    of_host = (seen.view.of_host(server, metric) for metric in WAITS)
    found = most(*(Loss(seen.beyond(one), blur(one), one.place) for one in of_host if one is not None))
    blocked = seen.of_processes(server, "tasks_blocked")
    if found is None or blocked is None:
        return None
    meanwhile = replace(blocked, share=np.where(found.share >= TAKEN, blocked.share, 0.0))
    return _in_kernel(seen, server, most(found, meanwhile))


def _written(seen: Seen, server: str) -> Loss | None:
    written = (*seen.view.series(server, "writeback_bytes"), *seen.view.elsewhere("writeback_bytes"))
    found = most(*(Loss((seen.at(one) >= LEAST_BYTES).astype(float), blur(one), one.place) for one in written))
    return _in_kernel(seen, server, found)


def _in_kernel(seen: Seen, server: str, waits: Loss | None) -> Loss | None:
    """Keep the steps in which a thread of the server was blocked in the kernel, as by a disk. Keep the steps in which
    this was not sampled."""
    blocked = next(iter(seen.view.series(server, "tasks_blocked")), None)
    if waits is None or blocked is None:
        return waits
    return replace(waits, share=np.where(seen.at(blocked) < 1.0, 0.0, waits.share))


def _had_gathered(dirty: Series, written: Series | None, begin: int, end: int) -> bool | None:
    """Return whether the bytes had gathered. If the dirty pages do not show it, bytes that are written while no such
    page goes had not. Return None if too few bytes moved to show the difference."""
    found = _shown_by_pages(dirty, begin, end)
    moved = 0.0 if written is None else float(written.during(begin, end).max(initial=0.0))
    return False if found is None and moved >= LEAST_BYTES else found


def _shown_by_pages(dirty: Series, begin: int, end: int) -> bool | None:
    """Return whether dirty pages show that the bytes had gathered, and were not handed over right before the stall.
    When gathered bytes are written, fewer pages are left than there would be otherwise. A flush adds its bytes to those
    pages first, and then they go. Pages of others that only become more show neither."""
    before = dirty.during(begin - 2 * SECOND, begin - LONG_NS)
    inside = dirty.during(begin - LONG_NS, end + SECOND)
    if not len(before) or not len(inside):
        return None
    half = max(len(before) // 2, 1)
    earlier, later = float(np.median(before[:half])), float(np.median(before[-half:]))
    expected = later + max(later - earlier, 0.0)
    peak = int(np.argmax(inside))
    gathered = expected - float(inside.min())
    at_once = float(inside[peak]) - max(expected, float(inside[peak:].min()))
    return gathered >= at_once if max(gathered, at_once) >= LEAST_BYTES else None


def missing(view: View, server: str) -> str | None:
    waits = any(view.series(server, metric) for metric in WAITS)
    return None if waits else f"psi_io, cpu_iowait or disk_busy of {server} or its node"
