"""How many samples of one file are read: as many as fit into memory, and at most a day of a large system.

Reading a sample takes up to 110 bytes. The allocator of the tables reserves address space, which a limit of the process
counts as well: 1.4 GB from the first table on, and 220 bytes for each further sample.
"""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from pathlib import Path

from tailrace.bounds import SAMPLES

_SAMPLES_PER_EVENT = 32
"""An event takes as much memory as so many samples, with its detail."""
_SAMPLES_MIN = 1_000_000
_BYTES_PER_SAMPLE = 220
_BYTES_BESIDES = 1_400 << 20


def samples() -> int:
    return max(_SAMPLES_MIN, min(SAMPLES, (_memory() - _BYTES_BESIDES) // _BYTES_PER_SAMPLE))


def events() -> int:
    """How many events of one file are read."""
    return samples() // _SAMPLES_PER_EVENT


def _memory() -> int:
    """The memory that this process may use: the least of its limits, its control group and the machine."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    of_process, _ = resource.getrlimit(resource.RLIMIT_AS)
    if of_process != resource.RLIM_INFINITY:
        limits.append(of_process)
    with suppress(OSError, ValueError):  # no such group, or the word "max"
        limits.append(int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return min(limits)
