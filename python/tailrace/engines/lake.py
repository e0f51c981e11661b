"""Tables of visits in object storage, and in tables of Delta and Iceberg: which files they are, and one file or run
folder at a time.

| source | files | library |
|---|---|---|
| `s3://BUCKET/FOLDER`, `gs://…`, `file:///FOLDER` | every `visits.parquet` below, else every `*.parquet` | Arrow |
| `delta:LOCATION` | those of the newest version | deltalake |
| `iceberg:METADATA.json` | those of its current snapshot | pyiceberg |

A file is read where its task runs: it is copied to a temporary file, which the engine opens. A file whose statistics
show that it has no visit of the wanted time is left out. Delta and Iceberg have no unsigned numbers, so the copy gets
the types of a run folder.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit, urlunsplit

import polars as pl

from tailrace.dataset.manifest import MANIFEST
from tailrace.dataset.overwriting import TOPOLOGY
from tailrace.dataset.schema import TABLES, VISITS
from tailrace.engines.parts import Plan
from tailrace.engines.patience import LIST_S, PIECE_S, patiently
from tailrace.errors import InputError, UsageError
from tailrace.lakes import STORES

COPY_BYTES = 1 << 20
FILE_BYTES_MAX = 16 << 30
GOOGLE_RETRIES_S = 20
"""How long Google's library asks again; its own 15 min would also hide why it fails, such as missing credentials."""


def tables(source: str, plan: Plan | None = None) -> list[str]:
    """The files of a source that may have visits of the plan's time."""
    kind, _, location = source.partition(":")
    with _missing_explained():
        try:
            listed = {"delta": partial(_delta, location), "iceberg": partial(_iceberg, location)}
            found = patiently(listed.get(kind, partial(_stored, source)), source, LIST_S)
            wanted = [one for one in found if plan is None or patiently(partial(_may_have, one, plan), one, PIECE_S)]
        except (ImportError, UsageError, InputError):
            raise
        except Exception as error:  # each library has its own classes
            raise _unreadable(source, error) from error
    if not found:
        raise InputError(source, "it has no visits", "name a folder with Parquet files of visits")
    return wanted


def shards(source: str, plan: Plan | None = None) -> list[str]:
    """The run folders of a source, which end in a slash, and its files of visits that lie in none."""
    found = tables(source, plan)
    with _missing_explained():
        try:
            return [_folder(one) or one for one in found]
        except OSError as error:
            raise _unreadable(source, error) from error


def is_folder(name: str) -> bool:
    """Whether a shard is a run folder in a store."""
    parts = urlsplit(name)
    return parts.scheme in STORES and parts.path.endswith("/")


def _folder(file: str) -> str | None:
    """The run folder that a table of visits lies in."""
    parts = urlsplit(file)
    if parts.scheme not in STORES or Path(parts.path).name != VISITS.file:
        return None
    folder = urlunsplit(parts._replace(path=parts.path.removesuffix(VISITS.file)))
    return folder if _exists(_beside(folder, MANIFEST)) else None


def _beside(folder: str, name: str) -> str:
    parts = urlsplit(folder)
    return urlunsplit(parts._replace(path=parts.path + name))


def _exists(uri: str) -> bool:
    from pyarrow.fs import FileType

    return bool(_described(uri).type == FileType.File)


@contextmanager
def local_folder(folder: str) -> Iterator[Path]:
    """A copy of a run folder in a store; it has what a run folder must have, and nothing else."""
    with tempfile.TemporaryDirectory(prefix="tailrace-") as copy:
        with _missing_explained():
            try:
                for name in (MANIFEST, TOPOLOGY, *(table.file for table in TABLES.values())):
                    if _exists(_beside(folder, name)):
                        with (Path(copy) / name).open("wb") as file:
                            _copy(_beside(folder, name), file)
            except OSError as error:
                raise _unreadable(folder, error) from error
        yield Path(copy)


def _copy(uri: str, into: IO[bytes]) -> None:
    size = _described(uri).size
    if size is None:
        raise InputError(uri, "it is missing", "check its address; it may have been removed since it was listed")
    if size > FILE_BYTES_MAX:
        raise InputError(uri, f"it has {size} bytes", f"files of {FILE_BYTES_MAX} bytes can be read")
    stream = patiently(partial(_stream, uri), uri, PIECE_S)
    while piece := patiently(partial(stream.read, COPY_BYTES), uri, PIECE_S):
        into.write(piece)
    if into.tell() != size:
        raise InputError(uri, f"{into.tell()} of {size} bytes came", "run it again")


def _described(uri: str) -> Any:
    def asked() -> Any:
        system, name = _opened(uri)
        return system.get_file_info(name)

    return patiently(asked, uri, PIECE_S)


def _stream(uri: str) -> Any:
    system, name = _opened(uri)
    return system.open_input_stream(name)


@contextmanager
def local(path: str) -> Iterator[str]:
    """The path of a file here; of an object in a store, that of a copy."""
    if urlsplit(path).scheme not in STORES:
        yield path
        return
    with tempfile.NamedTemporaryFile(prefix="tailrace-", suffix=".parquet") as copy:
        with _missing_explained():
            try:
                _copy(path, copy)
                copy.flush()
            except OSError as error:
                raise _unreadable(path, error) from error
        try:
            _retype(copy.name)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise _unreadable(path, error) from error
        yield copy.name


def _retype(copy: str) -> None:
    """Numbers get the types that a run folder has; one that does not fit is an error."""
    found = pl.read_parquet_schema(copy)
    whole = {column.name: column.dtype for column in VISITS.columns if column.dtype.is_integer()}
    casts = {name: dtype for name, dtype in whole.items() if name in found and found[name] != dtype}
    if casts and all(found[name].is_integer() for name in casts):
        columns = [pl.col(name).cast(dtype) for name, dtype in casts.items()]
        pl.scan_parquet(copy).with_columns(columns).collect().write_parquet(copy)


def _stored(source: str) -> list[str]:
    from pyarrow.fs import FileSelector, FileType

    if _described(source).type == FileType.File:
        return [source]
    system, folder = _opened(source)
    found = system.get_file_info(FileSelector(folder, recursive=True))
    names = sorted(one.path for one in found if one.type == FileType.File and one.path.endswith(".parquet"))
    visits = [name for name in names if Path(name).name == VISITS.file]
    parts = urlsplit(source)
    inside = [name.removeprefix(folder.rstrip("/")) for name in visits or names]
    return [urlunsplit(parts._replace(path=parts.path.rstrip("/") + name)) for name in inside]


def _delta(location: str) -> list[str]:
    from deltalake import DeltaTable

    table = DeltaTable(location)
    if "deletionVectors" in (table.protocol().reader_features or ()):
        raise InputError(location, "its deletion vectors are not read", "purge them: REORG TABLE … APPLY (PURGE)")
    return sorted(one if urlsplit(one).scheme else Path(one).absolute().as_uri() for one in table.file_uris())


def _iceberg(location: str) -> list[str]:
    from pyiceberg.table import StaticTable

    planned = list(StaticTable.from_metadata(location).scan().plan_files())
    if any(task.delete_files for task in planned):
        raise InputError(location, "its delete files are not read", "compact the table: rewrite_data_files")
    return sorted(task.file.file_path for task in planned)


def _may_have(path: str, plan: Plan) -> bool:
    if plan.begin is None and plan.end is None:
        return True
    from pyarrow.dataset import ParquetFileFormat
    from pyarrow.fs import LocalFileSystem

    system, name = _opened(path) if urlsplit(path).scheme in STORES else (LocalFileSystem(), path)
    # `parquet.read_metadata` would keep Python's lock while Google's library waits, and `patiently` with it.
    file = ParquetFileFormat().make_fragment(name, filesystem=system)
    file.ensure_complete_metadata()
    footer = file.metadata
    arrivals, departures = _extent(footer, "arrival"), _extent(footer, "departure")
    too_early = plan.begin is not None and departures is not None and departures[1] < plan.begin - plan.window_ns
    too_late = plan.end is not None and arrivals is not None and arrivals[0] >= plan.end + plan.window_ns
    return not (too_early or too_late)


def _extent(footer: Any, column: str) -> tuple[int, int] | None:
    """The smallest and the largest value of a column; None if a row group does not say."""
    names = [footer.schema.column(i).path for i in range(footer.num_columns)]
    if column not in names:
        return None
    at = names.index(column)
    groups = [footer.row_group(i).column(at).statistics for i in range(footer.num_row_groups)]
    if not groups or not all(one is not None and one.has_min_max for one in groups):
        return None
    return int(min(one.min for one in groups)), int(max(one.max for one in groups))


def _opened(uri: str) -> tuple[Any, str]:
    from pyarrow.fs import FileSystem

    parts = urlsplit(uri)
    if parts.scheme in ("gs", "gcs") and "retry_limit_seconds" not in parts.query:
        options = "&".join(filter(None, (parts.query, f"retry_limit_seconds={GOOGLE_RETRIES_S}")))
        uri = urlunsplit(parts._replace(query=options))
    opened: tuple[Any, str] = FileSystem.from_uri(uri)
    return opened


def _unreadable(source: str, error: Exception) -> InputError:
    lines: Sequence[str] = str(error).splitlines() or [type(error).__name__]
    return InputError(source, f"it cannot be read ({lines[0][:300]})", "check its address, and the rights to read it")


@contextmanager
def _missing_explained() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise UsageError(
            f"object storage needs a library that is missing ({error})",
            advice="install it",
            commands=("pip install 'tailrace[lake]'",),
        ) from error
