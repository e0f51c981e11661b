"""`manifest.json`, which describes a run folder. A stranger may have written it, so nothing in it is trusted."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from tailrace import untrusted
from tailrace.bounds import MANIFEST_CHARACTERS, MANIFEST_ENTRIES, SERVERS
from tailrace.dataset import schema
from tailrace.dataset.connections import Connections
from tailrace.errors import InputError

MANIFEST = "manifest.json"
_AGAIN = "make the run again"
_ENTRIES = dict.fromkeys(("notes", "lost", "inputs", "checksums"), MANIFEST_ENTRIES)
_NAMES = ("servers", "places")
_ENTRIES_OF_CONNECTIONS = {"servers": SERVERS, "apart": MANIFEST_ENTRIES}


STEPS = ("responses", "losses", "queues", "resources")
"""What an input may carry: response times, lost packets, queue lengths, saturated resources and what saturated them."""
COUNTED = "each request"
"""What an input carries of the responses if its requests are those of the run folder."""
SEEN, INFERRED = "seen", "indirectly"
"""How an input shows lost attempts: by packets, or by times to connect. Words may follow the second."""


@dataclass(frozen=True)
class Input:
    """A file from which the run folder was made; `carries` has a few words for each of `STEPS` that it shows."""

    file: str
    kind: str
    carries: Mapping[str, str] = field(default_factory=dict)
    servers: tuple[str, ...] = ()
    """The servers whose visits or requests in the run folder are those of this file; empty if that is not known."""
    places: tuple[str, ...] = ()
    """The places of its samples and events; empty if they are not known."""

    def to_table(self) -> dict[str, Any]:
        named = {"servers": list(self.servers), "places": list(self.places)}
        known = {key: names for key, names in named.items() if names}
        return {"file": self.file, "kind": self.kind, "carries": dict(self.carries), **known}


@dataclass(frozen=True)
class Manifest:
    """`begin` and `end` span requests and visits, or samples and events if there are neither."""

    maker: str
    maker_version: str
    format: int = schema.FORMAT
    begin: int | None = None
    end: int | None = None
    rows: dict[str, int] = field(default_factory=dict)
    lost: dict[str, int] = field(default_factory=dict)
    """What was lost and how much: ring drops, gaps, truncated bytes, damaged lines."""
    notes: tuple[str, ...] = ()
    """Sentences for the reader about how the data were made."""
    inputs: tuple[Input, ...] = ()
    connections: Connections = field(default_factory=Connections)
    checksums: dict[str, str] = field(default_factory=dict)
    """SHA-256 of each file, by its path within the folder."""

    def to_json(self) -> str:
        table = {
            "format": self.format,
            "maker": {"name": self.maker, "version": self.maker_version},
            "time_range_ns": None if self.begin is None or self.end is None else [self.begin, self.end],
            "rows": self.rows,
            "lost": self.lost,
            "notes": list(self.notes),
            "inputs": [one.to_table() for one in self.inputs],
            "connections": self.connections.to_table(),
            "checksums": self.checksums,
        }
        return json.dumps(table, indent=2, ensure_ascii=False) + "\n"


def read(path: Path) -> Manifest:
    """Read a manifest; an error names the key and the problem."""
    table = untrusted.parse_json(untrusted.read_inside(path), path, _AGAIN)
    if not isinstance(table, dict) or not _is_count(table.get("format")):
        raise InputError(path, "format is missing", "this is not the manifest of a run folder", key="format")
    if table["format"] > schema.FORMAT:
        raise InputError(
            path,
            f"format {table['format']} is newer than {schema.FORMAT}, the newest that this Tailrace reads",
            "upgrade Tailrace",
        )
    wrong = next(_wrong(table), None)
    if wrong:
        raise InputError(path, f"it must be {wrong[1]}", _AGAIN, key=wrong[0])
    begin, end = table.get("time_range_ns") or (None, None)
    return Manifest(
        maker=table["maker"]["name"],
        maker_version=table["maker"]["version"],
        format=table["format"],
        begin=begin,
        end=end,
        rows=table.get("rows", {}),
        lost=table.get("lost", {}),
        notes=tuple(table.get("notes", ())),
        inputs=tuple(map(_input, table.get("inputs", ()))),
        connections=_connections(table, path),
        checksums=table.get("checksums", {}),
    )


def _input(table: dict[str, Any]) -> Input:
    servers, places = (tuple(table.get(key, ())) for key in _NAMES)
    return Input(table["file"], table["kind"], table["carries"], servers, places)


def _connections(table: dict[str, Any], path: Path) -> Connections:
    try:
        return Connections.from_table(table.get("connections", {}))
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise InputError(path, f"a value is invalid ({error})", _AGAIN, key="connections") from error


def _wrong(table: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Keys with invalid values, and what each must be."""
    for key, most in _ENTRIES.items():
        if _is_longer(table.get(key), most):
            yield key, f"of at most {most:,} entries"
    connections = table.get("connections")
    for key, most in _ENTRIES_OF_CONNECTIONS.items():
        if isinstance(connections, dict) and _is_longer(connections.get(key), most):
            yield f"connections.{key}", f"of at most {most:,} entries"
    if any(len(text) > MANIFEST_CHARACTERS for text in _texts(table)):
        yield "every text", f"of at most {MANIFEST_CHARACTERS:,} characters"
    maker = table.get("maker")
    if not (isinstance(maker, dict) and _is_text(maker.get("name")) and _is_text(maker.get("version"))):
        yield "maker", "a name and a version"
    span = table.get("time_range_ns")
    moments = isinstance(span, list) and len(span) == 2 and all(map(_is_moment, span)) and span[0] <= span[1]
    if not (span is None or moments):
        yield "time_range_ns", "two moments in order, in nanoseconds since 1970"
    for key in ("rows", "lost"):
        if not (isinstance(table.get(key, {}), dict) and all(map(_is_count, table.get(key, {}).values()))):
            yield key, "names with their counts"
    for name in table.get("rows", {}):
        if name not in schema.TABLES:
            yield f"rows.{name}", f"one of {', '.join(schema.TABLES)}"
    if not (isinstance(table.get("notes", []), list) and all(map(_is_text, table.get("notes", [])))):
        yield "notes", "a list of sentences"
    inputs = table.get("inputs", [])
    if not (isinstance(inputs, list) and all(map(_is_input, inputs))):
        yield "inputs", "a list of files with their kind and what they carry"
    checksums = table.get("checksums", {})
    if not (isinstance(checksums, Mapping) and all(map(_is_text, checksums.values()))):
        yield "checksums", "names with their SHA-256"
        return
    for name in checksums:
        if not is_inside(name):
            yield f"checksums.{name}", "the path of a file within the folder"


def _is_input(value: Any) -> bool:
    if not (isinstance(value, dict) and _is_text(value.get("file")) and _is_text(value.get("kind"))):
        return False
    for key in _NAMES:
        names = value.get(key, [])
        if not (isinstance(names, list) and len(names) <= MANIFEST_ENTRIES and all(map(_is_text, names))):
            return False
    carries = value.get("carries")
    return isinstance(carries, dict) and all(step in STEPS and _is_text(said) for step, said in carries.items())


def _is_longer(value: Any, most: int) -> bool:
    return isinstance(value, list | dict) and len(value) > most


def _texts(value: Any) -> Iterator[str]:
    """Every text in a value, names of keys included. It may be too deep for a function that calls itself."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            waiting += (*one.keys(), *one.values())
        elif isinstance(one, list):
            waiting += one


def is_inside(name: str) -> bool:
    """Whether a path stays inside its folder."""
    parts = PurePosixPath(name).parts
    return bool(parts) and parts[0] != "/" and ".." not in parts and "\0" not in name


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _is_moment(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and schema.MOMENT_MIN <= value <= schema.MOMENT_MAX


def _is_text(value: Any) -> bool:
    return isinstance(value, str)
