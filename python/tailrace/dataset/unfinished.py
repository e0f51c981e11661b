"""The folder of a reading that was killed, for the next reading of the same input.

```text
run.tmp-4711-9f3a…/   reading.json              what is read, and with which options
                      reading.saved             the engine's state at the end of the last finished segment
                      <table>.parquet.….tmp     the rows of finished segments
```

They stay until the run folder has its name, so a reading that is killed at its very end goes on, too.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from tailrace import locks, untrusted, whole
from tailrace.errors import InputError

WHAT = "reading.json"
SAVED = "reading.saved"
"""crates/core/src/saved describes it."""
_ROWS = re.compile(r"[a-z]+\.parquet\.[0-9a-f]{16}\.tmp")
_BYTES_MAX = 64 << 20
"""It holds the paths of 65,535 captures."""


def mark(folder: Path, what: str) -> None:
    whole.write(folder / WHAT, what.encode())


def belongs(name: str) -> bool:
    """Whether a file of this name belongs to the finished segments."""
    return name in (WHAT, SAVED) or bool(_ROWS.fullmatch(name))


def release(folder: Path) -> None:
    """The reading is complete: remove its segments. The state is the first, so there is never one without its rows."""
    (folder / SAVED).unlink(missing_ok=True)
    for path in list(folder.iterdir()):
        if belongs(path.name):
            path.unlink()


def reduce(folder: Path) -> None:
    """Remove all but the finished segments and the lock: the next reading makes the rest again."""
    for path in list(folder.iterdir()):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        elif path.name != locks.LOCK and not belongs(path.name):
            path.unlink(missing_ok=True)


def saved(folders: Sequence[Path]) -> list[Path]:
    """Returns the folders that hold a finished segment."""
    return [folder for folder in folders if (folder / SAVED).is_file()]


def adopt(folders: Sequence[Path], what: str, into: Path) -> int | None:
    """Give one of these folders the name `into`, if it holds a finished segment of the same reading.

    Returns the descriptor of its held lock, or None. The lock is taken before the folder is renamed, so no other
    process takes the folder."""
    for folder in saved(folders):
        lock = locks.take(folder)
        if lock is None:
            continue
        try:
            if is_of(folder, what):
                reduce(folder)
                folder.rename(into)
                return lock
        except OSError:  # another process has removed it
            pass
        os.close(lock)
    return None


def is_of(folder: Path, what: str) -> bool:
    """Whether the folder belongs to this reading."""
    try:
        return untrusted.read_inside(folder / WHAT, _BYTES_MAX) == what
    except (InputError, OSError):
        return False
