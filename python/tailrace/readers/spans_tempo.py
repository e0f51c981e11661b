"""Blocks of Grafana Tempo in Parquet, vParquet3 to 5: a row for each trace, with its resources, scopes and spans.

```text
TraceID │ rs: [ Resource {ServiceName, Attrs, DedicatedAttributes}, ss: [ Spans: [ SpanID, Kind, Attrs, … ] ] ]
```
Attributes that are frequent have columns of their own, `String01` to `String20` and `Int01` to `Int05`. Only the file
`meta.json` in the folder of the block says which ones: `{"dedicatedColumns": [{"s": "resource", "n": "ip"}]}`. The
columns of a scope and a type are numbered in the order of that list. Until vParquet4, three attributes of HTTP always
have columns with their names.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from tailrace.bounds import MIB
from tailrace.readers.elements import rows, table
from tailrace.readers.naming import Names
from tailrace.readers.source import Found, Source
from tailrace.readers.spans import HOSTS, KINDS, NUMBERED, Kind, Span, kept_share, span_of

COLUMNS = {"TraceID", "rs"}
"""Columns by which a block is known."""
_KINDS = NUMBERED | KINDS
_STATIC = {"http.method": "HttpMethod", "http.url": "HttpUrl", "http.status_code": "HttpStatusCode"}
_META_BYTES = MIB
_TYPES = {"string": "String", "int": "Int"}
Dedicated = Mapping[str, Mapping[str, str]]
"""Scope → column → attribute."""


def read(source: Source, traces: Iterable[Mapping[str, Any]], names: Names, found: Found) -> Iterator[Span | None]:
    """The spans of the rows of a block; None for one that is damaged."""
    dedicated = _dedicated_columns(source)
    nameless = Counter[str]()
    for row in traces:
        yield from _of_trace(row, names, dedicated, nameless)
    if nameless:
        listed = ", ".join(sorted(nameless))
        found.notes.append(
            f"{source.path.name}: {max(nameless.values())} spans or more have attributes in columns without a name "
            f"({listed}); the names are in the block's meta.json: put it beside the file"
        )


def _dedicated_columns(source: Source) -> Dedicated:
    """What the block's `meta.json` says of the columns; nothing where it is missing or damaged."""
    columns: dict[str, dict[str, str]] = {"resource": {}, "span": {}}
    with suppress(OSError, ValueError, RecursionError):
        with source.path.with_name("meta.json").open("rb") as file:
            meta = table(json.loads(file.read(_META_BYTES)))
        numbers = Counter[tuple[str, str]]()
        for column in rows(meta.get("dedicatedColumns")):
            scope, name = str(column.get("s") or "span"), column.get("n")
            kind = _TYPES.get(str(column.get("t") or "string"))
            if scope in columns and kind and isinstance(name, str):
                numbers[scope, kind] += 1
                columns[scope][f"{kind}{numbers[scope, kind]:02}"] = name
    return columns


def _of_trace(
    row: Mapping[str, Any], names: Names, dedicated: Dedicated, nameless: Counter[str]
) -> Iterator[Span | None]:
    trace, batches = _hex(row.get("TraceID")), list(rows(row.get("rs")))
    kinds = {
        span.get("Kind") for batch in batches for scope in rows(batch.get("ss")) for span in rows(scope.get("Spans"))
    }
    # Programs that name no kinds write 0 for all spans.
    unspecified: Kind = "by service" if not any(kinds) else ""
    for batch in batches:
        resource = table(batch.get("Resource"))
        about = _attributes(resource, dedicated["resource"], nameless)
        service = resource.get("ServiceName") or str(about.get("service.name") or "")
        hosts = {key: about[key] for key in HOSTS if key in about}
        for scope in rows(batch.get("ss")):
            for span in rows(scope.get("Spans")):
                values = {**hosts, **_attributes(span, dedicated["span"], nameless)}
                ids = (trace, _hex(span.get("SpanID")), _hex(span.get("ParentSpanID")) or None)
                begin, took = span.get("StartTimeUnixNano"), span.get("DurationNano")
                end = begin + took if begin and took is not None else None
                kind = _KINDS.get(str(span.get("Kind")), unspecified)
                failed = span.get("StatusCode") == 2
                kept = kept_share(span.get("TraceState") or "", values)
                yield span_of(ids, kind, service, begin or None, end, span.get("Name"), values, names, failed, kept)


def _attributes(of: Mapping[str, Any], dedicated: Mapping[str, str], nameless: Counter[str]) -> dict[str, Any]:
    """The attributes of a resource or a span, those with a column of their own too."""
    found: dict[str, Any] = {}
    for item in rows(of.get("Attrs")):
        for column in ("Value", "ValueInt", "ValueDouble", "ValueBool"):
            if (value := _first(item.get(column))) is not None:
                found[str(item.get("Key"))] = value
                break
    found |= {key: of[column] for key, column in _STATIC.items() if of.get(column) is not None}
    for column, values in table(of.get("DedicatedAttributes")).items():
        if (value := _first(values)) is None:
            continue
        if column in dedicated:
            found.setdefault(dedicated[column], value)
        else:
            nameless[column] += 1
    return found


def _first(value: Any) -> Any:
    return (value[0] if value else None) if isinstance(value, list) else value


def _hex(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value or "")
