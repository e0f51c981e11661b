"""Values in gob, the encoding of Go's programs, as far as structs of plain values need it (pkg.go.dev/encoding/gob).

```text
message  length │ -type │ the type's description                 numbers below 128 are one byte; of larger ones, the
message  length │  type │ value                                  first byte is minus the number of bytes that follow
struct   (steps to the next field │ its value)… │ 0             signed numbers have their sign in the lowest bit
```
A value is decoded by the types that came before it. A type that has a way of its own (`time.Time`) is bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tailrace.bounds import LINE

_BOOL, _INT, _UINT, _FLOAT, _BYTES, _STRING, _COMPLEX, _INTERFACE = range(1, 9)
_WIRE, _ARRAY, _COMMON, _SLICE, _STRUCT, _FIELD, _FIELDS, _MAP, _OWN = 16, 17, 18, 19, 20, 21, 22, 23, 24
_OWN_TYPES = 64
"""The types of a stream have numbers from here on; those below are gob's own."""
_TYPES_MAX, _FIELDS_MAX, _DEPTH = 1000, 1000, 16
"""Types of one stream, fields of a type, and values inside each other."""


@dataclass(frozen=True)
class _Type:
    """`fields` of a struct; `element` of a list; `key` and `element` of a map; else bytes."""

    fields: tuple[tuple[str, int], ...] | None = None
    element: int = 0
    key: int = 0


def _built_in() -> dict[int, _Type]:
    """The types that describe types."""
    common = ("common", _COMMON)
    return {
        _WIRE: _Type((*(("array", _ARRAY), ("slice", _SLICE), ("struct", _STRUCT), ("map", _MAP)), *_ways())),
        _ARRAY: _Type((common, ("element", _INT), ("length", _INT))),
        _COMMON: _Type((("name", _STRING), ("id", _INT))),
        _SLICE: _Type((common, ("element", _INT))),
        _STRUCT: _Type((common, ("fields", _FIELDS))),
        _FIELD: _Type((("name", _STRING), ("id", _INT))),
        _FIELDS: _Type(element=_FIELD),
        _MAP: _Type((common, ("key", _INT), ("element", _INT))),
        _OWN: _Type((common,)),
    }


def _ways() -> tuple[tuple[str, int], ...]:
    return tuple((way, _OWN) for way in ("gob", "binary", "text"))


class DamagedError(ValueError):
    """The bytes are no gob, or they end within a message."""


def structs(blocks: Iterator[bytes]) -> Iterator[dict[str, Any]]:
    """The structs of a stream. `DamagedError` where reading must stop."""
    types, buffer = _built_in(), b""
    for block in blocks:
        buffer += block
        at = 0
        while (message := _message(buffer, at)) is not None:
            begin, at = message
            value = _of_message(_Bytes(buffer, begin, at), types)
            if value is not None:
                yield value
        buffer = buffer[at:]
    if buffer:
        raise DamagedError("it ends within a message")


def _message(buffer: bytes, at: int) -> tuple[int, int] | None:
    """Where the next message begins and ends; None if it is not whole."""
    reader = _Bytes(buffer, at, len(buffer))
    try:
        length = reader.unsigned()
    except IndexError:
        return None
    if not 0 < length <= LINE:
        raise DamagedError(f"a message has {length} bytes")
    return (reader.at, reader.at + length) if reader.at + length <= len(buffer) else None


def _of_message(reader: _Bytes, types: dict[int, _Type]) -> dict[str, Any] | None:
    """The struct in a message; None if it describes a type, or holds another value."""
    try:
        type_id = reader.signed()
        if type_id < 0:
            if -type_id < _OWN_TYPES or len(types) >= _TYPES_MAX:
                raise DamagedError(f"it describes a type with the number {-type_id}, or too many types")
            types[-type_id] = _described(reader.value(_WIRE, types, 0))
            return None
        if types.get(type_id, _Type()).fields is None:
            return None
        value = reader.value(type_id, types, 0)
    except (IndexError, UnicodeDecodeError) as error:
        raise DamagedError("a message has values beyond its end") from error
    return value if isinstance(value, dict) else None


def _described(wire: Any) -> _Type:
    if "struct" in wire:
        fields = wire["struct"].get("fields", [])
        if len(fields) > _FIELDS_MAX:
            raise DamagedError(f"a type has {len(fields):,} fields")
        return _Type(tuple((field.get("name", ""), field.get("id", 0)) for field in fields))
    for kind in ("slice", "array", "map"):
        if kind in wire:
            return _Type(element=wire[kind].get("element", 0), key=wire[kind].get("key", 0))
    return _Type()


@dataclass
class _Bytes:
    data: bytes
    at: int
    end: int

    def _take(self, count: int) -> bytes:
        if count < 0 or self.at + count > self.end:
            raise IndexError
        self.at += count
        return self.data[self.at - count : self.at]

    def unsigned(self) -> int:
        first = self._take(1)[0]
        if first < 128:
            return first
        if 256 - first > 8:
            raise DamagedError("a number has more than 64 bits")
        return int.from_bytes(self._take(256 - first), "big")

    def signed(self) -> int:
        number = self.unsigned()
        return ~(number >> 1) if number & 1 else number >> 1

    def value(self, type_id: int, types: dict[int, _Type], depth: int) -> Any:
        if depth > _DEPTH:
            raise DamagedError("values are too deep inside each other")
        if type_id in (_BOOL, _UINT, _FLOAT):  # no reader needs floats: their bits are passed over
            return self.unsigned()
        if type_id == _INT:
            return self.signed()
        if type_id == _STRING:
            return self._take(self.unsigned()).decode(errors="replace")
        if type_id == _COMPLEX:
            return self.unsigned(), self.unsigned()
        kind = types.get(type_id)
        if kind is None or type_id == _BYTES:
            if type_id == _INTERFACE:
                raise DamagedError("the type of a value is not known")
            return self._take(self.unsigned())
        if kind.fields is not None:
            return self._struct(kind.fields, types, depth)
        if not kind.element:
            return self._take(self.unsigned())
        count = self.unsigned()
        if count > self.end - self.at:
            raise IndexError
        if not kind.key:
            return [self.value(kind.element, types, depth + 1) for _ in range(count)]
        return [
            (self.value(kind.key, types, depth + 1), self.value(kind.element, types, depth + 1)) for _ in range(count)
        ]

    def _struct(self, fields: tuple[tuple[str, int], ...], types: dict[int, _Type], depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        number = -1
        while step := self.unsigned():
            number += step
            if number >= len(fields):
                raise DamagedError("a value has a field that its type lacks")
            name, type_id = fields[number]
            found[name] = self.value(type_id, types, depth + 1)
        return found
