"""`truth.toml`: the experiment and every stall as it really happened. Engines write it; only score reads it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import TypeAdapter, ValidationError

from tailrace import toml, whole
from tailrace.errors import InputError
from tailrace.experiment.model import Experiment
from tailrace.experiment.reading import from_table, to_table
from tailrace.topology import Nanoseconds

FILE = "truth.toml"
FORMAT = 1


@dataclass(frozen=True)
class Stall:
    """`kind` is the diagnosis's name of the cause if it has one; times are ns since the Unix epoch."""

    kind: str
    place: str
    begin: Nanoseconds
    end: Nanoseconds


@dataclass(frozen=True)
class Truth:
    engine: str
    experiment: Experiment
    stalls: tuple[Stall, ...]


def write(truth: Truth, path: str | PathLike[str]) -> None:
    table = {
        "format": FORMAT,
        "engine": truth.engine,
        "stalls": [vars(stall) for stall in truth.stalls],
        "experiment": to_table(truth.experiment),
    }
    whole.write(Path(path), tomli_w.dumps(table).encode())


def read(path: str | PathLike[str]) -> Truth:
    """Read a truth.toml, or the one in a run folder."""
    file, table = _table(path)
    try:
        return Truth(str(table["engine"]), from_table(table["experiment"], file), _stalls(file, table))
    except KeyError as error:
        raise _no_truth(file, error) from error


def read_stalls(path: str | PathLike[str]) -> tuple[Stall, ...]:
    """Past stalls stay valid, even if today's Tailrace would refuse the experiment."""
    return _stalls(*_table(path))


def _stalls(file: Path, table: dict[str, Any]) -> tuple[Stall, ...]:
    try:
        return TypeAdapter(tuple[Stall, ...]).validate_python(table.get("stalls", ()))
    except ValidationError as error:
        first = error.errors()[0]
        raise _no_truth(file, f"{toml.key_path(('stalls', *first['loc']))}: {first['msg']}") from error


def _table(path: str | PathLike[str]) -> tuple[Path, dict[str, Any]]:
    untrusted = Path(path).is_dir()
    file = Path(path) / FILE if untrusted else Path(path)
    table = toml.read(file, "docs/reference/experiment.md", untrusted=untrusted)
    if table.get("format") != FORMAT:
        raise InputError(file, f"format {table.get('format')!r} is not {FORMAT}", "use the Tailrace that wrote it")
    return file, table


def _no_truth(file: Path, error: object) -> InputError:
    return InputError(file, f"not a truth.toml ({error})", "make the run again")


def stalls_of(rows: Iterable[dict[str, object]]) -> tuple[Stall, ...]:
    """Sorted by their begin."""
    found = [Stall(str(r["kind"]), str(r["place"]), int(str(r["begin"])), int(str(r["end"]))) for r in rows]
    return tuple(sorted(found, key=lambda stall: (stall.begin, stall.place, stall.kind)))
