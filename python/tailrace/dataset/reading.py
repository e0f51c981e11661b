"""Opening a run folder: fast to open, lazy to read, and exact about what is wrong with it."""

from __future__ import annotations

from functools import cached_property
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from tailrace import topology as topology_file
from tailrace import untrusted
from tailrace.dataset import schema, tables, validation
from tailrace.dataset.connections import Connections
from tailrace.dataset.manifest import MANIFEST, Input, Manifest
from tailrace.dataset.manifest import read as read_manifest
from tailrace.dataset.overwriting import TOPOLOGY
from tailrace.dataset.settling import Settled, settle
from tailrace.errors import InputError, cannot_read
from tailrace.topology import Topology

LEFT_OUT = "rows without a value that must be there, with a time far from all others, or that end before they begin"
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
        self._raw: dict[str, pl.LazyFrame] = {}
        self._settled: dict[str, Settled] = {}

    @classmethod
    def open(cls, path: str | PathLike[str]) -> Dataset:
        """Open a run folder; an error names the file and what is wrong with its shape. See also `validate`."""
        folder = Path(path)
        try:
            if not folder.is_dir():
                folder.stat()
                raise InputError(folder, "it is a file, not a run folder", "read it with `tailrace read`")
            if not untrusted.regular(folder / MANIFEST):
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
        if not untrusted.regular(path):
            if said:
                raise InputError(path, f"it is missing, but {MANIFEST} lists it with {said} rows", _AGAIN)
            return
        shape = tables.shape(path)
        if said is not None and said != shape.rows:
            found = f"it has {shape.rows} rows where {MANIFEST} says {said}"
            raise InputError(path, found, f"the file was replaced or cut; {_AGAIN}")
        self._raw[table.name] = _frame(path, table)

    def _settle(self, table: str) -> Settled | None:
        """The table as it can be read; None where it is absent."""
        if table in self._raw and table not in self._settled:
            file = schema.TABLES[table].file
            self._settled[table] = settle(self.path / file, schema.TABLES[table], self._copies / file)
        return self._settled.get(table)

    @cached_property
    def _copies(self) -> Path:
        """Where tables lie of which rows had to be left out. It goes away with this value."""
        self._folder = TemporaryDirectory(prefix="tailrace-")
        return Path(self._folder.name)

    def _frame(self, name: str) -> pl.LazyFrame:
        table, settled = schema.TABLES[name], self._settle(name)
        if settled is None:
            return pl.LazyFrame(schema=table.schema)
        if settled.path == self.path / table.file:
            return self._raw[name]
        return schema.conform(tables.scan(settled.path), table)

    @cached_property
    def topology(self) -> Topology:
        path = self.path / TOPOLOGY
        return topology_file.read(path, untrusted=True) if untrusted.regular(path) else Topology()

    @property
    def connections(self) -> Connections:
        """The manifest's `connections`: what no table row represents."""
        return self.manifest.connections

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The files from which the folder was made."""
        return self.manifest.inputs

    def has(self, table: str) -> bool:
        """Whether the table exists and holds rows."""
        settled = self._settle(table)
        return settled is not None and settled.rows > settled.left_out

    def files(self, table: str) -> list[str]:
        """The Parquet files of a table; empty if it is absent."""
        settled = self._settle(table)
        return [] if settled is None else [str(settled.path)]

    def lost(self) -> dict[str, int]:
        """What was lost when the run was made, and rows that are left out now because they break a promise."""
        settled = {table.file: self._settle(name) for name, table in schema.TABLES.items()}
        left_out = {f"{file}: {LEFT_OUT}": one.left_out for file, one in settled.items() if one and one.left_out}
        return {**self.manifest.lost, **left_out}

    def as_folder(self) -> Path:
        """A folder with the tables as they can be read: for the engine, which finds them by their names."""
        for name, table in schema.TABLES.items():
            settled = self._settle(name)
            if settled and settled.path.parent == self.path and not (self._copies / table.file).exists():
                (self._copies / table.file).symlink_to(settled.path.absolute())
        return self._copies

    def requests(self) -> pl.LazyFrame:
        return self._frame("requests")

    def visits(self) -> pl.LazyFrame:
        return self._frame("visits")

    def samples(self) -> pl.LazyFrame:
        return self._frame("samples")

    def events(self) -> pl.LazyFrame:
        return self._frame("events")

    def validate(self, *, checksums: bool = False) -> None:
        """Read every row and raise an error for the first problem: file, column and row. With `checksums`, also find
        changed files."""
        for table in schema.TABLES.values():
            if table.name in self._raw:
                validation.check(self._raw[table.name], table, self.path / table.file)
        _ = self.topology
        if checksums:
            self._check_checksums()

    def _check_checksums(self) -> None:
        for name, said in self.manifest.checksums.items():
            path = self.path / name
            if path.parent.resolve() != self.path.resolve() / Path(name).parent:
                raise InputError(path, "a symbolic link leads out of the folder on the way to it", "remove the link")
            found = tables.sha256(path) if untrusted.regular(path) else None
            if found is None:
                raise InputError(path, f"it is missing, but {MANIFEST} lists it", _AGAIN)
            if found != said:
                wrong = f"its SHA-256 is {found[:12]}…, {MANIFEST} says {said[:12]}…"
                raise InputError(path, wrong, f"the file was changed; {_AGAIN}")

    def __repr__(self) -> str:
        rows = ", ".join(f"{count:,} {name}" for name, count in self.manifest.rows.items())
        return f"Dataset({str(self.path)!r}: {rows or 'empty'})"


def _frame(path: Path, table: schema.Table) -> pl.LazyFrame:
    try:
        frame = tables.scan(path)
        problem = schema.shape_problem(frame.collect_schema(), table)
    except OSError as error:
        raise cannot_read(path, error) from error
    except tables.FAULTS as error:
        raise tables.unreadable(path, error) from error
    if problem:
        raise InputError(path, problem[1], "docs/reference/dataset.md lists the columns", column=problem[0])
    return schema.conform(frame, table)
