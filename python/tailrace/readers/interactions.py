"""Rules of the user that name interactions: a TOML file, or a mapping of expressions to names.

The engine applies them, so an expression is one of Rust's regex crate; docs/reference/readers.md describes the file.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from os import PathLike
from pathlib import Path

from tailrace.errors import InputError, cannot_read

Rules = list[dict[str, str]]
"""The engine's option `interactions`: of several rules that match, the first names the request."""

_FORM = "docs/reference/readers.md shows the form"


def rules(given: str | PathLike[str] | Mapping[str, str] | None) -> Rules:
    """The rules of a file, or of a mapping expression → name, in their order."""
    if given is None:
        return []
    if isinstance(given, Mapping):
        return [{"match": match, "name": name} for match, name in given.items()]
    try:
        table = tomllib.loads(Path(given).read_text(encoding="utf-8"))
    except OSError as error:
        raise cannot_read(given, error) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(given, f"not TOML: {error}", _FORM) from error
    listed = table.pop("interactions", [])
    if table or not listed or not isinstance(listed, list):
        other = ", ".join(table) or "no [[interactions]]"
        raise InputError(given, f"it must hold [[interactions]] and nothing else, got {other}", _FORM)
    for number, rule in enumerate(listed):
        key = f"interactions[{number}]"
        if not isinstance(rule, dict) or set(rule) != {"match", "name"}:
            raise InputError(given, f"must have the keys match and name, got {rule!r}", _FORM, key=key)
        if not all(isinstance(text, str) and text for text in rule.values()):
            raise InputError(given, f"match and name must be text that is not empty, got {rule!r}", _FORM, key=key)
    return listed
