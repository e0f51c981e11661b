"""From a file to a checked, complete experiment.

```text
experiment.toml ─ extends, --set ─▶ one table ─ software.toml, heaps.toml ─▶ complete ─ model, references ─▶ checked
```
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import resources
from os import PathLike
from pathlib import Path
from typing import Any

from pydantic_core import ErrorDetails

from tailrace import toml
from tailrace.bounds import EXPERIMENT_FILES
from tailrace.errors import InputError, TailraceError
from tailrace.experiment import changing, places, references, rubbos
from tailrace.experiment.model import Experiment
from tailrace.experiment.quantities import WRITTEN
from tailrace.experiment.tiers import NAMES

FILE = "experiment.toml"
EXAMPLE = "docs/reference/experiment.md"
_SYN: toml.Location = ("kernel", "syn")
_DEFAULT_OF_KIND: dict[str, dict[str, Any]] = {
    "sync": {"workers": 150, "light_queue": 0},
    "async": {"light_queue": 65535},
    "bounded": {"workers": 8, "light_queue": 2000},
}
_CALL_OF_KIND: dict[str, dict[str, Any]] = {
    "sync": {"kept": True, "pool": 50, "pool_per": [], "for_visit": False, "policy": "round_robin"},
    "async": {"kept": False, "pool": 0, "pool_per": [], "for_visit": False, "policy": "round_robin"},
}
"""A synchronous caller keeps its connections in a pool. An asynchronous one opens a connection for each call, so that
the callee can overflow (`rpc-vs-async` V-B, V-C)."""
_QUERIES: dict[str, Any] = {"kept": True, "pool": 0}
"""Queries for names go over UDP: nothing opens a connection, and none waits for one."""


def read(path: str | PathLike[str], changes: Sequence[str] = (), *, add: bool = False) -> Experiment:
    """Read an experiment file, or the one in a folder. `changes` are "key.path=value", the value in TOML. With `add`
    they may name new workloads, tiers, nodes and pages.

    Raises InputError with file, key and what it must be, UsageError for an invalid change.
    """
    file = Path(path) / FILE if Path(path).is_dir() else Path(path)
    table = _whole(file, (), {})
    for change in changes:
        changing.apply(table, change, _spelled_out, _names, add=add)
    return from_table(table, file)


def from_table(table: Mapping[str, Any], path: str | PathLike[str] = FILE) -> Experiment:
    """Check a table of plain values; errors name `path`."""
    experiment = toml.check(Experiment, _complete(table), path, _need, _spot)
    wrong = references.wrong(experiment)
    if wrong:
        raise InputError(path, wrong)
    return experiment


def to_table(experiment: Experiment) -> dict[str, Any]:
    """Every key with its value, as plain values; `from_table` reads them back."""
    table: dict[str, Any] = experiment.model_dump(mode="json", by_alias=True, exclude_none=True)
    return table


def json_schema() -> dict[str, Any]:
    """The JSON Schema of `experiment.toml`, for editors."""
    schema = Experiment.model_json_schema()
    for table in (schema, *schema["$defs"].values()):
        for field in table.get("properties", {}).values():
            _write_default(field)
    schema["properties"]["extends"] = {"type": "string", "description": "Another experiment that this one changes."}
    _also(schema["properties"]["extends"], {"type": "array", "items": {"type": "string"}})
    tier, work = schema["$defs"]["Tier"]["properties"], schema["$defs"]["Work"]["properties"]
    tier["heap"]["anyOf"].append({"enum": sorted(_defaults("heaps"))})
    _also(tier["node"], {"type": "string"})
    _also(tier["calls"], {"type": "array", "items": {"type": "string"}})
    work["calls"]["additionalProperties"] = {"anyOf": [work["calls"]["additionalProperties"], {"type": "number"}]}
    return schema


def _also(field: dict[str, Any], short: dict[str, Any]) -> None:
    """Shorthands that a file may use."""
    kept = ("description", "default", "title")
    whole = {key: field.pop(key) for key in list(field) if key not in kept}
    field["anyOf"] = [whole, short]


def _write_default(field: dict[str, Any]) -> None:
    """Defaults in the schema in the notation of a file; pydantic writes the stored values."""
    default, inner = field.get("default"), field.get("items", field)
    write = WRITTEN.get((inner.get("examples") or [""])[0])
    if write and isinstance(default, tuple | list):
        field["default"] = [write(value) for value in default]
    elif write and default is not None:
        field["default"] = write(default)


def _whole(file: Path, above: tuple[Path, ...], known: dict[Path, dict[str, Any]]) -> dict[str, Any]:
    """The file merged over its bases, later bases over earlier ones. The path of a recorded file becomes relative to
    the file that names it. `known`: the files that were read already, each with its bases."""
    real = Path(os.path.realpath(file))  # resolve() gives up on a link to itself
    if real in known:
        return known[real]
    if real in above:
        circle = " → ".join(path.parent.name + "/" + path.name for path in (*above[above.index(real) :], real))
        raise InputError(file, f"extends goes in a circle: {circle}")
    if len(known) + len(above) >= EXPERIMENT_FILES:
        raise InputError(file, f"it is one of more than {EXPERIMENT_FILES} files that extend each other", "join some")
    table = toml.read(file, EXAMPLE)
    losses = table.get("losses")
    for named in (*_tables(table.get("workloads")).values(), *(losses if isinstance(losses, list) else ())):
        if isinstance(named, dict) and isinstance(named.get("file"), str):
            named["file"] = str(file.parent / named["file"])
    bases = table.pop("extends", [])
    whole: dict[str, Any] = {}
    for base in bases if isinstance(bases, list) else [bases]:
        if not isinstance(base, str):
            raise InputError(file, f"extends must be the path of an experiment, or several, got {base!r}")
        under = file.parent / base
        whole = _merged(whole, _whole(under / FILE if under.is_dir() else under, (*above, real), known))
    known[real] = _merged(whole, table)
    return known[real]


def _merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Tables are merged key by key; anything else, lists too, is replaced."""
    table = dict(under)
    for key, value in over.items():
        below = _spelled_out(key, table.get(key))
        table[key] = _merged(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return table


def _names(table: dict[str, Any], place: Sequence[str]) -> list[str]:
    """The names at a place of an experiment, with implied ones: pages of RUBBoS, a node for each tier."""
    found: Any = _complete(table)
    for part in place:
        found = _tables(_spelled_out(part, _tables(found).get(part)))
    implied: Iterable[str] = ()
    if list(place) == ["interactions"]:
        implied = rubbos.names()
    elif list(place) == ["nodes"]:
        with suppress(TailraceError):  # it may be valid only after all changes
            experiment = from_table(table)
            implied = [*places.nodes(experiment), *experiment.tiers]
    return [*found, *implied]


def _spelled_out(key: str, value: Any) -> Any:
    """Shorthands as tables, so that one of their keys can be changed: the names of `calls`, the name of a heap."""
    if key == "calls" and isinstance(value, list) and all(isinstance(name, str) for name in value):
        return {name: {} for name in value}
    if key == "heap" and isinstance(value, str):
        return _defaults("heaps").get(value, value)
    return value


def _complete(table: Mapping[str, Any]) -> dict[str, Any]:
    """Adds the defaults of each tier's software and of named heaps. Values of the wrong type are left to the check."""
    tiers = {
        name: _complete_tier(str(name), tier) if isinstance(tier, Mapping) else tier
        for name, tier in _tables(table.get("tiers")).items()
    }
    asked = [name for name, tier in tiers.items() if isinstance(tier, Mapping) and tier.get("protocol") == NAMES]
    for tier in tiers.values() if asked else ():
        calls = _tables(_tables(tier).get("calls"))
        calls_of_names = {
            name: {**call, **_QUERIES} for name, call in calls.items() if name in asked and isinstance(call, Mapping)
        }
        if calls_of_names:
            tier["calls"] = {**calls, **calls_of_names}
    return {**table, "tiers": tiers} if isinstance(table.get("tiers"), Mapping) else dict(table)


def _complete_tier(name: str, tier: Mapping[str, Any]) -> dict[str, Any]:
    software = dict(_defaults("software").get(str(tier.get("software")), {"role": name}))
    call = software.pop("call", {})
    kind = tier.get("kind", software.get("kind", "sync"))
    if kind != software.get("kind"):  # an asynchronous Tomcat has neither Tomcat's threads nor its pool
        software = {**software, **_DEFAULT_OF_KIND.get(str(kind), {}), "kind": kind}
        call = {}
        if kind == "async":
            software.pop("workers", None)
    call = {**_CALL_OF_KIND.get(str(kind), _CALL_OF_KIND["sync"]), **call}
    complete = {**software, **tier}
    calls = _spelled_out("calls", complete.get("calls", {}))
    if isinstance(calls, Mapping):
        complete["calls"] = {k: {**call, **v} if isinstance(v, Mapping) else v for k, v in calls.items()}
    complete["heap"] = _spelled_out("heap", complete.get("heap"))
    return complete


@cache
def _defaults(file: str) -> dict[str, dict[str, Any]]:
    return tomllib.loads(resources.files(__package__).joinpath(f"{file}.toml").read_text(encoding="utf-8"))


def _tables(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _need(error: ErrorDetails) -> str | None:
    kind, last = error["type"], error["loc"][-1] if error["loc"] else ""
    if last == "heap" and kind.startswith("model_"):
        return f"a table or one of {', '.join(sorted(_defaults('heaps')))}"
    if error["loc"][:2] == _SYN:
        return 'the name of a kernel or a list of moments such as ["3 s", "9 s"]'
    if kind == "too_short":
        return "a list or table that is not empty"
    return None


def _spot(location: toml.Location) -> toml.Location:
    """Without the parts that pydantic adds for a choice: the kind of a workload or a stall, a type of `syn`."""
    if location[:2] == _SYN:
        return _SYN
    if location[:1] in (("workloads",), ("stalls",)) and len(location) > 2:
        return (*location[:2], *location[3:])
    return location
