"""A figure with another value of a number that an experiment file sets, in each run that gets it from there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tailrace import toml
from tailrace.reproduce import knobs
from tailrace.reproduce.expected import GUIDE, Expected, Run
from tailrace.reproduce.shelf import Entry


def varied(entry: Entry, expected: Expected, key: str, file: Path, value: str) -> Expected | None:
    """None if no run of the figure gets the number from this file."""
    runs = tuple(
        _set(run, key, value) if key not in run.set and _decides(entry.folder / run.experiment, key, file) else run
        for run in expected.runs
    )
    return expected.model_copy(update={"runs": runs}) if runs != expected.runs else None


def _set(run: Run, key: str, value: str) -> Run:
    number: Any = value
    found = knobs.NUMBER.fullmatch(value)
    if found and not found[2]:
        number = float(value) if "." in value else int(value)
    return run.model_copy(update={"set": {**run.set, key: number}})


def _decides(experiment: Path, key: str, file: Path) -> bool:
    """Whether the experiment extends the file, or is it, and sets the key nowhere nearer."""
    if experiment.resolve() == file.resolve():
        return True
    table = toml.read(experiment, GUIDE)
    if any(name == key for name, _ in knobs.leaves(table)):
        return False
    bases = table.get("extends", [])
    return any(_decides(experiment.parent / base, key, file) for base in ([bases] if isinstance(bases, str) else bases))
