"""The kernel wrote dirty pages back, and the server waited for the disk.

What it looks for
    The origin waits for I/O over the stall, or its `writeback_bytes` are high, while dirty pages that had gathered for
    seconds fall (`balancers` III-B). Or there are events of kind `writeback`.
Evidence needed
    It needs `dirty_bytes` or `writeback_bytes` of the origin or its host. `psi_io`, `cpu_iowait` or `disk_busy` make
    the evidence firmer.
What it is confused with
    It is confused with a log flush. A log flush hands its bytes over at once (`log_flush`), or is recorded where the
    bytes show nothing. It is also confused with a slow trickle of writeback that goes on all the time. The trickle is
    not more frequent in stalls.
Thresholds and where they come from
    The I/O waits come from `millibottleneck.LIMITS`. The 1 MB and 0.3 s come from `disk`.
"""

from __future__ import annotations

from tailrace.diagnosis.causes import disk
from tailrace.diagnosis.causes.case import Case, Sign
from tailrace.diagnosis.finding import CauseEvidence
from tailrace.units import format_bytes

CAUSE = "writeback"


def detect(case: Case) -> CauseEvidence:
    told = disk.told(case, CAUSE, "writeback")
    if told is not None:
        return told
    wait = disk.wait(case)
    if wait is None:
        return case.unknown(CAUSE, f"dirty_bytes and writeback_bytes of {case.origin} or its host")
    numbers = {"bytes_written_back": wait.bytes_written}
    if not wait.what:
        return case.nothing(CAUSE, f"{case.origin} did not wait for I/O.", numbers)
    what = wait.what
    but = {
        "none": "no dirty pages were written back",
        "sudden": "the bytes written had appeared at once (a flush)",
    }.get(wait.came)
    if wait.came == "unknown" and disk.said_otherwise(case, "log_flush"):
        but = "a log flush is recorded meanwhile"
    if case.stall.has("cpu_busy"):
        but = f"the CPU of {case.origin} was saturated"
    if wait.came == "gathered":
        what += f" while {format_bytes(int(wait.bytes_written))} of gathered dirty pages were written back"
    return case.weigh(CAUSE, Sign(wait.evidence, wait.resolution, what, numbers=numbers, place=wait.place, but=but))
