"""A file to be read, and what a reader found in it."""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

from tailrace.bounds import LINE
from tailrace.errors import InputError, cannot_read
from tailrace.readers import hollow
from tailrace.readers.packed import unpacked
from tailrace.readers.spans_mapping import Mapped
from tailrace.topology import Topology

_HEAD = 64 * 1024
_BLOCK = 4 * 1024 * 1024
_LINE_END = 10
_HOLLOW = "NUL bytes in texts"
_CUT = re.compile(rb"[\w.+-]\Z")
"""How a line ends of which more may have followed: a number that lost its last digits is another number."""


@dataclass(frozen=True)
class Source:
    """`place` is the server or node of the file (`NAME=FILE`). `began` are the starts of what a log without a wall
    clock counts from: a JVM, a load test, a machine, a day (`--began`); in ns since the Unix epoch. `log_format` is
    that of an access log (`--log-format`). `mapping` names the columns of a table of spans (`--columns`). `scratch` is
    where readers may put files that they need until everything is written."""

    path: Path
    place: str | None = None
    began: tuple[int, ...] = ()
    log_format: str | None = None
    mapping: Mapped | None = None
    scratch: Path | None = None

    def dated(self, start: int) -> Source:
        """The same file, whose times count from this start."""
        return replace(self, began=(start,))

    def head(self) -> bytes:
        """The first bytes, for recognising the file, after NUL bytes that a truncated log begins with; of a damaged
        one, what could be unpacked."""
        head, broken = hollow.head_of(self._blocks(_HEAD), _HEAD)
        if broken and not head:
            raise InputError(self.path, broken)
        return head

    def size(self) -> int:
        """Bytes of the file as it is, which may be packed."""
        try:
            return self.path.stat().st_size
        except OSError as error:
            raise cannot_read(self.path, error) from error

    def lines(self, found: Found) -> Iterator[tuple[int, str]]:
        """Lines that are not empty, with their numbers, from 1. If a file breaks off, they end there, and `found` notes
        it."""
        for first, block in self.line_blocks(found):
            for number, line in enumerate(block.split("\n"), first):
                if line:
                    yield number, line[:LINE].rstrip("\r")

    def line_blocks(self, found: Found) -> Iterator[tuple[int, str]]:
        """Whole lines, many at a time, with the number of the first; without the last line end."""
        for number, block in self.byte_blocks(found):
            yield number, _text(block)

    def byte_blocks(self, found: Found) -> Iterator[tuple[int, bytes]]:
        """The same, before they are decoded."""
        number = 1
        for data, end in self.ends(found):
            yield number, (block := data[:end])
            number += lines_of(block)

    def ends(self, found: Found, size: int = _BLOCK) -> Iterator[tuple[bytes, int]]:
        """The same without numbers: bytes, and where the whole lines among them end. A last line that ends in the
        middle of a word or a number, without its line end, is left out: what its program wrote there is not known."""
        rest, is_cut, is_first = b"", False, True
        for data in self.text_blocks(found, size):
            if is_cut:  # This is still the line whose first bytes were given.
                _, is_end, data = data.partition(b"\n")
                if not is_end:
                    continue
            data = rest + data
            end = data.rfind(b"\n")
            is_cut = end < 0 and len(data) >= _BLOCK
            if end < 0 and not is_cut:
                rest = data
                continue
            yield data, (LINE if is_cut else end)
            is_first = False
            rest = b"" if is_cut else data[end + 1 :]
        if rest and not is_first and _CUT.search(rest):
            found.cut(self.path.name)
        elif rest:
            yield rest, len(rest)

    def texts(self, found: Found) -> Iterator[str]:
        """The text in blocks that end anywhere."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for data in self.text_blocks(found):
            yield decoder.decode(data)

    def text_blocks(self, found: Found, size: int = _BLOCK) -> Iterator[bytes]:
        """The unpacked bytes of a text without runs of NUL bytes, which `found` notes, in blocks that end anywhere."""
        for data, broken in hollow.skipped(self._blocks(size), partial(found.hollow, self.path.name)):
            if broken:
                found.stopped(self.path.name, broken)
            yield data

    def blocks(self, found: Found) -> Iterator[bytes]:
        """The unpacked bytes in blocks that end anywhere."""
        for data, broken in self._blocks(_BLOCK):
            if broken:
                found.stopped(self.path.name, broken)
            yield data

    def _blocks(self, size: int) -> Iterator[tuple[bytes, str | None]]:
        try:
            with unpacked(self.path) as file:
                yield from file.blocks(size)
        except OSError as error:
            raise cannot_read(self.path, error) from error


def lines_of(block: bytes) -> int:
    """How many lines a block has that ends without a line end. (`bytes.count` takes six times as long.)"""
    return int(np.count_nonzero(np.frombuffer(block, np.uint8) == _LINE_END)) + 1


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")


@dataclass
class Frames:
    """The rows of a table as frames, one after the other; they can be read any number of times. An iterable may make
    each of them anew, so that a large table is never in memory as a whole."""

    parts: list[Iterable[pl.DataFrame]] = field(default_factory=list)
    ordered: bool = False
    """All rows are in the order of their table."""

    def __bool__(self) -> bool:
        return bool(self.parts)

    def __iter__(self) -> Iterator[pl.DataFrame]:
        for part in self.parts:
            yield from part

    def append(self, frame: pl.DataFrame) -> None:
        self.parts.append((frame,))

    def changed(self, change: Callable[[pl.DataFrame], pl.DataFrame]) -> Frames:
        """Each frame after a change."""
        return Frames([_Changed(self, change)] if self else [], self.ordered)


@dataclass(frozen=True)
class _Changed:
    frames: Frames
    change: Callable[[pl.DataFrame], pl.DataFrame]

    def __iter__(self) -> Iterator[pl.DataFrame]:
        return map(self.change, self.frames)


@dataclass
class Found:
    """What reading one file gave. Events have `kind`, `begin`, `end` (ns since the Unix epoch), `detail` and perhaps
    `place`; without it, their place is that of the file. Visits and requests have numbers and the columns of the
    record."""

    samples: list[pl.DataFrame] = field(default_factory=list)
    events: list[pl.DataFrame] = field(default_factory=list)
    visits: Frames = field(default_factory=Frames)
    requests: Frames = field(default_factory=Frames)
    topology: Topology | None = None
    notes: list[str] = field(default_factory=list)
    lost: dict[str, int] = field(default_factory=dict)
    attempts: str = ""
    """How the file shows lost connection attempts, in a few words; empty if it shows none."""
    failed_alone: int = 0
    """So many requests are all that there are, and all of them failed: its visits may be a choice (`failures`)."""
    missing: str = ""
    """Why the file lacks requests, as a sentence (`logged`); empty if nothing shows that it does."""
    undated: bool = False
    """The times count from a start that is unknown, so they cannot be compared with those of other files."""

    def stopped(self, name: str, why: str) -> None:
        """Reading ended before the end of the file."""
        self.lose("bytes after a break", 1)
        self.notes.append(f"{name}: {why}")

    def cut(self, name: str) -> None:
        """The last line has no line end, and ends in the middle of a word or a number."""
        self.lose("last lines that were cut off", 1)
        self.notes.append(
            f"{name}: its last line has no line end and was left out: a number there may have lost digits"
        )

    def filled(self, name: str, count: int, what: str = "samples") -> None:
        """Reading ended at the largest number of samples that fit into memory."""
        self.stopped(
            name, f"{count:,} {what} were read, and no more fit into memory; split the file, or allow more memory"
        )

    def hollow(self, name: str, begin: int, count: int) -> None:
        """Count a run of NUL bytes in a text; a note names the first."""
        if not self.lost.get(_HOLLOW):
            self.notes.append(
                f"{name}: {count:,} NUL bytes from byte {begin:,} on were left out; a log has them that was truncated "
                "while its program wrote on (copytruncate of logrotate), and so has one of a machine that lost power"
            )
        self.lose(_HOLLOW, count)

    def damaged(self, name: str, number: int) -> None:
        """Count a line that cannot be read; a note names the first."""
        self.lose("damaged lines", 1)
        if self.lost["damaged lines"] == 1:
            self.notes.append(f"{name}: damaged lines were left out, the first is line {number}")

    def lose(self, what: str, count: int) -> None:
        if count:
            self.lost[what] = self.lost.get(what, 0) + count


def text_head(head: bytes) -> str | None:
    """The head as text, or None if it is binary: a zero byte outside of long runs of them, or more than one
    character in ten unreadable."""
    head = hollow.without_runs(head)
    if b"\x00" in head:
        return None
    text = io.TextIOWrapper(io.BytesIO(head), encoding="utf-8-sig", errors="replace").read()
    unreadable = sum(text.count(c) for c in "\ufffd\x01\x02\x03\x04\x05\x06\x07\x08")
    return None if unreadable * 10 > len(text) else text
