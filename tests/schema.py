"""Checks diagnosis.json against its published schema."""

from __future__ import annotations

from functools import cache
from typing import Any

import jsonschema

from tailrace.diagnosis.serialise import schema


def problems(plain: Any) -> list[str]:
    """Parts of a diagnosis that the schema forbids, or does not describe."""
    return [f"{error.json_path}: {error.message}" for error in _validator().iter_errors(plain)]


@cache
def _validator() -> jsonschema.Draft202012Validator:
    jsonschema.Draft202012Validator.check_schema(schema())
    return jsonschema.Draft202012Validator(_closed(schema()))


def _closed(part: Any) -> Any:
    """The same schema with only the described keys in each object. Readers must accept added keys; a test must notice
    them."""
    if isinstance(part, list):
        return [_closed(item) for item in part]
    if not isinstance(part, dict):
        return part
    closed = {key: _closed(item) for key, item in part.items()}
    return {**closed, "additionalProperties": False} if isinstance(part.get("required"), list) else closed
