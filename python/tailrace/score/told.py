"""Reads a diagnosis.json, and checks the fields that the comparison uses."""

from __future__ import annotations

from os import PathLike
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from tailrace.errors import InputError
from tailrace.toml import key_path
from tailrace.untrusted import parse_json, read_text

_AGAIN = "write it anew with `tailrace diagnose --json`"

Moment = Annotated[int, Field(strict=True, ge=-(2**63), lt=2**63)]
Count = Annotated[int, Field(strict=True, ge=0)]


class _Chain(BaseModel):
    dropper: str | None
    origin: str | None
    cause: str
    vlrt: Count


class _Episode(BaseModel):
    begin: Moment
    end: Moment
    chains: list[_Chain]


class _Told(BaseModel):
    threshold_ns: Annotated[Count, Field(lt=2**63)]
    episodes: list[_Episode]


def read(path: str | PathLike[str]) -> dict[str, Any]:
    told = parse_json(read_text(path), path, "give what `tailrace diagnose --json` prints")
    try:
        _Told.model_validate(told)
    except ValidationError as error:
        first = error.errors()[0]
        where = key_path(first["loc"]) or "the file"
        found = f"not a diagnosis that can be scored: {where}: {first['msg']}"
        raise InputError(path, found, _AGAIN) from error
    return dict(told)
