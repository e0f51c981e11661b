"""InfluxDB's annotated CSV, which `influx query --raw`, the API and the page of InfluxDB 2 export.

```text
#group,false,false,true,true,false,false,true,true,true
#datatype,string,long,dateTime:RFC3339,dateTime:RFC3339,dateTime:RFC3339,double,string,string,string
#default,_result,,,,,,,,
,result,table,_start,_stop,_time,_value,_field,_measurement,host
,,0,2026-11-20T16:00:00Z,2026-11-20T17:00:00Z,2026-11-20T16:49:01Z,4711,context_switches,kernel,app1
```
A file has several tables, each with its own header. A row is one field; after `pivot()` the fields are columns, as
in what InfluxDB 1 prints (`influx -format csv`): `name,time,cpu,host,usage_idle,…`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tailrace.readers import room
from tailrace.readers.elements import number
from tailrace.readers.layout import fields
from tailrace.readers.source import Found, Source

Point = tuple[str, Mapping[str, str], Mapping[str, float], str]
"""Measurement, tags, fields, time."""

HEAD = re.compile(r"\A\ufeff?\s*(?:#(?:datatype|group|default),|,result,table,|,error,reference|name,(?:tags,)?time,)")
REFUSED = "InfluxDB reported an error"
_OWN = frozenset({"", "result", "table"})
_NUMBERS = frozenset({"double", "long", "unsignedLong"})
_SHARES_OF_CPU = frozenset({"usage_idle", "usage_iowait", "usage_steal"})
"""Without one of these, nobody knows how busy a CPU was: a query may have left it out, or the file was cut."""
_MOMENTS_PER_SAMPLE = 8
"""A moment of a CPU takes as much memory as so many samples."""


class _Table:
    """The columns of the table that is being read; a new one begins with annotations or with a header."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.types: list[str] = []
        self.defaults: list[str] = []
        self.opened = True

    def annotate(self, row: list[str]) -> None:
        if not self.opened:
            self.types, self.defaults, self.opened = [], [], True
        if row[0] == "#datatype":
            self.types = row
        elif row[0] == "#default":
            self.defaults = row

    def is_header(self, row: list[str]) -> bool:
        first = row[0].lstrip("\ufeff") == "name" and "time" in row[1:3]
        return self.opened or first or {"_time", "_measurement"} <= set(row) or row[1:3] == ["error", "reference"]

    def of(self, row: list[str]) -> dict[str, str]:
        """The cells by the names of their columns; those that are empty have the default of the column."""
        defaults = self.defaults if len(self.defaults) == len(row) else [""] * len(row)
        return {name: cell or default for name, cell, default in zip(self.names, row, defaults, strict=True)}

    def numeric(self, name: str) -> bool:
        """The column has numbers; without annotations every column may."""
        return len(self.types) != len(self.names) or self.types[self.names.index(name)] in _NUMBERS


def points(source: Source, found: Found) -> Iterator[Point]:
    """The points of all tables. Those of CPUs come last, because their fields are in several tables."""
    open_table, cpus, most = _Table(), dict[tuple[tuple[tuple[str, str], ...], str], dict[str, float]](), room.samples()
    for line_number, line in source.lines(found):
        row = fields(line.lstrip("\ufeff"), ",")
        if row and row[0].startswith("#"):
            open_table.annotate(row)
        elif row and open_table.is_header(row):
            open_table.names, open_table.opened = row, False
        elif not row or len(row) != len(open_table.names):
            found.damaged(source.path.name, line_number)
        elif (cells := open_table.of(row)).get("error"):
            found.stopped(source.path.name, f"{REFUSED}: {cells['error'][:200]}")
        else:
            point = _point(open_table, cells)
            if point is None:
                found.lose("rows without a number, a measurement or a time", 1)
            elif point[0] != "cpu":
                yield point
            else:
                cpus.setdefault((tuple(sorted(point[1].items())), point[3]), {}).update(point[2])
                if len(cpus) * _MOMENTS_PER_SAMPLE >= most:
                    found.filled(source.path.name, len(cpus), "moments")
                    break
    for (tags, time), values in cpus.items():
        if values.keys() >= _SHARES_OF_CPU:
            yield "cpu", dict(tags), values, time
        else:
            found.lose(f"moments of a CPU without all of {', '.join(sorted(_SHARES_OF_CPU))}", 1)


def _of_first_version(cells: Mapping[str, str]) -> Point | None:
    """A row of InfluxDB 1: tags and fields are columns, and numbers are fields. Tags of a group are in one column."""
    free = {name: cell for name, cell in cells.items() if name not in ("name", "time", "tags") and cell}
    numbers = {name: value for name, text in free.items() if (value := number(text)) is not None}
    tags = {name: cell for name, cell in free.items() if name not in numbers}
    grouped = (pair.partition("=") for pair in cells.get("tags", "").split(",") if "=" in pair)
    tags |= {name: cell for name, _, cell in grouped}
    return (cells["name"], tags, numbers, cells["time"]) if cells.get("time") and numbers else None


def _point(table: _Table, cells: Mapping[str, str]) -> Point | None:
    measurement, time, field = cells.get("_measurement"), cells.get("_time"), cells.get("_field")
    free = [name for name in cells if name not in _OWN and not name.startswith("_")]
    if "_measurement" not in cells and "name" in cells:
        return _of_first_version(cells)
    if field is not None:
        names, values = {}, {field: cells.get("_value", "")} if table.numeric("_value") else {}
    else:
        typed = len(table.types) == len(table.names)
        names = {name: cells[name] for name in free if typed and table.numeric(name)}
        values = names
    numbers = {name: value for name, text in values.items() if (value := number(text)) is not None}
    if not (measurement and time and numbers):
        return None
    tags = {name: cells[name] for name in free if name not in names and cells[name]}
    return measurement, tags, numbers, time
