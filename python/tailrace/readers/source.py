"""A file that a reader may read, and what a reader found in it."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, cast

import polars as pl

from tailrace.errors import InputError, cannot_read

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_HEAD = 64 * 1024
_BLOCK = 16 * 1024 * 1024
_LINE_MAX = 1024 * 1024
"""A longer "line" is no line of any log or table; it is cut so that a file without line ends cannot fill the memory."""


@dataclass(frozen=True)
class Source:
    """`place` is what the user said the file belongs to (`NAME=FILE`), `began` when the JVMs of a log without a wall
    clock started (`--began`), in ns since the Unix epoch."""

    path: Path
    place: str | None = None
    began: tuple[int, ...] = ()

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """The bytes of the file, decompressed."""
        try:
            with self.path.open("rb") as raw:
                magic = raw.read(4)
                raw.seek(0)
                if magic.startswith(_GZIP):
                    yield cast(BinaryIO, gzip.GzipFile(fileobj=raw))
                elif magic == _ZSTD:
                    yield cast(BinaryIO, zstd.ZstdFile(raw))
                else:
                    yield raw
        except OSError as error:
            if error.errno is None:  # gzip's own: no system call failed
                raise InputError(self.path, f"not whole gzip data ({error})", "it may be cut or damaged") from error
            raise cannot_read(self.path, error) from error

    def head(self) -> bytes:
        """The first bytes, for telling what the file is; of a damaged one, what can be had."""
        with self.open() as file:
            return next(_blocks(file, _HEAD), (b"", None))[0]

    def lines(self, found: Found) -> Iterator[tuple[int, str]]:
        """Lines with their numbers, from 1. A file that breaks off yields what came before, and `found` says so."""
        for first, block in self.line_blocks(found):
            for number, line in enumerate(block.split("\n"), first):
                yield number, line.rstrip("\r")

    def line_blocks(self, found: Found) -> Iterator[tuple[int, str]]:
        """Whole lines, many at a time, with the number of the first; without the last line end."""
        number, rest = 1, b""
        with self.open() as file:
            for data, broken in _blocks(file, _BLOCK):
                if broken:
                    found.lose("bytes after a break", 1)
                    found.notes.append(
                        f"{self.path.name}: reading stopped at decompressed byte {file.tell()}: {broken}"
                    )
                data = rest + data
                cut = data.rfind(b"\n")
                if cut < 0 and len(data) < _LINE_MAX:
                    rest = data
                    continue
                whole, rest = (data[:cut], data[cut + 1 :]) if cut >= 0 else (data[:_LINE_MAX], b"")
                yield number, _text(whole)
                number += whole.count(b"\n") + 1
        if rest:
            yield number, _text(rest)


def _blocks(file: BinaryIO, size: int) -> Iterator[tuple[bytes, str | None]]:
    """Blocks of the file; a broken compression ends them, with the reason beside the last."""
    while True:
        try:
            data = file.read(size)
        except (EOFError, zlib.error, zstd.ZstdError, gzip.BadGzipFile) as error:
            yield b"", str(error)
            return
        if not data:
            return
        yield data, None


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")


@dataclass
class Found:
    """What reading one file gave. Events have `kind`, `begin`, `end` (ns since the Unix epoch) and `detail`; their
    place is that of the file."""

    samples: list[pl.DataFrame] = field(default_factory=list)
    events: list[pl.DataFrame] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    lost: dict[str, int] = field(default_factory=dict)

    def lose(self, what: str, count: int) -> None:
        if count:
            self.lost[what] = self.lost.get(what, 0) + count


def text_head(head: bytes) -> str | None:
    """The head as text, or None where it is binary: a zero byte, or more than one character in ten unreadable."""
    if b"\x00" in head:
        return None
    text = io.TextIOWrapper(io.BytesIO(head), encoding="utf-8-sig", errors="replace").read()
    unreadable = sum(text.count(c) for c in "\ufffd\x01\x02\x03\x04\x05\x06\x07\x08")
    return None if unreadable * 10 > len(text) else text
