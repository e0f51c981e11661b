"""A log was flushed, and the server waited for the disk.

What it looks for
    The origin waits for I/O over the stall. Meanwhile bytes that appeared at once (within 0.3 s) are forced out, or no
    gathered dirty pages are written back at all (`rpc-vs-async` IV-B and figure 5: a monitor flushes its own log every
    30 s). Events of kind `log_flush` are a sign, too.
Evidence needed
    The detector needs `psi_io`, `cpu_iowait` or `disk_busy` of the origin or its node. `dirty_bytes` and
    `writeback_bytes` distinguish a flush from writeback.
What it is confused with
    Writeback of dirty pages gathered over seconds (`writeback`) looks similar. Both causes are reported where dirty or
    writeback samples are missing, or where they show too little to decide, unless events show which cause it was.
    Backups and scans keep a disk busy all the time. They are not more frequent in stalls.
Thresholds and where they come from
    The limits for I/O waits come from `millibottleneck.LIMITS`. The 1 MB and 0.3 s come from `disk`.
"""

from __future__ import annotations

from tailrace.diagnosis.causes import disk
from tailrace.diagnosis.causes.case import Case, Sign
from tailrace.diagnosis.finding import CauseEvidence
from tailrace.units import format_bytes

CAUSE = "log-flush"


def detect(case: Case) -> CauseEvidence:
    told = disk.told(case, CAUSE, "log_flush")
    if told is not None:
        return told
    wait = disk.wait(case)
    if wait is None:
        return case.unknown(CAUSE, f"psi_io, cpu_iowait or disk_busy of {case.origin} or its node")
    numbers = {"bytes_written_back": wait.bytes_written}
    if not wait.what:
        return case.nothing(CAUSE, f"{case.origin} did not wait for I/O.", numbers)
    but = f"the CPU of {case.origin} was saturated" if case.stall.has("cpu_busy") else None
    what = wait.what
    if wait.came == "sudden":
        what += f" while {format_bytes(int(wait.bytes_written))} that had appeared at once were written out"
    elif wait.came == "gathered" and but is None:
        but = "the bytes written had been gathering for seconds (writeback)"
    elif wait.came in ("unknown", "none") and but is None and disk.said_otherwise(case, "writeback"):
        but = "writeback is recorded meanwhile"
    return case.weigh(CAUSE, Sign(wait.evidence, wait.resolution, what, numbers=numbers, place=wait.place, but=but))
