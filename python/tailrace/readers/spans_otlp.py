"""Spans of OTLP as protobuf: what the Collector's file exporter writes with `format: proto`, or with a compression.

```text
┌ 4 bytes: length ┬ message ┐┌ length ┬ message ┐ …      a message is TracesData, as protobuf or JSON, perhaps zstd
```
A file with one message and no length, such as the body of a request to `/v1/traces`, is read as well.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from typing import Any

from tailrace.bounds import OTLP_MESSAGE
from tailrace.errors import UsageError
from tailrace.readers.naming import Names
from tailrace.readers.source import Found, Source
from tailrace.readers.spans import HOSTS, NUMBERED, Span, kept_share, of_otlp, span_of

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_ZSTD = b"\x28\xb5\x2f\xfd"
_LENGTH = 4
_SPAN = re.compile(rb"\x0a\x10[\s\S]{16}\x12\x08[\s\S]{8}")
"""The first two fields of a span: the ids of 16 and 8 bytes."""
_JSON = re.compile(rb'\s*\{\s*"resourceSpans"')
_BATCH = 0x0A
"""The first byte of TracesData: its first field, which has a length."""
_EXAMINED = 4096
_FAILED = 2


def is_otlp(head: bytes) -> bool:
    return _framed(head) or _is_message(head)


def _framed(head: bytes) -> bool:
    length = int.from_bytes(head[:_LENGTH], "big")
    first = head[_LENGTH:]
    if not 0 < length <= OTLP_MESSAGE:
        return False
    return _is_message(first[:length]) or _JSON.match(first) is not None


def _is_message(data: bytes) -> bool:
    if data.startswith(_ZSTD):
        try:
            data = zstd.ZstdDecompressor().decompress(data, max_length=_EXAMINED)
        except zstd.ZstdError:
            return False
        return _JSON.match(data) is not None or _is_message(data[:_EXAMINED])
    return data[:1] == bytes([_BATCH]) and _SPAN.search(data[:_EXAMINED]) is not None


def read(source: Source, found: Found, names: Names) -> Iterator[Span | None]:
    traces_data, decode_error = _package()
    for message in _messages(source, found):
        data = _unpacked(message)
        try:
            if data.lstrip()[:1] == b"{":
                yield from of_otlp(json.loads(data), names)
                continue
            traces = traces_data.FromString(data)
        except (ValueError, RecursionError, decode_error):
            found.lose("damaged elements", 1)
            continue
        yield from _of_message(traces, names)


def _package() -> tuple[Any, type[Exception]]:
    """The library's TracesData, and the error that it raises for damaged bytes."""
    try:
        from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
        from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
    except ImportError as error:
        raise UsageError(
            "reading OTLP as protobuf needs the package opentelemetry-proto",
            advice="install it with `pip install tailrace[otlp]`, or write JSON",
        ) from error
    return TracesData, DecodeError


def _messages(source: Source, found: Found) -> Iterator[bytes]:
    framed, buffer = _framed(source.head()), b""
    name = source.path.name
    for block in source.blocks(found):
        buffer += block
        at = 0
        while framed and len(buffer) - at >= _LENGTH:
            length = int.from_bytes(buffer[at : at + _LENGTH], "big")
            if length > OTLP_MESSAGE:
                found.stopped(name, f"a message of {length:,} bytes is too long, or a length is damaged")
                return
            if len(buffer) - at - _LENGTH < length:
                break
            yield buffer[at + _LENGTH : at + _LENGTH + length]
            at += _LENGTH + length
        buffer = buffer[at:]
        if len(buffer) > OTLP_MESSAGE + _LENGTH:
            found.stopped(name, f"a message of more than {OTLP_MESSAGE >> 20} MiB; reading stopped there")
            return
    if buffer and framed:
        found.stopped(name, "its last message is cut")
    elif buffer:
        yield buffer


def _unpacked(message: bytes) -> bytes:
    if not message.startswith(_ZSTD):
        return message
    try:
        return zstd.ZstdDecompressor().decompress(message, max_length=OTLP_MESSAGE)
    except zstd.ZstdError:
        return b"\xff"  # no message: it counts as damaged


def _of_message(traces: Any, names: Names) -> Iterator[Span | None]:
    """The spans of TracesData, or of the body of an export request, which has the same fields."""
    for resource in traces.resource_spans:
        about = _values(resource.resource.attributes)
        service = str(about.get("service.name") or "")
        hosts = {key: about[key] for key in HOSTS if key in about}
        for scope in resource.scope_spans:
            for span in scope.spans:
                values = {**hosts, **_values(span.attributes)}
                ids = (span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex() or None)
                begin, end = span.start_time_unix_nano or None, span.end_time_unix_nano or None
                failed = span.status.code == _FAILED
                kind = NUMBERED.get(str(span.kind), "")
                kept = kept_share(span.trace_state, values)
                yield span_of(ids, kind, service, begin, end, span.name, values, names, failed, kept)


def _values(attributes: Any) -> dict[str, Any]:
    found = {}
    for item in attributes:
        which = item.value.WhichOneof("value")
        if which in ("string_value", "int_value", "double_value", "bool_value"):
            found[item.key] = getattr(item.value, which)
    return found
