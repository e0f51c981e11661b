"""The user's rules that name interactions: a TOML file, or a mapping of expressions to names.

The engine applies them, so an expression has the syntax of Rust's regex crate; docs/reference/readers.md describes the
file.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike

from tailrace import toml
from tailrace.errors import InputError
from tailrace.foreign import listed

Rules = list[dict[str, str]]
"""The engine's option `interactions`: the first rule that matches names the request."""

_FORM = "docs/reference/readers.md shows the form"


def rules(given: str | PathLike[str] | Mapping[str, str] | None) -> Rules:
    """The rules of a file, or of a mapping expression → name, in their order."""
    if given is None:
        return []
    if isinstance(given, Mapping):
        return [{"match": match, "name": name} for match, name in given.items()]
    table = toml.read(given, "docs/reference/readers.md")
    found = table.pop("interactions", [])
    if table or not found or not isinstance(found, list):
        other = listed(list(table)) or "no [[interactions]]"
        raise InputError(given, f"it must hold [[interactions]] and nothing else, got {other}", _FORM)
    for number, rule in enumerate(found):
        key, shown = f"interactions[{number}]", toml.shown(rule)
        if not isinstance(rule, dict) or set(rule) != {"match", "name"}:
            raise InputError(given, f"must have the keys match and name, got {shown}", _FORM, key=key)
        if not all(isinstance(text, str) and text for text in rule.values()):
            raise InputError(given, f"match and name must be text that is not empty, got {shown}", _FORM, key=key)
    return found
