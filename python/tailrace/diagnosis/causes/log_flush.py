"""A log was flushed, and the server waited for the disk.

What it looks for
    The origin waiting for I/O over the stall while bytes that appeared at once (within 0.3 s) are forced out, or no
    gathered dirty pages are written back at all (`rpc-vs-async` IV-B and figure 5: a monitor flushing its own log
    every 30 s). Or events of kind `log_flush`.
Evidence needed
    `psi_io`, `cpu_iowait` or `disk_busy` of the origin or its node; `dirty_bytes` and `writeback_bytes` tell a flush
    from writeback.
What it is confused with
    Writeback of dirty pages gathered over seconds (`writeback`): without dirty or writeback samples, or where what they
    show is too little to decide, both are reported, unless events say which it was.
    Backups and scans, which keep a disk busy all the time: they are not more frequent in stalls.
Thresholds and where they come from
    I/O waits from `millibottleneck.LIMITS`; 1 MB and 0.3 s from `disk`.
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
