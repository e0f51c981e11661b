"""Spans in files of OTLP, Jaeger and Zipkin, which the engine cuts into columns (crates/core/src/spans).

```text
{"resourceSpans": [{"resource": {…}, "scopeSpans": [{"spans": [{"traceId": …, "kind": 2, …}]}]}]}      one a line
{"data": [{"traceID": …, "spans": [{"references": […], "startTime": µs, …}], "processes": {"p1": …}}]}
[{"traceId": …, "id": …, "parentId": …, "kind": "SERVER", "timestamp": µs, "localEndpoint": {…}}]     or one a line
┌ 4 bytes: length ┬ message ┐┌ length ┬ message ┐ …      a message is TracesData, as protobuf or JSON, perhaps zstd
```
The engine reads protobuf with its own code. The crates `prost` and `opentelemetry-proto` make an object of each field,
also of those that nobody needs: on 81 MB of spans, these objects alone take 2.4 times the CPU time of the columns here
(251 and 600 MB per CPU second, medians of three, one run). For HPACK, crates/core/src/capture/wire/http2/hpack.rs says
why.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tailrace import _core
from tailrace.readers import frames
from tailrace.readers.source import Found, Source, text_head
from tailrace.readers.spans import PLAN
from tailrace.readers.spans_columns import Spans

_JSON_FORMS = {
    "otlp": re.compile(r'\A[\s\ufeff]*\{\s*(?:"(?:trace|result)"\s*:\s*\{\s*)?"(?:resourceSpans|batches)"\s*:'),
    "jaeger": re.compile(r'\A[\s\ufeff]*\{[\s\S]{0,200}?"data"\s*:\s*\[\s*\{[\s\S]{0,2000}?"(?:traceID|spans)"\s*:'),
    "jaeger list": re.compile(r'\A[\s\ufeff]*\[\s*\{[\s\S]{0,2000}?"traceID"\s*:\s*"[^"]{0,64}"\s*,\s*"spans"\s*:'),
    "zipkin lines": re.compile(r'\A[\s\ufeff]*\{(?=[^\n]{0,2000}?"traceId"\s*:)(?=[^\n]{0,4000}?"localEndpoint"\s*:)'),
    "zipkin": re.compile(
        r'\A(?![\s\S]{0,4000}?"value"\s*:\s*"[cs][rs]")[\s\ufeff]*\[[\s\[]*\{[\s\S]{0,2000}?"traceId"\s*:'
    ),
}
_SPAN = re.compile(rb"\x0a\x10[\s\S]{16}\x12\x08[\s\S]{8}")
"""The first two fields of a span: the ids of 16 and 8 bytes."""
_JSON = re.compile(rb'\s*\{\s*"resourceSpans"')
_BATCH = b"\x0a"
"""The first byte of TracesData: its first field, which has a length."""


def form_of(head: bytes) -> str | None:
    """The engine's name for the form of the file that begins so; None: it has no spans in such a form."""
    text = text_head(head)
    for form, seen in _JSON_FORMS.items() if text is not None else ():
        if seen.search(text or ""):
            return form
    first, framed = frames.beginning(head)
    if _JSON.match(first) is None and not (first.startswith(_BATCH) and _SPAN.search(first)):
        return None
    return "frames" if framed else "message"


def read(source: Source, found: Found, form: str, spans: Spans) -> None:
    """Add the spans of a file."""
    cutter, name = _core.SpanCutter(form, PLAN, source.size()), source.path.name
    blocks = source.text_blocks(found) if form in _JSON_FORMS else source.blocks(found)
    for block, last in _with_last(blocks):
        more = True
        while more:
            rows, texts, without, damaged, stopped, more = cutter.feed(block, last)
            block = b""
            found.lose("spans without an id, a time or a service", without)
            found.lose("damaged elements", damaged)
            spans.add(rows, texts)
            if stopped is not None:
                found.stopped(name, stopped)
                return


def _with_last(blocks: Iterator[bytes]) -> Iterator[tuple[bytes, bool]]:
    for block in blocks:
        yield block, False
    yield b"", True
