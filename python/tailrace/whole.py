"""Files that are there whole or not at all: written under a temporary name, then renamed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tailrace.errors import cannot_write


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Where to write what `path` shall be; whatever ends the writing, an interruption too, leaves nothing half-written.

    Raises OutputError for what the operating system refused.
    """
    partial = path.with_name(path.name + ".tmp")
    try:
        yield partial
        partial.replace(path)
    except BaseException as error:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise cannot_write(path, error) from error
        raise


def write(path: Path, content: bytes) -> None:
    """Write or replace `path`."""
    with replacing(path) as partial:
        partial.write_bytes(content)
