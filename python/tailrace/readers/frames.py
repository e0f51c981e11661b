"""Messages of OTLP in files: what the Collector's file exporter writes with `format: proto`, or with a compression.

```text
┌ 4 bytes: length ┬ message ┐┌ length ┬ message ┐ …      a message is protobuf or JSON, perhaps zstd
```
A file with one message and no length, such as the body of a request to `/v1/traces`, has the same content.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator

from tailrace.bounds import EXPANSION, OTLP_MESSAGE, ZSTD_WINDOW_LOG
from tailrace.readers import packed
from tailrace.readers.source import Found, Source

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LENGTH = 4
_ZSTD = b"\x28\xb5\x2f\xfd"
_EXAMINED = 4096
_AT_ONCE = 1 << 20
"""Bytes that are unpacked at once, so that what comes before damage counts."""
_TOO_LARGE = f"its messages expand to more than {EXPANSION} times their size; unpack it to read all of it"


def beginning(head: bytes) -> tuple[bytes, bool]:
    """The first bytes of the first message of a file that begins so, unpacked; and whether its length stands before
    it."""
    length = int.from_bytes(head[:LENGTH], "big")
    first = head[LENGTH:]
    if 0 < length <= OTLP_MESSAGE and first[:1] in (b"\x0a", b"{", b" ", _ZSTD[:1]):
        return _unpacked_beginning(first[:length]), True
    return _unpacked_beginning(head), False


def _unpacked_beginning(data: bytes) -> bytes:
    if not data.startswith(_ZSTD):
        return data[:_EXAMINED]
    return _unpacked(data, _EXAMINED)[0]


def messages(source: Source, found: Found) -> Iterator[bytes]:
    """The messages of a file, unpacked; one that cannot be unpacked is counted as damaged."""
    (_, framed), buffer = beginning(source.head()), b""
    name, unpacking = source.path.name, _Unpacking(source.size())
    for block in source.blocks(found):
        buffer += block
        at = 0
        while framed and len(buffer) - at >= LENGTH:
            length = int.from_bytes(buffer[at : at + LENGTH], "big")
            if length > OTLP_MESSAGE:
                found.stopped(name, f"a message of {length:,} bytes is too long, or a length is damaged")
                return
            if len(buffer) - at - LENGTH < length:
                break
            yield from unpacking.message(buffer[at + LENGTH : at + LENGTH + length], found)
            if unpacking.too_large:
                found.stopped(name, _TOO_LARGE)
                return
            at += LENGTH + length
        buffer = buffer[at:]
        if len(buffer) > OTLP_MESSAGE + LENGTH:
            found.stopped(name, f"a message of more than {OTLP_MESSAGE >> 20} MiB; reading stopped there")
            return
    if buffer and framed:
        found.stopped(name, "its last message is cut")
    elif buffer:
        yield from unpacking.message(buffer, found)


class _Unpacking:
    """Unpacks messages, and counts what all of them expand to, damaged ones included."""

    def __init__(self, size: int) -> None:
        self._size, self._packed, self._unpacked = size, 0, 0

    @property
    def too_large(self) -> bool:
        return packed.too_large(self._unpacked, min(self._packed, self._size))

    def message(self, content: bytes, found: Found) -> Iterator[bytes]:
        self._packed += len(content)
        is_whole = True
        if content.startswith(_ZSTD):
            content, is_whole = _unpacked(content)
        self._unpacked += len(content)
        if is_whole:
            yield content
        else:
            found.lose("damaged elements", 1)


def _unpacked(content: bytes, most: int = OTLP_MESSAGE) -> tuple[bytes, bool]:
    """What zstd frames hold, as far as they can be unpacked and are not larger than `most`, and whether that is all of
    them. The engine has the same rule (crates/core/src/spans/frames.rs)."""
    message = bytearray()
    options: dict[int, int] = {zstd.DecompressionParameter.window_log_max: ZSTD_WINDOW_LOG}
    try:
        with zstd.ZstdFile(io.BytesIO(content), options=options) as file:
            while part := file.read(min(_AT_ONCE, most + 1 - len(message))):
                message += part
    except (EOFError, zstd.ZstdError):
        return bytes(message[:most]), False
    return bytes(message[:most]), len(message) <= most
