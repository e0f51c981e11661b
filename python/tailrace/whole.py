"""Writing files completely or not at all, and never through another user's link.

A folder may come from a stranger, so its names are not trusted. The data go to a new file under an unpredictable name,
which then replaces the target. A symbolic link of that name is replaced; the file that it points to stays unchanged.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from tailrace.errors import UsageError, cannot_write

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
PARTIAL = re.compile(r"\.tailrace-[0-9a-f]{16}\.tmp")
"""Names of files that are being written; a file that stays was left by a writer that was killed."""


def keep_private() -> None:
    """From now on, what root writes in this process, and in those that it starts, is for root alone: it may hold what
    other users may not see. Other users have their umask."""
    if os.geteuid() == 0:
        os.umask(os.umask(0o077) | 0o077)


def folder_mode() -> int:
    """Of a new folder, also where a program did not ask for `keep_private`."""
    return 0o700 if os.geteuid() == 0 else 0o777


def kind(mode: int) -> str | None:
    """What kind of special file a path is, in words; None for a regular file."""
    return None if stat.S_ISREG(mode) else _KINDS.get(stat.S_IFMT(mode), "no file")


def refuse_unusual(*paths: Path | None) -> None:
    """Raise UsageError if an output that the user names exists and is not a file."""
    for path in paths:
        with suppress(OSError):
            found = kind(path.lstat().st_mode) if path else None
            if found:
                advice = "name the file that it leads to" if found == "a symbolic link" else "name a file to create"
                raise UsageError(f"it is {found}, not a file", where=str(path), advice=advice)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write the content of `path` to. An error or an interruption leaves no half-written file.

    Raises OutputError for an error of the operating system, UsageError where `path` is a folder, a pipe or a device.
    """
    if not path.is_symlink():
        refuse_unusual(path)
    partial = f".tailrace-{secrets.token_hex(8)}.tmp"
    folder = -1
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        with os.fdopen(os.open(partial, _NEW, 0o666, dir_fd=folder), "wb") as file:
            yield file
        os.replace(partial, path.name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(partial, dir_fd=folder)
        if isinstance(error, OSError):
            raise cannot_write(path, error) from error
        raise
    finally:
        if folder >= 0:
            os.close(folder)


def write(path: Path, content: bytes) -> None:
    """Write or replace `path`."""
    with replacing(path) as file:
        file.write(content)
