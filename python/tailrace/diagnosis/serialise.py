"""Tailrace writes a diagnosis as plain values and as JSON: `diagnosis.json` (docs/reference/diagnosis-json.md).

The keys are the fields of the dataclasses, so a field that is added there becomes a key here. `schema` says which keys
must be present.
"""

from __future__ import annotations

import json
import math
from dataclasses import fields, is_dataclass
from importlib import resources
from typing import Any

from tailrace import foreign
from tailrace.diagnosis.finding import Diagnosis

VERSION = 3
"""The version is raised when a key changes its meaning or is removed. It stays the same when a key is added."""


def as_dict(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return dictionaries, lists, numbers, texts and None. The keys have the order of the dataclasses' fields."""
    plain = _plain(diagnosis)
    plain["histogram"] = [
        {"lower_ns": lower, "upper_ns": upper, "requests": n} for lower, upper, n in diagnosis.histogram
    ]
    return {"version": VERSION, **plain}


def to_json(diagnosis: Diagnosis) -> str:
    return foreign.json_text(as_dict(diagnosis)) + "\n"


def schema() -> dict[str, Any]:
    """Return the format of what `as_dict` returns, as JSON Schema 2020-12."""
    file = resources.files("tailrace.diagnosis").joinpath("diagnosis.schema.json")
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        kept = (f.name for f in fields(value) if f.metadata.get("json", True))
        return {name: _plain(getattr(value, name)) for name in kept}
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        # JSON has no infinity. Six digits are more than the accuracy of any of these figures.
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value
