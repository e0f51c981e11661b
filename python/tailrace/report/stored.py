"""Reads a diagnosis.json back: the fields that gates, lists of incidents and messages use.

The file may come from a stranger, so its types are checked; its texts are made safe where they are shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tailrace.diagnosis.finding import Diagnosis
from tailrace.diagnosis.serialise import VERSION, as_dict
from tailrace.errors import InputError
from tailrace.toml import key_path
from tailrace.untrusted import parse_json, read_inside, read_text

Moment = Annotated[int, Field(strict=True, ge=-(2**63), lt=2**63)]
Count = Annotated[int, Field(strict=True, ge=0, lt=2**63)]


class Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class Chain(Part):
    """VLRT requests with the same dropper, origin and cause."""

    dropper: str | None
    origin: str | None
    cause: str
    ctqo: str
    vlrt: Count


class StepFinding(Part):
    step: str
    verdict: Literal["found", "absent", "unknown"]
    sentence: str
    missing: str | None


class StoredEpisode(Part):
    begin: Moment
    end: Moment
    vlrt: Count
    findings: tuple[StepFinding, ...]


class NoAnswer(Part):
    server: str
    how: str
    requests: Count


class Bin(Part):
    """Requests whose response time is at least `lower_ns` and less than `upper_ns`."""

    lower_ns: Count
    upper_ns: Count
    requests: Count


class Stored(Part):
    """A diagnosis as a file holds it."""

    version: Annotated[int, Field(strict=True, ge=VERSION, le=VERSION)]
    requests: Count
    vlrt: Count
    threshold_ns: Count
    begin: Moment | None
    end: Moment | None
    answer: tuple[str, ...]
    summary: tuple[Chain, ...]
    episodes: tuple[StoredEpisode, ...]
    histogram: tuple[Bin, ...]
    unanswered: tuple[NoAnswer, ...]

    @property
    def main(self) -> Chain | None:
        """The chain of the most VLRT requests."""
        return max(self.summary, key=lambda chain: chain.vlrt, default=None)


def of(diagnosis: Diagnosis) -> Stored:
    """The same fields of a diagnosis that was made just now."""
    return Stored.model_validate(as_dict(diagnosis))


def read(path: str | PathLike[str]) -> Stored:
    return checked(parse_json(read_text(path), path, "give what `tailrace diagnose --json` prints"), path)


def read_beside(run: Path) -> Stored:
    """The diagnosis in a folder that somebody else may have made; a link or a pipe there is refused."""
    path = run / "diagnosis.json"
    return checked(parse_json(read_inside(path), path, "diagnose the run again"), path)


def checked(told: Mapping[str, Any], path: str | PathLike[str]) -> Stored:
    """The fields of a parsed diagnosis.json; `path` is named in an error."""
    try:
        return Stored.model_validate(told)
    except ValidationError as error:
        first = error.errors()[0]
        where = key_path(first["loc"]) or "the file"
        found = f"not a diagnosis that can be read: {where}: {first['msg']}"
        raise InputError(path, found, "write it anew with `tailrace diagnose --json`") from error
