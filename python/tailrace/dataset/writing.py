"""Writing a run folder completely or not at all.

```text
create("run")     run.tmp-4711-9f3a…/   tables, topology.toml        (locked while its writer is alive)
    clean exit    manifest.json, flushed to disk, renamed to run
    exception     removed            kill -9: stays, unlocked, and the next writer of the same run removes it
                                     after any error, a reading's finished segments stay, too (unfinished)
```
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import metadata
from os import PathLike
from pathlib import Path

import polars as pl

from tailrace import locks, whole
from tailrace import topology as topology_file
from tailrace.dataset import merging, overwriting, schema, unfinished
from tailrace.dataset.connections import Connections
from tailrace.dataset.manifest import MANIFEST, Input, Manifest
from tailrace.dataset.overwriting import TOPOLOGY, strangers
from tailrace.dataset.tables import scan, sha256, write_each
from tailrace.dataset.tables import write as write_parquet
from tailrace.errors import InputError, OutputError, cannot_write
from tailrace.topology import Clock, Topology


@dataclass
class Writer:
    """A run folder that is being written. Fill it; leaving the `with` block of `create` gives it its final name."""

    folder: Path
    """The tables' folder until then; an engine may write `<table>.parquet` here itself."""
    maker: str = "tailrace"
    topology: Topology = field(default_factory=Topology)
    clocks: tuple[Clock, ...] = ()
    losses: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    inputs: list[Input] = field(default_factory=list)
    connections: Connections = field(default_factory=Connections)
    earlier: str = ""
    """What became of a reading that was killed before, for the user; empty if there was none."""
    keep: str = ""
    """Advice for a folder that could not be finished and holds data that cannot be produced again; the folder then
    stays."""

    def write_table(self, name: str, frame: pl.DataFrame | pl.LazyFrame) -> int:
        """Write a table (replacing it), cast to its columns and sorted; returns the number of rows."""
        table = schema.TABLES[name]
        lazy = frame.lazy()
        problem = schema.shape_problem(lazy.collect_schema(), table)
        if problem:
            raise InputError(table.file, problem[1], "docs/reference/dataset.md lists the columns", column=problem[0])
        try:
            rows = schema.conform(lazy, table).collect()
        except pl.exceptions.PolarsError as error:
            raise InputError(table.file, f"a value does not fit its column ({error})") from error
        if not rows.get_column(table.sorted_by).is_sorted():
            rows = rows.sort(table.sorted_by, maintain_order=True)
        return write_parquet(rows, self.folder / table.file)

    def write_ordered(self, name: str, frames: Iterable[pl.DataFrame]) -> int:
        """Write a table (replacing it) whose rows come in order, a frame at a time; returns the number of rows."""
        table = schema.TABLES[name]
        each = (schema.conform(frame.lazy(), table).collect() for frame in frames)
        return write_each(each, self.folder / table.file)

    def append_table(self, name: str, frame: pl.DataFrame | pl.LazyFrame) -> int:
        """Add rows to a table that an engine or an earlier call has written."""
        path = self.folder / schema.TABLES[name].file
        if not path.exists():
            return self.write_table(name, frame)
        table = schema.TABLES[name]
        earlier = schema.conform(scan(path), table)
        return self.write_table(name, pl.concat([earlier, schema.conform(frame.lazy(), table)], how="diagonal"))

    def merge_table(self, name: str, frames: Iterable[pl.DataFrame]) -> int:
        """Add rows in order to a table that is there, a part of both in memory; returns the number of all rows."""
        table = schema.TABLES[name]
        path = self.folder / table.file
        there = (schema.conform(part, table).collect() for part in merging.written(path))
        new = (schema.conform(frame.lazy(), table).collect() for frame in frames)
        return write_each(merging.merged(there, new, table.sorted_by), path)

    def lose(self, what: str, count: int) -> None:
        """Count data that could not be kept."""
        if count:
            self.losses[what] = self.losses.get(what, 0) + count


@contextmanager
def create(path: str | PathLike[str], overwrite: bool = False, reading: str = "") -> Iterator[Writer]:
    """A writer whose folder becomes `path` when the block ends without an error, and is removed otherwise.

    `reading` says what is read, and how. If a reading of the same was stopped, the folder holds what it had finished.
    A folder with finished segments stays after any error, and a note of the error says where it is."""
    target = Path(path)
    try:
        overwriting.refuse(target, overwrite)
        folder = target.with_name(f"{target.name}.tmp-{os.getpid()}-{secrets.token_hex(4)}")
        lock, earlier = _made(folder, target, reading)
    except OSError as error:
        raise cannot_write(target, error) from error
    kept = False
    writer = Writer(folder, earlier=earlier)
    try:
        if reading:
            unfinished.mark(folder, reading)
        yield writer
        aside = target.with_name(f"{target.name}.old-{secrets.token_hex(4)}")
        if overwrite and os.path.lexists(target):
            left = [name for name in strangers(target) if os.path.lexists(target / name)]
            writer.notes += [f"{name} was in the old run folder; it is now in {aside.name}" for name in left]
        _finish(writer)
        _publish(folder, target, aside if overwrite else None)
    except BaseException as error:
        failure, kept = _failure(error, writer, target)
        if failure is error:
            raise
        raise failure from error
    finally:
        os.close(lock)
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)


def _made(folder: Path, target: Path, reading: str) -> tuple[int, str]:
    """Make the folder, if possible of one of a dead writer that read the same. Returns the descriptor of its held lock,
    and what became of that writer's folder."""
    dead = leftovers(target)
    lock = unfinished.adopt(dead, reading, folder) if reading else None
    changed = bool(reading) and lock is None and bool(unfinished.saved(dead))
    for other in dead:
        _remove(other)
    if lock is not None:
        return lock, "This reading goes on after the last segment of one that was stopped"
    said = "an earlier reading was stopped; its files or its options were others, so this one begins at the start"
    if reading and any(unfinished.is_of(other, reading) for other in _unpublished(target)):
        changed, said = True, "another reading of the same input seems to be running; this one begins at the start"
    folder.mkdir(whole.folder_mode())
    try:
        return locks.hold(folder), said if changed else ""
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _remove(dead: Path) -> None:
    """Remove the folder of a dead writer, except if another process has taken it meanwhile."""
    lock = locks.take(dead)
    if lock is not None:
        shutil.rmtree(dead, ignore_errors=True)
        os.close(lock)


def _failure(error: BaseException, writer: Writer, target: Path) -> tuple[BaseException, bool]:
    """The error to raise in place of this one, and whether the folder stays."""
    folder, failure, kept = writer.folder, error, False
    if isinstance(error, OSError) and (error.filename is None or str(error.filename).startswith(str(folder))):
        failure = cannot_write(target, error)
    if isinstance(failure, OutputError):
        failure, kept = _advised(failure, writer.keep), bool(writer.keep)
    if not kept and unfinished.saved([folder]):
        with suppress(OSError):  # what stays takes space only
            unfinished.reduce(folder)
        failure.add_note(f"The finished segments are in {folder}; the same command goes on after them")
        kept = True
    return failure, kept


def _advised(error: OutputError, advice: str) -> OutputError:
    return OutputError(error.path, error.found, advice) if advice else error


@contextmanager
def hold(folder: Path) -> Iterator[None]:
    """Keeps the folder of a dead writer, so that the next writer of the same run does not remove it."""
    lock = locks.hold(folder)
    try:
        yield
    finally:
        os.close(lock)


def leftovers(path: str | PathLike[str]) -> tuple[Path, ...]:
    """Temporary folders of `path` whose writers died before they could remove them."""
    return tuple(folder for folder in _unpublished(Path(path)) if not locks.is_held(folder))


def abandon(path: str | PathLike[str]) -> None:
    """Remove the temporary folders of `path` of this process, although their writers may still be at work."""
    target = Path(path)
    for folder in _unpublished(target):
        if folder.name.startswith(f"{target.name}.tmp-{os.getpid()}-"):
            shutil.rmtree(folder, ignore_errors=True)


def _unpublished(target: Path) -> Iterator[Path]:
    """Temporary folders of `target`, also of writers that are alive."""
    made = re.compile(re.escape(target.name) + r"\.tmp-\d+-[0-9a-f]{8}")
    folders = sorted(target.parent.iterdir()) if target.parent.is_dir() else []
    named = (folder for folder in folders if made.fullmatch(folder.name) and not folder.is_symlink())
    return (folder for folder in named if locks.is_ours(folder))


def _finish(writer: Writer) -> None:
    folder = writer.folder
    topology = writer.topology
    if writer.clocks:
        topology = topology.model_copy(update={"clocks": writer.clocks})
    topology_file.write(topology, folder / TOPOLOGY)
    ranges = {name: found for name in schema.TABLES if (found := _range(folder, schema.TABLES[name]))}
    main = [ranges[name] for name in ("requests", "visits") if name in ranges] or list(ranges.values())
    spans = [span for _, span in main if span]
    files = sorted(file.relative_to(folder) for file in folder.rglob("*") if file.is_file() and _is_of_run(file))
    manifest = Manifest(
        maker=writer.maker,
        maker_version=_version(),
        begin=min((begin for begin, _ in spans), default=None),
        end=max((moment for span in spans for moment in span), default=None),
        rows={name: count for name, (count, _) in ranges.items()},
        lost=dict(writer.losses),
        notes=tuple(writer.notes),
        inputs=tuple(writer.inputs),
        connections=writer.connections,
        checksums={file.as_posix(): sha256(folder / file) for file in files},
    )
    whole.write(folder / MANIFEST, manifest.to_json().encode())
    for file in (*files, Path(MANIFEST)):
        _flush(folder / file)


def _is_of_run(file: Path) -> bool:
    return file.name != locks.LOCK and not unfinished.belongs(file.name)


def _range(folder: Path, table: schema.Table) -> tuple[int, tuple[int, int] | None] | None:
    """Rows of a table, and the time range that they span."""
    path = folder / table.file
    if not path.exists():
        return None
    begin = pl.col("sent") if table.name == "visits" else pl.col(table.begin)
    if table is schema.SAMPLES:
        begin = begin - pl.col("interval_ns")
    count, begins, ends = 0, list[int](), list[int]()
    for part in merging.written(path):  # Polars would have whole columns in memory.
        found = part.select(pl.len(), begin.min().alias("begin"), pl.col(table.end).max().alias("end"))
        rows, first, last = found.collect().row(0)
        count += rows
        begins += [] if first is None else [first]
        ends += [] if last is None else [last]
    return count, (min(begins), max(ends)) if begins and ends else None


def _publish(folder: Path, target: Path, aside: Path | None) -> None:
    """Rename into place. An old run is moved aside first and removed afterwards, so that `target` is always complete.
    Files that a user has put into it meanwhile stay there."""
    if aside is None or not target.is_dir() or target.is_symlink():
        try:
            folder.rename(target)
        except OSError as error:
            if os.path.lexists(target):
                raise OutputError(target, "another program created it meanwhile", "choose another name") from error
            raise
    else:
        target.rename(aside)
        try:
            folder.rename(target)
        except BaseException:
            aside.rename(target)
            raise
        overwriting.remove(aside)
    _flush(target.parent)
    with suppress(OSError):  # the run is complete
        unfinished.release(target)
    (target / locks.LOCK).unlink(missing_ok=True)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError:
        if path.is_file():
            raise
    finally:
        os.close(descriptor)


def _version() -> str:
    try:
        return metadata.version("tailrace")
    except metadata.PackageNotFoundError:  # run from a checkout that is not installed
        return "0+checkout"
