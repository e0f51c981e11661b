"""The content of a text file that is plain, or packed with gzip or zstd; its first bytes show which.

Two things are bounded: what a compressed file expands to, and the memory for unpacking. The engine reads captures with
the same bounds (crates/core/src/capture/source.rs); docs/reference/limits.md lists them.
"""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from tailrace.bounds import EXPANSION, EXPANSION_FREE, ZSTD_WINDOW_LOG

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


class Packed:
    """The unpacked bytes of an open file, from its beginning."""

    def __init__(self, raw: BinaryIO) -> None:
        magic = raw.read(4)
        raw.seek(0)
        self._raw = raw
        self._taken = 0
        self._kind = "gzip" if magic.startswith(_GZIP) else "zstd" if magic == _ZSTD else ""
        self._stream = {"gzip": _gunzipped, "zstd": _unzstd}.get(self._kind, lambda plain: plain)(raw)

    def blocks(self, size: int) -> Iterator[tuple[bytes, str | None]]:
        """Blocks of at most `size` bytes. They end where unpacking fails, and the last one carries the reason."""
        while True:
            try:
                data = self._stream.read(size)
            except (EOFError, zlib.error, zstd.ZstdError, gzip.BadGzipFile) as error:
                yield b"", self._at(_explained(error))
                return
            if not data:
                return
            self._taken += len(data)
            if self._kind and too_large(self._taken, self._raw.tell()):
                many = f"it expands to more than {EXPANSION} times its size; unpack it to read all of it"
                yield data, self._at(many)
                return
            yield data, None

    def _at(self, why: str) -> str:
        return f"reading stopped at decompressed byte {self._taken}: {why}"


def too_large(unpacked: int, packed: int) -> bool:
    """Whether so many bytes are more than these packed ones may expand to."""
    return unpacked > EXPANSION_FREE + EXPANSION * packed


@contextmanager
def unpacked(path: Path) -> Iterator[Packed]:
    with path.open("rb") as raw:
        yield Packed(raw)


def _gunzipped(raw: BinaryIO) -> BinaryIO:
    return cast(BinaryIO, gzip.GzipFile(fileobj=raw))


def _unzstd(raw: BinaryIO) -> BinaryIO:
    return cast(BinaryIO, zstd.ZstdFile(raw, options={zstd.DecompressionParameter.window_log_max: ZSTD_WINDOW_LOG}))


def _explained(error: Exception) -> str:
    if "too much memory" in str(error):
        most = (1 << ZSTD_WINDOW_LOG) >> 20
        return (
            f"it takes more than {most} MiB of memory to unpack (zstd --long=30 or 31); unpack it first with "
            "`zstd -d --long=31`"
        )
    return str(error)
