"""A lock on a folder that is being written, which the system drops when its writer ends, however it ends."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

LOCK = ".lock"


def hold(folder: Path) -> int:
    """The descriptor of the held lock: closing it lets go."""
    descriptor = os.open(folder / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
    with suppress(OSError):  # a file system without locks: the folder is then never taken for a dead writer's
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor


def is_held(folder: Path) -> bool:
    """Whether the folder's writer lives; also where that cannot be told."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
