"""An experiment with some of its keys changed. The changed experiment passes the same checks as a file."""

from __future__ import annotations

import json
import re
from typing import Any

from tailrace.advise.remedies.remedy import Changes
from tailrace.errors import TailraceError
from tailrace.experiment import Experiment, from_table, to_table
from tailrace.sim.refusals import refuse

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def changed(experiment: Experiment, changes: Changes) -> Experiment:
    """Raises a TailraceError if the changed experiment would contradict itself."""
    table = to_table(experiment)
    for path, value in changes.items():
        _set(table, path, value)
    return from_table(table)


def possible(experiment: Experiment, changes: Changes) -> Experiment | None:
    """Return the changed experiment. Return None if the simulator cannot run it, or if nothing changes."""
    try:
        found = changed(experiment, changes)
        refuse(found)
    except TailraceError:
        return None
    return None if found == experiment else found


def key(path: tuple[str, ...]) -> str:
    """Return the dotted key, as an experiment file and `--set` write it."""
    return ".".join(part if _BARE.fullmatch(part) else json.dumps(part) for part in path)


def as_options(changes: Changes) -> list[str]:
    """Return the changes as values of `--set`. The list is empty if `--set` cannot express one of them."""
    plain = all(isinstance(value, str | int | float) for value in changes.values())
    return [f"{key(path)}={value}" for path, value in changes.items()] if plain else []


def _set(table: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for part in path[:-1]:
        table = table.setdefault(part, {})
    if value is None:
        table.pop(path[-1], None)
    else:
        table[path[-1]] = value
