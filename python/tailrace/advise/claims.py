"""What an advice claims: changes, and the very long requests that each is predicted to leave. Read from advice.json."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tailrace.advise.remedies import Changes
from tailrace.advise.writing import JSON
from tailrace.errors import InputError
from tailrace.untrusted import read_inside

FIX = "make it again with `tailrace advise`"


@dataclass(frozen=True)
class Claim:
    words: str
    changes: Changes
    """Empty for no change."""
    mean: float
    low: float
    high: float

    def holds(self, measured: int) -> bool:
        return self.low <= measured <= self.high


def read(folder: Path) -> list[Claim]:
    """The claim about no change, and then one for each ranked change that helps, the best first. Raises InputError."""
    path = folder / JSON
    try:
        found = json.loads(read_inside(path))
    except (ValueError, RecursionError) as error:
        raise InputError(path, f"it is not JSON: {error}", FIX) from error
    try:
        now = _claim("nothing", {}, found["now"]["vlrt"])
        return [now, *(_claim(one["change"], one["keys"], one["vlrt"]) for one in found["ranked"] if one["helps"])]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(path, "it is no advice of Tailrace, or it is damaged", FIX) from error


def _claim(words: Any, keys: Mapping[str, Any], vlrt: Mapping[str, Any]) -> Claim:
    """Raises ValueError for numbers that are none."""
    numbers = [float(vlrt[name]) for name in ("mean", "low", "high")]
    if not all(math.isfinite(number) for number in numbers):
        raise ValueError(words)
    return Claim(str(words), {_path(key): value for key, value in keys.items()}, *numbers)


def _path(key: str) -> tuple[str, ...]:
    """The inverse of `changing.key`."""
    table: Any = tomllib.loads(f"{key} = 0")
    path = []
    while isinstance(table, dict):
        [(name, table)] = table.items()
        path.append(name)
    return tuple(path)
