"""Swap space on a slow disk, for stalls of memory: a file on a loop device that serves few reads a second.

Without swap, the kernel can take from a server only the pages of its files. From a fast disk they come back before
anybody notices.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from tailrace.testbed import disk
from tailrace.testbed.cgroup import mounted
from tailrace.testbed.commands import run
from tailrace.testbed.ledger import Ledger, refuse_taken
from tailrace.testbed.program import command, where

BYTES = 1 << 30
"""More than the memory of a server: Tomcat and MariaDB have some hundred MiB each."""
PAGE = 4096
READS = 3000
"""Per second: what a general-purpose volume of a cloud serves (gp3 of Amazon EBS without an extra). With the
200 of a hard disk, Tomcat needed half a minute to come back after it had lost half of its memory."""
PROGRAMS = ("mkswap", "swapon", "swapoff")
IN_USE = Path("/proc/swaps")


def problem() -> str | None:
    """Why this machine cannot swap out a server's memory."""
    lacking = [name for name in PROGRAMS if command(name) is None]
    if lacking:
        return f"it lacks {', '.join(lacking)} (Debian's util-linux and mount)"
    if not IN_USE.exists():
        return "its kernel has no swap (CONFIG_SWAP)"
    if not mounted().has("memory"):
        return "the memory controller of control groups is not mounted"
    return disk.problem()


def up(ledger: Ledger, file: Path) -> None:
    """Let the kernel swap to this file, which must not exist yet."""
    refuse_taken(f"a swap file {file}", file.exists(), f"rm {file}")
    ledger.note("swap", str(file))
    space = os.open(file, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    try:
        ledger.made("swap", str(file), disk.known_by(file) or "")
        os.posix_fallocate(space, 0, BYTES)
    finally:
        os.close(space)
    device = disk.attach(file)
    try:
        run(where("mkswap"), device)
        run(where("swapon"), device)
    finally:
        disk.detach(device)
    disk.throttle("read_iops", Path(device).stat().st_rdev, READS)


def pages_read() -> int:
    """How many pages the kernel has read back from these disks. For the limit of READS, each page is one read."""
    files = (Path("/sys/class/block", Path(device).name, "stat") for device in _devices())
    sectors = sum(int(file.read_text().split()[2]) for file in files)  # of 512 bytes (kernel documentation, block/stat)
    return sectors * 512 // PAGE


def remove(path: str, known: str | None) -> bool:
    """Stop swapping to the file, and remove it."""
    file = Path(path)
    if known is None or disk.known_by(file) != known:
        return False
    for device in _devices():
        number = Path(device).stat().st_rdev
        if disk.file_of(number) == str(file.resolve()):
            disk.throttle("read_iops", number, 0)
            run(where("swapoff"), device)
    file.unlink()
    return True


def _devices() -> Iterator[str]:
    lines = IN_USE.read_text().splitlines()[1:]
    return (line.split()[0] for line in lines if line.startswith("/dev/loop"))
