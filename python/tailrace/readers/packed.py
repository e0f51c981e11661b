"""The content of a text file that is plain, or packed with gzip or zstd; its first bytes show which.

Two things are bounded: what a compressed file expands to, and the memory for unpacking. The engine reads captures with
the same bounds (crates/core/src/capture/source.rs); docs/reference/limits.md lists them.
"""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from tailrace.bounds import EXPANSION, EXPANSION_FREE, ZSTD_WINDOW_LOG

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


class Packed:
    """The unpacked bytes of an open file, from its beginning."""

    def __init__(self, raw: io.BufferedReader) -> None:
        magic = raw.read(4)
        raw.seek(0)
        self._raw = raw
        self._taken = 0
        self._kind = "gzip" if magic.startswith(_GZIP) else "zstd" if magic == _ZSTD else ""
        self._stream = {"gzip": _gunzipped, "zstd": _unzstd}.get(self._kind, lambda plain: plain)(raw)

    def blocks(self, size: int) -> Iterator[tuple[bytes, str | None]]:
        """Blocks of at most `size` bytes. They end where unpacking fails, and the last one carries the reason."""
        why = None
        while why is None:
            data, why = self._block(size)
            if not data and why is None:
                return
            self._taken += len(data)
            if why is None and self._kind and too_large(self._taken, self._raw.tell()):
                why = f"it expands to more than {EXPANSION} times its size; unpack it to read all of it"
            yield data, why and self._at(why)

    def _block(self, size: int) -> tuple[bytes, str | None]:
        """What can be unpacked, and why it is less than `size` if the file is damaged."""
        parts: list[bytes] = []
        while size > 0:
            try:
                part = self._stream.read1(size)
            except (EOFError, zlib.error, zstd.ZstdError, gzip.BadGzipFile) as error:
                return b"".join(parts), _explained(error)
            if not part:
                break
            parts.append(part)
            size -= len(part)
        return b"".join(parts), None

    def _at(self, why: str) -> str:
        return f"reading stopped at decompressed byte {self._taken}: {why}"


def too_large(unpacked: int, packed: int) -> bool:
    """Whether so many bytes are more than these packed ones may expand to."""
    return unpacked > EXPANSION_FREE + EXPANSION * packed


@contextmanager
def unpacked(path: Path) -> Iterator[Packed]:
    with path.open("rb") as raw:
        yield Packed(raw)


def _gunzipped(raw: io.BufferedReader) -> io.BufferedReader:
    return cast(io.BufferedReader, gzip.GzipFile(fileobj=raw))


def _unzstd(raw: io.BufferedReader) -> io.BufferedReader:
    options: dict[int, int] = {zstd.DecompressionParameter.window_log_max: ZSTD_WINDOW_LOG}
    return cast(io.BufferedReader, zstd.ZstdFile(raw, options=options))


def _explained(error: Exception) -> str:
    if "too much memory" in str(error):
        most = (1 << ZSTD_WINDOW_LOG) >> 20
        return (
            f"it takes more than {most} MiB of memory to unpack (zstd --long=30 or 31); unpack it first with "
            "`zstd -d --long=31`"
        )
    return str(error)
