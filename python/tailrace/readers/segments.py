"""Long captures are read in segments, so that a reading that is killed can go on: see crates/core/src/saved."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from tailrace.readers.decoding import Decoding

PACKETS = 1 << 26
"""A segment has so many: they are about 6 GB of captures, which take 12 s on one core."""


def reading(captures: Sequence[str], decoding: Decoding) -> str:
    """What is read and how. An equal text means the same files, options and engine; empty: it has no segments.

    A file, also that of the secrets, is the same if its path, its size and the time of its last change are. Standard
    input has none of them, so the engine compares the packets, and it does so for files, too.
    """
    if not decoding.segment:
        return ""
    spec = find_spec("tailrace._core")
    engine = _seen(spec.origin) if spec and spec.origin else []
    files = [_seen(name) for name in captures if name != "-"]
    secrets = _seen(decoding.keys) if decoding.keys else []
    options = replace(decoding, threads=None).options()
    return json.dumps([engine, options, files, secrets], sort_keys=True)


@contextmanager
def told(say: Callable[[str], None] | None) -> Iterator[None]:
    """After an error, `say` is called with the notes on it: they say where the finished segments are."""
    try:
        yield
    except BaseException as error:
        if say:
            for note in getattr(error, "__notes__", ()):
                say(note)
        raise


def _seen(path: str) -> list[str | int]:
    """Empty for a file that does not exist: opening it reports the error."""
    try:
        found = Path(path).stat()
    except OSError:
        return []
    return [str(Path(path).resolve()), found.st_size, found.st_mtime_ns]
