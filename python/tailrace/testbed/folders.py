"""Folders that the testbed makes, and recognises by an unpredictable word in them.

An inode number cannot identify a folder, because a file system gives it to the next folder.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from contextlib import suppress
from pathlib import Path

from tailrace.errors import TailraceError, cannot_write
from tailrace.testbed.ledger import Ledger, refuse_taken

MARK = ".testbed"


def make(folder: Path, ledger: Ledger) -> None:
    """Create it, and its parent if that does not exist."""
    _own(folder.parent)
    refuse_taken(f"a folder {folder}", folder.exists() or folder.is_symlink(), f"rm -r {folder}")
    word = secrets.token_hex(8)
    ledger.note("folder", str(folder))
    try:
        folder.mkdir(mode=0o700)
        (folder / MARK).write_text(word)
    except OSError as error:
        raise cannot_write(folder, error) from error
    ledger.made("folder", str(folder), word)


def remove(path: str, word: str | None) -> bool:
    folder = Path(path)
    if not _is_folder(folder):
        return False
    if word is None:
        with suppress(OSError):  # a folder that a killed testbed did not mark
            folder.rmdir()
            return True
        return False
    if not _is_marked(folder, word):
        return False
    shutil.rmtree(folder, ignore_errors=True)
    return True


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _is_marked(folder: Path, word: str) -> bool:
    try:
        return (folder / MARK).read_text() == word
    except (OSError, UnicodeDecodeError):
        return False


def _own(parent: Path) -> None:
    """Every user may write to the parent (`/var/tmp`), so check that no other user has created the folder."""
    try:
        parent.mkdir(mode=0o700, exist_ok=True)
        found = parent.lstat()
    except OSError as error:
        raise cannot_write(parent, error) from error
    others_may_write = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or others_may_write:
        raise TailraceError(f"{parent} is not a folder that this user alone may write to", advice="remove it")
