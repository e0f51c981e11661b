"""Changing one key of an experiment: `--set workloads.steady.clients=7000`.

A change may name only a workload, tier, node, page or call that the experiment has. A misspelt name would silently add
another population, or a tier that no other calls; it is refused unless `add` is given.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tailrace.errors import UsageError
from tailrace.foreign import listed
from tailrace.toml import nearest

_NAMED = (("workloads",), ("tiers",), ("nodes",), ("interactions",), ("tiers", None, "calls"))
"""Where the keys are names; None stands for any name."""

Table = dict[str, Any]
SpelledOut = Callable[[str, Any], Any]
"""Values that are shorthand for a table."""


def apply(
    table: Table,
    change: str,
    spelled_out: SpelledOut,
    names: Callable[[Table, Sequence[str]], Iterable[str]],
    *,
    add: bool,
) -> None:
    """Change the table; `names` are the existing names at a place, including implied ones."""
    path, value = _parsed(change)
    if not add:
        _refuse_new(table, change, path, names)
    inner = table
    for part in path[:-1]:
        below = spelled_out(part, inner.get(part))
        inner[part] = dict(below) if isinstance(below, Mapping) else {}
        inner = inner[part]
    inner[path[-1]] = value


def _parsed(change: str) -> tuple[list[str], Any]:
    key, equals, text = change.partition("=")
    try:
        [(_, value)] = tomllib.loads(f"value = {text}").items()
    except (tomllib.TOMLDecodeError, ValueError):
        value = text.strip()  # a bare word is text: --set workloads.steady.think=7s
    try:
        path = _keys(tomllib.loads(f"{key} = 0"))
    except tomllib.TOMLDecodeError:
        path = []
    if not equals or not path:
        raise UsageError(f"{change}: expected key.path=value, like workloads.steady.clients=7000")
    return path, value


def _keys(table: Any) -> list[str]:
    """The path of the only key in nested tables."""
    if not isinstance(table, dict):
        return []
    [(key, inner)] = table.items()
    return [key, *_keys(inner)]


def _refuse_new(
    table: Table, change: str, path: Sequence[str], names: Callable[[Table, Sequence[str]], Iterable[str]]
) -> None:
    for place in _NAMED:
        at = path[: len(place)]
        if len(path) <= len(place) or any(want not in (None, part) for want, part in zip(place, at, strict=True)):
            continue
        name, known = path[len(place)], list(names(table, at))
        if name not in known:
            key = ".".join([*at, name])
            there = f"; there {'is' if len(known) == 1 else 'are'} {listed(sorted(known))}" if known else ""
            advice = "--add creates a new one"
            raise UsageError(f"{change}: there is no {key}{nearest(name, known) or there}", advice=advice)
