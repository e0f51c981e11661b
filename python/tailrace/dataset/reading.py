"""Opening a run folder: fast to open, lazy to read, and exact about what is wrong with it."""

from __future__ import annotations

import hashlib
from functools import cached_property
from os import PathLike
from pathlib import Path

import polars as pl
from polars.exceptions import PanicException

from tailrace import handed
from tailrace import topology as topology_file
from tailrace.dataset import schema, tables, validation
from tailrace.dataset.connections import Connections
from tailrace.dataset.manifest import MANIFEST, Manifest
from tailrace.dataset.manifest import read as read_manifest
from tailrace.dataset.overwriting import TOPOLOGY
from tailrace.errors import InputError, cannot_read
from tailrace.topology import Topology

_AGAIN = "make the run again"


def is_run(path: str | PathLike[str]) -> bool:
    """Whether there is a run folder, according to its manifest."""
    try:
        read_manifest(Path(path) / MANIFEST)
    except InputError:
        return False
    return True


class Dataset:
    """An opened run folder. Frames are lazy; large data are read only on use."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest
        self._frames: dict[str, pl.LazyFrame] = {}
        self._shapes: dict[str, tables.Shape] = {}

    @classmethod
    def open(cls, path: str | PathLike[str]) -> Dataset:
        """Open a run folder; an error names the file and what is wrong with its shape. See also `validate`."""
        folder = Path(path)
        try:
            if not folder.is_dir():
                folder.stat()
                raise InputError(folder, "it is a file, not a run folder", "read it with `tailrace read`")
            if not handed.regular(folder / MANIFEST):
                advice = f"a run folder holds {MANIFEST}; make one with `tailrace read FILES… -o RUN`"
                raise InputError(folder, "not a run folder", advice)
        except OSError as error:
            raise cannot_read(folder, error) from error
        run = cls(folder, read_manifest(folder / MANIFEST))
        for table in schema.TABLES.values():
            run._open(table)
        return run

    def _open(self, table: schema.Table) -> None:
        path, said = self.path / table.file, self.manifest.rows.get(table.name)
        if not handed.regular(path):
            if said:
                raise InputError(path, f"it is missing, but {MANIFEST} lists it with {said} rows", _AGAIN)
            self._frames[table.name] = pl.LazyFrame(schema=table.schema)
            return
        shape = tables.shape(path)
        if said is not None and said != shape.rows:
            found = f"it has {shape.rows} rows where {MANIFEST} says {said}"
            raise InputError(path, found, f"the file was replaced or cut; {_AGAIN}")
        self._shapes[table.name] = shape
        self._frames[table.name] = _frame(path, table)

    @cached_property
    def topology(self) -> Topology:
        path = self.path / TOPOLOGY
        return topology_file.read(path, handed=True) if handed.regular(path) else Topology()

    @property
    def connections(self) -> Connections:
        """The manifest's `connections`: what no table row represents."""
        return self.manifest.connections

    def has(self, table: str) -> bool:
        """Whether the table exists and holds rows."""
        return table in self._shapes and self._shapes[table].rows > 0

    def files(self, table: str) -> list[str]:
        """The Parquet files of a table; empty if it is absent."""
        return [str(self.path / schema.TABLES[table].file)] if table in self._shapes else []

    def requests(self) -> pl.LazyFrame:
        return self._frames["requests"]

    def visits(self) -> pl.LazyFrame:
        return self._frames["visits"]

    def samples(self) -> pl.LazyFrame:
        return self._frames["samples"]

    def events(self) -> pl.LazyFrame:
        return self._frames["events"]

    def validate(self, *, checksums: bool = False) -> None:
        """Read every row and raise an error for the first problem: file, column and row. With `checksums`, also find
        changed files."""
        for table in schema.TABLES.values():
            if table.name in self._shapes:
                validation.check(self._frames[table.name], table, self.path / table.file)
        _ = self.topology
        if checksums:
            self._check_checksums()

    def _check_checksums(self) -> None:
        for name, said in self.manifest.checksums.items():
            path = self.path / name
            if path.parent.resolve() != self.path.resolve() / Path(name).parent:
                raise InputError(path, "a symbolic link leads out of the folder on the way to it", "remove the link")
            found = sha256(path) if handed.regular(path) else None
            if found is None:
                raise InputError(path, f"it is missing, but {MANIFEST} lists it", _AGAIN)
            if found != said:
                wrong = f"its SHA-256 is {found[:12]}…, {MANIFEST} says {said[:12]}…"
                raise InputError(path, wrong, f"the file was changed; {_AGAIN}")

    def __repr__(self) -> str:
        rows = ", ".join(f"{count:,} {name}" for name, count in self.manifest.rows.items())
        return f"Dataset({str(self.path)!r}: {rows or 'empty'})"


def sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise cannot_read(path, error) from error


def _frame(path: Path, table: schema.Table) -> pl.LazyFrame:
    try:
        frame = tables.scan(path)
        problem = schema.shape_problem(frame.collect_schema(), table)
    except OSError as error:
        raise cannot_read(path, error) from error
    except (pl.exceptions.PolarsError, PanicException) as error:
        raise tables.unreadable(path, error) from error
    if problem:
        raise InputError(path, problem[1], "docs/reference/dataset.md lists the columns", column=problem[0])
    return schema.conform(frame, table)
