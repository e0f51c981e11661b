"""Files that are there whole or not at all: written under a temporary name, then renamed."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from tailrace.errors import cannot_write


def write(path: Path, content: bytes) -> None:
    """Write or replace `path`; whatever ends the writing, an interruption too, leaves nothing half-written."""
    partial = path.with_name(path.name + ".tmp")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    except BaseException as error:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise cannot_write(path, error) from error
        raise
