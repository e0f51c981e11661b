"""A lock on a folder that is being written, which the system drops when its writer ends, however it ends."""

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
    """The descriptor of the held lock: closing it lets go."""
    descriptor = os.open(folder / LOCK, os.O_CREAT | _SAFE, 0o644)
    with suppress(OSError):  # a file system without locks: the folder is then never taken for a dead writer's
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    if not os.fstat(descriptor).st_size:
        with suppress(OSError):  # a full disk: then a folder of ours stays, which is better than to remove another's
            os.write(descriptor, MARK)
    return descriptor


def is_held(folder: Path) -> bool:
    """Whether the folder's writer lives; also where that cannot be told."""
    try:
        descriptor = os.open(folder / LOCK, _SAFE)
    except OSError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def is_ours(folder: Path) -> bool:
    """Whether a Tailrace of this user made the folder, as its lock says."""
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
