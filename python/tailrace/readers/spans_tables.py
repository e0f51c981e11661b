"""Spans in tables: flat CSV or Parquet with a row for each span, and the blocks of Tempo (`spans_tempo`).

```text
TraceID,SpanID,ParentID,ServiceName,OperationName,StartTimeUnixNano,EndTimeUnixNano
```
The columns of a flat table are found by the names that others give them. Without a column of kinds, a span is that of a
server if the span above it is of another service, or if there is none above it. The call graphs of Alibaba have a row
for each call, and times that count from the start of their collection.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import chain, islice
from typing import Any

import polars as pl

from tailrace import units
from tailrace.bounds import UNDATED_NS
from tailrace.dataset import tables
from tailrace.errors import InputError
from tailrace.readers import spans_tempo
from tailrace.readers.layout import fields, named_rows
from tailrace.readers.naming import Names
from tailrace.readers.source import Found, Source, text_head
from tailrace.readers.spans import KINDS, NUMBERED, Kind, Span, span_of
from tailrace.readers.spans_mapping import Mapped

_AT_ONCE = 500
"""Rows that are decoded together; a row of Tempo is a whole trace."""
_KINDS = NUMBERED | KINDS
_ALIASES = {
    "trace": "traceid",
    "span": "spanid id",
    "parent": "parentid parentspanid parent",
    "service": "servicename service resourceservicename process podname",
    "name": "operationname spanname name operation",
    "begin": "starttimeunixnano starttime start startnano timestamp begin starttimeus starttimems",
    "end": "endtimeunixnano endtime end endnano",
    "duration": "duration durationnano durationns durationus durationms",
    "kind": "spankind kind",
    "status": "statuscode status",
    "host": "hostname host nodename podname",
}
_ROLES: dict[str, list[str]] = {}
for _role, _words in _ALIASES.items():
    for _word in _words.split():
        _ROLES.setdefault(_word, []).append(_role)
_ALIBABA = {"traceid", "timestamp", "rpcid", "um", "dm", "interface", "rt"}
"""Columns of the call graphs that Alibaba published: a row for each call of the microservice `dm` by `um`."""
_NOWHERE = ("", "(?)", "NAN", "UNKNOWN", "UNAVAILABLE")
_NEEDED = {"trace", "span", "service", "begin"}
_SCALES = {"ns": 1, "nano": 1, "us": units.MICROSECOND, "ms": units.MILLISECOND}


def columns(names: list[str]) -> dict[str, str]:
    """Role → column of a flat table of spans; empty for any other table."""
    if set(names) >= _ALIBABA:
        return {name: name for name in sorted(_ALIBABA)}
    found: dict[str, str] = {}
    for name in names:
        for role in _ROLES.get(re.sub(r"[^a-z0-9]", "", name.lower()), ()):
            found.setdefault(role, name)
    return found if found.keys() >= _NEEDED and {"end", "duration"} & found.keys() else {}


def is_table(text: str) -> bool:
    return bool(columns(_header(text)))


def is_mapped(source: Source) -> bool:
    """Whether a table has all columns that the user's mapping names."""
    return source.mapping is not None and _mapping(source, _names(source)) is not None


def is_parquet(source: Source) -> bool:
    """Whether a Parquet file contains spans: its schema shows it."""
    names = _names(source)
    return set(names) >= spans_tempo.COLUMNS or bool(columns(names))


def _names(source: Source) -> list[str]:
    """The columns of a table; none where a file is not a table."""
    head = source.head()
    if not head.startswith(b"PAR1"):
        text = text_head(head)
        return _header(text) if text is not None else []
    with suppress(*tables.FAULTS, InputError):
        tables.shape(source.path)
        return tables.scan(source.path).collect_schema().names()
    return []


def _header(text: str) -> list[str]:
    return fields(text.lstrip("\ufeff").split("\n", 1)[0].strip(), ",")


def _mapping(source: Source, names: list[str]) -> Mapped | None:
    """The user's mapping, if a table with these columns has all that it names."""
    mapping = source.mapping
    return mapping if mapping is not None and set(names) >= set(mapping.roles().values()) else None


def _roles(mapping: Mapped | None, names: list[str]) -> dict[str, str]:
    return mapping.roles() if mapping is not None else columns(names)


def read_parquet(source: Source, found: Found, names: Names) -> Iterator[Span | None]:
    try:
        frame = tables.scan(source.path)
        types = frame.collect_schema()
        schema = types.names()
        # Python's dates would hide the unit of these times, which durations share.
        stamps = {name: kind.time_unit for name, kind in types.items() if isinstance(kind, pl.Datetime)}
        frame = frame.with_columns(pl.col(name).dt.epoch(unit) for name, unit in stamps.items())
        mapping = _mapping(source, schema)
        roles = _roles(mapping, schema)
        tempo = set(schema) >= spans_tempo.COLUMNS and mapping is None
        wanted = sorted(spans_tempo.COLUMNS if tempo else set(roles.values()))
        table = (
            row
            for start in range(0, tables.shape(source.path).rows, _AT_ONCE)
            for row in frame.select(wanted).slice(start, _AT_ONCE).collect().to_dicts()
        )
        if tempo:
            yield from spans_tempo.read(source, table, names, found)
        else:
            yield from _with_units(source, _of_rows(table, roles, mapping, names, found))
    except tables.FAULTS as error:
        raise tables.unreadable(source.path, error) from error


def read_csv(source: Source, found: Found, names: Names) -> Iterator[Span | None]:
    def whole() -> Iterator[Mapping[str, Any]]:
        for number, row in named_rows(source, found):
            if row:
                yield row
            else:
                found.damaged(source.path.name, number)

    header = _names(source)
    mapping = _mapping(source, header)
    return _with_units(source, _of_rows(whole(), _roles(mapping, header), mapping, names, found))


def _with_units(source: Source, spans: Iterator[Span | None]) -> Iterator[Span | None]:
    try:
        yield from spans
    except UnknownUnitError as error:
        why = f"nothing shows the unit of the durations in its column {str(error)[:40]}"
        how = "say it with --columns FILE (docs/reference/readers.md, Traces)"
        raise InputError(source.path, why, how) from error


def _of_rows(
    table: Iterator[Mapping[str, Any]], roles: Mapping[str, str], mapping: Mapped | None, names: Names, found: Found
) -> Iterator[Span | None]:
    if "rpcid" not in roles:
        return _flat(table, roles, mapping, names)
    found.undated = True
    found.notes.append("the times of these calls count from the start of their collection, and are dated 2000-01-01")
    return (_of_alibaba(row, names) for row in table)


def _of_alibaba(row: Mapping[str, Any], names: Names) -> Span | None:
    """A call as the span of the server that was called. Its id is a path (`0.1.2`); a negative time is the server's
    own record of the same call."""
    at, took = units.parse_number(_text(row.get("timestamp"))), units.parse_number(_text(row.get("rt")))
    server, path = _text(row.get("dm")), _text(row.get("rpcid"))
    if at is None or took is None or not 0 <= at < 10**12 or abs(took) >= 10**9 or server in _NOWHERE:
        return None
    begin = UNDATED_NS + int(at * units.MILLISECOND)
    end = begin + int(abs(took) * units.MILLISECOND)
    above = path.rpartition(".")[0]
    ids = (_text(row.get("traceid")), f"call {path}", f"call {above}" if above else None)
    return span_of(ids, "server", server, begin, end, _text(row.get("interface")), {}, names, False, None)


def _flat(
    table: Iterator[Mapping[str, Any]], roles: Mapping[str, str], mapping: Mapped | None, names: Names
) -> Iterator[Span | None]:
    table = iter(table)
    first = list(islice(table, _LOOKED_AT))
    shown = max((_digits(_text(line.get(roles.get("begin", "")))) for line in first), default=0)
    for line in chain(first, table):
        row = {role: _text(line.get(column)) for role, column in roles.items()}
        kind: Kind = _kind(row["kind"], mapping) if "kind" in roles else "by service"
        begin, end = _times(row, roles, mapping, shown)
        failed = row.get("status", "").lower() in ("2", "error", "status_code_error")
        above = row.get("parent", "")
        ids = (row["trace"], row["span"], None if _NO_PARENT.fullmatch(above) else above)
        values = {"host.name": row["host"]} if row.get("host") else {}
        yield span_of(ids, kind, row["service"], begin, end, row.get("name"), values, names, failed, None)


_NO_PARENT = re.compile(r"(?i:root|null|none|nan|-1|0{8,32})?")
"""What tables write where a span has no parent; Nezha's have `root`."""


def _kind(text: str, mapping: Mapped | None) -> Kind:
    """The kind of a span. One that is internal is of no kind here."""
    said = mapping.kinds.get(text, text) if mapping is not None else text
    return _KINDS.get(said.lower().removeprefix("span_kind_"), "")


def _times(
    row: Mapping[str, str], roles: Mapping[str, str], mapping: Mapped | None, shown: int
) -> tuple[int | None, int | None]:
    begin, end = (
        _moment(row.get(role, ""), mapping.scale(role) if mapping is not None else None) for role in ("begin", "end")
    )
    if end is None and begin is not None:
        scale = mapping.scale("duration") if mapping is not None else None
        took = _duration(row.get("duration", ""), roles, row["begin"], scale, shown)
        end = begin + took if took is not None else None
    return begin, end


def _moment(text: str, scale: int | None) -> int | None:
    with suppress(ValueError):
        return units.parse_moment(text, scale=scale) if text else None
    return None


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex()
    if hasattr(value, "timestamp"):  # a date and time of Parquet
        return str(round(value.timestamp() * 1_000_000))
    return "" if value is None else str(value).strip()


def _duration(text: str, roles: Mapping[str, str], begin: str, said: int | None, shown: int) -> int | None:
    """A duration in the unit that the mapping says, else in that of the column's name, else in that of the begins,
    which is the smallest that they show: `shown` is how many digits after the second the first rows have at most.
    A single begin does not show it, because many programs leave out zeros at its end."""
    number = units.parse_number(text)
    if number is None or not 0 <= number < 10**18:
        return None
    column = roles.get("duration", "").lower()
    scale = said or next((scale for ending, scale in _SCALES.items() if column.endswith(ending)), None)
    stamp = units.parse_number(begin)
    if scale is None and stamp is not None:
        scale = units.moment_scale(stamp)
    elif scale is None:
        scale = _BY_DIGITS.get(shown) if _digits(begin) <= shown else None
    if scale is None:
        raise UnknownUnitError(roles.get("duration", ""))
    return int(number * scale)


_FRACTION = re.compile(r"\d\d:\d\d:\d\d[.,](\d{1,9})")
_BY_DIGITS = {3: units.MILLISECOND, 6: units.MICROSECOND, 9: 1}
_LOOKED_AT = 100
"""Rows whose begins show the unit together."""


def _digits(begin: str) -> int:
    """How many digits a date and time has after the second."""
    digits = _FRACTION.search(begin)
    return len(digits[1]) if digits else 0


class UnknownUnitError(Exception):
    """Nothing shows the unit of the durations in this column."""
