"""An experiment with some of its keys changed. The changed experiment passes the same checks as a file."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from tailrace.advise.remedies.remedy import Changes
from tailrace.errors import TailraceError
from tailrace.experiment import Experiment, from_table, to_table
from tailrace.sim.refusals import refuse


def changed(experiment: Experiment, changes: Changes) -> Experiment:
    """Raises a TailraceError if the changed experiment would contradict itself."""
    table = copy.deepcopy(to_table(experiment))
    for path, value in changes.items():
        _set(table, path, value)
    return from_table(table)


def possible(experiment: Experiment, changes: Changes) -> Experiment | None:
    """The changed experiment, or None if the simulator cannot run it or if nothing changes."""
    try:
        found = changed(experiment, changes)
        refuse(found)
    except TailraceError:
        return None
    return None if found == experiment else found


def value_at(experiment: Experiment, path: tuple[str, ...]) -> Any:
    """The present value, as a file has it; None if there is none."""
    found: Any = to_table(experiment)
    for part in path:
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _set(table: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for part in path[:-1]:
        table = table.setdefault(part, {})
    if value is None:
        table.pop(path[-1], None)
    else:
        table[path[-1]] = value
