"""Opening a run folder: cheap to open, lazy to read, exact about what is wrong with it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import polars as pl

from tailrace import topology as topology_file
from tailrace.dataset import schema, validation
from tailrace.dataset.connections import Connections
from tailrace.errors import InputError, cannot_read
from tailrace.topology import Topology

MANIFEST = "manifest.json"
TOPOLOGY = "topology.toml"


@dataclass(frozen=True)
class Manifest:
    """What `manifest.json` says. `begin` and `end` span requests and visits, or samples where there are neither."""

    maker: str
    maker_version: str
    format: int = schema.FORMAT
    begin: int | None = None
    end: int | None = None
    rows: dict[str, int] = field(default_factory=dict)
    lost: dict[str, int] = field(default_factory=dict)
    """What was lost and how much of it: ring drops, gaps, truncated bytes, damaged lines."""
    notes: tuple[str, ...] = ()
    """What a reader wants said of how the data were made."""
    connections: Connections = field(default_factory=Connections)
    checksums: dict[str, str] = field(default_factory=dict)
    """SHA-256 of each file, by name."""

    def to_json(self) -> str:
        table = {
            "format": self.format,
            "maker": {"name": self.maker, "version": self.maker_version},
            "time_range_ns": None if self.begin is None or self.end is None else [self.begin, self.end],
            "rows": self.rows,
            "lost": self.lost,
            "notes": list(self.notes),
            "connections": self.connections.to_table(),
            "checksums": self.checksums,
        }
        return json.dumps(table, indent=2, ensure_ascii=False) + "\n"


def is_run(path: str | PathLike[str]) -> bool:
    return (Path(path) / MANIFEST).is_file()


class Dataset:
    """A run folder, opened. Frames are lazy; nothing large is read until it is asked for."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest
        self._frames: dict[str, pl.LazyFrame] = {}

    @classmethod
    def open(cls, path: str | PathLike[str]) -> Dataset:
        """Open a run folder; an error names the file and what is wrong with its shape. See also `validate`."""
        folder = Path(path)
        try:
            if not folder.is_dir():
                folder.stat()
                raise InputError(folder, "it is a file, not a run folder", "read it with `tailrace read`")
            if not is_run(folder):
                advice = f"a run folder holds {MANIFEST}; make one with `tailrace read FILES… -o RUN`"
                raise InputError(folder, "not a run folder", advice)
        except OSError as error:
            raise cannot_read(folder, error) from error
        run = cls(folder, _read_manifest(folder / MANIFEST))
        for table in schema.TABLES.values():
            run._frames[table.name] = _open_table(folder / table.file, table)
        return run

    @cached_property
    def topology(self) -> Topology:
        path = self.path / TOPOLOGY
        return topology_file.read(path) if path.exists() else Topology()

    def has(self, table: str) -> bool:
        """Whether the table is there and holds rows."""
        file = self.path / schema.TABLES[table].file
        return file.exists() and bool(pl.scan_parquet(file).select(pl.len()).collect().item())

    def files(self, table: str) -> list[str]:
        """The Parquet files of a table; none when it is absent."""
        file = self.path / schema.TABLES[table].file
        return [str(file)] if file.exists() else []

    def requests(self) -> pl.LazyFrame:
        return self._frames["requests"]

    def visits(self) -> pl.LazyFrame:
        return self._frames["visits"]

    def samples(self) -> pl.LazyFrame:
        return self._frames["samples"]

    def events(self) -> pl.LazyFrame:
        return self._frames["events"]

    def validate(self, *, checksums: bool = False) -> None:
        """Read every row and raise the first problem: file, column and row. With `checksums`, files changed since."""
        for table in schema.TABLES.values():
            if (self.path / table.file).exists():
                validation.check(self._frames[table.name], table, self.path / table.file)
        for file, found in self._rows_found():
            if found != self.manifest.rows.get(file, found):
                said = self.manifest.rows[file]
                raise InputError(
                    self.path / schema.TABLES[file].file,
                    f"{found} rows where {MANIFEST} says {said}",
                    "the file was replaced or cut; make the run again",
                )
        _ = self.topology
        if checksums:
            self._check_checksums()

    def _rows_found(self) -> list[tuple[str, int]]:
        return [
            (name, int(pl.scan_parquet(self.path / table.file).select(pl.len()).collect().item()))
            for name, table in schema.TABLES.items()
            if (self.path / table.file).exists()
        ]

    def _check_checksums(self) -> None:
        for name, said in self.manifest.checksums.items():
            try:
                found = sha256(self.path / name)
            except OSError as error:
                raise cannot_read(self.path / name, error) from error
            if found != said:
                raise InputError(
                    self.path / name, f"its SHA-256 is {found[:12]}…, {MANIFEST} says {said[:12]}…", "it was changed"
                )

    def __repr__(self) -> str:
        rows = ", ".join(f"{count:,} {name}" for name, count in self.manifest.rows.items())
        return f"Dataset({str(self.path)!r}: {rows or 'empty'})"


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _open_table(path: Path, table: schema.Table) -> pl.LazyFrame:
    if not path.exists():
        return pl.LazyFrame(schema=table.schema)
    try:
        frame = pl.scan_parquet(path)
        problem = schema.shape_problem(frame.collect_schema(), table)
    except OSError as error:
        raise cannot_read(path, error) from error
    except pl.exceptions.PolarsError as error:
        raise InputError(path, f"not a readable Parquet file ({error})", "it may be cut; make the run again") from error
    if problem:
        raise InputError(path, problem[1], "docs/reference/dataset.md lists the columns", column=problem[0])
    return schema.conform(frame, table)


def _read_manifest(path: Path) -> Manifest:
    try:
        text = path.read_text(encoding="utf-8")
        table = json.loads(text)
    except OSError as error:
        raise cannot_read(path, error) from error
    except ValueError as error:
        raise InputError(path, f"not JSON ({error})", "make the run again") from error
    if not isinstance(table, dict) or not isinstance(table.get("format"), int):
        raise InputError(path, "format is missing", "this is not the manifest of a run folder", key="format")
    if table["format"] > schema.FORMAT:
        raise InputError(
            path,
            f"format {table['format']} is newer than {schema.FORMAT}, the newest this Tailrace reads",
            "upgrade Tailrace",
        )
    try:
        return _manifest_of(table)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise InputError(path, f"a value is not what it should be ({error})", "make the run again") from error


def _manifest_of(table: dict[str, Any]) -> Manifest:
    begin, end = table.get("time_range_ns") or (None, None)
    return Manifest(
        maker=str(table["maker"]["name"]),
        maker_version=str(table["maker"]["version"]),
        format=table["format"],
        begin=None if begin is None else int(begin),
        end=None if end is None else int(end),
        rows={str(name): int(count) for name, count in table.get("rows", {}).items()},
        lost={str(name): int(count) for name, count in table.get("lost", {}).items()},
        notes=tuple(str(note) for note in table.get("notes", ())),
        connections=Connections.from_table(table.get("connections", {})),
        checksums={str(name): str(digest) for name, digest in table.get("checksums", {}).items()},
    )
