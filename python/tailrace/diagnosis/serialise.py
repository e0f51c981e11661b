"""A diagnosis as plain values and as JSON: `diagnosis.json` (docs/reference/diagnosis-json.md).

The keys are the dataclasses' own fields, so a field added there is a key here; `schema` says what must be there.
"""

from __future__ import annotations

import json
import math
from dataclasses import fields, is_dataclass
from importlib import resources
from typing import Any

from tailrace import foreign
from tailrace.diagnosis.finding import Diagnosis

VERSION = 2
"""Raised when a key changes its meaning or goes; not when one is added."""


def as_dict(diagnosis: Diagnosis) -> dict[str, Any]:
    """Dictionaries, lists, numbers, texts and None; keys in the order of the dataclasses."""
    plain = _plain(diagnosis)
    plain["histogram"] = [
        {"lower_ns": lower, "upper_ns": upper, "requests": n} for lower, upper, n in diagnosis.histogram
    ]
    return {"version": VERSION, **plain}


def to_json(diagnosis: Diagnosis) -> str:
    return foreign.json_text(as_dict(diagnosis)) + "\n"


def schema() -> dict[str, Any]:
    """What `as_dict` gives, as JSON Schema 2020-12."""
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
        # JSON has no infinity; six digits are more than any of these figures is known to.
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value
