"""A lock on a folder that is being written. The system releases it when its writer ends for any reason."""

from __future__ import annotations

import fcntl
import os
import stat
from contextlib import suppress
from pathlib import Path

LOCK = ".lock"
MARK = b"A folder that Tailrace is writing, or was writing when it was killed.\n"
_SAFE = os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


def hold(folder: Path) -> int:
    """The descriptor of the held lock; closing it releases the lock."""
    descriptor = os.open(folder / LOCK, os.O_CREAT | _SAFE, 0o644)
    with suppress(OSError):  # a file system without locks: the folder then never counts as abandoned
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    if not os.fstat(descriptor).st_size:
        with suppress(
            OSError
        ):  # a full disk: Tailrace's own folder then stays, which is better than removing another program's
            os.write(descriptor, MARK)
    return descriptor


def take(folder: Path) -> int | None:
    """The descriptor of the held lock of a folder that has one; None: another process holds it, or it is gone."""
    try:
        descriptor = os.open(folder / LOCK, _SAFE)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def is_held(folder: Path) -> bool:
    """Whether the folder's writer is alive, or cannot be determined."""
    descriptor = take(folder)
    if descriptor is None:
        return True
    os.close(descriptor)
    return False


def is_ours(folder: Path) -> bool:
    """Whether a Tailrace of this user made the folder, according to its lock."""
    try:
        descriptor = os.open(folder / LOCK, _SAFE)
    except OSError:
        return False
    try:
        found = os.fstat(descriptor)
        mine = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
        return mine and os.read(descriptor, len(MARK)) == MARK
    except OSError:
        return False
    finally:
        os.close(descriptor)
