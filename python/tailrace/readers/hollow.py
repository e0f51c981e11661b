"""Runs of NUL bytes in text files.

A log is copied and then truncated (`copytruncate` of logrotate) while its program goes on writing where it was. All
before that place then reads as NUL bytes. A file system leaves such runs, too, where a machine lost its power.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

_LEAST = 16
"""The shortest run. No format that Tailrace reads begins with so many NUL bytes, and no line of a log is shorter: the
length of a message takes 4 bytes at the begin of a binary file."""
_NUL = b"\x00"
HOLLOW = _NUL * _LEAST
"""How a file begins that begins with a run."""
_RUN = re.compile(rb"\x00{%d,}" % _LEAST)
Blocks = Iterator[tuple[bytes, str | None]]
"""Blocks of bytes; the last one has the reason why reading stopped."""


def head_of(blocks: Blocks, size: int) -> tuple[bytes, str | None]:
    """The first bytes after a run at the begin, and why reading stopped at the first block. A file of NUL bytes alone
    has these."""
    first, broken = next(blocks, (b"", None))
    if not first.startswith(HOLLOW):
        return first, broken
    head = first.lstrip(_NUL)
    for data, _ in blocks:
        if len(head) >= size:
            break
        if head or data != first:  # Comparing is faster than stripping.
            head = (head + data)[:size] if head else data.lstrip(_NUL)
    return head or first, broken


def without_runs(data: bytes) -> bytes:
    """A text whose runs are line ends."""
    return _RUN.sub(b"\n", data.lstrip(_NUL) if data.startswith(HOLLOW) else data)


def skipped(blocks: Blocks, report: Callable[[int, int], None]) -> Blocks:
    """The blocks without runs. A run ends the line before it. `report` gets where each begins and its length, both in
    bytes."""
    end = held = 0
    """Where the bytes end that were read, and how many NUL bytes at this end were not given."""
    is_new = True
    """What was given ends with the end of a line."""
    for data, broken in blocks:
        begin, before = end - held, held
        end += len(data)
        kept = data.rstrip(_NUL)
        if not kept:
            held += len(data)
            if broken:
                yield b"", broken
            continue
        held = len(data) - len(kept)
        text, line_end = _NUL * before + kept if before < _LEAST else kept.lstrip(_NUL), b""
        if before >= _LEAST:
            report(begin, before + len(kept) - len(text))
            is_new, line_end = True, b"" if is_new else b"\n"
        if HOLLOW in text:
            text = _cut(text, end - held - len(text), report, is_new=is_new)
        is_new = text.endswith(b"\n")
        yield line_end + text, broken
    if held >= _LEAST:
        report(end - held, held)
    elif held:
        yield _NUL * held, None


def _cut(text: bytes, begin: int, report: Callable[[int, int], None], *, is_new: bool) -> bytes:
    """A text without its runs, the first byte of which is at `begin`."""
    parts, done = list[bytes](), 0
    for run in _RUN.finditer(text):
        report(begin + run.start(), run.end() - run.start())
        parts.append(text[done : run.start()])
        is_new = parts[-1].endswith(b"\n") if parts[-1] else is_new
        parts.append(b"" if is_new else b"\n")
        is_new, done = True, run.end()
    return b"".join(parts) + text[done:]
