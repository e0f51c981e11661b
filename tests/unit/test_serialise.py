"""diagnosis.json: what is in it, and that it is what the schema says."""

from __future__ import annotations

import json
from typing import Any

from systems import NX3, Memory, Slow, system
from tailrace.diagnosis import diagnose
from tailrace.diagnosis.serialise import SCHEMA, as_dict, to_json
from tailrace.topology import Topology


def problems(value: Any, schema: dict[str, Any], path: str = "$") -> list[str]:
    """What of JSON Schema we use: type, enum, const, required, properties, items and bounds."""
    found: list[str] = []
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "null": type(None), "boolean": bool}
    if "type" in schema:
        names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        fits = [isinstance(value, (int, float) if n == "number" else kinds[n]) for n in names]
        if not any(fits) or (isinstance(value, bool) and "boolean" not in names):
            return [f"{path}: {value!r} is not {names}"]
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{path}: {value!r} is not one of {schema['enum']}")
    if "const" in schema and value != schema["const"]:
        found.append(f"{path}: {value!r} is not {schema['const']}")
    for key, worse in (("minimum", lambda a, b: a < b), ("maximum", lambda a, b: a > b)):
        if key in schema and worse(value, schema[key]):
            found.append(f"{path}: {value!r} is beyond {key} {schema[key]}")
    if isinstance(value, dict):
        found += [f"{path}.{key} is missing" for key in schema.get("required", ()) if key not in value]
        for key, item in value.items():
            inner = schema.get("properties", {}).get(key, schema.get("additionalProperties"))
            found += problems(item, inner, f"{path}.{key}") if inner else [f"{path}.{key} is not documented"]
    if isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            found.append(f"{path}: {len(value)} items")
        for i, item in enumerate(value):
            found += problems(item, schema["items"], f"{path}[{i}]")
    return found


def test_a_diagnosis_with_everything_fits_the_schema() -> None:
    memory = system(Slow("app", 4.0, 4.6)).event("app", "gc", 4.0, 4.6)
    plain = json.loads(to_json(diagnose(memory)))
    assert plain["episodes"]
    assert problems(plain, SCHEMA) == []


def test_a_diagnosis_with_nothing_fits_the_schema() -> None:
    for memory in (Memory(Topology()), system(Slow("app", 4.0, 5.3), tiers=NX3).without("samples")):
        assert problems(as_dict(diagnose(memory)), SCHEMA) == []


def test_the_checker_notices_what_is_wrong() -> None:
    plain = as_dict(diagnose(system()))
    assert problems({**plain, "vlrt": "many"}, SCHEMA)
    assert problems({**plain, "explained": 1.5}, SCHEMA)
    assert problems({key: value for key, value in plain.items() if key != "summary"}, SCHEMA)
    assert problems({**plain, "surprise": 1}, SCHEMA)


def test_equal_data_give_equal_bytes() -> None:
    memory = system(Slow("app", 4.0, 4.6))
    assert to_json(diagnose(memory)) == to_json(diagnose(memory))
