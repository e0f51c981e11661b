"""Gatling's `simulation.log`, as the binary file of Gatling 3.12 and later (its LogFileDataWriter writes it).

```text
0  version  class  start (ms)  description  scenarios  assertions                                 the first: the run
1  groups  name  begin  end  OK  message     2  scenario  starts  time     3  groups  begin  end  sum  OK    4  error
```
Numbers are big-endian. Times are milliseconds since the start of the run, of 32 bits. A text has its length before it
and its coder behind it (0: Latin-1; 1: UTF-16 as the machine orders bytes, so little-endian today). A text that may
come again has a number before it; when it comes again, its negative number stands alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tailrace import units
from tailrace.bounds import LINE, LOAD_GROUPS, LOAD_TEXTS
from tailrace.readers.loadtests.gatling import status_of
from tailrace.readers.loadtests.sent import Form, Sent
from tailrace.readers.source import Found, Source

_RUN = re.compile(r"\A\x00\x00\x00\x00[\x03-\x20]\d{1,3}\.\d{1,4}\.[\w.+-]{1,26}\x00\x00\x00[\s\S]{2}[\x20-\x7e]")
_OF_RUN, _REQUEST, _USER, _GROUP, _ERROR = range(5)
_ENCODINGS = ("latin-1", "utf-16-le")


class _DamagedError(Exception):
    """What was found is not a record. Its text says why."""


class _Bytes:
    """Values out of blocks that end anywhere. EOFError: the file ends before a value."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._buffer, self._at = b"", 0
        self._texts: dict[int, str] = {}
        self._kept = 0

    def take(self, length: int) -> bytes:
        while len(self._buffer) - self._at < length:
            block = next(self._blocks, b"")
            if not block:
                raise EOFError
            self._buffer, self._at = self._buffer[self._at :] + block, 0
        self._at += length
        return self._buffer[self._at - length : self._at]

    def is_over(self) -> bool:
        try:
            self.take(1)
        except EOFError:
            return True
        self._at -= 1
        return False

    def byte(self) -> int:
        return self.take(1)[0]

    def number(self, size: int = 4) -> int:
        return int.from_bytes(self.take(size), "big", signed=True)

    def count(self, most: int, what: str) -> int:
        number = self.number()
        if not 0 <= number <= most:
            raise _DamagedError(f"a record has {number:,} {what}")
        return number

    def text(self) -> str:
        length = self.count(LINE, "bytes in a text")
        content = self.take(length)
        coder = self.byte() if length else 0
        if coder >= len(_ENCODINGS):
            raise _DamagedError(f"a text has the coder {coder}")
        return content.decode(_ENCODINGS[coder], errors="replace")

    def kept_text(self) -> str:
        """A text that may come again."""
        number = self.number()
        if number < 0:
            if -number not in self._texts:
                raise _DamagedError(f"the text {-number:,} was not given before")
            return self._texts[-number]
        text = self.text()
        self._kept += len(text)
        if self._kept > LOAD_TEXTS:
            raise _DamagedError(f"its texts have more than {LOAD_TEXTS:,} characters")
        self._texts[number] = text
        return text


def _requests(source: Source, found: Found) -> Iterator[tuple[int, Sent | None]]:
    values, number = _Bytes(source.blocks(found)), 1
    try:
        start = _start(values)
        while not values.is_over():
            number += 1
            kind = values.byte()
            if kind == _REQUEST:
                yield number, _request(values, start)
            else:
                _skip(values, kind)
    except EOFError:
        found.stopped(source.path.name, f"record {number:,}, its last one, is cut")
    except _DamagedError as error:
        found.stopped(source.path.name, f"reading stopped at record {number:,}, because {error}")


def _start(values: _Bytes) -> int:
    """The start of the run, in ns."""
    if values.byte() != _OF_RUN:
        raise _DamagedError("the first record is not that of a run")
    values.text()
    values.text()
    start = values.number(8)
    if not 0 <= start < 2**62 // units.MILLISECOND:
        raise _DamagedError(f"its run started at {start:,} ms")
    values.text()
    for _ in range(values.count(LOAD_GROUPS, "scenarios")):
        values.text()
    for _ in range(values.count(LOAD_GROUPS, "assertions")):
        values.take(values.count(LINE, "bytes in an assertion"))
    return start * units.MILLISECOND


def _request(values: _Bytes, start: int) -> Sent | None:
    _groups(values)
    label = values.kept_text()
    begin, end = values.number(), values.number()
    is_good, why = values.byte() != 0, values.kept_text()
    if not 0 <= begin <= end:
        return None
    status = status_of(why, failed=not is_good)
    return Sent(start + begin * units.MILLISECOND, (end - begin) * units.MILLISECOND, status, label=label)


def _groups(values: _Bytes) -> None:
    for _ in range(values.count(LOAD_GROUPS, "groups")):
        values.kept_text()


def _skip(values: _Bytes, kind: int) -> None:
    if kind == _USER:
        values.take(9)
    elif kind == _GROUP:
        _groups(values)
        values.take(13)
    elif kind == _ERROR:
        values.kept_text()
        values.take(4)
    else:
        raise _DamagedError(f"a record has the unknown kind {kind}")


FORMS = (Form("Gatling", lambda head: bool(_RUN.match(head)), _requests, connects=False),)
