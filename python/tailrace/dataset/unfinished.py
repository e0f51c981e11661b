"""The folder of a reading that was killed, for the next reading of the same input.

```text
run.tmp-4711-9f3a…/   reading.json     what is read, and with which options
                      reading.saved    the engine's state at the end of the last finished segment
```
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tailrace import untrusted, whole
from tailrace.errors import InputError

WHAT = "reading.json"
SAVED = "reading.saved"
"""crates/core/src/saved describes it."""
_BYTES_MAX = 64 << 20
"""Of 65,535 captures, each with its path."""


def mark(folder: Path, what: str) -> None:
    whole.write(folder / WHAT, what.encode())


def unmark(folder: Path) -> None:
    """The reading has ended."""
    for name in (WHAT, SAVED):
        (folder / name).unlink(missing_ok=True)


def saved(folders: Sequence[Path]) -> list[Path]:
    """Those with a finished segment."""
    return [folder for folder in folders if (folder / SAVED).is_file()]


def adopt(folders: Sequence[Path], what: str, into: Path) -> bool:
    """Give one of these folders the name `into`, if it holds a finished segment of the same reading."""
    for folder in saved(folders):
        with suppress(InputError, OSError):  # another process has taken it
            if untrusted.read_inside(folder / WHAT, _BYTES_MAX) == what:
                folder.rename(into)
                return True
    return False
