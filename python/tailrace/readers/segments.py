"""Long captures are read in segments, so that a reading that is killed can go on: see crates/core/src/saved."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from tailrace.readers.decoding import Decoding

PACKETS = 1 << 26
"""Of a segment: about 6 GB of captures, which take 12 s on one core."""


def reading(captures: Sequence[str], decoding: Decoding) -> str:
    """What is read and how. An equal text means the same files, options and engine; empty: it has no segments.

    A file is the same if its path, its size and the time of its last change are. Standard input has none of them, so
    the engine compares the packets, and it does so for files, too.
    """
    if not decoding.segment:
        return ""
    spec = find_spec("tailrace._core")
    engine = _seen(spec.origin) if spec and spec.origin else []
    files = [[name, *_seen(name)] for name in captures if name != "-"]
    return json.dumps([engine, decoding.options(), files], sort_keys=True)


def _seen(path: str) -> list[str | int]:
    """Empty for a file that does not exist: opening it reports the error."""
    try:
        found = Path(path).stat()
    except OSError:
        return []
    return [str(Path(path).resolve()), found.st_size, found.st_mtime_ns]
