"""How many samples of one file are read: as many as memory has room for, and no more than a day of a large system.

Reading a sample takes 110 bytes at its peak. The allocator of the tables reserves address space, which a limit of the
process counts, too: 1.4 GB from the first table on, and 220 bytes for each sample more.
"""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from pathlib import Path

from tailrace.bounds import SAMPLES

_SAMPLES_MIN = 1_000_000
_BYTES_PER_SAMPLE = 220
_BYTES_BESIDES = 1_400 << 20


def samples() -> int:
    return max(_SAMPLES_MIN, min(SAMPLES, (_memory() - _BYTES_BESIDES) // _BYTES_PER_SAMPLE))


def _memory() -> int:
    """What this process may have: of its limits, its control group and the machine, the least."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    of_process, _ = resource.getrlimit(resource.RLIMIT_AS)
    if of_process != resource.RLIM_INFINITY:
        limits.append(of_process)
    with suppress(OSError, ValueError):  # no such group, or the word "max"
        limits.append(int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return min(limits)
