"""The user's file that says which columns of a flat table of spans mean what (`--columns`).

```toml
[columns]                        # trace, span, service, begin, and end or duration are needed
trace = "tid"
span = "sid"
service = "component"
begin = "t0"
duration = "took"

[units]                          # of times that are numbers; without them, the size of a moment shows its unit
begin = "us"
duration = "ms"

[kinds]                          # what the values of the column `kind` mean
inbound = "server"
```
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Literal

from pydantic import Field

from tailrace import toml, units
from tailrace.errors import InputError

Unit = Literal["s", "ms", "us", "ns"]
SCALES: dict[str, int] = {"s": units.SECOND, "ms": units.MILLISECOND, "us": units.MICROSECOND, "ns": 1}


class Columns(toml.Table):
    """The names of the columns."""

    trace: toml.Name
    span: toml.Name
    service: toml.Name
    begin: toml.Name
    end: toml.Name | None = None
    duration: toml.Name | None = None
    parent: toml.Name | None = None
    name: toml.Name | None = None
    kind: toml.Name | None = None
    status: toml.Name | None = None
    host: toml.Name | None = None


class Units(toml.Table):
    """The units of times that are numbers."""

    begin: Unit | None = None
    end: Unit | None = None
    duration: Unit | None = None


class Mapped(toml.Table):
    """A file of `--columns`."""

    columns: Columns
    units: Units = Units()
    kinds: Mapping[str, Literal["server", "client", "producer", "consumer", "internal"]] = Field(default_factory=dict)

    def roles(self) -> dict[str, str]:
        """Role → column."""
        return {role: column for role, column in self.columns.model_dump().items() if column is not None}

    def scale(self, role: str) -> int | None:
        """Nanoseconds in a unit of these times, if the file says so."""
        unit = getattr(self.units, role)
        return SCALES[unit] if unit is not None else None


_MORE = "docs/reference/readers.md shows the form"


def read(path: str | PathLike[str]) -> Mapped:
    """The mapping of a file; InputError where it is none."""
    mapped = toml.check(Mapped, toml.read(path, "docs/reference/readers.md"), path)
    if mapped.columns.end is None and mapped.columns.duration is None:
        raise InputError(path, "columns must have end or duration", _MORE)
    return mapped
