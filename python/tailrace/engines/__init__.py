"""Where the visits are reduced: here, on a cluster of workers, or in a database. The sums are the same to the last bit.

```text
source ─▶ partials: integer sums of (server, window), wherever the data are ─▶ merged and finished here, by the engine
          local, dask, ray, spark: `map_tasks`, a task for each file
          clickhouse, chdb: SQL
```

A task that cannot be done is an error, never a smaller answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable
from urllib.parse import SplitResult, parse_qs, urlsplit

import polars as pl

from tailrace import _core
from tailrace.dataset import Dataset
from tailrace.dataset.schema import VISITS
from tailrace.engines import lake
from tailrace.engines.here import Engine as Here
from tailrace.engines.parts import Part, Plan
from tailrace.errors import InputError, TailraceError, UsageError
from tailrace.lakes import is_lake
from tailrace.report.windows import Windows
from tailrace.timeline.windows import IDLE_WINDOWS
from tailrace.timeline.windows import windows as reduce_here
from tailrace.units import MILLISECOND, SECOND

LOCAL = "local"
FILES_MAX = 100_000
KINDS = {
    "dask": ("dask", "dask"),
    "ray": ("ray", "ray"),
    "spark": ("spark", "spark"),
    "clickhouse": ("clickhouse", ""),
    "clickhouses": ("clickhouse", ""),
    "chdb": ("chdb", "chdb"),
}
"""Scheme of a URL → its module here, and the extra that installs its library."""

Task = TypeVar("Task")
Result = TypeVar("Result")
Source = Dataset | str | PathLike[str] | Sequence[str | PathLike[str]]


@runtime_checkable
class Mapping(Protocol):
    """Workers: each task is done exactly once, in any order. A killed worker's tasks are done again by others."""

    def map_tasks(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]: ...


@runtime_checkable
class Reducing(Protocol):
    """A database that reduces by itself; `source` is the name of a table, or files that it can read."""

    def partials(self, source: Sequence[str], plan: Plan) -> Iterator[Part]: ...

    def rows(self, query: str, source: str) -> pl.DataFrame:
        """The answer to SQL; values come as texts or as they are."""


@runtime_checkable
class Storing(Reducing, Protocol):
    """A database that takes tables."""

    def order(self, statement: str, source: str) -> None:
        """SQL without an answer."""

    def insert(self, table: str, content: bytes) -> None:
        """Append rows in TabSeparated to a table, whose name is quoted."""


def opened(url: str) -> Mapping | Reducing:
    """The engine of a URL. Raises UsageError for an unknown one, and for a library that is missing."""
    parts = urlsplit(url)
    if parts.scheme not in KINDS:
        known = ", ".join((LOCAL, *(f"{scheme}://…" for scheme in KINDS)))
        raise UsageError(f"--engine {parts.scheme or url}: there is no such engine", advice=f"there are {known}")
    module, extra = KINDS[parts.scheme]
    try:
        made: Mapping | Reducing = import_module(f"tailrace.engines.{module}").Engine(parts)
    except ImportError as error:
        found = f"--engine {parts.scheme}: its library is missing ({error})"
        raise UsageError(found, advice="install it", commands=(f"pip install 'tailrace[{extra}]'",)) from error
    return made


def mapping(url: str) -> Mapping | None:
    """The workers of a URL, which simulate; None for this machine. Raises UsageError for a database."""
    if url == LOCAL:
        return None
    one = opened(url)
    if not isinstance(one, Mapping):
        raise UsageError(f"--engine {url}: it reduces visits to windows, and cannot simulate")
    return one


def windows(
    source: Source,
    window_ns: int = 50 * MILLISECOND,
    *,
    engine: str = LOCAL,
    by: str = "server",
    begin: int | None = None,
    end: int | None = None,
    vlrt_ns: int = SECOND,
    idle: int | None = IDLE_WINDOWS,
    **more: Any,
) -> Windows:
    """Windows of visits, as `tailrace.timeline.windows.windows` describes them (`more` are its other options).
    A notebook draws them: the queue of each server over time, and where requests were very long.

    With another engine than `local`, `source` may also be several run folders, a folder of them, or of a database the
    name of a table. `queue_max` and the percentiles need all events of a window at one place, so they are then not
    among the columns."""
    if by not in ("server", "interaction"):
        raise UsageError(f"by={by!r}: expected server or interaction")
    if engine == LOCAL and not is_lake(source):
        options: dict[str, Any] = {"by": by, "begin": begin, "end": end, "vlrt_ns": vlrt_ns, "idle": idle, **more}
        return Windows(reduce_here(files(source) if _is_folder_of_runs(source) else source, window_ns, **options))
    if more:
        raise UsageError(f"{', '.join(more)}: only the engine {LOCAL} has this option, for files of this machine")
    plan = Plan(window_ns, by == "interaction", begin, end, vlrt_ns)
    frames = [part.frame for part in partials(source, plan, engine)]
    try:
        table = _core.finish(
            frames, window_ns, by_interaction=plan.by_interaction, begin=begin, end=end, idle_windows=idle
        )
    except ValueError as error:
        raise UsageError(str(error)) from error
    return Windows(pl.DataFrame(table).with_columns(complete=pl.lit(None, pl.Boolean)))


def partials(source: Source, plan: Plan, engine: str) -> Iterator[Part]:
    """The sums of a source, made by an engine, in any order."""
    one = Here() if engine == LOCAL else opened(engine)
    if isinstance(one, Reducing):
        yield from one.partials(named(source), plan)
        return
    from tailrace.engines.tasks import reduce_file

    paths = lake.tables(source, plan) if is_lake(source) else files(source)
    tasks = [(path, plan) for path in paths]
    for _, content in answers(one, reduce_file, tasks):
        yield Part.from_bytes(content)


@dataclass(frozen=True)
class Failure:
    """Why a task has no answer. A worker returns it, because an engine wraps what a worker raises in its own words."""

    error: Exception


def answers(
    engine: Mapping, function: Callable[[Any], tuple[int, Any]], tasks: Sequence[Any]
) -> Iterator[tuple[int, Any]]:
    """What `function` returns for each task, with the task's number. A task begins with its name: a file, a folder, a
    run or a seed. Raises InputError if a task has no answer or two, and what a task raises."""

    def tried(task: tuple[int, Any]) -> tuple[int, Any]:
        try:
            return function(task)
        except (TailraceError, ValueError, OSError, pl.exceptions.PolarsError) as error:
            return task[0], Failure(error)

    left = set(range(len(tasks)))
    for number, answer in engine.map_tasks(tried, list(enumerate(tasks))):
        if number not in left:
            raise InputError(_named_by(tasks, number), "the engine answered this task twice", "run it again")
        if isinstance(answer, Failure):
            raise answer.error
        left.remove(number)
        yield number, answer
    if left:
        found = f"the engine left {len(left)} of {len(tasks)} tasks out"
        raise InputError(_named_by(tasks, min(left)), found, "run it again")


def _named_by(tasks: Sequence[Any], number: int) -> str:
    """The name of a task."""
    if not 0 <= number < len(tasks):
        return f"task {number}"
    return str(tasks[number][0])


def files(source: Source) -> list[str]:
    """The visits tables of a source: run folders, folders of run folders, or tables."""
    if isinstance(source, Dataset):
        return source.files("visits")
    paths = [Path(source)] if isinstance(source, str | PathLike) else [Path(one) for one in source]
    found = [str(path) for one in paths for path in _tables(one)]
    if not found:
        raise InputError(paths[0], "it has no visits", "name run folders, a folder of them, or tables of visits")
    if len(found) > FILES_MAX:
        raise InputError(paths[0], f"it has {len(found):,} tables; {FILES_MAX:,} can be reduced")
    return found


def _tables(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path.absolute()]
    own = path / VISITS.file
    return [own.absolute()] if own.exists() else [one.absolute() for one in sorted(path.glob(f"*/{VISITS.file}"))]


def _is_folder_of_runs(source: Source) -> bool:
    return isinstance(source, str | PathLike) and Path(source).is_dir() and not (Path(source) / VISITS.file).exists()


def named(source: Source) -> list[str]:
    """For a database: files that exist, else the name of a table."""
    if isinstance(source, Sequence) and not isinstance(source, str) and len(source) == 1:
        source = str(source[0])
    if isinstance(source, str) and not (source and Path(source).exists()):
        return [source]
    return files(source)


@dataclass(frozen=True)
class Address:
    """The parts of an engine's URL that all engines have in common: `dask://local?workers=2`, `dask://10.0.0.1:8786`."""

    at: str | None
    """None: start workers on this machine."""
    workers: int | None


def address(parts: SplitResult) -> Address:
    try:
        given = {key: values[-1] for key, values in parse_qs(parts.query, strict_parsing=bool(parts.query)).items()}
        workers = int(given.pop("workers")) if "workers" in given else None
    except ValueError as error:
        raise UsageError(f"--engine {parts.geturl()}: {error}", advice="like dask://local?workers=2") from error
    if given or (workers is not None and not 0 < workers <= 1024):
        raise UsageError(f"--engine {parts.geturl()}: expected ?workers=N", advice="N is 1 to 1024")
    return Address(None if parts.netloc in ("", LOCAL) else parts.netloc, workers)
